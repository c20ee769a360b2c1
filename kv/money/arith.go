package money

import (
	"fmt"
	"math/big"

	"github.com/shopspring/decimal"
)

// common is the asset that both amounts are of. An amount whose exponent is not
// known takes the other's.
func common(a, b Amount) (Asset, error) {
	switch {
	case !a.IsSet() || !b.IsSet():
		return Asset{}, errUnset
	case a.asset == b.asset:
		return a.asset, nil
	case a.asset.id == b.asset.id && a.asset.digits == 0:
		return b.asset, nil
	case a.asset.id == b.asset.id && b.asset.digits == 0:
		return a.asset, nil
	}
	return Asset{}, &MismatchError{A: a.asset, B: b.asset}
}

// Add is m + o. Other assets and results beyond the bound are errors.
func (m Amount) Add(o Amount) (Amount, error) {
	a, err := common(m, o)
	if err != nil {
		return Amount{}, err
	}
	return Amount{value: m.value.Add(o.value), asset: m.asset}.checked(a)
}

// Sub is m - o, which may be negative.
func (m Amount) Sub(o Amount) (Amount, error) { return m.Add(o.Neg()) }

func (m Amount) checked(a Asset) (Amount, error) {
	m, err := m.as(a)
	if err != nil {
		return Amount{}, err
	}
	return m, nil
}

// Neg is -m.
func (m Amount) Neg() Amount { return Amount{value: m.value.Neg(), asset: m.asset} }

// Cmp is -1, 0 or 1 as m is less than, equal to or greater than o. Amounts of
// different assets have no order.
func (m Amount) Cmp(o Amount) (int, error) {
	if _, err := common(m, o); err != nil {
		return 0, err
	}
	return m.value.Cmp(o.value), nil
}

// Equal reports that both are set, of one asset, and of the same value.
func (m Amount) Equal(o Amount) bool {
	c, err := m.Cmp(o)
	return err == nil && c == 0
}

// Rounding says what happens to what does not fit the digits.
type Rounding int

// The roundings. The zero Rounding never loses anything.
const (
	Exact    Rounding = iota // a remainder is an error
	Down                     // towards zero
	Up                       // away from zero
	HalfUp                   // to the nearest, halves away from zero
	HalfEven                 // to the nearest, halves to the even digit
)

// MulRatio is m * num / den in the digits of m, for fees and shares: 2.9 % is
// MulRatio(29, 1000, HalfUp).
func (m Amount) MulRatio(num, den int64, r Rounding) (Amount, error) {
	if !m.IsSet() {
		return Amount{}, errUnset
	}
	if den == 0 {
		return Amount{}, &Error{Field: "ratio", Problem: "divides by zero", Remedy: "give another divisor"}
	}
	n := new(big.Int).Mul(m.value.Coefficient(), big.NewInt(num))
	q, err := divide(n, big.NewInt(den), r)
	if err != nil {
		return Amount{}, err
	}
	return Amount{value: decimal.NewFromBigInt(q, m.value.Exponent()), asset: m.asset}.checked(m.asset)
}

func divide(n, d *big.Int, r Rounding) (*big.Int, error) {
	q, rem := new(big.Int).QuoRem(n, d, new(big.Int))
	if rem.Sign() == 0 {
		return q, nil
	}
	half := rem.Lsh(rem, 1).CmpAbs(d) // of twice the remainder to the divisor
	var away bool
	switch r {
	case Exact:
		return nil, &Error{Field: "ratio", Problem: "leaves a remainder", Remedy: "choose a rounding"}
	case Down:
	case Up:
		away = true
	case HalfUp:
		away = half >= 0
	case HalfEven:
		away = half > 0 || half == 0 && q.Bit(0) == 1
	default:
		return nil, &Error{Field: "rounding", Value: fmt.Sprint(int(r)), Problem: "is not known",
			Remedy: "use one of the package's"}
	}
	if away {
		q.Add(q, big.NewInt(int64(n.Sign()*d.Sign())))
	}
	return q, nil
}
