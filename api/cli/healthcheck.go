package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"onced/api/config"
)

// healthTimeout bounds a health check; that of Docker is 30 s by default.
const healthTimeout = 5 * time.Second

func healthcheck(ctx context.Context, c *call) error {
	base, path := c.flags.Lookup("url").Value.String(), "/readyz"
	if base == "" {
		conf, err := c.loadPlace(urlRemedy)
		if err != nil {
			return err
		}
		base = config.BaseURL(conf.Listen)
	}
	if c.flags.Lookup("live").Value.String() == "true" {
		path = "/livez"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	status, body, err := ask(ctx, strings.TrimSuffix(base, "/")+path)
	if err != nil {
		return &failure{what: "onced does not answer at " + base, why: err.Error(),
			try: "onced serve, or --url for another address", code: ExitFailure, err: err}
	}
	if status != http.StatusOK {
		return &failure{what: fmt.Sprintf("onced answers %d at %s", status, base+path),
			why: strings.TrimSpace(body), code: ExitFailure}
	}
	_, err = fmt.Fprintln(c.env.Stdout, "ok")
	return err
}

// ask gets a URL, without a proxy and without following where it points to.
func ask(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return res.StatusCode, string(text), err
}
