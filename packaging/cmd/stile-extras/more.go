package main

// part is a part of a man page that no --help has.
type part struct {
	title string
	items []item
}

type item struct{ name, text string }

// more are the parts of the page of a program, by its name.
var more = map[string][]part{
	"stiled": {
		{"EXIT STATUS", []item{
			{"0", "It was asked to end, and did; or it printed what was asked for."},
			{"1", "It could not start or go on, or it was made to end before it had stopped. The log says why. It may help to start it again."},
			{"2", "The settings are wrong; stderr says which, and what to do. To start it again does not help."},
		}},
		{"SIGNALS", []item{
			{"SIGTERM, SIGINT", "Hand the role over, answer everybody who waits, and end. A second one, more than 0.1 s later, ends it at once."},
			{"SIGHUP", "Read secrets, certificates and authorities anew. Nobody is disconnected. A file that can't be used is logged, and the one before stays in force. Settings are read at the start only."},
		}},
		{"FILES", []item{
			{"/etc/stile/stiled.yaml", "The settings of the service that packages have, with comments on what to do for a cluster, for TLS, and for a new secret."},
			{"/etc/stile/secrets", "Secrets and certificates of the service, for root and the group stile."},
			{"/var/lib/stile", "The state directory of the service. The file epoch in it keeps tokens rising over restarts."},
		}},
	},
	"stile-conformance": {
		{"EXIT STATUS", []item{
			{"0", "The target is conformant; of verify: the certificate is in order and certifies a profile."},
			{"1", "It is not."},
			{"2", "That could not be judged: wrong usage, or nobody answered."},
		}},
	},
}

// also are the pages to read beside that of a program.
var also = map[string]string{
	"stiled":            "stile(1), stile-conformance(1)",
	"stile-conformance": "stiled(1), stile(1)",
}
