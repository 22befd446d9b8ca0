package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func TestDockerfile(t *testing.T) {
	parsed, err := parser.Parse(strings.NewReader(read(t, "docker/Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.Warnings) > 0 {
		t.Errorf("%+v", parsed.Warnings)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		t.Errorf("the image is made from %q", last.BaseName)
	}
	said := map[string]string{}
	var made []string
	for _, stage := range stages {
		for _, c := range stage.Commands {
			switch c := c.(type) {
			case *instructions.RunCommand:
				made = append(made, c.CmdLine...)
			case *instructions.EntrypointCommand:
				said["entrypoint"] = strings.Join(c.CmdLine, " ")
			case *instructions.StopSignalCommand:
				said["stop signal"] = c.Signal
			case *instructions.UserCommand:
				said["user"] = c.User
			case *instructions.EnvCommand:
				for _, kv := range c.Env {
					said[kv.Key] = kv.Value
				}
			case *instructions.CopyCommand:
				for _, src := range c.SourcePaths {
					said["copy "+src] = c.DestPath + " " + c.Chown
				}
			}
		}
	}
	for key, want := range map[string]string{
		"entrypoint": "/stiled", "user": "65532:65532", "stop signal": "SIGTERM", "GOWORK": "off", "CGO_ENABLED": "0",
		"copy /src/bin/stiled":                    "/stiled ",
		"copy /etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt ", // where Go looks for it
		"copy /state":                             "/var/lib/stile 65532:65532",
	} {
		if said[key] != want {
			t.Errorf("%s is %q, want %q", key, said[key], want)
		}
	}
	targets := makeTargets(t)
	for _, m := range regexp.MustCompile(`\bmake (\S+)`).FindAllStringSubmatch(strings.Join(made, "\n"), -1) {
		if !targets[m[1]] {
			t.Errorf("it calls make %s, and there is no such target", m[1])
		}
	}

	// The context must have the node's module, and every module that it replaces.
	var allowed []string
	for line := range strings.Lines(read(t, "docker/Dockerfile.dockerignore")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			allowed = append(allowed, name)
			if name != ".git" {
				if _, err := os.Stat(filepath.Join("..", name)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	need := []string{"LICENSE", "Makefile", "server"}
	for _, m := range regexp.MustCompile(`=> \.\./(\S+)`).FindAllStringSubmatch(read(t, "../server/go.mod"), -1) {
		need = append(need, m[1])
	}
	for _, name := range need {
		if !strings.Contains(" "+strings.Join(allowed, " ")+" ", " "+name+" ") {
			t.Errorf("the build needs %s, and Dockerfile.dockerignore leaves it out", name)
		}
	}
}

func TestCompose(t *testing.T) {
	dir, err := filepath.Abs("docker")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: dir, Environment: types.Mapping{},
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Services) != 3 {
		t.Fatalf("it has %d services, want 3", len(project.Services))
	}
	files := strings.NewReplacer("/run/secrets", secrets(t))
	volumes, ports := map[string]bool{}, map[string]bool{}
	for i := range 3 {
		name := fmt.Sprintf("stile%d", i+1)
		service := project.Services[name]
		env := map[string]string{"STILE_STATE_DIR": "/var/lib/stile"} // the image's
		for k, v := range service.Environment {
			env[k] = *v
		}
		c := settings(t, service.Command, env, files)
		member(t, c, i)
		if got := c.PeerList[i].Addr; got != name+":5625" {
			t.Errorf("%s is known as %s", name, got)
		}
		if len(service.Volumes) != 1 || service.Volumes[0].Target != c.StateDir {
			t.Errorf("%s: nothing keeps its state: %+v", name, service.Volumes)
		} else {
			volumes[service.Volumes[0].Source] = true
		}
		if grace := service.StopGracePeriod; grace == nil || time.Duration(*grace) <= c.StopTimeout {
			t.Errorf("%s is killed while it stops: after %v", name, grace)
		}
		for _, p := range service.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: the admin server is open at %q", name, p.HostIP)
			}
			ports[p.Published] = true
		}
		for _, s := range service.Secrets {
			if _, ok := project.Secrets[s.Source]; !ok {
				t.Errorf("%s has the secret %q, which is nowhere", name, s.Source)
			}
		}
		if service.Build != nil || !strings.HasPrefix(service.Image, "ghcr.io/stile-lock/stile:") {
			t.Errorf("%s needs more than this file: the image is %s, built by %+v", name, service.Image, service.Build)
		}
		if service.Restart != "always" {
			t.Errorf("%s is started again %q: not after the machine was, or not after it was sent a signal", name, service.Restart)
		}
		// Names of containers come and go; the default counts on addresses.
		if c.BootGrace < 5*time.Second {
			t.Errorf("at a start of all %s serves alone after %v", name, c.BootGrace)
		}
	}
	head := read(t, "docker/compose.yaml")
	made := regexp.MustCompile(`(?m)^#   for s in (.*); do .*> secrets/\$s; done$`).FindStringSubmatch(head)
	if made == nil || len(strings.Fields(made[1])) != len(project.Secrets) {
		t.Fatalf("the head makes the secrets %q", made)
	}
	for _, s := range strings.Fields(made[1]) {
		if got := project.Secrets[s].File; got != filepath.Join(dir, "secrets", s) {
			t.Errorf("the head makes the secret %s; it is read from %q", s, got)
		}
	}
	user, _, _ := strings.Cut(regexp.MustCompile(`(?m)^USER (\S+)$`).FindStringSubmatch(read(t, "docker/Dockerfile"))[1], ":")
	if !strings.Contains(head, "chown "+user+" secrets/*") {
		t.Errorf("the image's user %s can't read the secrets", user)
	}
	if len(volumes) != 3 || len(ports) != 3 {
		t.Errorf("two nodes share something: volumes %v, ports %v", volumes, ports)
	}
}
