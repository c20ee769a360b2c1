package metrics

import _ "embed"

//go:embed alerts.yaml
var alerts string

// Alerts are rules for Prometheus, as a file of rules.
func Alerts() string { return alerts }
