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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of stile.yaml.
type manifests struct {
	service corev1.Service
	budget  policyv1.PodDisruptionBudget
	network networkingv1.NetworkPolicy
	set     appsv1.StatefulSet
}

// load reads the manifests strictly: what Kubernetes does not know is an error.
func load(t *testing.T) (m manifests) {
	t.Helper()
	objects := map[string]any{
		"v1 Service": &m.service, "policy/v1 PodDisruptionBudget": &m.budget,
		"networking.k8s.io/v1 NetworkPolicy": &m.network, "apps/v1 StatefulSet": &m.set,
	}
	for doc := range bytes.SplitSeq([]byte(read(t, "kubernetes/stile.yaml")), []byte("\n---\n")) {
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
	m := load(t)
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
		terms := pod.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if len(terms) == 0 || terms[0].PodAffinityTerm.TopologyKey != corev1.LabelHostname ||
			!maps.Equal(terms[0].PodAffinityTerm.LabelSelector.MatchLabels, labels) {
			t.Errorf("nothing keeps the pods apart: %+v", terms)
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
					t.Error("the admin server asks for nothing, and is open to all")
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
		files := strings.NewReplacer(mounted["secrets"].MountPath, secrets(t))
		for i := range 3 {
			name := fmt.Sprintf("%s-%d", m.set.Name, i)
			var args []string
			for _, a := range stiled.Args {
				args = append(args, strings.NewReplacer("$(POD_NAME)", name, "$(POD_NAMESPACE)", "locks").Replace(a))
			}
			c := settings(t, args, nil, files)
			member(t, c, i)
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
		for _, e := range stiled.Env {
			if want := map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}[e.Name]; want == "" || e.ValueFrom.FieldRef.FieldPath != want {
				t.Errorf("the variable %s is %+v", e.Name, e.ValueFrom)
			}
		}
		secret := pod.Volumes[0].Secret
		if secret == nil || secret.SecretName != "stile" || secret.DefaultMode == nil || *secret.DefaultMode&0o007 != 0 || pod.SecurityContext.FSGroup == nil {
			t.Errorf("the secrets are not there for the node alone: %+v", pod.Volumes[0])
		}
		text := read(t, "kubernetes/stile.yaml")
		if !strings.Contains(text, "create secret generic "+secret.SecretName+" --from-literal=clients=") {
			t.Error("the head of the file does not say how to make the secret")
		}
	})

	t.Run("probes", func(t *testing.T) {
		for want, probe := range map[string]*corev1.Probe{"/readyz": stiled.ReadinessProbe, "/healthz": stiled.LivenessProbe} {
			if probe == nil || probe.HTTPGet == nil || path.Clean(probe.HTTPGet.Path) != want || probe.HTTPGet.Port.StrVal != "admin" {
				t.Errorf("the probe of %s is %+v", want, probe)
			}
		}
	})

	t.Run("disruptions", func(t *testing.T) {
		if got := m.budget.Spec.MaxUnavailable; got == nil || got.IntVal != 1 {
			t.Errorf("at most %v may be away, want 1", got)
		}
	})

	t.Run("confined", func(t *testing.T) {
		c := stiled.SecurityContext
		if !*pod.SecurityContext.RunAsNonRoot || !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || !slices.Contains(c.Capabilities.Drop, "ALL") || *pod.AutomountServiceAccountToken {
			t.Error("the pod may do more than it needs")
		}
	})
}
