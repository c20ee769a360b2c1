package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/proto"
)

const (
	// sendTries is how often a batch is sent.
	sendTries = 4
	// firstPause is the pause after the first try; each is twice as long as the one
	// before, or as long as the collector asks for, at most maxPause.
	firstPause = 500 * time.Millisecond
	maxPause   = 5 * time.Second
	// maxAnswer is how much of an answer is read.
	maxAnswer = 64 << 10
)

// exporter sends batches to a collector. Its one caller is the batcher of the SDK.
type exporter struct {
	s      *settings
	log    *slog.Logger
	client *http.Client
	life   context.Context
	abort  func()
	failed atomic.Bool // the last batch was lost
}

func newExporter(s *settings, log *slog.Logger) *exporter {
	life, abort := context.WithCancel(context.Background())
	return &exporter{s: s, log: log, life: life, abort: abort, client: &http.Client{
		Transport: &http.Transport{ // no proxy from the environment
			DialContext:         (&net.Dialer{Timeout: s.timeout}).DialContext,
			TLSClientConfig:     s.tls,
			TLSHandshakeTimeout: s.timeout,
			MaxIdleConns:        1,
			// Longer than the batcher's pause. It also ends a connection that was being
			// made while Shutdown closed those that there were.
			IdleConnTimeout:   6 * time.Second,
			ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ExportSpans implements the SDK's SpanExporter. It returns no error: the SDK
// would print it to stderr beside our log.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.s.timeout)
	defer cancel()
	stop := context.AfterFunc(e.life, cancel)
	defer stop()
	err := e.send(ctx, spans)
	switch before := e.failed.Swap(err != nil); {
	case err != nil && !before: // and not again while it lasts
		e.log.Warn("spans could not be sent and are lost; requests are not affected",
			"spans", len(spans), "err", err)
	case err == nil && before:
		e.log.Info("spans are sent again")
	}
	return nil
}

// Shutdown implements the SDK's SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.abort()
	e.client.CloseIdleConnections()
	return nil
}

func (e *exporter) send(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := proto.Marshal(message(spans))
	if err != nil {
		return err
	}
	if e.s.gzip {
		body = zipped(body)
	}
	pause := firstPause
	for try := 1; ; try++ {
		again, after, err := e.post(ctx, body)
		if err == nil || !again || try == sendTries {
			return err
		}
		if after > 0 {
			pause = after
		}
		if !sleep(ctx, min(pause, maxPause)) {
			return err
		}
		pause *= 2
	}
}

// post sends one batch. again is true when it may be sent again, after a pause
// that the collector may have named.
func (e *exporter) post(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.s.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, withoutURL(err)
	}
	req.Header = e.s.header.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "onced-otlp")
	}
	if e.s.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return ctx.Err() == nil, 0, withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return false, 0, nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		again = true
	}
	if n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
		after = time.Duration(n) * time.Second
	}
	return again, after, fmt.Errorf("the collector answered %d", resp.StatusCode)
}

// withoutURL drops the URL, which may hold a password.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}

// sleep reports whether d has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
