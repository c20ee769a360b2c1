// Package money is exact amounts of an asset: parsed from canonical decimal
// text, computed without loss, printed with exactly the asset's digits.
//
// # What is guaranteed
//
//   - No float is involved anywhere, and no digit is ever dropped: what does not
//     fit the asset's exponent is an error, and dividing asks for a rounding.
//   - One text per value: "12.34" and "0.5" are read; "012.34", "+5", ".5", "5.",
//     "1e3", "1_000", "-0", "0x10", "NaN" and digits of other scripts are not.
//   - Reading is bounded: length is checked before anything is computed, so
//     "1e999999" and a megabyte of nines cost nothing.
//   - Amounts of different assets do not mix.
//   - A negative amount is read only where the program asks for it
//     ([ParseSigned], [Signed]).
//
// # What is not
//
// The package converts no currency and knows no rates. It knows the exponents
// of ISO 4217 and of a few native coins; others are given by the program.
//
// # What the caller must do
//
// Keep amounts as Amount and never as numbers of a JSON text or of the
// language. The text and JSON codec of decimal.Decimal drops zeros and takes
// exponents; use this package's. Amounts and assets are values; they are
// immutable, safe for concurrent use, and nothing of them needs a store.
package money
