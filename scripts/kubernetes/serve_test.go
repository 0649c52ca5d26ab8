package kubernetes

import (
	"os"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestServe decodes the manifest for rscert serve, and checks that its parts refer to each other by the right names.
func TestServe(t *testing.T) {
	text, err := os.ReadFile("../../packaging/kubernetes/serve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, second, ok := strings.Cut(string(text), "\n---\n")
	if !ok {
		t.Fatal("want two documents")
	}
	var deployment apps.Deployment
	var service core.Service
	if err := yaml.UnmarshalStrict([]byte(first), &deployment); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(second), &service); err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template
	for name, value := range service.Spec.Selector {
		if pod.Labels[name] != value || deployment.Spec.Selector.MatchLabels[name] != value {
			t.Errorf("the service selects %s=%s, the pod has %v", name, value, pod.Labels)
		}
	}
	c := pod.Spec.Containers[0]
	port := c.Ports[0].Name
	if service.Spec.Ports[0].TargetPort.StrVal != port || c.ReadinessProbe.HTTPGet.Port.StrVal != port ||
		c.LivenessProbe.HTTPGet.Port.StrVal != port || c.StartupProbe.HTTPGet.Port.StrVal != port {
		t.Errorf("not all name the port %s", port)
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/livez" {
		t.Errorf("probes %v, %v", c.ReadinessProbe, c.LivenessProbe)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("no volume %s", m.Name)
		}
	}
	const drain = 25 // seconds, the default of --drain
	if grace, sleep := *pod.Spec.TerminationGracePeriodSeconds, c.Lifecycle.PreStop.Sleep.Seconds; sleep < 1 || grace <= sleep+drain {
		t.Errorf("the pod has %d s to end, of which it sleeps %d s and answers for %d s", grace, sleep, drain)
	}
}
