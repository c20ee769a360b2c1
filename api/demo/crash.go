package demo

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// The points at which the service can be killed. The first and the last are in
// the child, which stops there and says so; the others are calls that the
// gateway has in its hands.
const (
	beforeIntent = "before-intent"
	beforeCharge = "before-charge"
	afterCharge  = "after-charge"
	afterOutcome = "after-outcome"
)

// crashPoints in the order in which they are armed when nobody names one: the
// most instructive first.
var crashPoints = []string{afterCharge, beforeCharge, afterOutcome, beforeIntent}

// barePoints are those that need no service: there the call of the shop is cut off.
var barePoints = []string{afterCharge, beforeCharge}

// pointMeanings say in plain words what the crash will be like.
var pointMeanings = map[string]string{
	beforeIntent: "just before writing down anything about an order",
	beforeCharge: "just after writing down an intent, with the call to the gateway lost",
	afterCharge:  "just after a charge of the gateway, before learning of it",
	afterOutcome: "just after writing down an outcome, before answering the shop",
}

// bareMeanings are the same without the service.
var bareMeanings = map[string]string{
	beforeCharge: "just before the gateway charges",
	afterCharge:  "just after the gateway has charged, before its answer",
}

// childPoints are the points in the child.
var childPoints = []string{beforeIntent, afterOutcome}

// crasher kills the service at the armed point, once. Without a service it cuts
// off the shop's call to the gateway.
type crasher struct {
	bare bool // there is no service
	// kill ends the child and returns when it has ended.
	kill func()
	// tell lets the child know which of its points is armed, and returns when it
	// does; one that is down learns it when it comes up.
	tell func(point string)
	// killed is told of each kill, and of the order whose call was at the point.
	killed func(point, order string)

	mu    sync.Mutex
	armed string
	turn  int
	count map[string]int
}

// point returns where the service will be killed, "" when it will not be.
func (c *crasher) point() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed
}

// points are where it can crash, the most instructive first.
func (c *crasher) points() []string {
	if c.bare {
		return barePoints
	}
	return crashPoints
}

// flip arms or disarms and returns the point that is armed then.
func (c *crasher) flip(to, at string) string {
	c.mu.Lock()
	on := to == "on" || to == "" && (c.armed == "" || at != "")
	switch {
	case !on:
		c.armed = ""
	case at != "":
		c.armed = at
	case c.armed == "":
		c.armed = c.points()[c.turn%len(c.points())]
		c.turn++
	}
	point := c.armed
	c.mu.Unlock()
	c.tell(c.childPoint())
	return point
}

// childPoint is the armed point when it is one of the child's.
func (c *crasher) childPoint() string {
	if point := c.point(); slices.Contains(childPoints, point) {
		return point
	}
	return ""
}

// take reports whether point is armed, and disarms it.
func (c *crasher) take(point string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed != point {
		return false
	}
	c.armed = ""
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[point]++
	return true
}

// pass kills the service when point is armed, and reports whether it did. The
// call for the order is at the point.
func (c *crasher) pass(point, order string) bool {
	if !c.take(point) {
		return false
	}
	c.killed(point, order)
	c.kill()
	return true
}

// counts returns the kills by point.
func (c *crasher) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[string]int{}
	maps.Copy(m, c.count)
	return m
}

func (c *crasher) meaning(point string) string {
	switch {
	case point == "" && c.bare:
		return "No call of the shop is cut off."
	case point == "":
		return "The service is left alone."
	case c.bare:
		return fmt.Sprintf("The shop's call will be cut off once, %s.", bareMeanings[point])
	}
	return fmt.Sprintf("The service will be killed once, %s; then it is started again.", pointMeanings[point])
}
