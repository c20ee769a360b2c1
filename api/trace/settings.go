package trace

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Names of variables.
const (
	prefix       = "OTEL_EXPORTER_OTLP_"
	tracesPrefix = prefix + "TRACES_"

	defaultTimeout = 10 * time.Second
	maxTimeout     = 5 * time.Minute
)

// settings are those of the exporter.
type settings struct {
	url     string
	header  http.Header
	timeout time.Duration // of one batch, with its retries
	gzip    bool
	tls     *tls.Config
}

// env reads variables; that of traces wins over the general one.
type env func(string) string

func (e env) get(name string) (value, from string) {
	if v := strings.TrimSpace(e(tracesPrefix + name)); v != "" {
		return v, tracesPrefix + name
	}
	return strings.TrimSpace(e(prefix + name)), prefix + name
}

// settingsFrom reads the environment. Nil means that tracing is off. Errors never
// show a value: endpoints and headers may hold a password.
func settingsFrom(e env) (*settings, error) {
	endpoint, from := e.get("ENDPOINT")
	if endpoint == "" || strings.EqualFold(strings.TrimSpace(e("OTEL_SDK_DISABLED")), "true") {
		return nil, nil
	}
	switch v := strings.TrimSpace(e("OTEL_TRACES_EXPORTER")); v {
	case "", "otlp":
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("trace: OTEL_TRACES_EXPORTER: %.20q is not known; use otlp or none", v)
	}
	if v, from := e.get("PROTOCOL"); v != "" && v != "http/protobuf" {
		return nil, fmt.Errorf("trace: %s: %.20q is not spoken; use http/protobuf, "+
			"and the port of the collector for it, most often 4318", from, v)
	}
	s := &settings{timeout: defaultTimeout}
	for _, read := range []func() error{
		func() error { return s.readURL(endpoint, from) },
		func() error { return s.readHeaders(e.get("HEADERS")) },
		func() error { return s.readTimeout(e.get("TIMEOUT")) },
		func() error { return s.readCompression(e.get("COMPRESSION")) },
		func() error { return s.readTLS(e) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *settings) readURL(endpoint, from string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("trace: %s is not a URL; for example http://127.0.0.1:4318", from)
	}
	if !strings.HasPrefix(from, tracesPrefix) {
		u.Path = path.Join("/", u.Path, "v1/traces")
	}
	s.url = u.String()
	return nil
}

func (s *settings) readHeaders(list, from string) error {
	s.header = http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = textproto.TrimString(name)
		value, err := url.PathUnescape(textproto.TrimString(value))
		if !ok || err != nil || !isToken(name) || strings.ContainsFunc(value, isControl) {
			return fmt.Errorf("trace: %s is not a list of headers; "+
				"for example api-key=secret,tenant=shop", from)
		}
		s.header.Set(name, value)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func (s *settings) readTimeout(v, from string) error {
	if v == "" {
		return nil
	}
	ms, err := strconv.ParseUint(v, 10, 32)
	s.timeout = time.Duration(ms) * time.Millisecond
	if err != nil || ms == 0 || s.timeout > maxTimeout {
		return fmt.Errorf("trace: %s: %.20q is not a time; use milliseconds, 1 to %d",
			from, v, maxTimeout.Milliseconds())
	}
	return nil
}

func (s *settings) readCompression(v, from string) error {
	switch v {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return fmt.Errorf("trace: %s: %.20q is not known; use gzip or none", from, v)
	}
	return nil
}

func (s *settings) readTLS(e env) error {
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if file, from := e.get("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("trace: %s: %w", from, err)
		}
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("trace: %s: %s holds no certificate in PEM", from, file)
		}
	}
	cert, from := e.get("CLIENT_CERTIFICATE")
	key, _ := e.get("CLIENT_KEY")
	switch {
	case cert == "" && key == "":
		return nil
	case cert == "" || key == "":
		return errors.New("trace: " + prefix + "CLIENT_CERTIFICATE and " +
			prefix + "CLIENT_KEY belong together")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("trace: %s: %w", from, err)
	}
	s.tls.Certificates = []tls.Certificate{pair}
	return nil
}
