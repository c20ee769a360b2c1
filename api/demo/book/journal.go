package book

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Journal is an append-only file of JSON values, one a line. It is safe for
// concurrent use.
type Journal struct {
	file *os.File

	mu      sync.Mutex
	next    *batch // takes what comes while the one before it is written
	broken  error  // after a failed write nobody knows what the file holds
	writing sync.Mutex
}

// batch is written with one sync.
type batch struct {
	lines bytes.Buffer
	done  chan struct{}
	err   error
}

// OpenJournal opens or makes a journal and gives each of its lines to read. A
// last line without its end was never acknowledged and is cut off.
func OpenJournal(name string, read func(line []byte) error) (*Journal, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	end, err := readLines(f, read)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("demo: %s: %w", name, err), f.Close())
	}
	return &Journal{file: f}, nil
}

// readLines returns where the last whole line ends.
func readLines(f io.Reader, read func([]byte) error) (end int64, err error) {
	text, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		n++
		if err := read(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}
		end += int64(len(line))
	}
	return end, nil
}

// Append returns after v is on the disk. Whoever comes first writes for all who
// come while it waits, so many callers share one sync.
func (j *Journal) Append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	j.mu.Lock()
	b, first := j.next, j.next == nil
	if first {
		b = &batch{done: make(chan struct{})}
		j.next = b
	}
	b.lines.Write(line)
	b.lines.WriteByte('\n')
	j.mu.Unlock()
	if first {
		j.write(b)
	}
	<-b.done
	return b.err
}

func (j *Journal) write(b *batch) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	j.next = nil
	err := j.broken
	j.mu.Unlock()
	if err == nil {
		_, err = j.file.Write(b.lines.Bytes())
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.mu.Lock()
		j.broken = err
		j.mu.Unlock()
	}
	b.err = err
	close(b.done)
}

// Close ends the writing. What is appended later fails.
func (j *Journal) Close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.file.Close()
}
