package resources_test

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/shutdownguard"
)

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

// TestRevisionKeepsItsName: a field that is not set is not part of an accepted spec, so that an operator that knows
// more fields takes up no spec anew.
func TestRevisionKeepsItsName(t *testing.T) {
	got := string(revision.Of(v1alpha1.ClusterName, 1, &v1alpha1.StorageClusterSpec{}).Data.Raw)
	want := `{"images":{},"nodes":{"network":{}},"kernelModule":{},"database":{},"controller":{"resources":{}}}`
	if got != want {
		t.Errorf("an empty spec is kept as %s", got)
	}
}
