package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// clean takes every STILE_… variable out of the environment of the test.
func clean(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "STILE_") {
			t.Setenv(name, value) // puts it back afterwards
			os.Unsetenv(name)
		}
	}
}

func parse(t *testing.T, args ...string) *Config {
	t.Helper()
	var out bytes.Buffer
	c, err := Parse(args, &out)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if out.Len() > 0 {
		t.Errorf("%q prints %q", args, &out)
	}
	return c
}

// refused fails the test unless the settings are refused with a message that
// has all the parts.
func refused(t *testing.T, args []string, parts ...string) {
	t.Helper()
	c, err := Parse(args, new(bytes.Buffer))
	if err == nil {
		t.Errorf("%q was accepted: %+v", args, c)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v: want %q in it", args, err, part)
		}
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stiled.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestDefaults(t *testing.T) {
	clean(t)
	got := parse(t)
	dir, err := filepath.Abs("stile-state")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Listen: "127.0.0.1:5625", Admin: "127.0.0.1:5626", StateDir: dir,
		DefaultLease: 30 * time.Second, MaxLease: 24 * time.Hour, ReattachGrace: time.Second,
		StopTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, HelloTimeout: time.Minute, HandshakeTimeout: 10 * time.Second,
		MaxWrongSecrets: 100,
		MaxConnections:  10_000, MaxWaiters: 1_000_000, MaxWaitersPerKey: 200_000, MaxUnanswered: 4096,
		Replication: "async", SyncTimeout: time.Second, Takeback: time.Second,
		Heartbeat: 200 * time.Millisecond, FailureTimeout: time.Second, BootGrace: time.Second,
		LogLevel: "info", LogFormat: "text",
		Self: -1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// settings has three values for each setting, and what the field then holds.
var settings = map[string][3]struct {
	set  string
	want any
}{
	"listen":                      {{"127.0.0.1:1", "127.0.0.1:1"}, {"127.0.0.2:0", "127.0.0.2:0"}, {"[::1]:3", "[::1]:3"}},
	"advertise":                   {{"a:1", "a:1"}, {"b.example:2", "b.example:2"}, {"[2001:db8::1]:3", "[2001:db8::1]:3"}},
	"admin":                       {{"127.0.0.1:1", "127.0.0.1:1"}, {"", ""}, {"localhost:3", "localhost:3"}},
	"state-dir":                   {{"/a", "/a"}, {"/b c", "/b c"}, {"/d/", "/d"}},
	"default-lease":               {{"1ms", time.Millisecond}, {"1m30s", 90 * time.Second}, {"24h", 24 * time.Hour}},
	"max-lease":                   {{"1m", time.Minute}, {"2h", 2 * time.Hour}, {"277777h46m39.999s", protocol.MaxSeconds}},
	"reattach-grace":              {{"1ms", time.Millisecond}, {"2s", 2 * time.Second}, {"1h", time.Hour}},
	"stop-timeout":                {{"0s", time.Duration(0)}, {"1.5s", 1500 * time.Millisecond}, {"1h", time.Hour}},
	"idle-timeout":                {{"0s", time.Duration(0)}, {"1m", time.Minute}, {"8760h", 8760 * time.Hour}},
	"max-connections":             {{"1", 1}, {"20000", 20_000}, {"1048576", 1 << 20}},
	"max-waiters":                 {{"1", 1}, {"5", 5}, {"1073741824", 1 << 30}},
	"max-waiters-per-key":         {{"1", 1}, {"5", 5}, {"1073741824", 1 << 30}},
	"max-unanswered":              {{"1024", 1024}, {"5000", 5000}, {"1048576", 1 << 20}},
	"peers":                       {{"127.0.0.1:5625", []string{"127.0.0.1:5625"}}, {"", []string{""}}, {"10.0.0.1:1#7,127.0.0.1:5625#0", []string{"10.0.0.1:1#7,127.0.0.1:5625#0"}}},
	"replication":                 {{"sync", "sync"}, {"async", "async"}, {"sync", "sync"}},
	"sync-timeout":                {{"10ms", 10 * time.Millisecond}, {"1.5s", 1500 * time.Millisecond}, {"2s", 2 * time.Second}},
	"min-in-sync":                 {{"1", 1}, {"0", 0}, {"2", 2}},
	"takeback":                    {{"manual", TakebackManual}, {"auto", time.Second}, {"24h", 24 * time.Hour}},
	"heartbeat":                   {{"10ms", 10 * time.Millisecond}, {"250ms", 250 * time.Millisecond}, {"10s", 10 * time.Second}},
	"failure-timeout":             {{"30ms", 30 * time.Millisecond}, {"2s", 2 * time.Second}, {"1m", time.Minute}},
	"boot-grace":                  {{"0s", time.Duration(0)}, {"1ms", time.Millisecond}, {"1m", time.Minute}},
	"secret-file":                 {{"", ""}, {"", ""}, {"", ""}}, // has a test of its own
	"cluster-secret-file":         {{"", ""}, {"", ""}, {"", ""}}, // and this one too
	"admin-secret-file":           {{"", ""}, {"", ""}, {"", ""}}, // and this one
	"tls-cert":                    {{"", ""}, {"", ""}, {"", ""}}, // and these, see secure_test.go
	"tls-key":                     {{"", ""}, {"", ""}, {"", ""}},
	"tls-client-ca":               {{"", ""}, {"", ""}, {"", ""}},
	"tls-ca":                      {{"", ""}, {"", ""}, {"", ""}},
	"handshake-timeout":           {{"1s", time.Second}, {"2s", 2 * time.Second}, {"1m", time.Minute}},
	"hello-timeout":               {{"1m", time.Minute}, {"2m", 2 * time.Minute}, {"8760h", 8760 * time.Hour}},
	"max-wrong-secrets":           {{"0", 0}, {"5", 5}, {"1073741824", 1 << 30}},
	"insecure":                    {{"true", true}, {"false", false}, {"true", true}},
	"log-level":                   {{"debug", "debug"}, {"warn", "warn"}, {"error", "error"}},
	"max-connections-per-address": {{"0", 0}, {"20000", 20_000}, {"1048576", 1 << 20}},
	"log-format":                  {{"json", "json"}, {"text", "text"}, {"json", "json"}},
}

// needs has flags without which a setting's values are refused.
var needs = map[string][]string{
	"replication":     {"--peers=127.0.0.1:5625"},
	"min-in-sync":     {"--replication=sync", "--peers=10.0.0.1:1,127.0.0.1:5625,10.0.0.3:1"},
	"heartbeat":       {"--failure-timeout=30s"},
	"failure-timeout": {"--heartbeat=10ms"},
}

var wordStart = regexp.MustCompile(`[A-Z]`)

// settingOf returns the name of a field's flag.
func settingOf(field reflect.StructField) string {
	if name := field.Tag.Get("name"); name != "" {
		return name
	}
	return strings.ToLower(wordStart.ReplaceAllString(field.Name, "-$0"))[1:]
}

func envOf(setting string) string {
	return "STILE_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// Every setting can be given in all three ways, a flag beats the environment,
// and the environment beats the file.
func TestEverySettingFromEverywhere(t *testing.T) {
	clean(t)
	fields := reflect.TypeFor[Config]()
	seen := 0
	for i := range fields.NumField() {
		field := fields.Field(i)
		name := settingOf(field)
		values, ok := settings[name]
		switch field.Name {
		case "Config", "Version", "Secrets", "AdminSecrets", "ClusterSecret", "TLS", "PeerList", "Self", "Environment", "Warnings":
			continue
		}
		if !ok {
			t.Errorf("no test for --%s", name)
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			is := func(from string, want any, args ...string) {
				t.Helper()
				args = append(args, needs[name]...)
				if got := reflect.ValueOf(parse(t, args...)).Elem().Field(i).Interface(); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v, want %v", from, got, want)
				}
			}
			for _, v := range values {
				is("flag", v.want, "--"+name+"="+v.set)
				is("file", v.want, "--config", file(t, "# all of it\n"+name+": \""+v.set+"\"\n"))
				t.Run("", func(t *testing.T) {
					t.Setenv(envOf(name), v.set)
					is("environment", v.want)
				})
			}
			yaml := file(t, name+": \""+values[2].set+"\"\n")
			t.Setenv(envOf(name), values[1].set)
			is("environment over file", values[1].want, "--config", yaml)
			is("flag over environment over file", values[0].want, "--config="+yaml, "--"+name+"="+values[0].set)
			os.Unsetenv(envOf(name))
			is("flag over file", values[0].want, "--"+name+"="+values[0].set, "--config", yaml)
		})
	}
	if seen != len(settings) {
		t.Errorf("%d settings were tested, %d are in the table", seen, len(settings))
	}
}

func TestFileNamedByTheEnvironment(t *testing.T) {
	clean(t)
	t.Setenv("STILE_CONFIG", file(t, "max-lease: 2h\ndefault-lease: 7s\n"))
	if c := parse(t, "--default-lease=8s"); c.MaxLease != 2*time.Hour || c.DefaultLease != 8*time.Second {
		t.Errorf("max %v, default %v", c.MaxLease, c.DefaultLease)
	}
	t.Setenv("STILE_CONFIG", "/nowhere.yaml")
	refused(t, nil, "/nowhere.yaml")
}

func TestFileThatIsEmpty(t *testing.T) {
	clean(t)
	for _, content := range []string{"", "\n", "# nothing yet\n", "---\n"} {
		if c := parse(t, "--config", file(t, content)); c.MaxLease != 24*time.Hour {
			t.Errorf("%q: %+v", content, c)
		}
	}
}

func TestFileThatIsWrong(t *testing.T) {
	clean(t)
	for _, tt := range []struct{ content, want string }{
		{"listen: 127.0.0.1:0\n\nmax-lese: 2h\n", `line 3: there is no setting "max-lese": did you mean max-lease?`},
		{"z: 1\nb: 1\na: 1\n", `line 1: there is no setting "z"`},
		{"max_lease: 2h\n", `line 1: there is no setting "max_lease": did you mean max-lease?`},
		{"Listen: 127.0.0.1:0\n", `line 1: there is no setting "Listen": did you mean listen?`},
		{"STILE_LISTEN: 127.0.0.1:0\n", `line 1: there is no setting "STILE_LISTEN"`},
		{"peer: a:1,b:2\n", `line 1: there is no setting "peer": did you mean peers?`},
		{"peers:\n  a: 1\n", `"peers" takes a single value`},
		{"peers: [a:1, [b:2]]\n", `line 1: "peers" takes an address in each line`},
		{"peers:\n- a:1\n-\n", `line 3: "peers" takes an address in each line`},
		{"peers:\n- a:1\n- b: 2\n", `line 3: "peers" takes an address in each line`},
		{"peers: [&x a:1, *x]\n", `line 1: "peers" takes an address in each line`},
		{"peers: ['']\n", `line 1: "peers" takes an address in each line`},
		{"peers: ~\n", `--peers: entry 1, "~"`},
		{"takeback: [auto]\n", `line 1: "takeback" takes a single value`},
		{"takeback:\n", "--takeback"},
		{"secret: hunter2\n", `line 1: there is no setting "secret"`},
		{"listen: 127.0.0.1:0\nlisten: 127.0.0.1:1\n", `"listen" already defined at line 1`},
		{"listen: [127.0.0.1:0, 127.0.0.1:1]\n", `line 1: "listen" takes a single value`},
		{"listen:\n  host: a\n", `"listen" takes a single value`},
		{"listen 127.0.0.1:0\n", "not a YAML file"},
		{"- listen\n", "not a YAML file"},
		{"listen: \"127\n", "not a YAML file"},
		{"config: x\n", `line 1: "config" can't be set in a file`},
		{"version: true\n", `line 1: "version" can't be set in a file`},
		{"listen: 127.0.0.1:0\n---\nmax-lease: 2h\n", "more than one YAML document"},
		{"max-lease: soon\n", `--max-lease: expected duration but got "soon"`},
		{"# a comment\nmax-lease: 3600\n", "--max-lease: expected duration but got \"3600\": it has no unit: 3600s are seconds; others are ms, m and h, as in 1h30m (--max-lease is from FILE, line 2)"},
		{"max-lease: 1d\n", "days are written as hours: 24h (--max-lease is from FILE, line 1)"},
		{"max-lease: 1s\n", "1m0s to 277777h46m39.999s (--max-lease is from FILE, line 1)"},
		{"listen: 127.0.0.1:1\n\nadmin: nowhere\n", "(--admin is from FILE, line 3)"},
		{"heartbeat: 1s\nfailure-timeout: 2s\n", "(--failure-timeout is from FILE, line 2, --heartbeat is from FILE, line 1)"},
		{"log-level: loud\n", "(--log-level is from FILE, line 1)"},
		{"insecure: maybe\n", "(--insecure is from FILE, line 1)"},
		{"takeback: 3\n", "it has no unit: 3s are seconds"},
		{"secret-file: /nowhere\n", "(--secret-file is from FILE, line 1)"},
		{"peers: [a:1, b:2]\n", "--peers is from FILE, line 1"},
		{"listen: 127.0.0.1:1\ntls:\n  cert: a\n  key: b\n", `line 2: there is no setting "tls" with others in it: write tls-cert, tls-key, tls-client-ca, tls-ca as lines of their own, not indented`},
		{"stiled:\n  listen: a:1\n", `line 1: there is no setting "stiled" with others in it: settings are lines`},
		{"listen:\n- a:1\n", `line 1: "listen" takes a single value`},
		{"max-lease: 30\n", "--max-lease"},
		{"max-lease:\n", "--max-lease"},
		{"max-waiters: many\n", "--max-waiters"},
		{"insecure: maybe\n", "--insecure"},
		{"log-level: loud\n", `--log-level must be one of "debug","info","warn","error"`},
	} {
		name := file(t, tt.content)
		parts := []string{strings.ReplaceAll(tt.want, "FILE", name)}
		if strings.Contains(tt.want, "line 1:") || strings.Contains(tt.want, "YAML") {
			parts = append(parts, name)
		}
		refused(t, []string{"--config", name}, parts...)
	}
	// What can't be in a file is no suggestion.
	if _, err := Parse([]string{"--config", file(t, "hel: x\n")}, new(bytes.Buffer)); err == nil || strings.Contains(err.Error(), "help") {
		t.Errorf("hel: %v", err)
	}
	refused(t, []string{"--config", t.TempDir() + "/none.yaml"}, "none.yaml")
	refused(t, []string{"--config", t.TempDir()}, "directory")
}

// A bad value in the file does not matter where something beats it, but a
// line that no flag would take always does.
func TestFileThatIsBeaten(t *testing.T) {
	clean(t)
	name := file(t, "max-lease: soon\n")
	if c := parse(t, "--config", name, "--max-lease=2h"); c.MaxLease != 2*time.Hour {
		t.Error(c.MaxLease)
	}
	t.Setenv("STILE_MAX_LEASE", "3h")
	if c := parse(t, "--config", name); c.MaxLease != 3*time.Hour {
		t.Error(c.MaxLease)
	}
}

func TestEnvironmentThatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		parts       []string
	}{
		{"STILE_MAX_LESE", "1h", []string{"STILE_MAX_LESE", "no such setting", "did you mean STILE_MAX_LEASE?"}},
		{"STILE_LISTN", "", []string{"STILE_LISTN", "did you mean STILE_LISTEN?"}},
		{"STILE_WHATEVER_ELSE", "1", []string{"STILE_WHATEVER_ELSE"}},
		{"STILE_", "1", []string{"STILE_"}},
		{"STILE_VERSION", "1", []string{"STILE_VERSION"}},
		{"STILE_HELP", "1", []string{"STILE_HELP"}},
		{"STILE_PEER", "127.0.0.1:5625", []string{"STILE_PEER", "did you mean STILE_PEERS?"}},
		{"STILE_PEERS", "127.0.0.1:5625,", []string{"--peers", "entry 2 is empty"}},
		{"STILE_PEERS", "10.0.0.1:1,10.0.0.2:2", []string{"--peers", "127.0.0.1:5625", "in no entry"}},
		{"STILE_TAKEBACK", "never", []string{"--takeback", "STILE_TAKEBACK", `"never"`}},
		{"STILE_CLUSTER_SECRET", "open-sesame", []string{"STILE_CLUSTER_SECRET"}},
		{"STILE_MAX_LEASE", "soon", []string{"--max-lease", "STILE_MAX_LEASE", `"soon"`}},
		{"STILE_MAX_LEASE", "", []string{"--max-lease", "STILE_MAX_LEASE"}},
		{"STILE_MAX_LEASE", "1s", []string{"--max-lease", "1m0s to", "(--max-lease is from STILE_MAX_LEASE)"}},
		{"STILE_TLS_CERT", "me.pem", []string{"--tls-cert needs --tls-key", "(--tls-cert is from STILE_TLS_CERT)"}},
		{"STILE_MAX_WAITERS", "1e6", []string{"--max-waiters", "STILE_MAX_WAITERS"}},
		{"STILE_INSECURE", "maybe", []string{"--insecure", "STILE_INSECURE"}},
		{"STILE_LOG_FORMAT", "xml", []string{"--log-format", `"text","json"`}},
	} {
		t.Run(tt.name+"="+tt.value, func(t *testing.T) {
			clean(t)
			t.Setenv(tt.name, tt.value)
			refused(t, nil, tt.parts...)
		})
	}
}

// What comes from the environment is told, and what it beats of the file, too.
func TestEnvironmentIsTold(t *testing.T) {
	clean(t)
	secret := file(t, "open-sesame\n")
	yaml := file(t, "max-lease: 2h\ndefault-lease: 5s\nlog-level: warn\npeers:\n- 127.0.0.1:5625\n")
	t.Setenv("STILE_MAX_LEASE", "3h")
	t.Setenv("STILE_DEFAULT_LEASE", "5s")
	t.Setenv("STILE_LOG_LEVEL", "error")
	t.Setenv("STILE_PEERS", "127.0.0.1:5625")
	t.Setenv("STILE_SECRET_FILE", secret)
	c := parse(t, "--config", yaml, "--log-level=debug")
	if want := []string{"STILE_DEFAULT_LEASE", "STILE_MAX_LEASE", "STILE_PEERS", "STILE_SECRET_FILE"}; !slices.Equal(c.Environment, want) {
		t.Errorf("from the environment: %q, want %q", c.Environment, want)
	}
	if want := "STILE_MAX_LEASE=3h in the environment beats max-lease: 2h (" + yaml + ", line 1)"; len(c.Warnings) != 1 || c.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", c.Warnings, want)
	}
	// A client's shell.
	t.Setenv("STILE_ADDRS", "lock1.example:5625")
	c = parse(t)
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "this node uses STILE_SECRET_FILE of the environment, which also has STILE_ADDRS") {
		t.Errorf("warnings %q", c.Warnings)
	}
	if c := parse(t, "--secret-file", secret); len(c.Warnings) > 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
}

// What Kubernetes sets in every pod beside a service called stile (or
// stile-admin), and what our own clients read, is no typo.
func TestEnvironmentOfOthers(t *testing.T) {
	clean(t)
	for _, name := range []string{
		"STILE_SERVICE_HOST", "STILE_SERVICE_PORT", "STILE_SERVICE_PORT_CLIENT", "STILE_PORT",
		"STILE_PORT_5625_TCP", "STILE_PORT_5625_TCP_PROTO", "STILE_PORT_5625_TCP_PORT", "STILE_PORT_5625_TCP_ADDR",
		"STILE_PORT_5625_UDP", "STILE_PORT_5625_SCTP_ADDR",
		"STILE_ADMIN_SERVICE_HOST", "STILE_ADMIN_SERVICE_PORT_HTTP_STATUS", "STILE_ADMIN_PORT", "STILE_ADMIN_PORT_5626_TCP_ADDR",
		"STILE_ADDRS", "STILE_KEY", "STILE_TOKEN",
		"STILED_LISTEN", "MY_STILE_LISTEN", "stile_listen",
	} {
		t.Setenv(name, "tcp://10.0.0.1:5625")
	}
	if c := parse(t); c.Listen != "127.0.0.1:5625" || c.Admin != "127.0.0.1:5626" {
		t.Errorf("%+v", c)
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	clean(t)
	for _, tt := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"extra"}, []string{"extra"}},
		{[]string{"cfg/n1.yaml"}, []string{"unexpected argument cfg/n1.yaml: for a settings file say --config cfg/n1.yaml"}},
		{[]string{"config_test.go"}, []string{"say --config config_test.go"}},
		{[]string{"--max-lease=1d"}, []string{"--max-lease", "24h"}},
		{[]string{"--max-lease=1.5"}, []string{"--max-lease", "1.5s"}},
		{[]string{"--max-leas=2h"}, []string{"--max-leas", `did you mean "--max-lease"`}},
		{[]string{"--max-lease"}, []string{"--max-lease"}},
		{[]string{"--log-level=loud"}, []string{"--log-level", `"debug","info","warn","error"`, `"loud"`}},
		{[]string{"--log-level="}, []string{"--log-level"}},
		{[]string{"--log-level=INFO"}, []string{"--log-level"}},
		{[]string{"--log-format=xml"}, []string{"--log-format", `"text","json"`}},

		{[]string{"--listen="}, []string{"--listen", "host:port"}},
		{[]string{"--listen=localhost"}, []string{"--listen", "host:port"}},
		{[]string{"--listen=5625"}, []string{"--listen", "host:port"}},
		{[]string{"--listen=::1:5625"}, []string{"--listen", "host:port"}},
		{[]string{"--listen=127.0.0.1:"}, []string{"--listen", "0 to 65535"}},
		{[]string{"--listen=127.0.0.1:65536"}, []string{"--listen", "0 to 65535"}},
		{[]string{"--listen=127.0.0.1:-1"}, []string{"--listen", "0 to 65535"}},
		{[]string{"--admin=127.0.0.1"}, []string{"--admin", "host:port"}},
		{[]string{"--admin=127.0.0.1:99999"}, []string{"--admin", "0 to 65535"}},
		{[]string{"--advertise=a"}, []string{"--advertise", "host:port"}},
		{[]string{"--advertise=a:0"}, []string{"--advertise", "port not 0"}},
		{[]string{"--advertise=:5625"}, []string{"--advertise"}},
		{[]string{"--advertise=a:b"}, []string{"--advertise"}},
		{[]string{"--advertise=a b:5625"}, []string{"--advertise"}},
		{[]string{"--advertise=0.0.0.0:5625"}, []string{"--advertise", "unspecified"}},
		{[]string{"--advertise=[::]:5625"}, []string{"--advertise", "unspecified"}},
		{[]string{"--advertise=" + strings.Repeat("a", protocol.MaxAddr-len(":5625")+1) + ":5625"}, []string{"--advertise"}},

		{[]string{"--max-lease=59.999s"}, []string{"--max-lease", "1m0s to 277777h46m39.999s"}},
		{[]string{"--max-lease=277777h46m40s"}, []string{"--max-lease"}},
		{[]string{"--max-lease=-1h"}, []string{"--max-lease"}},
		{[]string{"--max-lease=9999999999h"}, []string{"--max-lease"}},
		{[]string{"--max-lease=2h0.0001s"}, []string{"--max-lease", "whole milliseconds"}},
		{[]string{"--default-lease=0s"}, []string{"--default-lease", "1ms to 24h0m0s"}},
		{[]string{"--default-lease=2h", "--max-lease=1h"}, []string{"--default-lease", "1ms to 1h0m0s"}},
		{[]string{"--default-lease=1.5ms"}, []string{"--default-lease", "whole milliseconds"}},
		{[]string{"--reattach-grace=0s"}, []string{"--reattach-grace"}},
		{[]string{"--reattach-grace=61m"}, []string{"--reattach-grace"}},
		{[]string{"--stop-timeout=-1s"}, []string{"--stop-timeout"}},
		{[]string{"--stop-timeout=61m"}, []string{"--stop-timeout"}},
		{[]string{"--idle-timeout=59s"}, []string{"--idle-timeout", "at least 1m"}},
		{[]string{"--idle-timeout=-1s"}, []string{"--idle-timeout"}},
		{[]string{"--idle-timeout=8761h"}, []string{"--idle-timeout"}},
		{[]string{"--max-connections=0"}, []string{"--max-connections", "1 to 1048576"}},
		{[]string{"--max-connections=1048577"}, []string{"--max-connections"}},
		{[]string{"--max-waiters=0"}, []string{"--max-waiters"}},
		{[]string{"--max-waiters=1073741825"}, []string{"--max-waiters"}},
		{[]string{"--max-waiters=99999999999999999999"}, []string{"--max-waiters"}},
		{[]string{"--max-waiters-per-key=0"}, []string{"--max-waiters-per-key"}},
		{[]string{"--max-unanswered=1023"}, []string{"--max-unanswered", "1024 to 1048576"}},
		{[]string{"--max-unanswered=1048577"}, []string{"--max-unanswered"}},
		{[]string{"--state-dir="}, []string{"--state-dir"}},

		{[]string{"--replication="}, []string{"--replication"}},
		{[]string{"--replication=semi"}, []string{"--replication", `"async","sync"`, `"semi"`}},
		{[]string{"--sync-timeout=9ms"}, []string{"--sync-timeout", "10ms to 1m0s"}},
		{[]string{"--sync-timeout=61s"}, []string{"--sync-timeout", "10ms to 1m0s"}},
		{[]string{"--sync-timeout=2001ms"}, []string{"--sync-timeout 2.001s", "at most 2s", "3 s"}},
		{[]string{"--sync-timeout=10.5ms"}, []string{"--sync-timeout", "whole milliseconds"}},
		{[]string{"--takeback="}, []string{"--takeback", "auto, manual or a duration", `""`}},
		{[]string{"--takeback"}, []string{"--takeback", "auto, manual or duration"}},
		{[]string{"--takeback=Auto"}, []string{"--takeback", `"Auto"`}},
		{[]string{"--takeback=5"}, []string{"--takeback", `"5"`}},
		{[]string{"--takeback=-1ns"}, []string{"--takeback", `"-1ns"`}},
		{[]string{"--takeback=-5s"}, []string{"--takeback", `"-5s"`}},
		{[]string{"--takeback=24h1ms"}, []string{"--takeback", "0s to 24h0m0s"}},
		{[]string{"--takeback=1us"}, []string{"--takeback", "whole milliseconds"}},
		{[]string{"--heartbeat=9ms"}, []string{"--heartbeat", "10ms to 10s"}},
		{[]string{"--heartbeat=10001ms"}, []string{"--heartbeat", "10ms to 10s"}},
		{[]string{"--heartbeat=10.1ms"}, []string{"--heartbeat", "whole milliseconds"}},
		{[]string{"--heartbeat=334ms"}, []string{"--failure-timeout 1s", "--heartbeat 334ms", "at least 1.002s"}},
		{[]string{"--failure-timeout=599ms"}, []string{"--failure-timeout 599ms", "--heartbeat 200ms", "at least 600ms"}},
		{[]string{"--failure-timeout=29ms", "--heartbeat=10ms"}, []string{"--failure-timeout", "30ms to 1m0s"}},
		{[]string{"--failure-timeout=60001ms"}, []string{"--failure-timeout", "to 1m0s"}},
		{[]string{"--boot-grace=-1ms"}, []string{"--boot-grace", "0s to 1m0s"}},
		{[]string{"--boot-grace=60001ms"}, []string{"--boot-grace", "0s to 1m0s"}},
		{[]string{"--min-in-sync=-1"}, []string{"--min-in-sync", "0 to 15"}},
		{[]string{"--min-in-sync=16"}, []string{"--min-in-sync", "0 to 15"}},
		{[]string{"--cluster-secret-file=/nowhere"}, []string{"--cluster-secret-file", "/nowhere"}},
		{[]string{"--cluster-secret-file=" + t.TempDir()}, []string{"--cluster-secret-file", "directory"}},

		{[]string{"--secret-file=/nowhere"}, []string{"--secret-file", "/nowhere"}},
		{[]string{"--secret-file=" + t.TempDir()}, []string{"--secret-file", "directory"}},

		// Beyond loopback.
		{[]string{"--listen=:5625"}, []string{"--listen", "--secret-file", "--insecure"}},
		{[]string{"--listen=0.0.0.0:5625"}, []string{"--listen", "--insecure"}},
		{[]string{"--listen=[::]:5625"}, []string{"--listen", "--insecure"}},
		{[]string{"--listen=192.0.2.1:5625"}, []string{"--listen", "--insecure"}},
		{[]string{"--listen=[::ffff:192.0.2.1]:5625"}, []string{"--listen", "--insecure"}},
		{[]string{"--listen=0.0.0.0:5625", "--insecure=false"}, []string{"--listen", "--insecure"}},
		{[]string{"--admin=0.0.0.0:5626"}, []string{"--admin", "--admin-secret-file", "--insecure"}},
		{[]string{"--admin-secret-file=/nowhere"}, []string{"--admin-secret-file", "/nowhere"}},
	} {
		refused(t, tt.args, tt.parts...)
	}
}

func TestBeyondLoopback(t *testing.T) {
	clean(t)
	secret := file(t, "open-sesame\n")
	for _, tt := range []struct {
		args     []string
		warnings int
	}{
		{[]string{"--listen=127.0.0.1:1"}, 0},
		{[]string{"--listen=127.9.9.9:1"}, 0},
		{[]string{"--listen=[::1]:1"}, 0},
		{[]string{"--listen=localhost:1"}, 0},
		{[]string{"--listen=0.0.0.0:1", "--secret-file", secret}, 0},
		{[]string{"--listen=:1", "--insecure"}, 1},
		{[]string{"--listen=:1", "--insecure", "--secret-file", secret}, 0},
		{[]string{"--admin=:1", "--insecure"}, 1},
		{[]string{"--listen=:1", "--admin=:2", "--insecure"}, 2},
		{[]string{"--admin=:1", "--secret-file", secret}, 0}, // which is then the secret of both
		{[]string{"--admin=:1", "--admin-secret-file", secret}, 0},
		{[]string{"--admin=:1", "--admin-secret-file", secret, "--insecure"}, 0},
		{[]string{"--insecure"}, 0},
	} {
		c := parse(t, tt.args...)
		if len(c.Warnings) != tt.warnings {
			t.Errorf("%q: warnings %q, want %d", tt.args, c.Warnings, tt.warnings)
		}
		for _, w := range c.Warnings {
			if !strings.Contains(w, "INSECURE") {
				t.Errorf("%q: warning %q", tt.args, w)
			}
		}
	}
}

func TestSecretFile(t *testing.T) {
	testSecretFile(t, "--secret-file", 2, func(c *Config) [][]byte { return c.Secrets })
}

func TestAdminSecretFile(t *testing.T) {
	testSecretFile(t, "--admin-secret-file", 2, func(c *Config) [][]byte { return c.AdminSecrets })
	clean(t)
	clients := "--secret-file=" + file(t, "for-clients\nnew\n")
	if c := parse(t, clients); lines(c.AdminSecrets) != "for-clients,new" {
		t.Errorf("without one of its own the admin secret is %q", c.AdminSecrets)
	}
	if c := parse(t, clients, "--admin-secret-file="+file(t, "for-admins\n")); lines(c.AdminSecrets) != "for-admins" || lines(c.Secrets) != "for-clients,new" {
		t.Errorf("the admin secret is %q, the other %q", c.AdminSecrets, c.Secrets)
	}
}

func TestClusterSecretFile(t *testing.T) {
	testSecretFile(t, "--cluster-secret-file", 1, func(c *Config) [][]byte { return [][]byte{c.ClusterSecret} }, "--peers=127.0.0.1:5625")
}

// testSecretFile is for a flag whose file may have so many lines.
func testSecretFile(t *testing.T, flag string, most int, secret func(*Config) [][]byte, more ...string) {
	clean(t)
	args := func(name string) []string { return append([]string{flag, name}, more...) }
	long := strings.Repeat("s", protocol.MaxSecret)
	good := map[string]string{
		"open-sesame":     "open-sesame",
		"open-sesame\n":   "open-sesame",
		"open-sesame\r\n": "open-sesame",
		"\xff\xfe":        "\xff\xfe",
		long + "\n":       long,
	}
	bad := map[string]string{
		"": "it is empty", "\n": "line 1 is empty", "\r\n": "line 1 is empty", "open-sesame\n\n": "line 2 is empty", "\nopen-sesame": "line 1 is empty",
		"open sesame\n": "line 1 has a space", " open-sesame": "line 1 has a space", "open-sesame \n": "line 1 has a space",
		"tab\tbed": "line 1 has", "nul\x00": "line 1 has", "del\x7f": "line 1 has", "two\rlines": "line 1 has", "open\nses ame\n": "line 2 has a space",
		long + "s": "line 1 has 256 bytes", "three\nlines\nsesame\n": "it has 3 lines",
		"\xef\xbb\xbfopen-sesame\n": "byte order mark", "\xff\xfes\x00e\x00": "UTF-16", "\xfe\xff\x00s\x00e": "UTF-16",
	}
	for content, want := range map[string]string{"open\nsesame\n": "open,sesame", "open\r\nsesame": "open,sesame", long + "\n" + long: long + "," + long} {
		if most == 2 {
			good[content] = want
		} else {
			bad[content] = "it has 2 lines"
		}
	}
	for content, want := range good {
		if got := parse(t, args(file(t, content))...); lines(secret(got)) != want || len(got.Warnings) > 0 {
			t.Errorf("%q: secret %q, warnings %q", content, secret(got), got.Warnings)
		}
	}
	for content, wrong := range bad {
		name := file(t, content)
		refused(t, args(name), flag+" "+name, "1 to 255 bytes", wrong)
		// The message goes to a log: it must not hold what may be the secret.
		if _, err := Parse(args(name), new(bytes.Buffer)); strings.Contains(err.Error(), "sesame") {
			t.Errorf("%v: shows the secret", err)
		}
	}
	open := file(t, "open-sesame\n")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(from string, args ...string) {
		t.Helper()
		c := parse(t, append(args, more...)...)
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], open) || lines(secret(c)) != "open-sesame" {
			t.Errorf("%s: secret %q, warnings %q", from, secret(c), c.Warnings)
		}
	}
	check("flag", flag, open)
	check("file", "--config", file(t, flag[2:]+": "+open+"\n"))
	t.Setenv(envOf(flag[2:]), open)
	check("environment")
	c := parse(t, more...)
	files := slices.DeleteFunc([]string{c.SecretFile, c.AdminSecretFile, c.ClusterSecretFile}, func(f string) bool { return f == "" })
	if len(files) != 1 {
		t.Errorf("the files with secrets are %q: want one", files)
	}
}

func TestHelpAndVersion(t *testing.T) {
	clean(t)
	help := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if _, err := Parse(args, &out); !errors.Is(err, ErrHelp) {
			t.Fatalf("%q: error %v, want ErrHelp", args, err)
		}
		return out.String()
	}
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--listen=127.0.0.1:0", "--help"}} {
		out := help(args...)
		for name := range settings {
			if !strings.Contains(out, "--"+name) || !strings.Contains(out, envOf(name)) {
				t.Errorf("%q does not tell of --%s and %s:\n%s", args, name, envOf(name), out)
			}
		}
	}
	if out := help("--version"); !regexp.MustCompile(`^stiled \S+ \(commit \S+, go\S+, \w+/\w+\)\n$`).MatchString(out) {
		t.Errorf("--version prints %q", out)
	}
}

func TestStateDirIsAbsolute(t *testing.T) {
	clean(t)
	here := t.TempDir()
	t.Chdir(here)
	if c := parse(t, "--state-dir=x"); !filepath.IsAbs(c.StateDir) || filepath.Base(c.StateDir) != "x" {
		t.Errorf("state directory %s", c.StateDir)
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("reading the settings made the state directory")
	}
}

// A secret in the environment would set nothing, and leave the node without
// one: it is refused like any other name that is not a setting.
func TestSecretInTheEnvironmentIsRefused(t *testing.T) {
	t.Setenv("STILE_SECRET", "open-sesame")
	if _, err := Parse(nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "STILE_SECRET") {
		t.Errorf("Parse: %v, want a refusal that names STILE_SECRET", err)
	}
}
