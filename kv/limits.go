package kv

import (
	"fmt"
	"time"
)

// Limits of the interface, the same for every engine, chosen so that engines
// over a network can keep them too. Errors that report one print it.
const (
	// MaxKeySize is the longest key in bytes.
	MaxKeySize = 2048
	// MaxValueSize is the largest value in bytes.
	MaxValueSize = 16 << 20
	// MaxTableName is the longest table name in bytes.
	MaxTableName = 64
	// MaxTxWrites is the most rows one transaction may write.
	MaxTxWrites = 10_000
	// MaxTxBytes is the most bytes of keys and values one transaction may write.
	MaxTxBytes = 32 << 20
	// MaxScanRows is the most rows one scan yields.
	MaxScanRows = 10_000
	// MaxTxTime is how long one closure may keep its transaction open.
	MaxTxTime = 10 * time.Second
)

// CheckKey returns an error when t or key is outside the limits. Engines and
// wrappers call it; applications need not.
func CheckKey(t TableID, key []byte) error {
	if t == "" || len(t) > MaxTableName {
		return &LimitError{What: fmt.Sprintf("name of table %.80q", string(t)), Got: int64(len(t)),
			Limit: MaxTableName, Unit: "bytes", Remedy: "use a name of 1 to 64 bytes"}
	}
	if len(key) == 0 {
		return &LimitError{What: "empty key of table " + string(t), Limit: MaxKeySize, Unit: "bytes",
			Remedy: "a key has at least one byte"}
	}
	if len(key) > MaxKeySize {
		return &LimitError{What: "key of table " + string(t), Got: int64(len(key)), Limit: MaxKeySize,
			Unit: "bytes", Remedy: "shorten the parts of the key"}
	}
	return nil
}

// CheckValue returns an error when value is outside the limits.
func CheckValue(t TableID, value []byte) error {
	if len(value) > MaxValueSize {
		return &LimitError{What: "value in table " + string(t), Got: int64(len(value)), Limit: MaxValueSize,
			Unit: "bytes", Remedy: "store less, or store it elsewhere and keep a reference"}
	}
	return nil
}
