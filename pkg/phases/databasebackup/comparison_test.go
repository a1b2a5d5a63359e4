package databasebackup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
)

// rig is a cluster with a store for backups, where none is taken.
type rig struct{ bench }

func newRig(t *testing.T) rig {
	r := rig{newBench(t)}
	r.spec().Schedule = ""
	r.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCompareBackup: "manual-a"}
	return r
}

// step does what a reconcile does about comparisons, and what the API server makes of it.
func (r rig) step() []string {
	r.T.Helper()
	in, w := r.Input()
	in.Failures = &step.Failures{}
	databasebackup.Work(r.T.Context(), in)
	if why := in.Failures.Aside("BackupReady"); why != "" {
		r.T.Fatal(why)
	}
	r.Cluster.Status.Backup = databasebackup.Status(in.Snapshot, false)
	var calls []string
	for _, call := range w.Calls {
		verb, object, _ := strings.Cut(call, " ")
		kind, name, _ := strings.Cut(object, "/")
		calls = append(calls, verb+" "+kind)
		switch call {
		case "delete Pod/" + name:
			delete(r.Kube.Comparisons, name)
		case "delete DaemonSet/" + name:
			delete(r.Kube.DaemonSets, name)
			delete(r.Kube.Pods, v1alpha1.ComponentListing)
		}
	}
	for _, o := range w.Applied {
		switch o := o.(type) {
		case *corev1.Pod:
			o = o.DeepCopy()
			o.CreationTimestamp = metav1.NewTime(r.Now)
			r.Kube.Comparisons = map[string]*corev1.Pod{o.Name: o}
		case *appsv1.DaemonSet:
			o = o.DeepCopy()
			o.CreationTimestamp = metav1.NewTime(r.Now)
			r.Kube.DaemonSets[o.Name] = o
		}
	}
	return calls
}

func (r rig) comparison() backupspec.Comparison {
	if st := r.Cluster.Status.Backup; st != nil && st.Comparison != nil {
		return *st.Comparison
	}
	return backupspec.Comparison{}
}

// list lets the pods of these nodes list what lies there.
func (r rig) list(nodes ...string) {
	ds := r.Kube.DaemonSets["linstor-volume-listing"]
	for _, node := range nodes {
		p := r.ReadyPod(v1alpha1.ComponentListing, node)
		p.Annotations = ds.Spec.Template.Annotations
		r.PutPod(v1alpha1.ComponentListing, node, p)
	}
}

// comparator is the pod that compares.
func (r rig) comparator() *corev1.Pod {
	r.T.Helper()
	for _, p := range r.Kube.Comparisons {
		return p
	}
	r.T.Fatal("there is no pod that compares")
	return nil
}

func (r rig) ends(phase corev1.PodPhase, message string) {
	r.T.Helper()
	p := r.comparator()
	p.Status.Phase = phase
	end := &corev1.ContainerStateTerminated{Message: message, FinishedAt: metav1.NewTime(r.Now)}
	if phase == corev1.PodFailed {
		end.ExitCode = 1
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "compare-backup",
		State: corev1.ContainerState{Terminated: end}}}
}

// look makes a step and compares its writes, and what the status says.
func (r rig) look(what string, calls []string, says string) {
	r.T.Helper()
	if got := r.step(); !slices.Equal(got, calls) || !strings.Contains(r.comparison().Message, says) {
		r.T.Errorf("%s: writes %q, want %q; %q, want %q", what, got, calls, r.comparison().Message, says)
	}
}

func TestComparison(t *testing.T) {
	r := newRig(t)
	r.look("it is noted first", nil, "0 of 3 nodes")
	r.look("then nodes list", []string{"apply DaemonSet"}, "0 of 3 nodes have listed their volumes")
	r.list("n01", "n03")
	r.look("one is waited for", nil, "2 of 3 nodes have listed their volumes")
	r.list("n02")
	r.look("all have", []string{"apply Pod"}, "3 of 3 nodes")
	r.look("it is compared", nil, "the backup is being compared")
	args := r.comparator().Spec.Containers[0].Args
	config, err := compare.ParseConfig(args[1])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--compare-address", "n01=10.0.0.01", "--compare-address", "n02=10.0.0.02", "--compare-address",
		"n03=10.0.0.03", "--compare-node", "n01=10.0.0.01:9421", "--compare-node", "n02=10.0.0.02:9421", "--compare-node",
		"n03=10.0.0.03:9421"}
	if d := cmp.Diff(want, args[2:]); d != "" {
		t.Error(d)
	}
	token := r.Kube.DaemonSets["linstor-volume-listing"].Spec.Template.Spec.Containers[0].Args[3]
	if config.Token != token || config.ID != "manual-a" || config.Cluster == "" || config.Store.Bucket != "backups" {
		t.Errorf("%+v; listings are served for %s", config, token)
	}
	note, err := (&compare.Result{ID: "manual-a", Taken: r.Now, Stored: 7, Nodes: 3, Found: map[difference.Kind]int{
		difference.Unknown: 2, difference.Absent: 1}, Worst: []string{"Absent: …"},
		Addresses: []difference.TakenAddress{{Address: "10.0.0.9", Node: "n09", Machine: "n02"}}}).Note()
	if err != nil {
		t.Fatal(err)
	}
	r.ends(corev1.PodSucceeded, string(note))
	r.Now = r.Now.Add(time.Hour)
	r.look("it has ended", nil, "the nodes differ from the backup: 1 Absent, 2 Unknown; for all differences, run kubectl")
	c := r.comparison()
	d := cmp.Diff(map[string]int32{"Absent": 1, "Unknown": 2}, c.Differences)
	if d != "" || c.Nodes != 3 || !c.Ended.Time.Equal(r.Now.Add(-time.Hour)) {
		t.Errorf("%s%+v", d, c)
	}
	if want := []backupspec.TakenAddress{{Address: "10.0.0.9", Node: "n09", Machine: "n02"}}; !slices.Equal(
		c.Addresses, want) {
		t.Errorf("addresses %+v", c.Addresses)
	}
	r.look("the listings go", []string{"delete DaemonSet"}, "1 Absent")
	r.look("the pod stays with its log", nil, "1 Absent")

	r.Cluster.Annotations[v1alpha1.AnnotationCompareBackup] = "manual-b"
	r.Now = r.Now.Add(time.Nanosecond)
	r.look("another one is wanted", []string{"delete Pod"}, "0 of 3 nodes")
	r.look("it is listed anew", []string{"apply DaemonSet"}, "0 of 3 nodes")
	delete(r.Cluster.Annotations, v1alpha1.AnnotationCompareBackup)
	r.look("none is wanted", []string{"delete DaemonSet"}, "")
	if c := r.comparison(); c.Backup != "" {
		t.Errorf("%+v", c)
	}
}

// TestComparisonWithoutAll: what cannot list is not waited for, and nothing but a listing of this comparison counts.
func TestComparisonWithoutAll(t *testing.T) {
	begun := func(t *testing.T) rig {
		r := newRig(t)
		r.step()
		r.step()
		r.list("n01", "n02")
		return r
	}
	t.Run("a node is down", func(t *testing.T) {
		r := begun(t)
		r.KubeNode("n03").Status.Conditions[0].Status = corev1.ConditionUnknown
		r.look("the others have", []string{"apply Pod"}, "2 of 3 nodes have listed their volumes")
		if args := r.comparator().Spec.Containers[0].Args; args[len(args)-1] != "n03=" {
			t.Errorf("arguments %q: the node that is down must be named", args)
		}
	})
	t.Run("a pod does not start", func(t *testing.T) {
		r := begun(t)
		r.Now = r.Now.Add(4*time.Minute + 50*time.Second)
		r.look("not yet", nil, "2 of 3 nodes")
		r.Now = r.Now.Add(10 * time.Second)
		r.look("it is not waited for", []string{"apply Pod"}, "2 of 3 nodes")
	})
	t.Run("a listing of an earlier comparison", func(t *testing.T) {
		r := begun(t)
		r.list("n03")
		r.Kube.Pods[v1alpha1.ComponentListing]["n03"].Annotations = nil
		r.look("it does not count", nil, "2 of 3 nodes have listed their volumes")
	})
	t.Run("nobody goes on with it", func(t *testing.T) {
		r := begun(t)
		r.list("n03")
		r.Now = r.Now.Add(10*time.Minute + time.Second)
		r.look("the listings are too old", nil, "not compared: its pod was not created before the nodes' volume lists")
		r.look("they go", []string{"delete DaemonSet"}, "not compared")
		r.look("and do not come again", nil, "not compared")
	})
	t.Run("what makes pods is away for a moment", func(t *testing.T) {
		r := begun(t)
		r.list("n03")
		r.step()
		delete(r.Kube.Secrets, "s3")
		r.look("the pod that compares goes on", nil, "the backup is being compared")
	})
	t.Run("it was put off", func(t *testing.T) {
		r := begun(t)
		pod := r.comparison().Pod
		r.Now = r.Now.Add(time.Nanosecond)
		r.Cluster.Spec.Suspend = true
		r.look("suspended", nil, "postponed: spec.suspend is set")
		r.Cluster.Spec.Suspend = false
		r.look("what was begun goes", []string{"delete DaemonSet"}, "0 of 3 nodes")
		if r.comparison().Pod == pod {
			t.Errorf("%+v", r.comparison())
		}
	})
	t.Run("another operator's image", func(t *testing.T) {
		r := begun(t)
		r.list("n03")
		r.step()
		r.Kube.DaemonSets["linstor-volume-listing"].Spec.Template.Annotations = nil
		r.look("what is compared with stays", nil, "the backup is being compared")
	})
	t.Run("somebody else's DaemonSet", func(t *testing.T) {
		r := begun(t)
		r.Kube.DaemonSets["linstor-volume-listing"].Labels = nil
		r.look("it is said", nil,
			"DaemonSet linstor-storage/linstor-volume-listing exists, but was not created by the operator")
		r.look("and left alone", nil, "not compared")
	})
	t.Run("a DaemonSet of an earlier comparison", func(t *testing.T) {
		r := begun(t)
		r.Cluster.Status.Backup.Comparison.Pod = "linstor-compare-backup-1"
		r.look("it goes first", []string{"delete DaemonSet"}, "0 of 3 nodes")
		r.look("and comes again", []string{"apply DaemonSet"}, "0 of 3 nodes")
	})
}

func TestComparisonFails(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(r rig)
		says  string
		ended bool
	}{
		"no name of a backup": {func(r rig) { r.Cluster.Annotations[v1alpha1.AnnotationCompareBackup] = "A b" },
			"annotation storage.linstor.dev/compare-backup: \"A b\" is not a valid backup ID", true},
		"no Secret": {func(r rig) { delete(r.Kube.Secrets, "s3") },
			"postponed: spec.backup.s3.credentialsSecret: Secret", false},
		"the cluster goes": {func(r rig) { r.Cluster.DeletionTimestamp = clustertest.At(r.Now) },
			"postponed: the cluster is being deleted", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tc.spoil(r)
			r.look("noted", nil, tc.says)
			r.look("nothing is made", nil, tc.says)
			if (r.comparison().Ended != nil) != tc.ended {
				t.Errorf("%+v", r.comparison())
			}
		})
	}
	compares := func(t *testing.T) rig {
		r := newRig(t)
		r.step()
		r.step()
		r.list("n01", "n02", "n03")
		r.step()
		return r
	}
	r := compares(t)
	r.Now = r.Now.Add(20*time.Minute + time.Second)
	r.look("its pod does not end", nil, "not compared: its pod did not finish in time")
	r = compares(t)
	r.ends(corev1.PodSucceeded, `{"id":"manual-a","taken":"2026-11-2`)
	r.look("its note is cut", nil, "not compared: its pod succeeded but produced no result")
	r = compares(t)
	r.Now = r.Now.Add(time.Nanosecond)
	r.spec().S3.Bucket = "other"
	r.look("backups go elsewhere", nil, "0 of 3 nodes")
	r.look("what was begun goes", []string{"delete Pod", "delete DaemonSet"}, "0 of 3 nodes")
	r = compares(t)
	r.ends(corev1.PodFailed, "operator: the store has no backup manual-a")
	r.look("the pod fails", nil, "not compared: the store has no backup manual-a")
	if c := r.comparison(); c.Ended == nil || c.Taken != nil {
		t.Errorf("%+v", c)
	}
	r.look("and is not made again", []string{"delete DaemonSet"}, "not compared")
	r.look("at rest", nil, "not compared")

	in, _ := newRig(t).Input()
	in.Snapshot.OperatorImage = ""
	c := databasebackup.Status(in.Snapshot, false).Comparison
	if !strings.Contains(c.Message, "own image, which is used to take backups, is unknown") {
		t.Errorf("without an image: %+v", c)
	}
}

// TestComparisonWithoutLinstor: it is for whoever has lost the database.
func TestComparisonWithoutLinstor(t *testing.T) {
	r := newRig(t)
	r.Silent(nil)
	r.step()
	if got := r.step(); !slices.Equal(got, []string{"apply DaemonSet"}) {
		t.Errorf("writes %q", got)
	}
	in, w := r.Input()
	if !databasebackup.Left(&in.Snapshot.Facts) || databasebackup.Remove(t.Context(), in) != nil ||
		!slices.Equal(w.Calls, []string{"delete DaemonSet/linstor-volume-listing"}) {
		t.Errorf("calls %q", w.Calls)
	}
	r.Cluster.Spec.Backup = nil
	in, _ = r.Input()
	e := databasebackup.Judge(in.Snapshot, nil)
	if e.State != cluster.Unknown || !strings.Contains(e.Message, "does not take, compare or restore backups") {
		t.Errorf("%+v", e)
	}
}

// TestAComparisonForARestore: it is made while LINSTOR is stopped, and counts only as long as that stays so.
func TestAComparisonForARestore(t *testing.T) {
	r := newRig(t)
	r.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
	r.look("LINSTOR runs", nil, "postponed: the LINSTOR controller is running")
	delete(r.Kube.Deployments, "linstor-controller")
	r.Kube.ControllerPods = nil
	r.look("it is stopped", nil, "0 of 3 nodes have listed")
	r.look("its pods are made", []string{"apply DaemonSet"}, "0 of 3 nodes")
	r.list("n01", "n02", "n03")
	r.look("all have listed", []string{"apply Pod"}, "3 of 3 nodes")
	r.ends(corev1.PodSucceeded,
		`{"id":"manual-a","sha256":"5a","taken":"2026-03-01T11:00:00Z","linstor":"1.35.3","nodes":3}`)
	r.step()
	if c := r.comparison(); c.Ended == nil || !c.Stopped || c.SHA256 != "5a" || c.Linstor != "1.35.3" {
		t.Errorf("it has ended: %+v", c)
	}
	r.Deploy()
	r.step()
	if c := r.comparison(); c.Ended != nil || c.Pod != "" {
		t.Errorf("LINSTOR has run since: %+v", c)
	}
}
