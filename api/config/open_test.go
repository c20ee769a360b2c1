package config

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOnlyFilesAreRead: a pipe that nobody writes to would hold up a start or a reload
// for ever; so would a device.
func TestOnlyFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, socket, file := filepath.Join(dir, "p"), filepath.Join(dir, "s"), filepath.Join(dir, "f")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "l")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, link, "/dev/zero"} {
		if _, err := readFile(name); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenFile(socket); err == nil {
		t.Error("a socket is opened")
	}
	for name, want := range map[string]string{file: "text", os.DevNull: ""} {
		f, err := OpenFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		_ = f.Close() // it was read
	}
	if _, err := readFile(dir); err == nil {
		t.Error("a folder is read")
	}
	_, err = Load(Source{File: pipe})
	if e, ok := errors.AsType[*Error](err); !ok || len(e.Problems) != 1 {
		t.Errorf("%v", err)
	}
}
