package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Limits of numbers that are computed with. Numbers that are only passed on keep their
// text, whatever it is.
const (
	maxDigits   = 200
	maxExponent = 200
)

// quoted is a decimal in the form of text, as amounts of money are sent: "12.50". It
// counts as a number and is written as text again.
type quoted string

// isNumber reports that s is a number as JSON writes it.
func isNumber(s string) bool {
	d := strings.TrimPrefix(s, "-")
	whole, rest := digits(d)
	if whole == 0 || whole > 1 && d[0] == '0' {
		return false
	}
	if f, ok := strings.CutPrefix(rest, "."); ok {
		n, after := digits(f)
		if n == 0 {
			return false
		}
		rest = after
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	if rest = rest[1:]; rest != "" && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	n, after := digits(rest)
	return n > 0 && after == ""
}

// digits counts the digits that s begins with and returns what follows.
func digits(s string) (n int, rest string) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n, s[n:]
}

// decimal is unscaled / 10^scale, exactly.
type decimal struct {
	unscaled *big.Int
	scale    int
}

var errNumber = errors.New("is no number")

// parseDecimal reads a number of JSON. It is bounded before anything is computed.
func parseDecimal(s string) (decimal, error) {
	if !isNumber(s) {
		return decimal{}, errNumber
	}
	if len(s) > maxDigits {
		return decimal{}, fmt.Errorf("has more than %d digits", maxDigits)
	}
	exponent := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > maxExponent || e < -maxExponent {
			return decimal{}, fmt.Errorf("has an exponent beyond %d", maxExponent)
		}
		exponent, s = e, s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	d := decimal{unscaled: new(big.Int), scale: len(fraction) - exponent}
	d.unscaled.SetString(whole+fraction, 10)
	if d.scale < 0 {
		d.unscaled.Mul(d.unscaled, pow10(-d.scale))
		d.scale = 0
	}
	return d, nil
}

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// align brings both to the larger scale.
func align(a, b decimal) (x, y *big.Int, scale int) {
	x, y, scale = a.unscaled, b.unscaled, max(a.scale, b.scale)
	if a.scale < scale {
		x = new(big.Int).Mul(x, pow10(scale-a.scale))
	}
	if b.scale < scale {
		y = new(big.Int).Mul(y, pow10(scale-b.scale))
	}
	return x, y, scale
}

func (a decimal) cmp(b decimal) int {
	x, y, _ := align(a, b)
	return x.Cmp(y)
}

// String writes all digits, those behind the point too: 12.50 and 0.50 are 13.00.
func (a decimal) String() string {
	s := new(big.Int).Abs(a.unscaled).String()
	if a.scale > 0 {
		if missing := a.scale + 1 - len(s); missing > 0 {
			s = strings.Repeat("0", missing) + s
		}
		s = s[:len(s)-a.scale] + "." + s[len(s)-a.scale:]
	}
	if a.unscaled.Sign() < 0 {
		s = "-" + s
	}
	return s
}

// arithmetic is a op b for + - and *.
func arithmetic(op string, a, b any) (any, error) {
	x, err := decimalOf(a)
	if err != nil {
		return nil, err
	}
	y, err := decimalOf(b)
	if err != nil {
		return nil, err
	}
	var d decimal
	switch op {
	case "*":
		d = decimal{new(big.Int).Mul(x.unscaled, y.unscaled), x.scale + y.scale}
	case "-":
		m, n, scale := align(x, y)
		d = decimal{new(big.Int).Sub(m, n), scale}
	default:
		m, n, scale := align(x, y)
		d = decimal{new(big.Int).Add(m, n), scale}
	}
	text := d.String()
	if len(text) > maxDigits {
		return nil, fmt.Errorf("has a result of more than %d digits", maxDigits)
	}
	_, p := a.(quoted)
	if _, q := b.(quoted); p || q {
		return quoted(text), nil
	}
	return json.Number(text), nil
}

// decimalOf reads a number of either form.
func decimalOf(v any) (decimal, error) {
	switch n := v.(type) {
	case json.Number:
		return parseDecimal(string(n))
	case quoted:
		return parseDecimal(string(n))
	}
	return decimal{}, errNumber
}

// plainDecimal reports that text is a decimal as amounts are written: digits, and a
// point with digits.
func plainDecimal(s string) bool { return isNumber(s) && !strings.ContainsAny(s, "eE") && s != "-0" }
