package money

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

const (
	bitcoin = "bip122:000000000019d6689c085ae165831e93/slip44:0"
	ether   = "eip155:1/slip44:60"
	usdt    = "eip155:1/erc20:0xdac17f958d2ee523a2206206994597c13d831ec7"
)

func asset(t testing.TB, id string) Asset {
	t.Helper()
	a, err := ParseAsset(id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func amount(t testing.TB, text, id string) Amount {
	t.Helper()
	m, err := ParseSigned(text, asset(t, id))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// field returns the field that err complains of.
func field(t testing.TB, err error) string {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v (%T), want *Error", err, err)
	}
	if e.Remedy == "" || !strings.Contains(err.Error(), e.Field) {
		t.Errorf("error %q does not name its field and a remedy", err)
	}
	return e.Field
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, id, want string }{
		{"12.34", "USD", "12.34"},
		{"12", "USD", "12.00"},
		{"0.5", "USD", "0.50"},
		{"0", "USD", "0.00"},
		{"0.00", "USD", "0.00"},
		{"1000", "JPY", "1000"},
		{"0", "JPY", "0"},
		{"1.234", "KWD", "1.234"},
		{"1.2345", "CLF", "1.2345"},
		{"0.00000001", bitcoin, "0.00000001"},
		{"20999999.9769", bitcoin, "20999999.97690000"},
		{"1", ether, "1.000000000000000000"},
		{"1.50", usdt, "1.50"}, // no exponent is known: as it was written
		{"7", usdt, "7"},
	} {
		m, err := Parse(c.text, asset(t, c.id))
		if err != nil || m.Text() != c.want {
			t.Errorf("Parse(%q, %s) = %q, %v; want %q", c.text, c.id, m.Text(), err, c.want)
		}
	}
}

// What the seed's decimal parser let through, and what it refused: a payment of
// any of these must never be built.
var refused = []string{
	"", " ", ".", "-", "+", "--1", "-", "NaN", "nan", "sNaN", "-NaN", "Inf", "-Infinity", "infinity",
	"1e999999", "1e-400", "1E3", "1e3", "1_000", "1,000", "1 000", " 1", "1 ", "1\n", "\t1", "1\x00",
	"0x10", "0X1F", "0b1", "0o7", "1p3", "true", "True", "false", "null", "None",
	"٣", "１２", "१२", "1٫5", "+5", ".5", "5.", "1.2.3",
	"00", "01", "00.5", "-0", "-0.00", "1.-5", "½", "$1",
	"1.5f", "1/2", "'1'", `"1"`,
}

func TestCW17_NoAmountOfAnythingButCanonicalDigits(t *testing.T) {
	usd := asset(t, "USD")
	for _, text := range refused {
		for name, parse := range map[string]func(string, Asset) (Amount, error){
			"Parse": Parse, "ParsePositive": ParsePositive, "ParseSigned": ParseSigned,
		} {
			if m, err := parse(text, usd); err == nil {
				t.Errorf("%s(%q) = %s, want an error", name, text, m)
			} else if f := field(t, err); f != "amount" {
				t.Errorf("%s(%q) complains of %s", name, text, f)
			}
		}
		quoted, _ := json.Marshal(text)
		for _, into := range []any{&Amount{}, &Signed{}} {
			doc := fmt.Appendf(nil, `{"amount":%s,"asset":"USD"}`, quoted)
			if err := json.Unmarshal(doc, into); err == nil {
				t.Errorf("JSON with amount %q became %v", text, into)
			}
		}
	}
	for _, text := range []string{"0", "0.00"} {
		if m, err := ParsePositive(text, usd); err == nil {
			t.Errorf("ParsePositive(%q) = %s, want an error", text, m)
		}
	}
	for _, text := range []string{"-1", "-0.01"} {
		if m, err := Parse(text, usd); err == nil {
			t.Errorf("Parse(%q) = %s, want an error", text, m)
		}
		if m, err := ParseSigned(text, usd); err != nil || m.Sign() != -1 {
			t.Errorf("ParseSigned(%q) = %s, %v", text, m, err)
		}
	}
}

func TestCW17_JSONNumbersAndOtherTypesAreRefused(t *testing.T) {
	for _, v := range []string{
		"12.34", "12", "0", "-1", "1e3", "1e999999", "true", "false", "null",
		`["1"]`, `{"x":"1"}`, `{}`, "NaN", "Infinity",
	} {
		var m Amount
		if err := json.Unmarshal([]byte(`{"amount":`+v+`,"asset":"USD"}`), &m); err == nil {
			t.Errorf("amount %s became %s", v, m)
		}
		if m.IsSet() {
			t.Errorf("amount %s was refused and left %s behind", v, m)
		}
	}
}

func TestCW15_ZerosSurviveJSON(t *testing.T) {
	for _, c := range []struct{ text, id string }{
		{"0.10000000", bitcoin}, {"0.10", "USD"}, {"5.000000", usdt},
		{"0", usdt}, {"0.000", usdt}, {"100", "JPY"},
	} {
		m := amount(t, c.text, c.id)
		for range 3 {
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"amount":"` + c.text + `","asset":"` + c.id + `"}`; string(b) != want {
				t.Fatalf("JSON is %s, want %s", b, want)
			}
			var back Amount
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			if !back.Equal(m) {
				t.Fatalf("%s came back as %s", m, back)
			}
			m = back
		}
		text, err := m.MarshalText()
		var back Amount
		if err != nil || back.UnmarshalText(text) != nil || back.String() != c.text+" "+c.id {
			t.Errorf("text %q (%v) came back as %s", text, err, back)
		}
	}
}

func TestTooManyDigits(t *testing.T) {
	for _, c := range []struct{ text, id string }{
		{"12.345", "USD"}, {"12.340", "USD"}, {"1.0", "JPY"}, {"0.000000001", bitcoin}, {"1.2345", "KWD"},
	} {
		_, err := Parse(c.text, asset(t, c.id))
		if err == nil {
			t.Errorf("Parse(%q, %s) was taken", c.text, c.id)
			continue
		}
		exp, _ := asset(t, c.id).Exponent()
		if field(t, err) != "amount" || !strings.Contains(err.Error(), fmt.Sprintf("at most %d", exp)) {
			t.Errorf("error %q does not name the limit", err)
		}
	}
}

func TestBounds(t *testing.T) {
	free := asset(t, usdt)
	nines := func(n int) string { return strings.Repeat("9", n) }
	for text, ok := range map[string]bool{
		nines(MaxIntegerDigits):                                 true,
		nines(MaxIntegerDigits + 1):                             false,
		"0." + nines(MaxFractionDigits):                         true,
		"0." + nines(MaxFractionDigits+1):                       false,
		nines(MaxIntegerDigits) + "." + nines(36):               true,
		"-" + nines(MaxIntegerDigits) + "." + nines(36):         true,
		"-" + nines(MaxIntegerDigits+1) + "." + nines(36):       false,
		nines(MaxIntegerDigits) + "." + nines(36) + "00":        false,
		strings.Repeat("0", 40) + "1":                           false,
		"1." + strings.Repeat("0", MaxFractionDigits-1) + "1":   true,
		"1." + strings.Repeat("0", MaxFractionDigits) + "00001": false,
	} {
		if m, err := ParseSigned(text, free); (err == nil) != ok || ok && m.Text() != text {
			t.Errorf("ParseSigned(%q) = %s, %v; want ok %v", text, m, err, ok)
		}
	}
	biggest := amount(t, nines(MaxIntegerDigits), usdt)
	if _, err := biggest.Add(amount(t, "1", usdt)); err == nil {
		t.Error("a sum beyond the bound was taken")
	}
	if _, err := biggest.MulRatio(2, 1, Exact); err == nil {
		t.Error("a product beyond the bound was taken")
	}
}

func TestHugeInputsAreRefusedFast(t *testing.T) {
	usd := asset(t, "USD")
	huge := strings.Repeat("9", 10<<20)
	long, padded := huge+"/"+huge, []byte(`{"amount":"1","asset":"USD"}`+strings.Repeat(" ", 5000))
	start := time.Now()
	for range 1000 {
		if _, err := Parse(huge, usd); err == nil || len(err.Error()) > 400 {
			t.Fatal("ten million digits were taken, or repeated in the error")
		}
		if _, err := ParseAsset(long); err == nil || len(err.Error()) > 400 {
			t.Fatal("a long asset was taken, or repeated in the error")
		}
		var m Amount
		if err := m.UnmarshalJSON(padded); err == nil {
			t.Fatal("a long JSON text was taken")
		}
	}
	took := time.Since(start)
	// Had every one of ten million characters been looked at, it would have taken a thousand
	// times as long as once, however fast this machine is now.
	start = time.Now()
	other := 0
	for i := range len(huge) {
		if huge[i] != '9' {
			other++
		}
	}
	if once := time.Since(start); took > 100*once || other > 0 {
		t.Errorf("refusing took %s, looking at all of it once %s", took, once)
	}
	if _, err := FromMinor(new(big.Int).Lsh(big.NewInt(1), 1<<20), usd); err == nil {
		t.Error("a million bits were taken")
	}
}

func TestMinorUnits(t *testing.T) {
	for _, c := range []struct{ units, id, want string }{
		{"1234", "USD", "12.34"}, {"1", "USD", "0.01"}, {"0", "USD", "0.00"}, {"1", "JPY", "1"},
		{"10000000", bitcoin, "0.10000000"},
		{"1000000000000000001", ether, "1.000000000000000001"},
		{ // the largest number of a chain
			"115792089237316195423570985008687907853269984665640564039457584007913129639935", ether,
			"115792089237316195423570985008687907853269984665640564039457.584007913129639935",
		},
	} {
		n, _ := new(big.Int).SetString(c.units, 10)
		m, err := FromMinor(n, asset(t, c.id))
		if err != nil || m.Text() != c.want {
			t.Fatalf("FromMinor(%s, %s) = %s, %v; want %s", c.units, c.id, m, err, c.want)
		}
		back, err := m.Minor()
		if err != nil || back.Cmp(n) != 0 {
			t.Errorf("%s.Minor() = %s, %v", m, back, err)
		}
		back.SetInt64(-1) // a copy
		if m.Text() != c.want {
			t.Error("changing the units changed the amount")
		}
	}
	token, err := NewAsset("eip155:1/erc20:0x00", 0)
	if err != nil {
		t.Fatal(err)
	}
	most := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	if _, err := FromMinor(most, token); err != nil {
		t.Errorf("the largest number of a token without decimals: %v", err)
	}
	for name, got := range map[string]error{
		"negative":    second(FromMinor(big.NewInt(-1), token)),
		"nil":         second(FromMinor(nil, token)),
		"no exponent": second(FromMinor(big.NewInt(1), asset(t, usdt))),
		"no asset":    second(FromMinor(big.NewInt(1), Asset{})),
		"minor":       second(amount(t, "1", usdt).Minor()),
		"unset":       second(Amount{}.Minor()),
	} {
		if got == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestArithmetic(t *testing.T) {
	usd := func(s string) Amount { return amount(t, s, "USD") }
	if m, err := usd("0.10").Add(usd("0.20")); err != nil || m.String() != "0.30 USD" {
		t.Errorf("0.10 + 0.20 = %s, %v", m, err)
	}
	if m, err := usd("1").Sub(usd("1.01")); err != nil || m.String() != "-0.01 USD" {
		t.Errorf("1 - 1.01 = %s, %v", m, err)
	}
	if c, err := usd("2").Cmp(usd("10")); err != nil || c != -1 {
		t.Errorf("2 cmp 10 = %d, %v", c, err)
	}
	var mismatch *MismatchError
	if _, err := usd("1").Add(amount(t, "1", "EUR")); !errors.As(err, &mismatch) {
		t.Errorf("USD + EUR: %v", err)
	}
	if _, err := usd("1").Sub(amount(t, "1", "JPY")); !errors.As(err, &mismatch) {
		t.Errorf("USD - JPY: %v", err)
	}
	if _, err := usd("1").Cmp(amount(t, "1", ether)); !errors.As(err, &mismatch) {
		t.Errorf("USD cmp ETH: %v", err)
	}
	if usd("1").Equal(amount(t, "1", "EUR")) || !usd("1").Equal(usd("1.00")) || (Amount{}).Equal(Amount{}) {
		t.Error("Equal is wrong")
	}
	if _, err := usd("1").Add(Amount{}); err == nil {
		t.Error("a sum with no amount was taken")
	}
	if _, err := (Amount{}).MulRatio(1, 1, Exact); err == nil {
		t.Error("a product with no amount was taken")
	}
}

// An amount from JSON does not know its token's exponent; one from the
// configuration does.
func TestArithmeticOfUnknownExponent(t *testing.T) {
	six, err := NewAsset(usdt, 6)
	if err != nil {
		t.Fatal(err)
	}
	known, err := Parse("1", six)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := amount(t, "0.5", usdt).Add(known)
	if err != nil || sum.Text() != "1.500000" || sum.Asset() != six {
		t.Errorf("sum = %s, %v", sum, err)
	}
	if _, err := amount(t, "0.0000001", usdt).Add(known); err == nil {
		t.Error("a digit that the asset has not was taken")
	}
	eight, err := NewAsset(usdt, 8)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := Parse("1", eight)
	var mismatch *MismatchError
	if _, err := known.Add(other); !errors.As(err, &mismatch) {
		t.Errorf("sum of two exponents: %v", err)
	}
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		text     string
		num, den int64
		want     map[Rounding]string
	}{
		{"0.05", 1, 2, map[Rounding]string{Down: "0.02", Up: "0.03", HalfUp: "0.03", HalfEven: "0.02"}},
		{"0.07", 1, 2, map[Rounding]string{Down: "0.03", Up: "0.04", HalfUp: "0.04", HalfEven: "0.04"}},
		{"-0.05", 1, 2, map[Rounding]string{Down: "-0.02", Up: "-0.03", HalfUp: "-0.03", HalfEven: "-0.02"}},
		{"0.05", 1, -2, map[Rounding]string{Down: "-0.02", Up: "-0.03", HalfUp: "-0.03", HalfEven: "-0.02"}},
		{"-0.05", -1, 2, map[Rounding]string{Down: "0.02", Up: "0.03", HalfUp: "0.03", HalfEven: "0.02"}},
		{"1.00", 1, 3, map[Rounding]string{Down: "0.33", Up: "0.34", HalfUp: "0.33", HalfEven: "0.33"}},
		{"2.00", 1, 3, map[Rounding]string{Down: "0.66", Up: "0.67", HalfUp: "0.67", HalfEven: "0.67"}},
		{"0.01", 1, 3, map[Rounding]string{Down: "0.00", Up: "0.01", HalfUp: "0.00", HalfEven: "0.00"}},
		{"-0.01", 1, 3, map[Rounding]string{Down: "0.00", Up: "-0.01", HalfUp: "0.00", HalfEven: "0.00"}},
		{"99.99", 29, 1000, map[Rounding]string{Down: "2.89", Up: "2.90", HalfUp: "2.90", HalfEven: "2.90"}},
	} {
		m := amount(t, c.text, "USD")
		if _, err := m.MulRatio(c.num, c.den, Exact); err == nil {
			t.Errorf("%s * %d / %d is exact", c.text, c.num, c.den)
		}
		for r, want := range c.want {
			if got, err := m.MulRatio(c.num, c.den, r); err != nil || got.Text() != want {
				t.Errorf("%s * %d / %d rounded %d = %s, %v; want %s",
					c.text, c.num, c.den, r, got.Text(), err, want)
			}
		}
	}
	if m, err := amount(t, "10.00", "USD").MulRatio(1, 4, Exact); err != nil || m.Text() != "2.50" {
		t.Errorf("10.00 / 4 = %s, %v", m, err)
	}
	if _, err := amount(t, "1", "USD").MulRatio(1, 0, Down); err == nil {
		t.Error("divided by zero")
	}
	if _, err := amount(t, "1", "USD").MulRatio(1, 3, Rounding(9)); err == nil {
		t.Error("an unknown rounding was taken")
	}
}

func TestJSONIsStrict(t *testing.T) {
	for _, text := range []string{
		``, `null`, `"12.34"`, `12.34`, `[]`, `{}`, `{"amount":"1"}`, `{"asset":"USD"}`,
		`{"amount":"1","asset":"USD","x":1}`, `{"Amount":"1","asset":"USD"}`, `{"amount":"1","ASSET":"USD"}`,
		`{"amount":"1","amount":"2","asset":"USD"}`, `{"amount":"1","asset":"USD","asset":"EUR"}`,
		`{"amount":"1","asset":"USD"}{}`, `{"amount":"1","asset":"USD"} x`, `{"amount":"1","asset":"USD"`,
		`{"amount":"1" "asset":"USD"}`, `{"amount":"1","asset":null}`, `{"amount":"1","asset":840}`,
		`{"amount":"1","asset":"usd"}`, `{"amount":"1","asset":"BTC"}`, `{"amount":"1","asset":""}`,
		`{"amount":"-1","asset":"USD"}`, "{\"amount\":\"1\",\"asset\":\"US\xff\"}",
		"{\"amount\":\"1\xff\",\"asset\":\"USD\"}",
	} {
		var m Amount
		if err := m.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s became %s", text, m)
		}
	}
	var m Amount
	odd := []byte(" {\n\"asset\" : \"USD\", \"amount\":\"1\\u0032\" } ")
	if err := json.Unmarshal(odd, &m); err != nil || m.String() != "12.00 USD" {
		t.Errorf("spaces, order, escapes: %s, %v", m, err)
	}
	for name, v := range map[string]any{
		"unset": Amount{}, "negative": amount(t, "-1", "USD"), "unset signed": Signed{},
	} {
		if b, err := json.Marshal(v); err == nil {
			t.Errorf("%s was written as %s", name, b)
		}
	}
	type row struct {
		Fee Amount `json:"fee,omitzero"`
	}
	if b, err := json.Marshal(row{}); err != nil || string(b) != "{}" {
		t.Errorf("a row without a fee: %s, %v", b, err)
	}
	zero := row{amount(t, "0", "USD")}
	if b, err := json.Marshal(zero); err != nil || !strings.Contains(string(b), `"0.00"`) {
		t.Errorf("a fee of zero must not vanish: %s, %v", b, err)
	}
}

func TestSigned(t *testing.T) {
	in := Signed{amount(t, "-1.50", "USD")}
	b, err := json.Marshal(in)
	var out Signed
	if err != nil || json.Unmarshal(b, &out) != nil || out.String() != "-1.50 USD" {
		t.Errorf("%s, %v came back as %s", b, err, out)
	}
	text, err := in.MarshalText()
	var again Signed
	if err != nil || again.UnmarshalText(text) != nil || !again.Equal(in.Amount) {
		t.Errorf("%s, %v came back as %s", text, err, again)
	}
	var plain Amount
	if plain.UnmarshalText(text) == nil || second(in.Amount.MarshalText()) == nil {
		t.Error("a plain amount took a negative text")
	}
}

// What can be written out in full can come in units too.
func TestFromMinorTakesAllThatParseTakes(t *testing.T) {
	for exp := range MaxFractionDigits + 1 {
		a, err := NewAsset(usdt, exp)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("9", MaxIntegerDigits)
		if exp > 0 {
			text += "." + strings.Repeat("9", exp)
		}
		m, err := Parse(text, a)
		if err != nil {
			t.Fatal(err)
		}
		n, err := m.Minor()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := FromMinor(n, a); err != nil || !back.Equal(m) {
			t.Errorf("exponent %d: %v, %v", exp, back, err)
		}
		if more, err := FromMinor(n.Add(n, big.NewInt(1)), a); err == nil {
			t.Errorf("exponent %d: one unit too many gives %v", exp, more)
		}
	}
}

func TestAssets(t *testing.T) {
	for id, want := range map[string]int{
		"USD": 2, "EUR": 2, "JPY": 0, "KRW": 0, "VND": 0, "XAF": 0, "ISK": 0,
		"KWD": 3, "BHD": 3, "TND": 3, "IQD": 3,
		"CLF": 4, "UYW": 4, "CLP": 0, "MGA": 2, "ZWG": 2, "XCG": 2, bitcoin: 8, ether: 18,
		"bip122:000000000933ea01ad0ee984209779ba/slip44:1": 8, "eip155:137/slip44:966": 18,
		"bip122:12a765e31ffd4059bada1e25190f6e98/slip44:2":   8, // Litecoin
		"bip122:1a91e3dace36e2be3bf030a65679fe82/slip44:3":   8, // Dogecoin
		"bip122:00000ffd590b1485b3caadc19b22e637/slip44:5":   8, // Dash
		"bip122:000000000000000000651ef99cb9fcbe/slip44:145": 8, // Bitcoin Cash
	} {
		if got, known := asset(t, id).Exponent(); !known || got != want {
			t.Errorf("exponent of %s is %d, %v; want %d", id, got, known, want)
		}
	}
	for _, id := range []string{
		usdt, "eip155:1/erc721:0xab/7", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501",
		"cosmos:cosmoshub-3/slip44:118",
		"bip122:00000000000000000000000000000000/slip44:6", // Peercoin has 6 digits
		"bip122:000000000019d6689c085ae165831e93/slip44:00",
	} {
		a := asset(t, id)
		if _, known := a.Exponent(); known || a.ID() != id {
			t.Errorf("%s: %v, known %v", id, a, known)
		}
	}
	for _, id := range []string{
		"", "US", "USDT", "usd", "BTC", "XAU", "XXX", "XTS", "U D", "USD ", " USD",
		"eip155:1", "/", "eip155/slip44:60",
		"eip155:1/slip44", "eip155:/slip44:60", "EIP155:1/slip44:60", "eip155:1/slip44:60/",
		"eip155:1/erc20:0x\"", "e:1/slip44:60",
		"eip155:1/erc20:" + strings.Repeat("a", 129),
		"eip155:1/slip44:60/1/2", "eip155:1/sl p44:60", "ＵＳＤ",
	} {
		if a, err := ParseAsset(id); err == nil {
			t.Errorf("ParseAsset(%q) = %v", id, a)
		} else if field(t, err) != "asset" {
			t.Errorf("ParseAsset(%q): %v", id, err)
		}
	}
	mixed := asset(t, "eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7")
	if mixed != asset(t, usdt) {
		t.Errorf("one contract in two cases is two assets: %s", mixed)
	}
	if asset(t, "solana:x/token:AbC") == asset(t, "solana:x/token:abc") {
		t.Error("addresses that differ by case are one asset")
	}
}

func TestISOTableIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, group := range []string{iso0, iso2, iso3, iso4} {
		for code := range strings.FieldsSeq(group) {
			if seen[code] || len(code) != 3 || strings.Trim(code, upper) != "" {
				t.Errorf("%q is twice in the table or no code", code)
			}
			seen[code] = true
			if !strings.Contains(group, " "+code+" ") {
				t.Errorf("%s is not surrounded by spaces", code)
			}
		}
	}
	if len(seen) != 171 {
		t.Errorf("the table has %d codes", len(seen))
	}
}

func TestRegistry(t *testing.T) {
	six, err := NewAsset(usdt, 6)
	if err != nil {
		t.Fatal(err)
	}
	var none Assets
	if _, err := none.Lookup(usdt); err == nil {
		t.Error("a token that nobody described was found")
	}
	set, err := none.With(six)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Lookup(usdt); err == nil {
		t.Error("With changed the set it started from")
	}
	m, err := set.Parse("2.5", "eip155:1/erc20:0xDAC17F958D2EE523A2206206994597C13D831EC7")
	if err != nil || m.Text() != "2.500000" {
		t.Errorf("parsed %s, %v", m, err)
	}
	if m, err := set.Parse("2.5", "USD"); err != nil || m.String() != "2.50 USD" {
		t.Errorf("parsed %s, %v", m, err)
	}
	if m, err := set.Resolve(amount(t, "1.5", usdt)); err != nil || m.Text() != "1.500000" {
		t.Errorf("resolved %s, %v", m, err)
	}
	if _, err := set.Resolve(amount(t, "1.0000000", usdt)); err == nil {
		t.Error("a seventh digit was dropped")
	}
	if _, err := set.Resolve(Amount{}); err == nil {
		t.Error("no amount was resolved")
	}
	eight, _ := NewAsset(usdt, 8)
	if _, err := set.With(eight); err == nil {
		t.Error("one asset got two exponents")
	}
	if _, err := set.With(asset(t, usdt)); err == nil {
		t.Error("an asset without an exponent was taken")
	}
	for _, c := range []struct {
		id  string
		exp int
	}{{"USD", 3}, {ether, 8}, {usdt, -1}, {usdt, 37}, {"FOO", 2}} {
		if a, err := NewAsset(c.id, c.exp); err == nil {
			t.Errorf("NewAsset(%s, %d) = %v", c.id, c.exp, a)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range append([]string{"12.34", "0", "0.5", "-1.20", "1000000", "0.00000001"}, refused...) {
		f.Add(s)
	}
	six, _ := NewAsset(usdt, 6)
	usd, _ := ParseAsset("USD")
	free, _ := ParseAsset(usdt)
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range []Asset{six, usd, free} {
			m, err := ParseSigned(text, a)
			if err != nil {
				if m.IsSet() {
					t.Fatalf("%q: both %s and %v", text, m, err)
				}
				continue
			}
			// Canonical: what was read is what is printed, but for zeros at the end.
			short := m.Text()
			if exp, known := a.Exponent(); known && short != text {
				whole, frac, _ := strings.Cut(text, ".")
				if short != whole+"."+frac+strings.Repeat("0", exp-len(frac)) {
					t.Fatalf("%q is printed as %q", text, short)
				}
			} else if short != text {
				t.Fatalf("%q is printed as %q", text, short)
			}
			again, err := ParseSigned(m.Text(), a)
			if err != nil || !again.Equal(m) || again.Text() != m.Text() {
				t.Fatalf("%q: %s came back as %s, %v", text, m, again, err)
			}
			want, ok := new(big.Rat).SetString(text)
			if !ok || want.Cmp(m.Decimal().Rat()) != 0 {
				t.Fatalf("%q has the value %s", text, m.Decimal().Rat())
			}
			b, err := Signed{m}.MarshalJSON()
			var back Signed
			if err != nil || json.Unmarshal(b, &back) != nil || !back.Equal(m) {
				t.Fatalf("%q: JSON %s, %v came back as %s", text, b, err, back)
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"amount":"12.34","asset":"USD"}`))
	f.Add([]byte(`{"asset":"eip155:1/erc20:0xAB","amount":"0.10"}`))
	f.Add([]byte(`{"amount":12.34,"asset":"USD"}`))
	f.Add([]byte(`{"amount":"1","amount":"2","asset":"USD"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Amount
		if err := m.UnmarshalJSON(b); err != nil {
			if m.IsSet() {
				t.Fatalf("%q: both %s and %v", b, m, err)
			}
			return
		}
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("%q became %s, which cannot be written: %v", b, m, err)
		}
		var back Amount
		if err := json.Unmarshal(out, &back); err != nil || back.String() != m.String() || m.Sign() < 0 {
			t.Fatalf("%q became %s and then %s, %v", b, m, back, err)
		}
	})
}

func FuzzAsset(f *testing.F) {
	for _, id := range []string{"USD", bitcoin, ether, usdt, "eip155:1/erc721:0xAB/7", "a/b", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		a, err := ParseAsset(id)
		if err != nil {
			return
		}
		if again, err := ParseAsset(a.ID()); err != nil || again != a {
			t.Fatalf("%q became %v and then %v, %v", id, a, again, err)
		}
		if strings.ContainsAny(a.ID(), "\" \\<>&") {
			t.Fatalf("%q can break a text it is printed into", a.ID())
		}
	})
}
