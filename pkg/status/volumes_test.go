package status

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// copyOf is a copy of a volume in a state of DRBD's.
func copyOf(volume, node, state string) linstor.Resource {
	return linstor.Resource{Name: volume, Node: node, Diskful: true, States: []string{state}}
}

func show(s *cluster.Snapshot, total int, resources ...linstor.Resource) {
	s.Linstor.View.Volumes, s.Linstor.View.Resources, s.Linstor.View.ResourcesKnown = total, resources, true
	for _, m := range s.Members {
		s.Linstor.View.Nodes[m.Name] = m.Linstor
	}
}

const n0, n1, n2 = "node-0000", "node-0001", "node-0002"

// TestVolumes: each volume counts by its copies, not by its nodes.
func TestVolumes(t *testing.T) {
	plain := linstor.Resource{Name: "pvc-1", Node: n0, Diskful: true, Local: true, States: []string{""}}
	goes := copyOf("pvc-1", n1, "Inconsistent")
	goes.Flags = []string{linstor.FlagDelete}
	skips := copyOf("pvc-1", n1, "UpToDate")
	skips.SkipsDisk = true
	for name, tc := range map[string]struct {
		resources []linstor.Resource
		down      int
		want      volumespec.VolumesStatus
		condition string
	}{
		"whole": {[]linstor.Resource{copyOf("pvc-1", n0, "UpToDate"), copyOf("pvc-1", n1, "UpToDate"),
			{Name: "pvc-1", Node: n2, States: []string{"Diskless"}}}, 0,
			volumespec.VolumesStatus{Healthy: 1}, "True/AsExpected all volumes have all their replicas"},
		"a repaired disk": {[]linstor.Resource{copyOf("pvc-1", n0, "UpToDate"), skips}, 0,
			volumespec.VolumesStatus{Healthy: 1}, "True/AsExpected all volumes have all their replicas; " +
				"DrbdOptions/SkipDisk is still set for pvc-1 on " + n1 +
				": after a restart of the node, DRBD will not use the disk; delete the property"},
		"a copy is outdated": {[]linstor.Resource{copyOf("pvc-1", n0, "UpToDate"), copyOf("pvc-1", n1, "Outdated")}, 0,
			volumespec.VolumesStatus{Degraded: 1}, "False/Degraded pvc-1 has 1 of 2 replicas"},
		"a node is away": {[]linstor.Resource{copyOf("pvc-1", n0, ""), copyOf("pvc-1", n1, "UpToDate")}, 1,
			volumespec.VolumesStatus{Degraded: 1}, "False/Degraded pvc-1 has 1 of 2 replicas"},
		"a satellite restarts, DRBD goes on": {[]linstor.Resource{copyOf("pvc-1", n1, "UpToDate"),
			connectedTo(copyOf("pvc-1", n2, "UpToDate"), n0), copyOf("pvc-1", n0, "")}, 1,
			volumespec.VolumesStatus{Healthy: 1}, "True/AsExpected all volumes have all their replicas"},
		"being brought up to date": {[]linstor.Resource{copyOf("pvc-1", n0, "UpToDate"),
			copyOf("pvc-1", n1, "SyncTarget(12.5%)")}, 0,
			volumespec.VolumesStatus{Resyncing: 1}, "False/Resyncing pvc-1 has 1 of 2 replicas"},
		"nothing is up to date": {[]linstor.Resource{copyOf("pvc-1", n0, "Outdated"), copyOf("pvc-1", n1, "SyncTarget(1%)")},
			0,
			volumespec.VolumesStatus{Unavailable: 1}, "False/Unavailable pvc-1 has 0 of 2 replicas"},
		"without DRBD": {[]linstor.Resource{plain}, 0, volumespec.VolumesStatus{Healthy: 1},
			"True/AsExpected all volumes have all their replicas"},
		"without DRBD, and its node is away": {[]linstor.Resource{plain}, 1, volumespec.VolumesStatus{Unavailable: 1},
			"False/Unavailable pvc-1 has 0 of 1 replicas"},
		"a copy that goes": {[]linstor.Resource{copyOf("pvc-1", n0, "UpToDate"), goes}, 0,
			volumespec.VolumesStatus{Healthy: 1}, "True/AsExpected all volumes have all their replicas"},
		"just made": {[]linstor.Resource{copyOf("pvc-1", n0, ""), copyOf("pvc-1", n1, "")}, 0,
			volumespec.VolumesStatus{Resyncing: 1}, "False/Resyncing pvc-1 has 0 of 2 replicas"},
		"without a state, and a node is away": {[]linstor.Resource{copyOf("pvc-1", n0, ""), copyOf("pvc-1", n1, "")}, 1,
			volumespec.VolumesStatus{Unavailable: 1}, "False/Unavailable pvc-1 has 0 of 2 replicas"},
		"being deleted": {[]linstor.Resource{goes}, 0, volumespec.VolumesStatus{},
			"True/AsExpected all volumes have all their replicas"},
		"clients alone": {[]linstor.Resource{{Name: "pvc-1", Node: n2, States: []string{"Diskless"}}}, 1,
			volumespec.VolumesStatus{}, "True/AsExpected all volumes have all their replicas"},
		"many, the worst first": {[]linstor.Resource{copyOf("a", n0, "UpToDate"), copyOf("b", n0, "UpToDate"),
			copyOf("b", n1, "Outdated"), copyOf("c", n1, "Failed"),
			copyOf("d", n0, "UpToDate"), copyOf("d", n1, "Outdated"), copyOf("e", n0, "UpToDate"),
			copyOf("e", n1, "Inconsistent")}, 0,
			volumespec.VolumesStatus{Healthy: 1, Degraded: 2, Resyncing: 1, Unavailable: 1},
			"False/Unavailable c has 0 of 1 replicas, b has 1 of 2 replicas, d has 1 of 2 replicas and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseReady, 3)
			lose(tc.down)(s)
			total := max(1, tc.want.Healthy+tc.want.Degraded+tc.want.Resyncing+tc.want.Unavailable)
			show(s, int(total), tc.resources...)
			st := Project(resting(s))
			tc.want.Total, st.Volumes.Updated = total, nil
			c := meta.FindStatusCondition(st.Conditions, conditions.VolumesHealthy)
			if d := cmp.Diff(&tc.want, st.Volumes); d != "" {
				t.Error(d)
			}
			if got := string(c.Status) + "/" + c.Reason + " " + c.Message; got != tc.condition {
				t.Errorf("VolumesHealthy is %s, want %s", got, tc.condition)
			}
		})
	}
}

func connectedTo(r linstor.Resource, peer string) linstor.Resource {
	r.Connected = map[string]bool{peer: true}
	return r
}

// TestVolumesAreNotWrittenAllTheTime: claims that come and go are no reason to write a status; a copy that is lost is,
// and so are the first volume and the last, on which a deletion depends.
func TestVolumesAreNotWrittenAllTheTime(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 3)
	show(s, 1, copyOf("a", n0, "UpToDate"))
	st := Project(resting(s))
	look := func(what string, after time.Duration, written bool, total int, resources ...linstor.Resource) {
		t.Helper()
		s = next(s, st, after)
		show(s, total, resources...)
		again := Project(resting(s))
		if got := !cmp.Equal(st, again); got != written {
			t.Errorf("%s: written is %v: %s", what, got, cmp.Diff(st, again))
		}
		st = again
	}
	look("another volume", time.Minute, false, 2, copyOf("a", n0, "UpToDate"), copyOf("b", n0, "UpToDate"))
	look("the same, later", 5*time.Minute, true, 2, copyOf("a", n0, "UpToDate"), copyOf("b", n0, "UpToDate"))
	look("nothing new", time.Hour, false, 2, copyOf("a", n0, "UpToDate"), copyOf("b", n0, "UpToDate"))
	look("a copy is lost", time.Second, true, 2, copyOf("a", n0, "UpToDate"), copyOf("b", n0, "Failed"))
	s = next(s, st, time.Minute)
	s.Linstor.View.ResourcesKnown, s.Linstor.View.Resources = false, nil
	if again := Project(resting(s)); !cmp.Equal(st, again) {
		t.Errorf("a look that leaves the copies out changes the status: %s", cmp.Diff(st, again))
	}
	look("all are gone", time.Second, true, 0)
	s = next(s, st, time.Second)
	s.Linstor.View.Volumes, s.Linstor.View.ResourcesKnown, s.Linstor.View.Resources = 1, false, nil
	if st = Project(resting(s)); st.Volumes.Total != 1 || st.Volumes.Healthy != 0 {
		t.Errorf("the first, whose copies nobody has looked at: %+v", st.Volumes)
	}
	look("its copies, for the first time", time.Second, true, 1, copyOf("a", n0, "UpToDate"))
	look("one without a copy", 6*time.Minute, true, 2, copyOf("a", n0, "UpToDate"))
	look("another one beside that", time.Second, false, 3, copyOf("a", n0, "UpToDate"), copyOf("b", n0, "UpToDate"))
	s = next(s, st, time.Minute)
	silentFor(time.Minute)(s)
	if again := Project(resting(s)); !cmp.Equal(st.Volumes, again.Volumes) ||
		meta.FindStatusCondition(again.Conditions, conditions.VolumesHealthy).Status != "Unknown" {
		t.Errorf("while LINSTOR is silent: %+v", again.Volumes)
	}
}

// TestVolumesWhileLinstorConnects: a moment after its start LINSTOR knows of no copy that it is well, and all are.
func TestVolumesWhileLinstorConnects(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 3)
	show(s, 1, copyOf("pvc-1", n0, "UpToDate"), copyOf("pvc-1", n1, "UpToDate"))
	well := Project(resting(s))
	s = next(s, well, time.Minute)
	since := func(d time.Duration) {
		meta.RemoveStatusCondition(&s.Cluster.Status.Conditions, conditions.Available) // it was False in between
		answersFor(d)(s)
	}
	since(time.Second)
	lose(3)(s)
	show(s, 1, copyOf("pvc-1", n0, ""), copyOf("pvc-1", n1, ""))
	c := meta.FindStatusCondition(s.Cluster.Status.Conditions, conditions.VolumesHealthy)
	for before, want := range map[metav1.ConditionStatus]string{
		metav1.ConditionTrue:    c.Message,
		metav1.ConditionUnknown: "the replica states are not known yet",
	} {
		c.Status = before // Unknown if the operator saw that LINSTOR was away
		st := Project(resting(s))
		got := meta.FindStatusCondition(st.Conditions, conditions.VolumesHealthy)
		if got.Status != before || got.Message != want || !cmp.Equal(st.Volumes, well.Volumes) {
			t.Errorf("%s %s, %+v", got.Status, got.Message, st.Volumes)
		}
	}
	since(s.Timing.HealthLost)
	st := Project(resting(s))
	if c := meta.FindStatusCondition(st.Conditions, conditions.VolumesHealthy); c.Reason != "Unavailable" ||
		st.Volumes.Unavailable != 1 {
		t.Errorf("it lasts: %s, %+v", c.Reason, st.Volumes)
	}
}

// TestOldVolumes: a number is what operators of before have stored.
func TestOldVolumes(t *testing.T) {
	var st v1alpha1.StorageClusterStatus
	if err := json.Unmarshal([]byte(`{"volumes": 3}`), &st); err != nil || st.Volumes.Total != 3 {
		t.Errorf("%+v, %v", st.Volumes, err)
	}
	if err := json.Unmarshal([]byte(`{"volumes": {"total": 3, "healthy": 2}}`), &st); err != nil ||
		st.Volumes.Healthy != 2 {
		t.Errorf("%+v, %v", st.Volumes, err)
	}
	if err := json.Unmarshal([]byte(`{"volumes": "3"}`), &st); err == nil {
		t.Error("a text is taken for volumes")
	}
}

// TestVolumesAfterNothingWasKnown: what kept the operator from looking is over before the next look at the copies.
func TestVolumesAfterNothingWasKnown(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 3, "ssd")
	show(s, 1, copyOf("pvc-1", n0, "UpToDate"))
	well := Project(resting(s))
	silent := next(s, well, time.Minute)
	silent.Linstor = cluster.Linstor{Asked: true}
	for name, before := range map[string]*v1alpha1.StorageClusterStatus{
		"the operator could not look": Unobserved(next(s, well, time.Minute).Cluster, s.Now,
			errors.New("the accepted spec cannot be read")),
		"LINSTOR was silent": Project(resting(silent)),
	} {
		later := next(s, before, time.Minute)
		view := *later.Linstor.View
		view.ResourcesKnown, view.Resources = false, nil
		later.Linstor.View = &view
		c := meta.FindStatusCondition(Project(resting(later)).Conditions, conditions.VolumesHealthy)
		if c.Status != metav1.ConditionUnknown || c.Message != "the replica states are not known yet" {
			t.Errorf("%s: %s/%s %s", name, c.Status, c.Reason, c.Message)
		}
	}
}
