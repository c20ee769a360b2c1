package idemhttp

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// read is decode with the header as a handler has it.
func read(data []byte) (*Response, error) {
	r, err := decode(data)
	if err == nil {
		r.Header, r.lines = headerOf(r.lines), nil
	}
	return r, err
}

func TestCodec(t *testing.T) {
	for _, r := range []*Response{
		{Status: 200},
		{Status: 599, Header: http.Header{"A": {"1", "2"}, "B": {""}}, Body: []byte{0, 1, 2}},
		{Status: 201, Header: http.Header{"A": {"\xff"}}, Trailer: http.Header{"Sum": {"1"}},
			Body: []byte("x")},
		{Status: 201, Omitted: true, Size: -1},
		{Status: 201, Omitted: true, Size: 1 << 40},
	} {
		data, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(data)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
		if len(data) > len(r.Body)+60 {
			t.Errorf("%d bytes for a body of %d", len(data), len(r.Body))
		}
		for i := range len(data) - len(r.Body) {
			if got, err := decode(data[:i]); err == nil {
				t.Errorf("the first %d bytes of %x are %+v", i, data, got)
			}
		}
	}
}

func TestCodecRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":         nil,
		"another version": {2, 0, 0, 200, 0, 0},
		"unknown flag":    {1, 2, 0, 200, 0, 0},
		"status 199":      {1, 0, 0, 199, 0, 0},
		"status 1000":     {1, 0, 3, 232, 0, 0},
		"too many lines":  {1, 0, 0, 200, 0xff, 0xff, 0x7f, 0},
		"header split":    append([]byte{1, 0, 0, 200, 1, 1, 'A', 3}, "a\r\n\x00"...),
		"no token":        append([]byte{1, 0, 0, 200, 1, 2, 'A', ' ', 1}, "a\x00"...),
		"not canonical":   append([]byte{1, 0, 0, 200, 1, 1, 'a', 1}, "a\x00"...),
		"bytes after":     {1, 1, 0, 200, 0, 0, 2, 0},
		"size -2":         {1, 1, 0, 200, 0, 0, 3},
	} {
		if r, err := decode(data); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Lines in another order than that of encode are one header all the same.
	r, err := read(append([]byte{1, 0, 0, 200, 3}, "\x01B\x011\x01A\x012\x01B\x013\x00"...))
	if want := (http.Header{"A": {"2"}, "B": {"1", "3"}}); err != nil || !reflect.DeepEqual(r.Header, want) {
		t.Errorf("%v, %v", r, err)
	}
	for _, status := range []int{0, 99, 199, 1000} {
		if _, err := encode(&Response{Status: status}); err == nil {
			t.Errorf("status %d was stored", status)
		}
	}
	if _, err := encode(&Response{Status: 200, Header: http.Header{"A": {strings.Repeat("x",
		MaxHead)}}}); err == nil {
		t.Error("a header above the limit was stored")
	}
}

// FuzzDecode: what is read back can be sent, and is stored as the same again.
func FuzzDecode(f *testing.F) {
	for _, r := range []*Response{
		{Status: 200, Header: http.Header{"A": {"1"}}, Trailer: http.Header{"B": {"2"}},
			Body: []byte("body")},
		{Status: 402, Omitted: true, Size: 70},
	} {
		data, err := encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		r.send(w, httptest.NewRequest(http.MethodPost, "/", nil), new([1]string))
		r, _ = read(data)
		again, err := encode(r)
		if err != nil {
			if len(data) < MaxHead {
				t.Fatalf("%v", err)
			}
			return
		}
		back, err := read(again)
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%+v became %+v, %v", r, back, err)
		}
	})
}

// FuzzParseKey: a key in quotes and the bare one are the same, and no key comes
// out that a claim does not take.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"a\"b\\"`, "", `"`, "a,b", "\xff", " k ", strings.Repeat("k",
		256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := ParseKey(s)
		if err != nil {
			if key != "" || strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("%q %q", key, err)
			}
			return
		}
		if len(key) == 0 || len(key) > 255 || !isValue(key) || strings.TrimSpace(key) == "" {
			t.Fatalf("%q became %q", s, key)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r > '~' }) {
			return // no quoted string
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := ParseKey(quoted); err != nil || again != key {
			t.Fatalf("%q: %q, %v", quoted, again, err)
		}
	})
}

func TestEndToEnd(t *testing.T) {
	in := http.Header{"Connection": {"close, x-a", "X-B"}, "X-A": {"1"}, "X-B": {"1"}, "Keep-Alive": {"1"},
		"Transfer-Encoding": {"chunked"}, "Bad Name": {"1"}, "Ok": {"1", "a\rb", "2"}, "Te": {"x"}, "": {"x"}}
	got := EndToEnd(in)
	if want := (http.Header{"Ok": {"1", "2"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestWriteProblem(t *testing.T) {
	for code := range kinds {
		w := httptest.NewRecorder()
		WriteProblem(w, httptest.NewRequest(http.MethodPost, "/", nil), &Problem{Code: code, Detail: "<x>"})
		if w.Code < 200 || !bytes.Contains(w.Body.Bytes(), []byte(`"code":"`+string(code)+`"`)) ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", code, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	WriteProblem(w, httptest.NewRequest(http.MethodHead, "/", nil), &Problem{Code: "other", Status: 418,
		RetryAfter: 1})
	if w.Code != 418 || w.Body.Len() != 0 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}
