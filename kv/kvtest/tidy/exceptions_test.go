package tidy

// exception lets one place break one rule.
type exception struct {
	rule string // the rule's name
	file string // the file (for the rule "deps" the package) in which it is broken
	name string // what breaks it: a function, a type, an import; empty for the file itself
	why  string // why it is right all the same
}

// exceptions is the whole list. One that no longer applies fails the test.
var exceptions = []exception{
	{"error-receivers", "saga/definition/problem.go", "Problems.Error",
		"it is a list that is returned as such, too; errors.As finds it by value"},
}
