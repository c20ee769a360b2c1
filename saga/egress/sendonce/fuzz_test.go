package sendonce

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

// script is a connection that takes everything and says what it was given, in pieces.
type script struct {
	net.Conn
	text  []byte
	piece int
	open  bool
}

// Write implements [io.Writer].
func (*script) Write(p []byte) (int, error) { return len(p), nil }

// Read implements [io.Reader].
func (s *script) Read(p []byte) (int, error) {
	if len(s.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.text[:min(s.piece, len(s.text))])
	s.text = s.text[n:]
	return n, nil
}

// Close implements [io.Closer].
func (s *script) Close() error { s.open = false; return nil }

// FuzzAnswers: whatever a server says, what is taken for its answer is what net/http makes
// of it, and a connection is kept only when not a byte beyond that was taken from it.
func FuzzAnswers(f *testing.F) {
	for i, o := range odds {
		if len(o.answer) < 10_000 { // or whoever fuzzes makes it smaller for minutes
			f.Add([]byte(o.answer), uint16(i*i), o.method == http.MethodHead)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, piece uint16, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		said := &script{text: text, piece: int(piece) + 1, open: true}
		tr := newTransport(t, Config{MaxHeader: 1 << 30,
			Dial: func(context.Context, string, string) (net.Conn, error) { return said, nil }})
		resp, body, err := tr.get(t.Context(), request(t, method, "http://h/", ""), false)
		if kept := tr.idles() == 1; kept != said.open {
			t.Fatalf("kept is %v, and open %v", kept, said.open)
		}

		rest := bytes.NewReader(text)
		r := bufio.NewReader(rest)
		want, err2 := http.ReadResponse(r, request(t, method, "http://h/", ""))
		for err2 == nil && want.StatusCode >= 100 && want.StatusCode < 200 && want.StatusCode != 101 {
			want, err2 = http.ReadResponse(r, request(t, method, "http://h/", ""))
		}
		if err != nil {
			if said.open {
				t.Fatalf("the connection is kept after %v", err)
			}
			return // the body may be what is wrong
		}
		if err2 != nil || want.StatusCode != resp.StatusCode {
			t.Fatalf("%d; net/http says %v, %v", resp.StatusCode, want, err2)
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return
		}
		wanted, err2 := io.ReadAll(want.Body)
		if err2 != nil || string(wanted) != body {
			t.Fatalf("%q; net/http says %q, %v", body, wanted, err2)
		}
		if after := rest.Len() + r.Buffered(); said.open && after != len(said.text) {
			t.Fatalf("%d bytes follow the answer, %d of them are not taken in", after, len(said.text))
		}
	})
}
