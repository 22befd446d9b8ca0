package packaging

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of stile.yaml.
type manifests struct {
	service corev1.Service
	budget  policyv1.PodDisruptionBudget
	network networkingv1.NetworkPolicy
	set     appsv1.StatefulSet
}

// variants are the manifests as they are applied: as a file, and through
// kustomize with TLS.
func variants(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"plain": read(t, "kubernetes/stile.yaml")}
	for name, dir := range map[string]string{"kustomize": "kubernetes", "tls": "kubernetes-tls"} {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		text, err := built.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// load reads manifests strictly: what Kubernetes does not know is an error.
func load(t *testing.T, text string) (m manifests) {
	t.Helper()
	objects := map[string]any{
		"v1 Service": &m.service, "policy/v1 PodDisruptionBudget": &m.budget,
		"networking.k8s.io/v1 NetworkPolicy": &m.network, "apps/v1 StatefulSet": &m.set,
	}
	for doc := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		what := kind.APIVersion + " " + kind.Kind
		into, ok := objects[what]
		if !ok {
			t.Fatalf("an object %q is not looked at, or is there twice", what)
		}
		delete(objects, what)
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if len(objects) > 0 {
		t.Fatalf("not there: %v", slices.Collect(maps.Keys(objects)))
	}
	return m
}

func TestKubernetes(t *testing.T) {
	for name, text := range variants(t) {
		t.Run(name, func(t *testing.T) { checkManifests(t, load(t, text), name == "tls") })
	}
}

func checkManifests(t *testing.T, m manifests, secure bool) {
	if len(m.set.Spec.Template.Spec.Containers) != 1 {
		t.Fatal("want one container")
	}
	pod := m.set.Spec.Template.Spec
	stiled := pod.Containers[0]

	t.Run("selectors", func(t *testing.T) {
		labels := m.set.Spec.Template.Labels
		for what, got := range map[string]map[string]string{
			"the set": m.set.Spec.Selector.MatchLabels, "the service": m.service.Spec.Selector,
			"the budget": m.budget.Spec.Selector.MatchLabels, "the network policy": m.network.Spec.PodSelector.MatchLabels,
		} {
			if len(got) == 0 || !maps.Equal(got, labels) {
				t.Errorf("%s selects %v; the pods have %v", what, got, labels)
			}
		}
		apart := map[string]bool{}
		for _, c := range pod.TopologySpreadConstraints {
			if c.MaxSkew == 1 && c.WhenUnsatisfiable == corev1.ScheduleAnyway && c.LabelSelector != nil && maps.Equal(c.LabelSelector.MatchLabels, labels) {
				apart[c.TopologyKey] = true
			}
		}
		if !apart[corev1.LabelHostname] || !apart[corev1.LabelTopologyZone] {
			t.Errorf("nothing keeps the pods apart: %+v", pod.TopologySpreadConstraints)
		}
	})

	t.Run("the service", func(t *testing.T) {
		s := m.service
		if s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses || s.Name != m.set.Spec.ServiceName {
			t.Errorf("peers are not found by name before they are ready: %+v", s.Spec)
		}
		named := map[string]int32{}
		for _, p := range stiled.Ports {
			named[p.Name] = p.ContainerPort
		}
		for _, p := range s.Spec.Ports {
			if named[p.TargetPort.StrVal] != p.Port {
				t.Errorf("port %s goes to %v; the container has %v", p.Name, p.TargetPort, named)
			}
		}
		for _, in := range m.network.Spec.Ingress {
			for _, p := range in.Ports {
				if named[p.Port.StrVal] == 0 {
					t.Errorf("the network policy opens %v; the container has %v", p.Port, named)
				}
				if p.Port.StrVal == "admin" && len(in.From) == 0 {
					t.Error("the admin server is open to all pods of the cluster")
				}
			}
		}
	})

	t.Run("the program", func(t *testing.T) {
		if *m.set.Spec.Replicas != 3 {
			t.Fatalf("%d replicas, want 3", *m.set.Spec.Replicas)
		}
		mounted := map[string]corev1.VolumeMount{}
		for _, v := range stiled.VolumeMounts {
			mounted[v.Name] = v
		}
		certificates := t.TempDir()
		files := strings.NewReplacer("=/etc/stile-tls/", "="+certificates+"/", "="+mounted["secrets"].MountPath+"/", "="+secrets(t)+"/")
		issue(t, certificates, names{"tls.crt", "tls.key", "ca.crt"}, "stile-0.stile.locks.svc", "stile-1.stile.locks.svc", "stile-2.stile.locks.svc")
		for i := range 3 {
			name := fmt.Sprintf("%s-%d", m.set.Name, i)
			var args []string
			for _, a := range stiled.Args {
				args = append(args, strings.NewReplacer("$(POD_NAME)", name, "$(POD_NAMESPACE)", "locks").Replace(a))
			}
			c := settings(t, args, nil, files)
			member(t, c, i)
			if (c.TLS != nil) != secure || secure && (mounted["tls"].MountPath != "/etc/stile-tls" || c.TLSCA == "") {
				t.Errorf("TLS is %v, of %+v", c.TLS, mounted["tls"])
			}
			// Names of pods come and go; the default counts on addresses.
			if c.BootGrace < 10*time.Second {
				t.Errorf("at a start of all a node serves alone after %v, when no name may be there yet", c.BootGrace)
			}
			if want := fmt.Sprintf("%s.%s.locks.svc:5625", name, m.service.Name); c.PeerList[i].Addr != want {
				t.Errorf("pod %s is known as %s, want %s", name, c.PeerList[i].Addr, want)
			}
			if c.StateDir != mounted["state"].MountPath || len(m.set.Spec.VolumeClaimTemplates) != 1 || m.set.Spec.VolumeClaimTemplates[0].Name != "state" {
				t.Errorf("nothing keeps the state, in %s", c.StateDir)
			}
			if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace <= c.StopTimeout {
				t.Errorf("it is killed after %v, while it may take %v to stop", grace, c.StopTimeout)
			}
			if after := time.Duration(m.set.Spec.MinReadySeconds) * time.Second; after <= c.Takeback {
				t.Errorf("an upgrade goes on after %v, before a role is taken back, %v", after, c.Takeback)
			}
			if c.Listen != ":5625" || c.Admin != ":5626" {
				t.Errorf("it listens on %s and %s: the ports are others", c.Listen, c.Admin)
			}
		}
		limited := false
		for _, e := range stiled.Env {
			if e.Name == "GOMEMLIMIT" {
				soft, hard := resource.MustParse(strings.TrimSuffix(e.Value, "B")), stiled.Resources.Limits.Memory()
				if soft.Value() > hard.Value()*19/20 || soft.Value() < hard.Value()*3/4 {
					t.Errorf("garbage is collected from %s on; the limit is %s", e.Value, hard)
				}
				limited = true
				continue
			}
			if want := map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}[e.Name]; want == "" || e.ValueFrom.FieldRef.FieldPath != want {
				t.Errorf("the variable %s is %+v", e.Name, e.ValueFrom)
			}
		}
		if !limited {
			t.Error("there is no GOMEMLIMIT")
		}
		// The head of each file says how to make its secret.
		heads := map[string][]string{"secrets": {read(t, "kubernetes/stile.yaml"), "stile", "--from-literal=clients=", "--from-literal=admin=", "--from-literal=cluster="}}
		if secure {
			heads["tls"] = []string{read(t, "kubernetes-tls/kustomization.yaml"), "stile-tls", "--from-file=tls.crt", "--from-file=tls.key", "--from-file=ca.crt"}
		}
		for _, v := range pod.Volumes {
			head, ok := heads[v.Name]
			delete(heads, v.Name)
			if !ok || v.Secret == nil || v.Secret.SecretName != head[1] || v.Secret.DefaultMode == nil || *v.Secret.DefaultMode&0o007 != 0 || pod.SecurityContext.FSGroup == nil {
				t.Errorf("the secrets are not there for the node alone: %+v", v)
				continue
			}
			_, command, ok := strings.Cut(head[0], "kubectl create secret generic "+head[1]+" ")
			command, _, ok2 := strings.Cut(command, "#   kubectl apply")
			for _, part := range head[2:] {
				if !ok || !ok2 || !strings.Contains(command, part) {
					t.Errorf("the secret %s is made without %s", head[1], part)
				}
			}
		}
		if len(heads) > 0 {
			t.Errorf("not mounted: %v", slices.Collect(maps.Keys(heads)))
		}
	})

	t.Run("probes", func(t *testing.T) {
		scheme := map[bool]corev1.URIScheme{true: corev1.URISchemeHTTPS}[secure]
		for want, probe := range map[string]*corev1.Probe{"/readyz": stiled.ReadinessProbe, "/healthz": stiled.LivenessProbe} {
			if probe == nil || probe.HTTPGet == nil || path.Clean(probe.HTTPGet.Path) != want || probe.HTTPGet.Port.StrVal != "admin" || probe.HTTPGet.Scheme != scheme {
				t.Errorf("the probe of %s is %+v", want, probe)
			}
		}
	})

	t.Run("disruptions", func(t *testing.T) {
		if got := m.budget.Spec.MaxUnavailable; got == nil || got.IntVal != 1 {
			t.Errorf("at most %v may be away, want 1", got)
		}
		if p := m.budget.Spec.UnhealthyPodEvictionPolicy; p == nil || *p != policyv1.AlwaysAllow {
			t.Error("a pod that is not ready keeps a machine from being drained")
		}
	})

	t.Run("confined", func(t *testing.T) {
		c := stiled.SecurityContext
		if !*pod.SecurityContext.RunAsNonRoot || !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || !slices.Contains(c.Capabilities.Drop, "ALL") || *pod.AutomountServiceAccountToken {
			t.Error("the pod may do more than it needs")
		}
	})
}
