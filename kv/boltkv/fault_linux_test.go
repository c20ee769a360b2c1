package boltkv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/kvtest/system"
)

// linuxChildren are more children, see [children].
var linuxChildren = map[string]func(path string) error{
	"until error":          childUntilError,
	"full":                 childFull,
	"read-only":            childReadOnly,
	"idle":                 childIdle,
	"little address space": childLittleAddressSpace,
	"open":                 childOpen,
	"unreadable":           childUnreadable,
	"make":                 childMake,
	"claim":                childClaim,
	"keep listed":          func(path string) error { return childLeave(path, true) },
	"unlist":               func(path string) error { return childLeave(path, false) },
}

// Processes are killed at random moments while they write, again and again on
// the same file.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	random := rand.New(rand.NewPCG(1, 2))
	var acks []string
	for range 15 {
		c := startChild(t, "write", path)
		moment := 1 + random.IntN(150)
		var lines []string
		for len(lines) < moment && c.out.Scan() {
			lines = append(lines, c.out.Text())
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for c.out.Scan() { // what it said before it died
			lines = append(lines, c.out.Text())
		}
		if err := c.cmd.Wait(); err == nil || strings.Contains(fmt.Sprint(lines), "failed") {
			t.Fatalf("the child ended by itself: %v", lines)
		}
		acks = append(acks, acknowledged(lines)...)
		wantStorm(t, path, acks)
	}
	if len(acks) < 15 {
		t.Errorf("only %d transactions were acknowledged", len(acks))
	}
}

// childUntilError writes until the disk fails, on one thread, for which the
// calls are counted that are to fail. It prints what the store did wrong.
func childUntilError(path string) error {
	runtime.LockOSThread()
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		sayf("not opened: %v", err)
		return nil
	}
	defer s.Close()
	for n := range 400 { // the file grows twice in these
		id := fmt.Sprintf("1.1.%d", n)
		err := s.Update(context.Background(), func(w kv.Writer) error { return largeTx(w, id) })
		if err == nil {
			sayf("ack %s", id)
			continue
		}
		sayf("commit failed: %v", err)
		wantStopped(s, n, err)
		return nil
	}
	return errors.New("no error came")
}

// largeTx is stormTx in a file that grows faster.
func largeTx(w kv.Writer, id string) error {
	return errors.Join(stormTx(w, id), w.Put(churnTable, []byte("large "+id), make([]byte, 10_000)))
}

// wantStopped prints "wrong: …" for each way in which a store does not behave
// as it must after the commit of transaction n has failed with err.
func wantStopped(s *Store, n int, err error) {
	ctx := context.Background()
	read := func(id int) error {
		return s.View(ctx, func(r kv.Reader) error {
			v, err := r.Get(stormTable, fmt.Appendf(nil, "1.1.%d.0", id))
			if err == nil && v == nil {
				err = errors.New("is missing")
			}
			return err
		})
	}
	if !errors.Is(err, kv.ErrCommitUnknown) {
		sayf("wrong: the failed commit answers %v", err)
	}
	for i := range 20 { // the disk may work again meanwhile: it is not asked
		err := s.Update(ctx, func(w kv.Writer) error { return w.Put(testTable, []byte{byte(i)}, nil) })
		if !errors.Is(err, kv.ErrStopped) {
			sayf("wrong: a later write answers %v", err)
		}
	}
	if err := s.Healthy(); !errors.Is(err, kv.ErrStopped) {
		sayf("wrong: Healthy answers %v", err)
	}
	for i := range n {
		if err := read(i); err != nil {
			sayf("wrong: row %d, acknowledged: %v", i, err)
		}
	}
	if err := read(n); !errors.Is(err, kv.ErrCommitUnknown) {
		sayf("wrong: the row in doubt answers %v", err)
	}
}

// The disk fails once, or from then on, in each of the system calls of a
// commit. Some of the numbers fall into the opening of the store.
func TestXS08_NoWriteIsAcknowledgedAfterAnIOError(t *testing.T) {
	t.Parallel()
	system.Need(t, "strace")
	type fault struct {
		call, when string
	}
	var faults []fault
	for n := 4; n <= 13; n++ { // about four writes a commit
		faults = append(faults, fault{"pwrite64", fmt.Sprint(n)})
	}
	for n := 3; n <= 8; n++ { // two a commit: data, then the meta page
		faults = append(faults, fault{"fdatasync", fmt.Sprint(n)})
	}
	folders := strings.Count(t.TempDir(), "/") + 1 // each is synced once, and then the file as it grows
	faults = append(faults, fault{"pwrite64", "6+"}, fault{"fdatasync", "6+"}, fault{"fdatasync", "7+"},
		fault{"ftruncate", "2"}, fault{"fsync", fmt.Sprint(folders + 2)})
	results := make(chan bool, len(faults)) // whether a commit failed
	t.Run("faults", func(t *testing.T) {
		for _, f := range faults {
			t.Run(f.call+" "+f.when, func(t *testing.T) {
				t.Parallel()
				results <- failAt(t, f.call, f.when)
			})
		}
	})
	close(results)
	commits := 0
	for failed := range results {
		if failed {
			commits++
		}
	}
	if commits < 15 {
		t.Errorf("only %d of %d faults hit a commit", commits, len(faults))
	}
}

// failAt reports whether it was a commit, and not the opening, that failed.
func failAt(t *testing.T, call, when string) (commit bool) {
	path := filepath.Join(t.TempDir(), "s.db")
	c := startChild(t, "until error", path, "strace", "-f", "--seccomp-bpf", "-qq", "-o", path+".trace",
		"-e", "trace="+call, "-e", "inject="+call+":error=EIO:when="+when)
	lines := c.rest()
	for _, l := range lines {
		if strings.HasPrefix(l, "wrong: ") {
			t.Error(l)
		}
		commit = commit || strings.HasPrefix(l, "commit failed: ")
	}
	if trace, _ := os.ReadFile(path + ".trace"); !strings.Contains(string(trace), "(INJECTED)") {
		t.Errorf("no fault was injected: %s", lines)
	}
	wantStorm(t, path, acknowledged(lines))
	return commit
}

// childFull is run with a small file system of its own at dir: it fills up.
func childFull(dir string) error {
	ctx := context.Background()
	path := filepath.Join(dir, "s.db")
	s, err := Open(ctx, path, &Options{MinFree: -1})
	if err != nil {
		return err
	}
	n := 0
	for ; err == nil; n++ {
		if n == 4000 {
			return errors.New("no error came")
		}
		err = s.Update(ctx, func(w kv.Writer) error { return largeTx(w, fmt.Sprintf("1.1.%d", n)) })
		if err == nil {
			sayf("ack 1.1.%d", n)
		}
	}
	if !errors.Is(err, syscall.ENOSPC) && !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		sayf("wrong: the disk is full, and the error says %v", err)
	}
	wantStopped(s, n-1, err)
	if err := s.Close(); err != nil {
		sayf("wrong: Close answers %v", err)
	}
	return copyOut(path, os.Getenv("ONCED_TEST_COPY"))
}

func copyOut(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// ownMounts is a command that runs another with mounts of its own, after a
// shell command about the folder $2, which is the other's path.
func ownMounts(command string) []string {
	return []string{"unshare", "-m", "sh", "-ec", command + `; exec "$0" "$1" "$2"`}
}

func TestXS08_NoWriteIsAcknowledgedAfterTheDiskIsFull(t *testing.T) {
	t.Parallel()
	system.NeedRoot(t, "unshare", "mount")
	outside := filepath.Join(t.TempDir(), "s.db")
	for _, size := range []string{"3m", "5m"} { // the file grows by steps of 1 MiB, sparse here
		t.Run(size, func(t *testing.T) {
			wrap := append([]string{"env", "ONCED_TEST_COPY=" + outside},
				ownMounts(`mount -t tmpfs -o size=`+size+` none "$2"`)...)
			lines := startChild(t, "full", t.TempDir(), wrap...).rest()
			for _, l := range lines {
				if !strings.HasPrefix(l, "ack ") {
					t.Error(l)
				}
			}
			acks := acknowledged(lines)
			if len(acks) < 50 {
				t.Errorf("only %d transactions until the disk was full", len(acks))
			}
			wantStorm(t, outside, acks) // as after a restart with room again
		})
	}
}

// childReadOnly tries to open a store, and to make one, where nothing can be
// written.
func childReadOnly(dir string) error {
	for _, name := range []string{"s.db", "new.db", "folder/new.db"} {
		_, err := Open(context.Background(), filepath.Join(dir, name), nil)
		sayf("%s: %v", name, err)
	}
	return nil
}

func TestAReadOnlyFolderIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	system.NeedRoot(t, "unshare", "mount")
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	closeStore(t, s)
	dir := filepath.Dir(s.Path())
	before, _ := os.ReadFile(s.Path())
	lines := startChild(t, "read-only", dir,
		ownMounts(`mount --bind "$2" "$2"; mount -o remount,ro,bind "$2"`)...).rest()
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for _, l := range lines {
		if !strings.Contains(l, dir) || !strings.Contains(l, "read-only file system") ||
			!strings.Contains(l, "use another data folder") {
			t.Errorf("the error is not helpful: %s", l)
		}
	}
	if after, _ := os.ReadFile(s.Path()); string(after) != string(before) {
		t.Error("the file was changed")
	}
}

// childIdle does nothing for a moment with an open store.
func childIdle(path string) error {
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	if err := small(s, 3); err != nil {
		return err
	}
	sayf("idle")
	<-time.After(500 * time.Millisecond) // there is no event: nothing is to happen
	sayf("busy")
	return errors.Join(small(s, 1), s.Close())
}

func TestAnIdleStoreWritesNothing(t *testing.T) {
	t.Parallel()
	system.Need(t, "strace")
	path := filepath.Join(t.TempDir(), "s.db")
	startChild(t, "idle", path, "strace", "-f", "--seccomp-bpf", "-qq", "-o", path+".trace",
		"-e", "trace=write,pwrite64,writev,pwritev,fsync,fdatasync,msync,ftruncate,fallocate").rest()
	b, err := os.ReadFile(path + ".trace")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), `"idle\n"`)
	idle, after, ok2 := strings.Cut(rest, `"busy\n"`)
	if !ok || !ok2 || !strings.Contains(before, "fdatasync(") || !strings.Contains(after, "fdatasync(") {
		t.Fatalf("the trace is not as expected:\n%s", b)
	}
	for _, call := range []string{"pwrite", "sync(", "truncate(", "fallocate("} {
		if strings.Contains(idle, call) {
			t.Errorf("the idle store wrote:\n%s", idle)
		}
	}
}

// childLittleAddressSpace opens a store where the map that is wanted does not
// fit, as under ulimit -v.
func childLittleAddressSpace(path string) error {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		return err
	}
	most := pages*uint64(os.Getpagesize()) + 6<<30
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	return errors.Join(small(s, 10), s.Close())
}

func TestOpenWithLittleAddressSpace(t *testing.T) {
	t.Parallel()
	system.Need(t) // a limit of the kernel
	path := filepath.Join(t.TempDir(), "s.db")
	startChild(t, "little address space", path).rest()
	s := openAt(t, path, Options{})
	wantSound(t, s)
	closeStore(t, s)
}
