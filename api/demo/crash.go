package demo

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"onced/api/demo/book"
	"onced/api/demo/callee"
)

// The points at which the service can be killed that are its own: it stops there and
// says so. The others are calls that the services have in their hands, see package
// callee.
const (
	beforeIntent   = "before-intent"
	afterOutcome   = "after-outcome"
	beforeCallback = "before-callback"
	afterCallback  = "after-callback"
)

// childPoints are the points in the child.
var childPoints = []string{beforeIntent, afterOutcome, beforeCallback, afterCallback}

// Points of calls that the code names.
const (
	afterCharge  = callee.After + string(book.Charge)
	beforeCharge = callee.Before + string(book.Charge)
	afterAccept  = callee.After + callee.AcceptPoint
	afterUndo    = callee.After + callee.UndoPoint
	beforeUndo   = callee.Before + callee.UndoPoint
)

// crashPoints in the order in which they are armed when nobody names one: the
// most instructive first.
var crashPoints = []string{afterCharge, beforeCharge, afterOutcome, afterCallback, afterUndo, beforeIntent,
	afterAccept, "after-loyalty", "before-order", beforeCallback, "after-order", beforeUndo, "before-loyalty",
	"after-voucher", "before-voucher"}

// barePoints are those that need no service: there the call of the shop is cut off.
var barePoints = []string{afterAccept, "before-charge", "after-loyalty", "after-voucher", "after-order"}

// pointMeanings say in plain words what the crash will be like.
var pointMeanings = map[string]string{
	beforeIntent:     "just before writing down anything about an order",
	afterOutcome:     "just after writing down how an order ended, before answering the shop",
	beforeCallback:   "just before writing down a callback",
	afterCallback:    "just after writing down a callback, before acknowledging it",
	beforeCharge:     "just after writing down the intent to charge, with the call to the gateway lost",
	afterAccept:      "just after the gateway took a charge on, before learning of that",
	afterCharge:      "just after a charge of the gateway, before learning of it",
	beforeUndo:       "just after writing down the intent to undo a step, with the call lost",
	afterUndo:        "just after a step was undone, before learning of it",
	"before-loyalty": "just after writing down the intent to spend points, with the call lost",
	"after-loyalty":  "just after points were spent, before learning of it",
	"before-voucher": "just after writing down the intent to redeem a voucher, with the call lost",
	"after-voucher":  "just after a voucher was redeemed, before learning of it",
	"before-order":   "just after writing down the intent to make the order, with the call lost",
	"after-order":    "just after the order was made, before learning of it",
}

// bareMeanings are the same without the service.
var bareMeanings = map[string]string{
	beforeCharge:    "just before the gateway charges",
	afterAccept:     "just after the gateway has taken a charge on, before its answer",
	"after-loyalty": "just after points were spent, before the answer",
	"after-voucher": "just after a voucher was redeemed, before the answer",
	"after-order":   "just after the order was made, before the answer",
}

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
