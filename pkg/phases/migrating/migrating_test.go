package migrating_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/backuptest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	marked    = "manual-a@5ac3"
	confirmed = marked + ":" // at no difference
)

// rig is a cluster in the phase Migrating for the backup manual-a, with LINSTOR stopped.
type rig struct{ *clustertest.World }

func newRig(t *testing.T) rig {
	t.Helper()
	w := clustertest.NewWorld(t, 2)
	backuptest.Store(w)
	w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
	w.Phase(v1alpha1.PhaseMigrating, time.Minute)
	r := rig{w}
	r.stop()
	return r
}

func (r rig) stop() { backuptest.Stop(r.World) }

// compared puts the comparison into the status.
func (r rig) compared(change func(*backupspec.Comparison)) {
	c := backuptest.Compared(r.World)
	if change != nil {
		change(c)
	}
}

// atTaken is the answer to the question about a backup with an address that another machine has.
var atTaken = restore.Consent{Backup: restore.Backup{ID: "manual-a", SHA256: "5ac3"}, Digest: "d1"}

// taken puts such a comparison into the status, and what was answered.
func (r rig) taken(answer restore.Consent) {
	if answer.ID != "" {
		r.Claim(func(c *resources.ClaimData) { c.RestoreConfirmed = answer.String() })
	}
	r.compared(func(c *backupspec.Comparison) {
		c.Differences, c.Digest, c.Message = map[string]int32{"AddressTaken": 1}, "d1", "the nodes differ: 1 AddressTaken"
		c.Addresses = []backupspec.TakenAddress{{Address: "10.0.0.9", Node: "n09", Machine: "n02"}}
	})
}

// unlabelled is a node whose labels were taken off, and with them its satellite.
func (r rig) unlabelled(node string) {
	r.KubeNode(node).Labels = nil
	clustertest.RemovePods(r.World, node)
}

// importing puts the pod that imports the backup.
func (r rig) importing(phase corev1.PodPhase, message string) *corev1.Pod {
	p := r.ReadyPod(v1alpha1.ComponentRestore, "n01")
	p.Name, p.Annotations = "linstor-restore-1", map[string]string{v1alpha1.Prefix + "backup-id": marked}
	p.CreationTimestamp, p.Status.Phase = metav1.NewTime(r.Now.Add(-time.Minute)), phase
	if phase != corev1.PodRunning {
		end := &corev1.ContainerStateTerminated{Message: message, FinishedAt: metav1.NewTime(r.Now)}
		if phase == corev1.PodFailed {
			end.ExitCode = 1
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "check-import",
			State: corev1.ContainerState{Terminated: end}}}
	}
	r.Kube.Restores = map[string]*corev1.Pod{p.Name: p}
	return p
}

func (r rig) mark() { r.Claim(func(c *resources.ClaimData) { c.Restoring, c.Epoch = marked, "" }) }

const note = `{"id":"manual-a","sha256":"5ac3","taken":"2026-03-01T11:00:00Z","rows":260}`

// scenario is a rig, and what becomes of it.
type scenario struct {
	spoil func(rig)
	row   string
	// event leaves the phase; hold stops it.
	event fsm.Event
	hold  v1alpha1.HoldReason
	// options are those of the hold, and says is part of the outcome's message.
	options []string
	says    string
	// calls are the writes, without the names of pods.
	calls []string
	// claim is what it says about the restore afterwards: what is confirmed, being restored, and restored.
	claim []string
}

var scenarios = map[string]scenario{
	"the accepted spec is gone": {spoil: func(r rig) { r.Bare = true }, row: "revision-missing", event: fsm.SpecChanged,
		says: "is missing"},
	"the claim is gone, and with it what it says of a half import": {spoil: func(r rig) { r.Unclaimed() },
		row: "claim-missing", says: "restore it from a backup of the Kubernetes objects"},
	"the annotation was removed": {spoil: func(r rig) { r.Cluster.Annotations = nil }, row: "over", event: fsm.Advanced,
		says: "nothing to restore or move", calls: []string{"apply ConfigMap/linstor-claim"}, claim: []string{"", "", ""}},
	"it is restored": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Restored = "manual-a" })
	}, row: "over", event: fsm.Advanced, says: "backup manual-a has been restored",
		calls: []string{"apply ConfigMap/linstor-claim"}, claim: []string{"", "", "manual-a"}},
	"LINSTOR runs": {spoil: func(r rig) { r.Deploy() }, row: "runs", says: "the controller is being stopped",
		calls: []string{"delete Deployment/linstor-controller"}},
	"its pod ends": {spoil: func(r rig) {
		r.Kube.ControllerPods = []*corev1.Pod{r.ReadyPod(v1alpha1.ComponentController, "n02")}
	}, row: "runs", says: "the controller's pod is terminating"},
	"its pod does not end, since its node is dead": {spoil: func(r rig) {
		p := r.ReadyPod(v1alpha1.ComponentController, "n02")
		p.DeletionTimestamp, r.Kube.ControllerPods = clustertest.At(r.Now), []*corev1.Pod{p}
		r.KubeNode("n02").Status.Conditions[0].Status = corev1.ConditionFalse
	}, row: "runs", says: "is stuck Terminating on node n02, which is not ready: LINSTOR may still be running there. " +
		"Once that machine is powered off: kubectl -n linstor-storage delete pod "},
	"nothing was compared": {row: "comparing", says: "being compared"},
	"it is compared while LINSTOR ran": {spoil: func(r rig) {
		r.compared(func(c *backupspec.Comparison) { c.Stopped = false })
	}, row: "comparing", says: "being compared"},
	"another backup was compared": {spoil: func(r rig) {
		r.compared(func(c *backupspec.Comparison) { c.Backup = "manual-b" })
	}, row: "comparing", says: "being compared"},
	"it was compared long ago": {spoil: func(r rig) {
		r.compared(func(c *backupspec.Comparison) { c.Ended = clustertest.At(r.Now.Add(-2 * time.Hour)) })
	}, row: "comparing", says: "being compared"},
	"the comparison goes on": {spoil: func(r rig) {
		r.compared(func(c *backupspec.Comparison) { c.Ended, c.Taken, c.Message = nil, nil, "1 of 2 nodes have listed" })
	}, row: "comparing", says: "1 of 2 nodes have listed", calls: []string{"apply DaemonSet/linstor-volume-listing"}},
	"it could not be compared": {spoil: func(r rig) {
		r.compared(func(c *backupspec.Comparison) { c.Taken, c.Message = nil, "the store has no backup manual-a" })
	}, row: "not-compared", hold: v1alpha1.HoldRestoreFailed, says: "the store has no backup manual-a"},
	"it is of another version": {spoil: func(r rig) {
		r.compared(func(c *backupspec.Comparison) { c.Linstor = "1.33.2" })
	}, row: "another-version", hold: v1alpha1.HoldRestoreFailed, says: "it is from LINSTOR 1.33.2"},
	"nothing differs": {spoil: func(r rig) { r.compared(nil) }, row: "asks", hold: v1alpha1.HoldRestoreRequested,
		options: []string{"abandon", "restore"}, says: "no difference"},
	"something differs": {spoil: func(r rig) {
		r.compared(func(c *backupspec.Comparison) {
			c.Differences, c.Digest, c.Message = map[string]int32{"Absent": 1}, "d1", "the nodes differ: 1 Absent"
		})
	}, row: "asks", hold: v1alpha1.HoldRestoreRequested, options: []string{"abandon", "restore-with-differences"},
		says: "1 Absent"},
	"something differs since somebody agreed": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.RestoreConfirmed = confirmed })
		r.compared(func(c *backupspec.Comparison) {
			c.Differences, c.Digest, c.Message = map[string]int32{"InUse": 1}, "d2", "the nodes differ: 1 InUse"
		})
	}, row: "asks", hold: v1alpha1.HoldRestoreRequested, options: []string{"abandon", "restore-with-differences"},
		says: "1 InUse"},
	"somebody agreed": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.RestoreConfirmed, c.Restored = confirmed, "manual-before" })
		r.compared(nil)
	}, row: "confirmed", says: "the import is about to start", calls: []string{"apply ConfigMap/linstor-claim"},
		claim: []string{"", restore.Backup{ID: "manual-a", SHA256: "5ac3"}.Mark(clustertest.Begin), ""}},
	"it is to be imported": {spoil: func(r rig) { r.mark() }, row: "import", says: "is being created",
		calls: []string{"apply Pod/linstor-restore"}},
	"it is to be imported, and nobody asks for it any more": {spoil: func(r rig) {
		r.mark()
		r.Cluster.Annotations = nil
	}, row: "import", says: "is being created", calls: []string{"apply Pod/linstor-restore"}},
	"it is to be imported, and a controller runs": {spoil: func(r rig) {
		r.mark()
		r.Deploy()
	}, row: "runs", calls: []string{"delete Deployment/linstor-controller"}},
	"it is to be imported, and nobody knows where from": {spoil: func(r rig) {
		r.mark()
		r.Cluster.Spec.Backup = nil
	}, row: "no-store", says: "spec.backup is not set"},
	"another machine has a node's address": {spoil: func(r rig) { r.taken(restore.Consent{}) }, row: "asks",
		hold: v1alpha1.HoldRestoreRequested, options: []string{"abandon", "restore-with-differences"},
		says: "node n02 has address 10.0.0.9, which belongs to node n09 in the backup: LINSTOR would mistake one node " +
			"for the other, so the satellites there are stopped before the restore"},
	"its satellite is to be stopped": {spoil: func(r rig) { r.taken(atTaken) }, row: "satellites",
		says:  "node n02 has address 10.0.0.9, which belongs to node n09 in the backup: stopping the satellites on",
		calls: []string{"label n02 member=- os=- platform=-"}},
	"its satellite does not end, since its node is dead": {spoil: func(r rig) {
		r.taken(atTaken)
		r.KubeNode("n02").Labels, r.Satellite("n02").DeletionTimestamp = nil, clustertest.At(r.Now)
		r.KubeNode("n02").Status.Conditions[0].Status = corev1.ConditionFalse
	}, row: "satellites", says: "is stuck Terminating on node n02, which is not ready: a satellite may still be " +
		"running there. Once that machine is powered off: kubectl -n linstor-storage delete pod "},
	"its satellite has no pod, and would get one": {spoil: func(r rig) {
		r.taken(atTaken)
		delete(r.Kube.Pods[v1alpha1.ComponentSatellite], "n02")
	}, row: "satellites", calls: []string{"label n02 member=- os=- platform=-"}},
	"its satellite is stopped": {spoil: func(r rig) {
		r.taken(atTaken)
		r.unlabelled("n02")
	}, row: "confirmed", calls: []string{"apply ConfigMap/linstor-claim"},
		claim: []string{"", restore.Backup{ID: "manual-a", SHA256: "5ac3"}.Mark(clustertest.Begin), ""}},
	"its satellite was started again during the import": {spoil: func(r rig) {
		r.taken(atTaken)
		r.mark()
		r.importing(corev1.PodSucceeded, note)
	}, row: "satellites", calls: []string{"label n02 member=- os=- platform=-"}},
	"its pod runs": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodRunning, "")
		r.Cluster.Spec.Backup = nil
	}, row: "importing", says: "the backup is being imported"},
	"its pod ends for another one": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodFailed, "").DeletionTimestamp = clustertest.At(r.Now)
	}, row: "importing", says: "on node n01 to terminate before another pod is created; if the node is dead " +
		"and powered off, run kubectl"},
	"its pod failed": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodFailed, "linstor-database import-db ended with status 1")
	}, row: "import-failed", hold: v1alpha1.HoldRestoreFailed, options: []string{"retry"},
		says: "import-db ended with status 1; LINSTOR's database may now contain only part of a backup"},
	"its pod ended well without a word": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodSucceeded, "")
	}, row: "import-failed", hold: v1alpha1.HoldRestoreFailed, options: []string{"retry"}, says: "produced no result"},
	"its pod has imported another one": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodSucceeded, strings.Replace(note, "5ac3", "0000", 1))
	}, row: "import-failed", hold: v1alpha1.HoldRestoreFailed, options: []string{"retry"}},
	"its pod has imported it": {spoil: func(r rig) {
		r.mark()
		r.Claim(func(c *resources.ClaimData) { c.RestoreConfirmed = confirmed })
		r.importing(corev1.PodSucceeded, note)
	}, row: "imported", says: "the backup has been restored to", calls: []string{"apply ConfigMap/linstor-claim"},
		claim: []string{"", "", "manual-a"}},
	"an earlier import of the same one has left its pod": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodSucceeded, note).Annotations[v1alpha1.Prefix+"backup-id"] = marked + "@1"
	}, row: "import", says: "is being created",
		calls: []string{"apply Pod/linstor-restore", "delete Pod/linstor-restore"}},
	"it is imported, and another pod of it runs": {spoil: func(r rig) {
		r.mark()
		done := r.importing(corev1.PodSucceeded, note)
		other := r.importing(corev1.PodRunning, "")
		other.Name, done.Name = "linstor-restore-0", "linstor-restore-1"
		r.Kube.Restores = map[string]*corev1.Pod{other.Name: other, done.Name: done}
	}, row: "importing", says: "the backup is being imported"},
	"it is imported, and a pod of another import hangs": {spoil: func(r rig) {
		r.mark()
		done := r.importing(corev1.PodSucceeded, note)
		other := r.importing(corev1.PodRunning, "")
		other.Name, other.Annotations = "linstor-restore-0", map[string]string{v1alpha1.Prefix + "backup-id": "b@1"}
		other.DeletionTimestamp, done.Name = clustertest.At(r.Now), "linstor-restore-1"
		r.Kube.Restores = map[string]*corev1.Pod{other.Name: other, done.Name: done}
	}, row: "not-alone", says: "waiting for pod linstor-restore-0 on node n01"},
	"the configuration is gone that names the database": {spoil: func(r rig) {
		r.mark()
		delete(r.Kube.ConfigMaps, resources.ControllerConfigName)
	}, row: "import", calls: []string{"apply ConfigMap/" + resources.ControllerConfigName, "apply Pod/linstor-restore"}},
	"the spec changes, so that the pod can start": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodFailed, "")
		r.Cluster.Generation = 2
		r.Cluster.Spec.Images.Registry = "registry.example.com"
	}, row: "spec-changed", event: fsm.SpecChanged, says: "the spec changed (generation 2)"},
	"the spec changes while LINSTOR's program works": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodRunning, "")
		r.Cluster.Generation = 2
		r.Cluster.Spec.Images.Registry = "registry.example.com"
	}, row: "importing", says: "the backup is being imported"},
	"another one is wanted meanwhile": {spoil: func(r rig) {
		r.mark()
		r.importing(corev1.PodRunning, "")
		r.Cluster.Annotations[v1alpha1.AnnotationRestore] = "manual-b"
	}, row: "comparing", says: "manual-b", calls: []string{"delete Pod/linstor-restore"}},
	"another one that could not be compared": {spoil: func(r rig) {
		r.mark()
		r.Cluster.Annotations[v1alpha1.AnnotationRestore] = "manual-b"
		r.compared(func(c *backupspec.Comparison) { c.Backup, c.Taken, c.Message = "manual-b", nil, "there is none" })
	}, row: "not-compared", hold: v1alpha1.HoldRestoreFailed, options: []string{"retry"},
		says: "there is none; LINSTOR's database"},
}

func TestMigrating(t *testing.T) {
	for name, tc := range scenarios {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { tc.check(t) })
	}
	var unseen []string
	for _, row := range migrating.Rows() {
		if !slices.ContainsFunc(slices.Collect(func(yield func(scenario) bool) {
			for _, tc := range scenarios {
				if !yield(tc) {
					return
				}
			}
		}), func(tc scenario) bool { return tc.row == row }) {
			unseen = append(unseen, row)
		}
	}
	if len(unseen) > 0 {
		t.Errorf("no scenario is decided by %v", unseen)
	}
}

func (tc *scenario) check(t *testing.T) {
	r := newRig(t)
	if tc.spoil != nil {
		tc.spoil(r)
	}
	in, w := r.Input()
	if got := migrating.Row(in); got != tc.row {
		t.Errorf("row %q decides, want %q", got, tc.row)
	}
	o := phases.Decide(t.Context(), in)
	event, reason, options := tc.event, v1alpha1.HoldReason(""), []string(nil)
	if tc.hold != "" {
		event = fsm.HumanNeeded
	}
	if o.Hold != nil {
		reason, options = o.Hold.Reason, o.Hold.Options
	}
	if o.Event != event || reason != tc.hold || !slices.Equal(options, tc.options) ||
		!strings.Contains(o.Message, tc.says) {
		t.Errorf("outcome %+v, want event %q, hold %q with %q and a message with %q", o, event, tc.hold, tc.options, tc.says)
	}
	var calls []string
	for _, call := range w.Calls {
		if name, pod := strings.CutPrefix(call, "apply Pod/linstor-restore-"); pod && name != "" {
			call = "apply Pod/linstor-restore"
		}
		calls = append(calls, strings.TrimSuffix(call, "-1"))
	}
	if d := cmp.Diff(tc.calls, calls); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	var claim []string
	if c := clustertest.AppliedClaim(t, w); c != nil {
		claim = []string{c.RestoreConfirmed, c.Restoring, c.Restored}
		checkEpoch(t, c)
	}
	if d := cmp.Diff(tc.claim, claim); d != "" {
		t.Errorf("claim (-want +got):\n%s", d)
	}
}

// checkEpoch: the backup that is imported may have a higher number than the claim, which is no alarm.
func checkEpoch(t *testing.T, c *resources.ClaimData) {
	t.Helper()
	if c.Restoring != "" && epoch.Parse(c.Epoch).Number != 0 {
		t.Errorf("the claim has the number %s while a backup is imported", c.Epoch)
	}
}
