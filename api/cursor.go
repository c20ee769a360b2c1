package api

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"

	"onced/api/problem"
	"onced/kv"
)

// cursorKeySize is the length of a key of [Deps.CursorKey] in bytes.
const cursorKeySize = 32

// secretRow is a secret of the store.
type secretRow struct {
	Key []byte `json:"key"`
}

var secretTable = kv.NewTable[secretRow]("api.secret", 1)

var cursorRow = kv.Key{}.String("cursor")

// CursorKey returns the store's key for [Deps.CursorKey], and makes one when there
// is none yet: with it cursors survive a restart. random makes it.
func CursorKey(ctx context.Context, store kv.Store, random io.Reader) ([]byte, error) {
	return storedKey(ctx, store, random, cursorRow)
}

// storedKey returns the secret of a row, and makes it when there is none yet.
func storedKey(ctx context.Context, store kv.Store, random io.Reader, row kv.Key) ([]byte, error) {
	made := make([]byte, cursorKeySize)
	if _, err := io.ReadFull(random, made); err != nil {
		return nil, fmt.Errorf("api: make a key: %w", err)
	}
	var key []byte
	find := func(rd kv.Reader) (found bool, err error) {
		r, found, err := secretTable.Get(rd, row)
		key = r.Key
		return found && len(key) == cursorKeySize, err
	}
	var ok bool
	err := store.View(ctx, func(rd kv.Reader) (err error) { ok, err = find(rd); return err })
	if err != nil || ok {
		return key, err
	}
	err = store.Update(ctx, func(w kv.Writer) error {
		if ok, err := find(w); err != nil || ok {
			return err
		}
		if err := secretTable.Put(w, row, secretRow{Key: made}); err != nil {
			return err
		}
		key = made
		return nil
	})
	return key, err
}

// cursors seals positions of listings. A position names the row after which to go
// on, and that may be a row of somebody else: who holds the cursor can neither
// read nor change it.
type cursors struct {
	aead cipher.AEAD
	rand io.Reader
}

func newCursors(key []byte, random io.Reader) (*cursors, error) {
	if key == nil {
		key = make([]byte, cursorKeySize)
		if _, err := io.ReadFull(random, key); err != nil {
			return nil, fmt.Errorf("api: make the key of cursors: %w", err)
		}
	}
	block, err := aes.NewCipher(key)
	if err != nil || len(key) != cursorKeySize {
		return nil, fmt.Errorf("api: the key of cursors has %d bytes; use one of CursorKey", len(key))
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("api: cursors: %w", err)
	}
	return &cursors{aead: aead, rand: random}, nil
}

// cursorBlock is what the length of a sealed position is a multiple of, in bytes,
// so that it tells little of the row that it names.
const cursorBlock = 256

// seal returns the cursor of a position in the listing that filter stands for.
func (c *cursors) seal(position, filter string) (string, error) {
	plain := binary.AppendUvarint(nil, uint64(len(position)))
	plain = append(plain, position...)
	plain = append(plain, make([]byte, (cursorBlock-len(plain)%cursorBlock)%cursorBlock)...)
	nonce := make([]byte, c.aead.NonceSize())
	if _, err := io.ReadFull(c.rand, nonce); err != nil {
		return "", fmt.Errorf("api: seal a cursor: %w", err)
	}
	return idEncoding.EncodeToString(c.aead.Seal(nonce, nonce, plain, []byte(filter))), nil
}

// open refuses what we did not make, and the cursor of another listing, which
// would skip in silence. No cursor is the position "".
func (c *cursors) open(text, filter string) (string, error) {
	if text == "" {
		return "", nil
	}
	bad := problem.New(problem.InvalidCursor, "").At("cursor")
	b, err := idEncoding.DecodeString(text)
	if err != nil || len(b) < c.aead.NonceSize() {
		return "", bad
	}
	nonce, sealed := b[:c.aead.NonceSize()], b[c.aead.NonceSize():]
	plain, err := c.aead.Open(nil, nonce, sealed, []byte(filter))
	if err != nil {
		return "", bad
	}
	n, used := binary.Uvarint(plain)
	if used <= 0 || n == 0 || n > uint64(len(plain)-used) {
		return "", bad
	}
	return string(plain[used : used+int(n)]), nil
}
