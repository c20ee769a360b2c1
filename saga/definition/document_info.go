package definition

// Input returns the declared fields of the input and their types as they are written,
// such as "decimal" or "string?"; nil when the document declares none.
func (d *Document) Input() map[string]string {
	if d.input == nil || d.input.fields == nil {
		return nil
	}
	out := make(map[string]string, len(d.input.fields))
	for name, t := range d.input.fields {
		out[name] = t.declared()
	}
	return out
}

// declared is the type as a declaration of an input has it.
func (t *typ) declared() string {
	for _, name := range sortedKeys(inputTypes) {
		if k := inputTypes[name]; k.kind == t.kind && k.whole == t.whole && k.amount == t.amount {
			if t.maybe {
				name += "?"
			}
			return name
		}
	}
	return "any"
}

// UsesCallback reports that a call of the document has a callback_url in it.
func (d *Document) UsesCallback() bool { return d.notifies }
