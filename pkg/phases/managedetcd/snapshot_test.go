package managedetcd_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// saving is a rig whose next step is to take a snapshot.
func saving(t *testing.T) (rig, seats.Snapshot) {
	r := newRig(t)
	s := *seats.NewSnapshot("3.6", "3.7", 255, seats.Seat{Name: "n01-1", Node: "n01"}, r.Now)
	d := &r.known.Decision
	d.Step, d.Row, d.Endpoint, d.Snapshot = membership.Save, "save", "http://192.0.2.1:3379", s
	r.known.Facts.Now, r.known.Facts.Sites = r.Now, map[string]seats.Site{}
	r.known.Facts.Notes.Snapshot, d.Notes.Snapshot = &s, &s
	return r, s
}

// TestSave: a pod on the member's node takes the snapshot that is noted, and why it cannot is told.
func TestSave(t *testing.T) {
	r, s := saving(t)
	calls, w, err := r.work()
	if err != nil || !slices.Equal(calls, []string{"apply DaemonSet/linstor-etcd-snapshot"}) {
		t.Fatalf("%v, %v", calls, err)
	}
	pod := w.Applied[0].(*appsv1.DaemonSet).Spec.Template.Spec
	want := []string{pods.FlagSave,
		`{"id":"` + s.ID + `","endpoint":"http://192.0.2.1:3379","clusterID":"ff"}`}
	if diff := cmp.Diff(want, pod.Containers[0].Args); diff != "" || pod.NodeSelector[pods.Label] != "n01-1" ||
		pod.Volumes[0].HostPath.Path != "/mnt/etcd" {
		t.Errorf("%s; %+v", diff, pod)
	}
	for report, fails := range map[seats.Taken]bool{{ID: s.ID, Error: "no space"}: true,
		{ID: "another", Error: "no space"}: false, {ID: s.ID}: false} {
		r.known.Facts.Sites["n01"] = seats.Site{Taken: &report}
		if _, _, err := r.work(); fails != (err != nil && strings.Contains(err.Error(), "no space")) {
			t.Errorf("%+v: %v", report, err)
		}
	}
}

// told is the next step: what Events it makes, and what notes it writes.
func (r rig) told() (told []step.Notice, notes *seats.Notes, err error) {
	r.T.Helper()
	in, w := r.Input()
	in.Announce = func(n step.Notice) { told = append(told, n) }
	in.Snapshot.Etcd, in.Snapshot.OperatorImage = r.known, "registry.example.com/operator:v1"
	managedetcd.Work(r.T.Context(), in)
	if len(w.Queued) == 0 {
		return nil, nil, nil
	}
	err = w.Queued[0].Do(r.T.Context())
	for _, o := range w.Applied {
		if cm, ok := o.(*corev1.ConfigMap); ok {
			notes = &seats.Notes{}
			if err := json.Unmarshal([]byte(cm.Data[etcdmember.KeyNotes]), notes); err != nil {
				r.T.Fatal(err)
			}
		}
	}
	return told, notes, err
}

// TestTold: what is noted of a snapshot is told once, before anything else is done, by whoever finds it untold; and
// that is noted.
func TestTold(t *testing.T) {
	taken := &seats.Taken{Revision: 7, Bytes: 5 << 20}
	for name, c := range map[string]struct {
		spoil  func(r *rig, s *seats.Snapshot, n *seats.Notes)
		reason string
		says   string
	}{
		"nothing came of it yet": {func(*rig, *seats.Snapshot, *seats.Notes) {}, "", ""},
		"it was taken": {func(_ *rig, s *seats.Snapshot, _ *seats.Notes) { s.Taken = taken },
			"EtcdSnapshotTaken", "/mnt/etcd/snapshots/before-3.7-"},
		"it was taken, and a step waits that cannot be taken": {func(r *rig, s *seats.Snapshot, _ *seats.Notes) {
			s.Taken, r.known.Decision.Step, r.known.Decision.Spot.Node = taken, membership.Place, "gone"
		}, "EtcdSnapshotTaken", "revision 7"},
		"it was taken, and the operator ended before it was noted": {func(r *rig, s *seats.Snapshot, _ *seats.Notes) {
			r.known.Facts.Sites[s.Node] = seats.Site{Taken: taken}
		}, "", ""},
		"it has failed": {func(_ *rig, s *seats.Snapshot, _ *seats.Notes) { s.Failed = "no space" },
			"EtcdSnapshotFailed", "node n01, and members are not restarted without it: no space"},
		"it was taken after a failure": {func(_ *rig, s *seats.Snapshot, n *seats.Notes) {
			s.Failed = "no space"
			n.Told, s.Taken = s.Outcome(), taken
		}, "EtcdSnapshotTaken", "on node n01"},
		"another node has failed within the same second": {func(_ *rig, s *seats.Snapshot, n *seats.Notes) {
			s.Failed = "no space"
			n.Told, s.Node = s.Outcome(), "n02"
		}, "EtcdSnapshotFailed", "node n02"},
		"it was told": {func(_ *rig, s *seats.Snapshot, n *seats.Notes) {
			s.Taken = taken
			n.Told = s.Outcome()
		}, "", ""},
		"the failure was told, and the pod gives another reason": {func(r *rig, s *seats.Snapshot, n *seats.Notes) {
			s.Failed = "61 MiB are free"
			n.Told = s.Outcome()
			r.known.Facts.Sites[s.Node] = seats.Site{Taken: &seats.Taken{ID: s.ID, Error: "60 MiB are free"}}
		}, "", ""},
		"the cache is behind": {func(r *rig, s *seats.Snapshot, _ *seats.Notes) {
			s.Taken = taken
			r.known.Facts.NotesVersion = "2"
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := saving(t)
			n := &r.known.Facts.Notes
			n.Snapshot = &s
			r.known.Facts.NotesVersion, r.known.Decision.NotesVersion = "3", "3"
			r.configMap(etcdmember.Notes, "3", nil)
			c.spoil(&r, &s, n)
			told, notes, _ := r.told()
			if c.reason == "" {
				if len(told) > 0 {
					t.Errorf("%+v", told)
				}
				return
			}
			if len(told) != 1 || told[0].Reason != c.reason || !strings.Contains(told[0].Note, c.says) ||
				told[0].Warning != (s.Taken == nil) {
				t.Fatalf("%+v", told)
			}
			if notes == nil || notes.Told != s.Outcome() || notes.Snapshot.Outcome() != s.Outcome() {
				t.Fatalf("%+v is noted", notes)
			}
			*n = *notes
			if told, _, _ := r.told(); len(told) > 0 {
				t.Errorf("it is told again: %+v", told)
			}
		})
	}
}

// TestSnapshotInStatus: the newest that was taken is named although another one is begun, or none counts any more. One
// of another cluster is nobody's way back.
func TestSnapshotInStatus(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*seats.Notes)
		named bool
	}{
		"it was taken a moment ago":     {func(*seats.Notes) {}, true},
		"a forced recovery was after":   {func(n *seats.Notes) { n.Snapshot = nil }, true},
		"another one is begun":          {func(n *seats.Notes) { n.Snapshot = &seats.Snapshot{ID: "later"} }, true},
		"the cluster is another one":    {func(n *seats.Notes) { n.ClusterID++ }, false},
		"one was begun, and none taken": {func(n *seats.Notes) { n.Kept = nil }, false},
	} {
		r, s := saving(t)
		s.Taken = &seats.Taken{ID: s.ID, Revision: 7, Bytes: 5 << 20}
		n := &r.known.Decision.Notes
		n.ClusterID, n.Snapshot, n.Kept = s.ClusterID, &s, &s
		c.spoil(n)
		in, _ := r.Input()
		in.Snapshot.Etcd = r.known
		var want *etcdspec.EtcdSnapshot
		if c.named {
			want = &etcdspec.EtcdSnapshot{From: "3.6", To: "3.7", Node: "n01", File: "/mnt/etcd/snapshots/" + s.ID + ".db",
				Revision: 7, SizeMiB: 5}
		}
		if diff := cmp.Diff(want, managedetcd.Status(in.Snapshot).Snapshot); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSnapshotPodGoes once it is noted what came of it, or that nothing will.
func TestSnapshotPodGoes(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*rig, *seats.Snapshot)
		goes  bool
	}{
		"it is asked for":  {func(*rig, *seats.Snapshot) {}, false},
		"a member is away": {func(r *rig, _ *seats.Snapshot) { r.known.Decision.Step = membership.Wait }, false},
		"it was taken, and told": {func(r *rig, s *seats.Snapshot) {
			rest(r)
			s.Taken = &seats.Taken{}
			r.known.Facts.Notes.Told = s.Outcome()
		}, true},
		"it was begun an hour ago": {func(r *rig, s *seats.Snapshot) { rest(r); s.Begun = r.Now.Add(-time.Hour) }, true},
		"it is forgotten":          {func(r *rig, _ *seats.Snapshot) { rest(r); r.known.Facts.Notes.Snapshot = nil }, true},
		"the data was moved":       {func(r *rig, _ *seats.Snapshot) { r.known = nil }, true},
		"the data was moved, and it is another's": {func(r *rig, _ *seats.Snapshot) {
			r.known, r.Kube.DaemonSets[etcdmember.Snapshot].Labels = nil, nil
		}, false},
	} {
		r, s := saving(t)
		r.known.Facts.Notes.Snapshot = &s
		ds := etcdmember.SnapshotOf(r.params(), etcdmember.Site{}, s, "")
		r.Kube.DaemonSets[ds.Name] = ds
		c.spoil(&r, &s)
		calls, _, err := r.work()
		if goes := slices.Contains(calls, "delete DaemonSet/linstor-etcd-snapshot"); goes != c.goes || err != nil {
			t.Errorf("%s: %v, %v", name, calls, err)
		}
	}
}

func rest(r *rig) { r.known.Decision.Step = membership.Rest }

// TestTakenIsRead from the pod on the node.
func TestTakenIsRead(t *testing.T) {
	r := newRig(t)
	report := seats.Taken{ID: "before-3.7-20261127T231500Z", Error: "no space"}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: etcdmember.Save,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(text)}}}}
	r.Kube.Pods[etcdmember.SnapshotComponent] = map[string]*corev1.Pod{"n01": pod}
	in, _ := r.Input()
	facts, _ := managedetcd.Facts(&in.Snapshot.Facts)
	if got := facts.Sites["n01"].Taken; got == nil || *got != report || facts.Sites["n02"].Taken != nil {
		t.Errorf("%+v", facts.Sites)
	}
	pod.DeletionTimestamp = &metav1.Time{Time: r.Now}
	if facts, _ := managedetcd.Facts(&in.Snapshot.Facts); facts.Sites["n01"].Taken != nil {
		t.Errorf("it was interrupted, and says %+v", facts.Sites["n01"].Taken)
	}
}
