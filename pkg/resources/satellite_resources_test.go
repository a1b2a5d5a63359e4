package resources_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/shutdownguard"
)

// TestSatelliteResources: the spec counts as it is, and what it does not speak of gets a request, so that no satellite
// is of the quality class BestEffort unless the spec says 0.
func TestSatelliteResources(t *testing.T) {
	amounts := func(pairs ...string) v1alpha1.ResourceAmounts {
		out := v1alpha1.ResourceAmounts{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	for _, tc := range []struct {
		name                                           string
		requests, limits, wantedRequests, wantedLimits v1alpha1.ResourceAmounts
	}{
		{"nothing", nil, nil, amounts("cpu", "50m", "memory", "256Mi"), nil},
		{"requests", amounts("cpu", "1", "memory", "1Gi"), nil, amounts("cpu", "1", "memory", "1Gi"), nil},
		{"one request", amounts("memory", "64Mi"), nil, amounts("cpu", "50m", "memory", "64Mi"), nil},
		{"a request of nothing", amounts("cpu", "0", "memory", "0"), nil, amounts("cpu", "0", "memory", "0"), nil},
		{"a limit is a request, and may be lower than ours", nil, amounts("memory", "128Mi"), amounts("cpu", "50m"),
			amounts("memory", "128Mi")},
		{"limits", nil, amounts("cpu", "2", "memory", "2Gi"), nil, amounts("cpu", "2", "memory", "2Gi")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := v1alpha1.StorageClusterSpec{Nodes: v1alpha1.NodesSpec{Satellite: v1alpha1.SatelliteSpec{
				Resources: v1alpha1.Resources{Requests: tc.requests, Limits: tc.limits},
			}}}
			before := maps.Clone(tc.requests)
			pod := resources.Satellite(params(spec), generic).Spec.Template.Spec
			i := slices.IndexFunc(pod.Containers,
				func(c corev1.Container) bool { return c.Name == resources.SatelliteContainer })
			got := pod.Containers[i].Resources
			if !sameAmounts(tc.wantedRequests, got.Requests) || !sameAmounts(tc.wantedLimits, got.Limits) {
				t.Errorf("requests %v, limits %v", got.Requests, got.Limits)
			}
			if !maps.EqualFunc(before, tc.requests, func(a, b resource.Quantity) bool { return a.Equal(b) }) {
				t.Errorf("the builder changed the spec: %v", tc.requests)
			}
		})
	}
}

// TestShutdownGuard: satellites bring the unit of systemd to hosts that run it, unless nobody wants it or the release
// has no image.
func TestShutdownGuard(t *testing.T) {
	for _, tc := range []struct {
		name     string
		platform platform.Profile
		mode     volumespec.ShutdownGuardMode
		image    string
		want     bool
	}{
		{"systemd", generic, volumespec.ShutdownGuardAuto, "drbd-shutdown-guard:v1", true},
		{"a spec from before there was one", generic, "", "drbd-shutdown-guard:v1", true},
		{"None", generic, volumespec.ShutdownGuardNone, "drbd-shutdown-guard:v1", false},
		{"no systemd", platform.ProfileOf(v1alpha1.PlatformTalos), volumespec.ShutdownGuardAuto, "drbd-shutdown-guard:v1",
			false},
		{"no image", generic, volumespec.ShutdownGuardAuto, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := params(v1alpha1.StorageClusterSpec{Volumes: volumespec.VolumesSpec{ShutdownGuard: tc.mode}})
			p.Release.ShutdownGuard = tc.image
			inits := resources.Satellite(p, tc.platform).Spec.Template.Spec.InitContainers
			last := inits[len(inits)-1].Name // after those without which there is no satellite
			if got := last == shutdownguard.Name; got != tc.want {
				t.Errorf("the last init container is %s", last)
			}
		})
	}
}

func sameAmounts(want v1alpha1.ResourceAmounts, got corev1.ResourceList) bool {
	return maps.EqualFunc(corev1.ResourceList(want), got, func(a, b resource.Quantity) bool { return a.Equal(b) })
}

// TestRevisionKeepsItsName: a field that is not set is not part of an accepted spec, so that an operator that knows
// more fields takes up no spec anew.
func TestRevisionKeepsItsName(t *testing.T) {
	got := string(revision.Of(v1alpha1.ClusterName, 1, &v1alpha1.StorageClusterSpec{}).Data.Raw)
	want := `{"images":{},"nodes":{"network":{}},"kernelModule":{},"database":{},"controller":{"resources":{}}}`
	if got != want {
		t.Errorf("an empty spec is kept as %s", got)
	}
}
