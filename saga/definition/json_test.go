package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// decodedByTheLibrary is decodeJSON made of package encoding/json.
func decodedByTheLibrary(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("is not UTF-8")
	}
	if deeper(raw, maxNested) {
		return nil, fmt.Errorf("is nested deeper than %d", maxNested)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, errors.New("is not JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON value")
	}
	return v, nil
}

// textByRunes is appendText, character by character.
func textByRunes(s string) string {
	b := []byte{'"'}
	for _, c := range s { // what is not UTF-8 comes as U+FFFD
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ' || c == 0x7f:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return string(append(b, '"'))
}

// checkJSONOf compares what is read of a text with what the library reads of it.
func checkJSONOf(t *testing.T, raw []byte) {
	t.Helper()
	v, err := decodeJSON(raw)
	want, wantErr := decodedByTheLibrary(raw)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(v, want) {
		t.Fatalf("%q is %#v, %v; the library has %#v, %v", raw, v, err, want, wantErr)
	}
	written, err := checkJSON(raw)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%q is checked: %v; the library has %v", raw, err, wantErr)
	}
	if again := appendJSON(nil, v); written && !bytes.Equal(raw, again) {
		t.Fatalf("%q is said to be as it is written, which is %q", raw, again)
	}
	if got, want := string(appendText(nil, string(raw))), textByRunes(string(raw)); got != want {
		t.Fatalf("%q as a text is %s, want %s", raw, got, want)
	}
}

// jsonTexts are texts that are JSON, nearly, or not.
func jsonTexts() []string {
	texts := []string{"", " ", "\u00a0", "\v", "\ufeff{}", "{}", " {} ", "{}{}", "{},", "{} x", "{}\u00a0",
		"null", "nul", "nullx", "true", "truefalse", "false ", "[]", "[ ]", "[1,]", "[,1]", "[1 2]",
		"[1,2,[3,[]]]", "[", "]", "[}", "{]", `{"a":1}`, `{"a" : 1 , "b":[ ] }`, `{"b":1,"a":2}`,
		`{"a":1,"a":2}`, `{"a":{},"a":{"b":1}}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`,
		`{"a":1 "b":2}`, `{"":0}`, `{"a!":1,"a":2}`, `{"a":1,"a!":2}`, `{"é":1,"z":2}`, `{"\u0061":1,"a":2}`,
		"0", "-0", "00", "01", "-", "--1", "-a", "1.", "1.x", "1.0", "1e", "1e+", "1E-07", "1e5.", ".5", "+1",
		"1e400", strings.Repeat("9", 400), "0x1", "1_0", `"`, `""`, `"a`, `"a"b`, `"\"\\\/\b\f\n\r\t"`,
		`"\'"`, `"\x41"`, `"\u00e9"`, `"\u00E9é"`, `"\u12"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\n"`,
		`"\ude00\ud83d"`, `"\ud83d\u0041"`, `"\ufffd"`, "\"\ufffd\"", `"\u0000"`, "\"\x00\"", "\"\n\"",
		"\"\x7f\"", "\"\x80\"", "\"\xc3\\u00e9\xa9\"", "\"\xed\xa0\x80\"", "\xff",
		`"<a href='&'>` + "\u2028\"", `"\`, `"\u`, "\"\x1f", "{\"\x80\":1}", "1\xff", "[\"a\" \xff", "'a'",
		"NaN", "Infinity", "// x\n1", "1 // x", `{"a":"\ud800","b":"\udc00"}`}
	for open, end := range map[string]string{"[": "]", `{"a":`: "}", `[{"b":`: "}]"} {
		for _, deep := range []int{49, 50, 51, 99, 100, 101, 200} {
			begun := strings.Repeat(open, deep)
			texts = append(texts, begun, begun+"1"+strings.Repeat(end, deep))
		}
	}
	return texts
}

func TestJSONIsReadAsTheLibraryDoes(t *testing.T) {
	for _, text := range jsonTexts() {
		checkJSONOf(t, []byte(text))
		for cut := range min(len(text), 30) {
			checkJSONOf(t, []byte(text[:cut]))
			checkJSONOf(t, []byte(text[:cut]+"\xc3"+text[cut:]))
			checkJSONOf(t, []byte(text[:cut]+" \t\r\n"+text[cut:]))
		}
	}
	for _, text := range []string{`{"a":1,"b":[{"c":"é"},null,true,1.50e3]}`, `""`, "7", "[]", "{}",
		`{"a":{},"b":{}}`} {
		if written, err := checkJSON([]byte(text)); !written || err != nil {
			t.Errorf("%s is not taken for what would be written: %v", text, err)
		}
	}
}

// FuzzJSON: any bytes are read as package encoding/json reads them.
func FuzzJSON(f *testing.F) {
	for _, text := range jsonTexts() {
		f.Add([]byte(text))
	}
	f.Fuzz(checkJSONOf)
}

func BenchmarkDecodeJSON(b *testing.B) {
	for name, text := range map[string]string{
		"small": `{"order":"o-1234567890","cents":4999}`,
		"large": `{"id":"pay_1","amount":{"value":"12.50","currency":"EUR"},"lines":[` + strings.Repeat(
			`{"sku":"x-1","count":2,"note":"Gr\u00f6\u00dfe 42"},`, 40) + `null],"paid":true}`,
	} {
		for how, decode := range map[string]func([]byte) (any, error){"": decodeJSON,
			"library ": decodedByTheLibrary, "checked ": func(raw []byte) (any, error) {
				return checkJSON(raw)
			}} {
			b.Run(how+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decode([]byte(text)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
