// Package config is the one place where settings come from: a YAML file, the
// environment and flags become one immutable [Config].
//
// # What is guaranteed
//
//   - A flag wins over an environment variable, that over the file, and that
//     over the default. [Loaded.Origins] knows where each value came from.
//   - Every key outside lists has an environment variable by rule: ONCED_ and
//     the path in capitals, so that http.max_body is ONCED_HTTP_MAX_BODY, and a
//     flag: --http.max_body. A secret x is also read from the file named by
//     x_file (ONCED_X_FILE), and inside lists from the variable named by x_env.
//     A secret has no flag of its own: arguments are seen by every process. Those of
//     the section secrets have names of their own; see [Secrets].
//   - Nothing is guessed. A key, or a variable that begins with ONCED_, which
//     nobody knows is an error, for a mistyped limit is a limit that is not
//     there. Variables such as ONCED_PORT and ONCED_SERVICE_HOST, which clusters
//     set for a service called onced, are passed over.
//   - A relative path in the file, and the default of data, is seen from the folder of
//     the file; one of a variable or a flag from the working directory.
//   - All problems are found in one go. Each names file, line, column, key,
//     value, what is allowed and what to do. No text shows a secret.
//   - [Load] gives out a whole Config or an error, never a part. [Merge] takes
//     over from a new Config what may change while the program runs.
//
// # What is not
//
// Values are taken as they are: there is no $ expansion, and no anchor, alias
// or merge key. Telemetry has no keys here: it follows the standard OTEL_*
// variables.
//
// # What survives a crash
//
// Nothing is written, so there is nothing to lose.
//
// # What the caller must do
//
// Treat a Config as read only, since a reload compares it with the next one.
//
// # Why this reader of YAML
//
// go.yaml.in/yaml/v4 is kept by the YAML organisation, has no dependencies and
// gives out nodes with line and column. The walk over the nodes is ours, since
// decoding into structs stops telling all problems with their paths.
package config
