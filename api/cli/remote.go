package cli

import (
	"fmt"
	"os"
	"strings"

	"onced/api/client"
	"onced/api/config"
)

// The variables of the client commands.
const (
	envURL       = "ONCED_URL"
	envToken     = "ONCED_TOKEN"
	envTokenFile = envToken + "_FILE"
)

// urlRemedy is how to do without the configuration.
const urlRemedy = "--url=http://127.0.0.1:8080, or correct the configuration"

// addRemote adds the flags of the commands that talk to a running onced.
func (f *flags) addRemote() {
	f.addOutput()
	f.StringVar(&f.file, "config", "", "the configuration `FILE`, which says where onced listens")
	f.String("url", "", "base `URL` of a running onced ("+envURL+", or the address in the configuration)")
	f.String("token-file", "",
		"`FILE` with the token ("+envTokenFile+", or the token itself in "+envToken+")")
}

// text is the value of a flag.
func (c *call) text(name string) string { return c.flags.Lookup(name).Value.String() }

// token is the token that was given, "" when there is none.
func (c *call) token() (string, error) {
	name := c.text("token-file")
	if name == "" {
		if token := c.env.lookup(envToken); token != "" {
			return token, nil
		}
		if name = c.env.lookup(envTokenFile); name == "" {
			return "", nil
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", usage("the token cannot be read", err.Error(), "make the file readable, or name another")
	}
	return strings.TrimSpace(string(text)), nil
}

// remoteURL is where a running onced is.
func (c *call) remoteURL() (string, error) {
	if url := c.text("url"); url != "" {
		return url, nil
	}
	if url := c.env.lookup(envURL); url != "" {
		return url, nil
	}
	conf, err := c.loadPlace(urlRemedy)
	if err != nil {
		return "", err
	}
	return config.BaseURL(conf.Listen), nil
}

// remote is a client of a running onced.
func (c *call) remote(token string) (*client.Client, error) {
	url, err := c.remoteURL()
	if err != nil {
		return nil, err
	}
	cl, err := client.New(url, client.Config{Token: token, UserAgent: "onced-cli"})
	if err != nil {
		return nil, usage("the URL is not valid", err.Error(), "for example --url=http://127.0.0.1:8080")
	}
	return cl, nil
}

// loggedIn is a client with a token; without one it says where it comes from.
func (c *call) loggedIn() (*client.Client, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, usage(c.path+" needs a token", "neither "+envToken+" nor --token-file is given",
			fmt.Sprintf("%s=onced_… %s", envToken, strings.TrimSpace(c.path+" "+strings.Join(c.args, " "))))
	}
	return c.remote(token)
}
