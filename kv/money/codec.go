package money

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxJSON is the longest JSON text of an amount.
const maxJSON = 4096

// MarshalJSON is {"amount":"12.34","asset":"USD"}. An amount that is not set is an
// error, and so is a negative one; see [Signed].
func (m Amount) MarshalJSON() ([]byte, error) {
	if m.Sign() < 0 {
		return nil, errNegative(m.Text())
	}
	return m.encode()
}

func errNegative(text string) error {
	return &Error{Field: "amount", Value: text, Problem: "is negative",
		Remedy: "use money.Signed where differences are meant"}
}

func (m Amount) encode() ([]byte, error) {
	if !m.IsSet() {
		return nil, errUnset
	}
	return []byte(`{"amount":"` + m.Text() + `","asset":"` + m.asset.id + `"}`), nil
}

// UnmarshalJSON reads what MarshalJSON writes. Amounts that are JSON numbers,
// unknown, repeated or missing fields, and null are errors. The exponent of an
// asset that the package does not know stays unknown, and the digits as they
// are; see [Assets.Resolve].
func (m *Amount) UnmarshalJSON(b []byte) error {
	got, err := decodeJSON(b)
	if err != nil {
		return err
	}
	if got.Sign() < 0 {
		return errNegative(got.Text())
	}
	*m = got
	return nil
}

// Signed is an Amount whose texts and JSON may be negative, for differences.
type Signed struct{ Amount }

// MarshalJSON is that of Amount, for negative amounts too.
func (m Signed) MarshalJSON() ([]byte, error) { return m.encode() }

// UnmarshalJSON is that of Amount, for negative amounts too.
func (m *Signed) UnmarshalJSON(b []byte) error {
	got, err := decodeJSON(b)
	if err != nil {
		return err
	}
	m.Amount = got
	return nil
}

// MarshalText is "-12.34 USD".
func (m Signed) MarshalText() ([]byte, error) { return m.text() }

// UnmarshalText reads what MarshalText writes.
func (m *Signed) UnmarshalText(b []byte) error {
	got, err := decodeText(b)
	if err != nil {
		return err
	}
	m.Amount = got
	return nil
}

// MarshalText is "12.34 USD", for logs and the keys of maps.
func (m Amount) MarshalText() ([]byte, error) {
	if m.Sign() < 0 {
		return nil, errNegative(m.Text())
	}
	return m.text()
}

func (m Amount) text() ([]byte, error) {
	if !m.IsSet() {
		return nil, errUnset
	}
	return []byte(m.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (m *Amount) UnmarshalText(b []byte) error {
	got, err := decodeText(b)
	if err != nil {
		return err
	}
	if got.Sign() < 0 {
		return errNegative(got.Text())
	}
	*m = got
	return nil
}

func decodeText(b []byte) (Amount, error) {
	if len(b) > maxJSON {
		return Amount{}, errTooLong
	}
	text, id, _ := strings.Cut(string(b), " ")
	a, err := ParseAsset(id)
	if err != nil {
		return Amount{}, err
	}
	return ParseSigned(text, a)
}

var errTooLong = &Error{Field: "amount", Problem: fmt.Sprintf("is longer than %d bytes", maxJSON),
	Remedy: `write {"amount":"12.34","asset":"USD"}`}

// decodeJSON reads token by token: the standard decoder would take fields in
// other case, repeated fields, and null for nothing.
func decodeJSON(b []byte) (Amount, error) {
	if len(b) > maxJSON {
		return Amount{}, errTooLong
	}
	if !utf8.Valid(b) {
		return Amount{}, errShape("is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Amount{}, errShape("is not a JSON object")
	}
	fields := map[string]string{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return Amount{}, errShape("is not well-formed JSON")
		}
		key, _ := name.(string)
		if key != "amount" && key != "asset" {
			return Amount{}, errShape(fmt.Sprintf("has the unknown field %.40q", key))
		}
		if _, twice := fields[key]; twice {
			return Amount{}, errShape("has the field " + key + " twice")
		}
		v, err := d.Token()
		if err != nil {
			return Amount{}, errShape("is not well-formed JSON")
		}
		text, ok := v.(string)
		if !ok {
			return Amount{}, &Error{Field: key, Value: fmt.Sprint(v), Problem: "is not a JSON string",
				Remedy: "put it in quotes; numbers lose digits on their way"}
		}
		fields[key] = text
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') {
		return Amount{}, errShape("is not well-formed JSON")
	}
	if _, err := d.Token(); err != io.EOF {
		return Amount{}, errShape("is followed by other data")
	}
	return fromFields(fields)
}

func fromFields(fields map[string]string) (Amount, error) {
	for _, key := range []string{"amount", "asset"} {
		if _, ok := fields[key]; !ok {
			return Amount{}, &Error{Field: key, Problem: "is missing", Remedy: errTooLong.Remedy}
		}
	}
	a, err := ParseAsset(fields["asset"])
	if err != nil {
		return Amount{}, err
	}
	return ParseSigned(fields["amount"], a)
}

func errShape(problem string) error {
	return &Error{Field: "amount", Problem: problem, Remedy: errTooLong.Remedy}
}
