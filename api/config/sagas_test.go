package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const sagaProblems = `
sagas: {definition: x}
=> onced.yaml:1:9: sagas.definition: is not a key; did you mean definitions?

sagas: {max_calls: 0, retention: 1m}
=> onced.yaml:1:20: sagas.max_calls: "0" is too small; allowed: 1 to 100000
=> onced.yaml:1:34: sagas.retention: "1m" is too small; allowed: 1h to 87600h

sagas: {definitions: [""]}
=> onced.yaml:1:22: sagas.definitions: (entry 1) names nothing; name a file or a folder

sagas: {allow_hosts: [a.internal, "http://b", "*.c.internal", 10.0.0.0/8, "d:80"]}
=> onced.yaml:1:22: sagas.allow_hosts: "http://b" (entry 2) is a URL; write its host, or host:port
=> onced.yaml:1:22: sagas.allow_hosts: "*.c.internal" (entry 3) is not a host, an address or a network; write a name in ASCII without wildcards, 10.1.2.3, [fd00::1]:8080 or 10.1.0.0/16

sagas: {tls: {cert_file: c.pem}}
=> onced.yaml:1:26: sagas.tls.cert_file: "c.pem" has no key; name the file of its key with sagas.tls.key_file

sagas: {tls: {key_file: k.pem, ca_fil: x}}
=> onced.yaml:1:25: sagas.tls.key_file: "k.pem" has no certificate; name the file of its certificate with sagas.tls.cert_file
=> onced.yaml:1:32: sagas.tls.ca_fil: is not a key; did you mean ca_file?

public_url: pay.example.com
=> onced.yaml:1:13: public_url: "pay.example.com" is not an http or https URL; allowed: for example https://pay.example.com

public_url: https://u:QQhush@pay.example.com
=> onced.yaml:1:13: public_url: "https://***@pay.example.com" holds a user; credentials go into headers; allowed: for example https://pay.example.com

secrets: {gateway: QQhush}
=> onced.yaml:1:20: secrets.gateway: has no key that says where the secret is; for example {env: GATEWAY_KEY} or {file: /run/secrets/gateway}

secrets: {gateway: [QQhush]}
=> onced.yaml:1:20: secrets.gateway: is a list; allowed: a section of keys

secrets: {gateway: {}}
=> onced.yaml:1:20: secrets.gateway: is empty; for example {env: GATEWAY_KEY} or {file: /run/secrets/gateway}

secrets: {gateway: {evn: A}}
=> onced.yaml:1:21: secrets.gateway.evn: is not a key; allowed: env, file, value; did you mean env?

secrets: {gateway: {QQhush QQ: A}}
=> onced.yaml:1:21: secrets.gateway: is not a key; allowed: env, file, value

secrets: {gateway: {value: QQhush, env: A}}
=> onced.yaml:1:36: secrets.gateway.env: is one too many, after value; leave one of env, file and value

secrets: {gateway: {env: NOT_SET}, loyalty: {file: /not/there}, c: {file: }}
=> onced.yaml:1:26: secrets.gateway.env: "NOT_SET" is not set; set the variable, or name another
=> onced.yaml:1:52: secrets.loyalty.file: "/not/there" cannot be read: file does not exist; make the file readable, or name another
=> onced.yaml:1:75: secrets.c.file: is empty; name where the secret is, or remove it

secrets: {Gate-Way: {env: A}, x_file: {env: A}}
=> onced.yaml:1:11: secrets.Gate-Way: is not a name; allowed: 1 to 63 lower-case letters, digits and _, a letter first, not ending in _file
=> onced.yaml:1:31: secrets.x_file: is not a name; allowed: 1 to 63 lower-case letters, digits and _, a letter first, not ending in _file

secrets: {a: {value: "QQ\nhush"}}
=> onced.yaml:1:22: secrets.a.value: holds a control character; a secret is one line of text

secrets: {a: {env: A}, a: {env: B}}
=> onced.yaml:1:20: secrets.a.env: "A" is not set; set the variable, or name another
=> onced.yaml:1:24: secrets.a: stands here again, first in line 1; remove one of the two
`

func TestProblemsOfSagas(t *testing.T) {
	for _, e := range table(sagaProblems) {
		_, err := load(e[0])
		if got := fmt.Sprint(err); got != e[1] {
			t.Errorf("%s got  %s\n want %s", e[0], got, e[1])
		}
		if strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s shows a secret: %v", e[0], err)
		}
	}
}

func TestSecretsByName(t *testing.T) {
	l := mustLoad(t, "secrets:\n  gateway: {env: GATEWAY_KEY}\n  loyalty: {file: /run/token}\n"+
		"  plain: {value: QQhush1}\n  other: {value: QQhush2}\n",
		"GATEWAY_KEY=QQhush3", "ONCED_SECRETS_OTHER=QQhush4", "ONCED_SECRETS_NEW_ONE_FILE=/run/token")
	got := map[string]string{}
	for name, s := range l.Config.Secrets {
		got[name] = s.Reveal()
	}
	want := map[string]string{"gateway": "QQhush3", "loyalty": "s3cret-of-a-file", "plain": "QQhush1",
		"other": "QQhush4", "new_one": "s3cret-of-a-file"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
	shown := map[string]string{}
	for _, s := range l.Settings() {
		if strings.HasPrefix(s.Key, "secrets.") {
			shown[s.Key] = s.Value + " " + s.Origin + " " + s.Env
		}
	}
	for key, line := range map[string]string{
		"secrets.gateway": "*** onced.yaml:2:18 (env GATEWAY_KEY) ONCED_SECRETS_GATEWAY",
		"secrets.loyalty": "*** onced.yaml:3:19 (file /run/token) ONCED_SECRETS_LOYALTY",
		"secrets.plain":   "*** onced.yaml:4:18 ONCED_SECRETS_PLAIN",
		"secrets.other":   "*** ONCED_SECRETS_OTHER ONCED_SECRETS_OTHER",
		"secrets.new_one": "*** ONCED_SECRETS_NEW_ONE_FILE (file /run/token) ONCED_SECRETS_NEW_ONE",
	} {
		if shown[key] != line {
			t.Errorf("%s is shown as %q, want %q", key, shown[key], line)
		}
	}
	all := fmt.Sprintf("%+v %#v %v %+v", *l.Config, *l.Config, l.Settings(), l.Origins)
	if strings.Contains(all, "hush") || strings.Contains(all, "s3cret") {
		t.Errorf("shown: %s", all)
	}
	if names := l.Config.Secrets.Names(); !slices.IsSorted(names) || len(names) != 5 {
		t.Errorf("names %q", names)
	}
}

func TestSecretsOfTheEnvironmentAreChecked(t *testing.T) {
	for env, want := range map[string]string{
		"ONCED_SECRETS_A_FILE=/not/there": `ONCED_SECRETS_A_FILE: secrets.a: "/not/there" cannot be read`,
		"ONCED_SECRETS_=QQhush":           "ONCED_SECRETS_: does not name a secret",
		"ONCED_SECRETS_a=QQhush":          "ONCED_SECRETS_a: does not name a secret",
		"ONCED_SECRETS_A=":                "ONCED_SECRETS_A: secrets.a: is empty",
		"ONCED_SECRETS=QQhush":            "ONCED_SECRETS: is not a variable of onced",
	} {
		_, err := load("", env)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", env, err)
		}
	}
	_, err := load("", "ONCED_SECRETS_A=QQhush", "ONCED_SECRETS_A_FILE=/run/token")
	if err == nil || !strings.Contains(err.Error(), "is given twice; unset ONCED_SECRETS_A or") {
		t.Errorf("%v", err)
	}
}

// A client command on a machine without the secrets of the service still finds it.
func TestNoSecretsLeavesThemUnread(t *testing.T) {
	l, err := Load(Source{NoSecrets: true, ReadFile: files(map[string]string{
		DefaultFile: "secrets: {a: {env: NOT_SET}, b: {file: /not/there}}\n"})})
	if err != nil || len(l.Config.Secrets) != 2 {
		t.Errorf("%v %v", l, err)
	}
}

func TestSagaSettings(t *testing.T) {
	d := Default()
	if d.Sagas.Retention != 720*time.Hour || d.Sagas.MaxCalls != 1024 || d.Sagas.MaxCallsPerHost != 0 {
		t.Errorf("the defaults are %+v", d.Sagas)
	}
	l := mustLoad(t, "sagas: {definitions: [a.yaml, defs], allow_hosts: [shop.internal]}\n",
		"ONCED_SAGAS_MAX_CALLS_PER_HOST=7", "ONCED_SAGAS_TLS_CA_FILE=ca.pem")
	if s := l.Config.Sagas; !slices.Equal(s.Definitions, []string{"a.yaml", "defs"}) ||
		s.MaxCallsPerHost != 7 || s.TLS.CAFile != "ca.pem" {
		t.Errorf("%+v", s)
	}
	if got := d.Base("127.0.0.1:8080"); got != "http://127.0.0.1:8080" {
		t.Errorf("base %s", got)
	}
	if got := mustLoad(t, "public_url: https://pay.example.com/x/\n").Config.Base("h:1"); got !=
		"https://pay.example.com/x" {
		t.Errorf("base %s", got)
	}
	next := mustLoad(t, "sagas: {definitions: [b], max_calls: 3}\nsecrets: {a: {value: x}}\n").Config
	m, restart, err := Merge(d, next)
	if err != nil || !slices.Equal(restart, []string{"sagas.max_calls"}) || m.Sagas.MaxCalls != 1024 ||
		len(m.Sagas.Definitions) != 1 || m.Secrets["a"].Reveal() != "x" {
		t.Errorf("%+v, %v, %v", m.Sagas, restart, err)
	}
}
