package cli

// exitHelp documents the exit codes.
const exitHelp = `
Exit codes:
  0  it is done
  1  it failed
  2  the command line or the configuration is wrong
  3  the store is in use by another process, or a newer version wrote it
  4  a check found problems
A supervisor should not restart after 2 and 3.`

// root is the table of all commands.
func root() *command {
	return &command{
		name: "onced", summary: "makes money movement happen exactly once", help: exitHelp,
		sub: []*command{
			{
				name: "serve", summary: "run the service", run: serve,
				flags: func(f *flags) { f.addConfig() },
				help: "Without any configuration it listens on 127.0.0.1:8080 and keeps its data in\n" +
					"./onced-data. SIGHUP reads the configuration again. SIGTERM and SIGINT drain and\n" +
					"stop, a second one stops at once.\n" +
					exitHelp,
			},
			{
				name: "config", summary: "write, check and show the configuration",
				sub: []*command{
					{
						name: "init", args: "[FILE]", most: 1,
						summary: "write a file with every key, its meaning and default",
						help:    "FILE is onced.yaml when it is not given; - is stdout.",
						flags:   func(f *flags) { f.Bool("force", false, "replace a file that exists") },
						run:     configInit,
					},
					{
						name: "check", summary: "check the configuration and tell all problems at once",
						flags: func(f *flags) { f.addConfig() }, run: configCheck,
					},
					{
						name: "show", summary: "show every value and where it comes from; secrets are ***",
						flags: func(f *flags) { f.addConfig(); f.addOutput() }, run: configShow,
					},
				},
			},
			demoCommand(),
			tokenCommands(),
			claimCommands(),
			sagaCommands(),
			{
				name: "healthcheck", summary: "ask a running onced whether it can take work",
				help: "For the health command of a container. Exit code 0 means yes, 1 no.",
				flags: func(f *flags) {
					f.addConfig()
					f.String("url", "", "its base `URL`; by default that of the configuration")
					f.Bool("live", false, "ask only whether the process answers")
				}, run: healthcheck,
			},
			{
				name: "version", summary: "print the version", flags: func(f *flags) { f.addOutput() },
				run: printVersion,
			},
			{
				name: "completion", args: "bash|zsh|fish", least: 1, most: 1, words: shells,
				summary: "print a script that completes commands in your shell", run: completion,
				help: "bash:  source <(onced completion bash)\n" +
					"zsh:   source <(onced completion zsh)\n" +
					"fish:  onced completion fish | source",
			},
			demoServiceCommand(),
			{name: "__complete", hidden: true, most: 1000, summary: "answer the completion scripts",
				run: complete},
		},
	}
}
