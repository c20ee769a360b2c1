package user

import "testing"

func TestTwice(t *testing.T) {
	if got := Twice(2); got != 4 {
		t.Errorf("got %d, want 4", got)
	}
}
