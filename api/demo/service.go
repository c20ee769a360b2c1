package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"onced/api/demo/callee"
)

// The limits of supervision.
const (
	downWait  = 5 * time.Second  // how long a call waits for a child that is down
	stopWait  = 3 * time.Second  // how long a child may take to end
	startWait = 15 * time.Second // how long it may take to be ready
	tellWait  = 2 * time.Second  // how long it may take to read a line
	badStarts = 5                // in a row end the demo
)

// errDown means that the service did not come up in time.
var errDown = errors.New("demo: the service is being started again")

// errGone means that the service does not start, however often it is tried.
var errGone = errors.New("demo: the service does not start")

// service runs the child, and runs it again whenever it ends.
type service struct {
	command []string
	environ []string
	log     string                    // the file of the child's stderr
	armed   func() string             // the point that a child that has come up is told first
	at      func(point, order string) // the child has stopped at a point

	mu     sync.Mutex
	addr   string        // "" while it is down
	change chan struct{} // closed when addr, child or heard change
	child  *child
	failed bool // it does not start
	starts int
	told   int // the number of the last line to the child
	heard  int // the last one that it has read
}

// child is one process.
type child struct {
	process *os.Process
	stdin   io.WriteCloser
	ended   chan struct{}
}

func newService(command, environ []string, log string) *service {
	s := &service{command: command, log: log, change: make(chan struct{})}
	for _, pair := range environ {
		if !strings.HasPrefix(pair, "ONCED_") { // what is set for another service
			s.environ = append(s.environ, pair)
		}
	}
	return s
}

// run keeps a child running until ctx ends. It returns an error when the child
// does not come up.
func (s *service) run(ctx context.Context) error {
	// The child gets a signal when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bad := 0
	for ctx.Err() == nil {
		wasReady, err := s.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if wasReady {
			bad = 0
			continue
		}
		if bad++; bad == badStarts {
			s.fail()
			return fmt.Errorf("%w: %w\n%s", errGone, err, tail(s.log))
		}
		callee.Pause(ctx, time.Duration(bad)*100*time.Millisecond)
	}
	return nil
}

// once runs one child from its start to its end.
func (s *service) once(ctx context.Context) (wasReady bool, err error) {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...) //nolint:gosec // this program itself
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = s.environ, log, childAttr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	cmd.Cancel, cmd.WaitDelay = stdin.Close, stopWait // it ends with its stdin, or is made to
	if err := cmd.Start(); err != nil {
		return false, err
	}
	c := &child{process: cmd.Process, stdin: stdin, ended: make(chan struct{})}
	s.set(c, "")
	slow := time.AfterFunc(startWait, func() { _ = c.process.Kill() })
	defer slow.Stop()

	greeting, addr := 0, ""
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "ready":
			slow.Stop()
			wasReady = true
			addr, greeting = rest, s.say(s.armed())
		case "ok":
			if n := s.hear(rest); n == greeting && greeting > 0 {
				s.set(c, addr) // only now, so that what is armed counts from its first request on
			}
		case "at":
			point, order, _ := strings.Cut(rest, " ")
			s.at(point, order)
			_ = c.process.Kill()
		}
	}
	err = cmd.Wait()
	s.set(nil, "")
	close(c.ended)
	return wasReady, err
}

// set says which child there is, and where.
func (s *service) set(c *child, addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c != nil && addr != "" {
		s.starts++
	}
	s.child, s.addr = c, addr
	s.changed()
}

// fail says that no child will come.
func (s *service) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = true
	s.changed()
}

func (s *service) hasFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// kill ends the child with SIGKILL and returns when it has ended.
func (s *service) kill() {
	s.mu.Lock()
	c := s.child
	s.mu.Unlock()
	if c == nil {
		return
	}
	_ = c.process.Kill()
	<-c.ended
}

// say sends a point to the child, if there is one, and returns its number.
func (s *service) say(point string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told++
	if s.child != nil {
		_, _ = fmt.Fprintf(s.child.stdin, "%d %s\n", s.told, point)
	}
	return s.told
}

// hear notes that the child has read a line.
func (s *service) hear(number string) int {
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = max(s.heard, n)
	s.changed()
	return n
}

// tell sends a point to the child and waits until it has read it. One that is
// down learns what is armed when it comes up.
func (s *service) tell(point string) {
	n := s.say(point)
	t := time.NewTimer(tellWait)
	defer t.Stop()
	for {
		s.mu.Lock()
		done, change := s.heard >= n || s.child == nil || s.addr == "", s.change
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-change:
		case <-t.C:
			return
		}
	}
}

// changed wakes who waits. The caller holds mu.
func (s *service) changed() {
	close(s.change)
	s.change = make(chan struct{})
}

// address returns where the child is. While it is down, that waits a while.
func (s *service) address(ctx context.Context) (string, error) {
	t := time.NewTimer(downWait)
	defer t.Stop()
	for {
		s.mu.Lock()
		addr, failed, change := s.addr, s.failed, s.change
		s.mu.Unlock()
		if addr != "" {
			return addr, nil
		}
		if failed {
			return "", errGone
		}
		select {
		case <-change:
		case <-t.C:
			return "", errDown
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// status returns how often the child came up, and its process; 0 while it is down.
func (s *service) status() (starts, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil && s.addr != "" {
		pid = s.child.process.Pid
	}
	return s.starts, pid
}

// tail returns the end of a file, to explain a failure.
func tail(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	text = text[max(0, len(text)-600):]
	return fmt.Sprintf("%s ends with:\n%s", filepath.Base(name), strings.TrimSpace(string(text)))
}
