package money

import (
	"fmt"
	"maps"
	"strings"
)

// MaxFractionDigits is the largest exponent of an asset and the most digits
// behind the point.
const MaxFractionDigits = 36

// Asset is what an amount is of: a currency of ISO 4217 such as "USD", or a
// CAIP-19 identifier such as "eip155:1/erc20:0xdac17f958d2ee523a2206206994597c13d831ec7".
// Assets are comparable; the zero Asset is none.
type Asset struct {
	id     string
	digits int8 // exponent+1, or 0 when it is not known
}

// ID is the identifier in its canonical form. Addresses of EVM chains are in
// lower case.
func (a Asset) ID() string { return a.id }

// Exponent is the number of digits behind the point; known is false for a
// CAIP-19 identifier whose exponent nobody gave.
func (a Asset) Exponent() (digits int, known bool) { return int(a.digits) - 1, a.digits > 0 }

// String is the identifier.
func (a Asset) String() string { return a.id }

// NewAsset describes an asset by its CAIP-19 identifier and its exponent: 6 for
// most dollar tokens, 18 for most others. Currencies of ISO 4217 have the
// exponent of the standard, and no other is taken.
func NewAsset(id string, exponent int) (Asset, error) {
	if exponent < 0 || exponent > MaxFractionDigits {
		return Asset{}, &Error{Field: "exponent", Value: fmt.Sprint(exponent),
			Problem: fmt.Sprintf("is not from 0 to %d", MaxFractionDigits),
			Remedy:  "give the number of digits behind the point"}
	}
	a, err := ParseAsset(id)
	if err != nil {
		return Asset{}, err
	}
	if known, ok := a.Exponent(); ok && known != exponent {
		return Asset{}, &Error{Field: "exponent", Value: fmt.Sprint(exponent),
			Problem: fmt.Sprintf("is not that of %s, which is %d", a.id, known), Remedy: "leave it as it is"}
	}
	a.digits = int8(exponent + 1)
	return a, nil
}

// maxAssetID is above what the grammar of CAIP-19 allows.
const maxAssetID = 300

const remedyAsset = "use a code of ISO 4217 such as USD, or a CAIP-19 identifier such as eip155:1/slip44:60"

// ParseAsset reads an identifier. The exponent is known for currencies of ISO
// 4217, bitcoin and its closest relatives (test networks, Litecoin, Dogecoin, Dash,
// Bitcoin Cash), and the native coin of EVM chains.
func ParseAsset(id string) (Asset, error) {
	if exp, ok := currencyExponent(id); ok {
		return Asset{id: id, digits: int8(exp + 1)}, nil
	}
	if len(id) > maxAssetID {
		return Asset{}, &Error{Field: "asset", Value: id,
			Problem: fmt.Sprintf("is longer than %d characters", maxAssetID), Remedy: remedyAsset}
	}
	if !strings.Contains(id, "/") {
		remedy := remedyAsset
		if _, ok := currencyExponent(strings.ToUpper(id)); ok {
			remedy = "write it in capitals"
		}
		return Asset{}, &Error{Field: "asset", Value: id, Problem: "is not a known currency", Remedy: remedy}
	}
	return parseCAIP19(id)
}

// parseCAIP19 reads chain_namespace:chain_reference/asset_namespace:asset_reference
// with an optional /token_id.
func parseCAIP19(id string) (Asset, error) {
	bad := func(problem string) (Asset, error) {
		return Asset{}, &Error{Field: "asset", Value: id, Problem: problem,
			Remedy: "write it as namespace:chain/namespace:reference, for example eip155:1/slip44:60"}
	}
	chain, rest, _ := strings.Cut(id, "/")
	asset, token, hasToken := strings.Cut(rest, "/")
	chainSpace, chainRef, ok1 := strings.Cut(chain, ":")
	assetSpace, assetRef, ok2 := strings.Cut(asset, ":")
	switch {
	case !ok1 || !ok2:
		return bad("has a part without a colon")
	case !made(chainSpace, 3, 8, lower+digit+"-") || !made(chainRef, 1, 32, lower+upper+digit+"-_"):
		return bad("has a chain that is not CAIP-2")
	case !made(assetSpace, 3, 8, lower+digit+"-") || !made(assetRef, 1, 128, lower+upper+digit+"-.%"):
		return bad("has an asset name that is not CAIP-19")
	case hasToken && !made(token, 1, 78, lower+upper+digit+"-.%"):
		return bad("has a token id that is not CAIP-19")
	}
	a := Asset{id: id}
	if chainSpace == "eip155" {
		a.id = chain + "/" + assetSpace + ":" + strings.ToLower(assetRef)
		if hasToken {
			a.id += "/" + token
		}
	}
	switch {
	case hasToken || assetSpace != "slip44":
	case chainSpace == "eip155":
		a.digits = 18 + 1 // the unit of account of every EVM chain is the wei
	case chainSpace == "bip122" && satoshis[assetRef]:
		a.digits = 8 + 1
	}
	return a, nil
}

// satoshis has the coins of SLIP-44 that are counted in 1/100,000,000: bitcoin, all
// test networks, Litecoin, Dogecoin, Dash and Bitcoin Cash. Other descendants of
// bitcoin count otherwise, some of them.
var satoshis = map[string]bool{"0": true, "1": true, "2": true, "3": true, "5": true, "145": true}

const (
	lower = "abcdefghijklmnopqrstuvwxyz"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digit = "0123456789"
)

func made(s string, least, most int, of string) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, of) == ""
}

// Assets is the set of assets a program knows. The zero Assets knows what
// [ParseAsset] knows the exponent of. It is an immutable value.
type Assets struct {
	known map[string]Asset
}

// With returns a set that also knows the given assets. One identifier has one
// exponent: giving it twice with different ones is an error.
func (s Assets) With(assets ...Asset) (Assets, error) {
	out := Assets{known: maps.Clone(s.known)}
	if out.known == nil {
		out.known = make(map[string]Asset, len(assets))
	}
	for _, a := range assets {
		if _, ok := a.Exponent(); !ok {
			return s, &Error{Field: "asset", Value: a.id, Problem: "has no exponent",
				Remedy: "make it with NewAsset"}
		}
		if old, ok := out.known[a.id]; ok && old != a {
			return s, &Error{Field: "asset", Value: a.id, Problem: "is known with another exponent",
				Remedy: "give each asset once"}
		}
		out.known[a.id] = a
	}
	return out, nil
}

// Lookup finds an asset by its identifier; one without a known exponent is an
// error.
func (s Assets) Lookup(id string) (Asset, error) {
	a, err := ParseAsset(id)
	if err != nil {
		return Asset{}, err
	}
	if known, ok := s.known[a.id]; ok {
		return known, nil
	}
	if _, ok := a.Exponent(); !ok {
		return Asset{}, &Error{Field: "asset", Value: id, Problem: "is not configured",
			Remedy: "add it with its number of digits behind the point"}
	}
	return a, nil
}

// Parse reads an amount of zero or more of an asset of the set.
func (s Assets) Parse(amount, id string) (Amount, error) {
	a, err := s.Lookup(id)
	if err != nil {
		return Amount{}, err
	}
	return Parse(amount, a)
}

// Resolve gives an amount, for example one read from JSON, the exponent that the
// set knows for its asset.
func (s Assets) Resolve(m Amount) (Amount, error) {
	if !m.IsSet() {
		return Amount{}, errUnset
	}
	a, err := s.Lookup(m.asset.id)
	if err != nil {
		return Amount{}, err
	}
	return m.as(a)
}
