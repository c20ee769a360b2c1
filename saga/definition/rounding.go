package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/expr-lang/expr/ast"
)

// maxPlaces is the most digits behind the point that round and div give.
const maxPlaces = 20

// rounders are the functions whose last value says how many digits stand behind the
// point: round(x, 2) and div(x, y, 2). It is written down, so that it is known to be
// good. A half is rounded up, away from zero: 0.125 is 0.13, and -0.125 is -0.13.
var rounders = map[string]int{"round": 2, "div": 3}

func (c *compiler) rounder(n ast.Node, name string, args []ast.Node) (evalFunc, *typ) {
	form := map[string]string{"round": "round(x, 2)", "div": "div(x, y, 2)"}[name]
	if len(args) != rounders[name] {
		return c.fail(n, "%s takes %d values, here are %d: write %s, the last is how many digits stand "+
			"behind the point", name, rounders[name], len(args), form)
	}
	last := args[len(args)-1]
	places, ok := last.(*ast.IntegerNode)
	if !ok || places.Value < 0 || places.Value > maxPlaces {
		return c.fail(last, "%s takes how many digits stand behind the point as a number from 0 to %d that "+
			"is written down: %s", name, maxPlaces, form)
	}
	evals, secret := make([]evalFunc, len(args)-1), false
	for i, a := range args[:len(args)-1] {
		var t *typ
		evals[i], t = c.node(a)
		if t.maybe || !t.is(numberKind) {
			return c.fail(a, "%s of %s; it takes a number%s", name, t.described(), amountHint(t, t))
		}
		secret = secret || t.secret
	}
	return func(s *scope) (any, error) {
		if err := s.spend(1); err != nil {
			return nil, err
		}
		x, err := evals[0](s)
		if err != nil {
			return nil, err
		}
		var y any = json.Number("1")
		if len(evals) > 1 {
			if y, err = evals[1](s); err != nil {
				return nil, err
			}
		}
		if err := s.spend(length(x, y) / 8); err != nil {
			return nil, err
		}
		return quotient(x, y, places.Value)
	}, numberType.with(false, secret)
}

// quotient is x/y with that many digits behind the point, a half away from zero.
func quotient(x, y any, places int) (any, error) {
	a, err := decimalOf(x)
	if err != nil {
		return nil, operandError("computes with", x, err)
	}
	b, err := decimalOf(y)
	if err != nil {
		return nil, operandError("computes with", y, err)
	}
	if b.unscaled.Sign() == 0 {
		return nil, errors.New("divides by zero")
	}
	m, n, _ := align(a, b)
	m = new(big.Int).Mul(m, pow10(places))
	q, rest := new(big.Int).QuoRem(m, n, new(big.Int))
	if rest.Lsh(rest, 1).CmpAbs(n) >= 0 {
		q.Add(q, big.NewInt(int64(m.Sign()*n.Sign())))
	}
	text := decimal{q, places}.String()
	if len(text) > maxDigits {
		return nil, fmt.Errorf("has a result of more than %s digits", strconv.Itoa(maxDigits))
	}
	_, p := x.(quoted)
	if _, q := y.(quoted); p || q {
		return quoted(text), nil
	}
	return json.Number(text), nil
}
