package definition

import (
	"encoding/json"
	"errors"
	"strconv"
)

// loops run a predicate over the items of a list.
var loops = map[string]func(s *scope, items []any, test evalFunc) (any, error){
	"filter": func(s *scope, items []any, test evalFunc) (any, error) {
		out := []any{}
		err := each(s, items, test, func(_ int, item any, yes bool) bool {
			if yes {
				out = append(out, item)
			}
			return true
		})
		return out, err
	},
	"map": func(s *scope, items []any, test evalFunc) (any, error) {
		out := make([]any, len(items))
		for i, item := range items {
			v, err := at(s, i, item, test)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, s.grow(16 * len(out))
	},
	"all": func(s *scope, items []any, t evalFunc) (any, error) {
		return counted(s, items, t, func(n int) bool { return n == len(items) })
	},
	"any": func(s *scope, items []any, t evalFunc) (any, error) {
		return counted(s, items, t, func(n int) bool { return n > 0 })
	},
	"none": func(s *scope, items []any, t evalFunc) (any, error) {
		return counted(s, items, t, func(n int) bool { return n == 0 })
	},
	"one": func(s *scope, items []any, t evalFunc) (any, error) {
		return counted(s, items, t, func(n int) bool { return n == 1 })
	},
	"count": func(s *scope, items []any, test evalFunc) (any, error) {
		n := 0
		err := each(s, items, test, func(_ int, _ any, yes bool) bool {
			if yes {
				n++
			}
			return true
		})
		return json.Number(strconv.Itoa(n)), err
	},
	"find": func(s *scope, items []any, test evalFunc) (any, error) {
		var found any
		err := each(s, items, test, func(_ int, item any, yes bool) bool {
			if yes {
				found = item
			}
			return !yes
		})
		return found, err
	},
}

// at computes the predicate for one item.
func at(s *scope, i int, item any, test evalFunc) (any, error) {
	if err := s.spend(1); err != nil {
		return nil, err
	}
	s.frames[len(s.frames)-1] = frame{item: item, index: i}
	return test(s)
}

var errNoCondition = errors.New("has a condition that is not true or false")

// each tells about every item whether the predicate holds, until next is false.
func each(s *scope, items []any, test evalFunc, next func(i int, item any, yes bool) bool) error {
	for i, item := range items {
		v, err := at(s, i, item, test)
		if err != nil {
			return err
		}
		yes, ok := v.(bool)
		if !ok {
			return errNoCondition
		}
		if !next(i, item, yes) {
			return nil
		}
	}
	return nil
}

func counted(s *scope, items []any, test evalFunc, ok func(n int) bool) (any, error) {
	n := 0
	err := each(s, items, test, func(_ int, _ any, yes bool) bool {
		if yes {
			n++
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return ok(n), nil
}
