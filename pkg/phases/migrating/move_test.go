package migrating_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/move"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
)

const (
	elsewhere = "jdbc:postgresql://db:5432/linstor"
	begun     = elsewhere + "@1"
	spoiled   = elsewhere + "@spoiled"
	compared  = elsewhere + "@same-1"
	movedNote = `{"mark":"` + begun + `","rows":260}`
)

// newMove is a cluster in the phase Migrating whose data is to go from Kubernetes to PostgreSQL, with LINSTOR stopped.
func newMove(t *testing.T) rig {
	t.Helper()
	r := newRig(t)
	r.Cluster.Annotations = nil
	r.Secret("db", map[string]string{"username": "linstor", "password": "s3cret"})
	r.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
	r.Cluster.Generation = 2
	r.Claim(func(c *resources.ClaimData) { c.MoveTo = elsewhere })
	r.Database = cluster.Database{Checked: true}
	return r
}

// atOtherAddress has the data on a PostgreSQL server already, and one with the cluster's nodes where it is to go.
func (r rig) atOtherAddress() {
	r.Claim(func(c *resources.ClaimData) { c.Backend = "jdbc:postgresql://old:5432/linstor" })
	wanted, generation := r.Cluster.Spec.Database, r.Cluster.Generation
	r.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "old", CredentialsSecret: "db"}
	r.Cluster.Generation--
	r.Accept()
	r.Cluster.Spec.Database, r.Cluster.Generation = wanted, generation
	r.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"N01", "n02"}}}
}

func (r rig) moving(phase corev1.PodPhase, message string) *corev1.Pod {
	r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
	p := r.importing(phase, message)
	p.Name, p.Annotations = "linstor-move-1", map[string]string{v1alpha1.Prefix + "backup-id": begun}
	r.Kube.Restores = map[string]*corev1.Pod{p.Name: p}
	return p
}

// started is what somebody's start of LINSTOR's controller leaves.
func (r rig) started() {
	r.Kube.Deployments[resources.ControllerName] = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: resources.ControllerName, Namespace: v1alpha1.WorkloadNamespace,
		Labels: r.Kube.ConfigMaps[resources.ClaimName].Labels}}
}

// moveScenario is a rig of a move, and what becomes of it.
type moveScenario struct {
	spoil func(rig)
	row   string
	event fsm.Event
	hold  bool
	// newer reports whether the hold is about newer data, which nobody may leave alone.
	newer bool
	says  string
	calls []string
	// claim is what it says afterwards: where the data is, where it shall go, and whether it is being moved.
	claim []string
}

var applies = []string{"apply ConfigMap/linstor-claim"}

var moveScenarios = map[string]moveScenario{
	"nobody has looked": {spoil: func(r rig) { r.Database = cluster.Database{} }, row: "not-looked",
		says: "the new database is being checked"},
	"it is away, and LINSTOR runs on": {spoil: func(r rig) {
		r.started()
		r.Database = cluster.Database{Checked: true, Err: errors.New("no route to db")}
	}, row: "unreachable", says: "no route to db"},
	"it is away for long": {spoil: func(r rig) {
		r.Phase(v1alpha1.PhaseMigrating, 11*time.Minute)
		r.Database = cluster.Database{Checked: true, Err: errors.New("no route to db")}
	}, row: "unreachable", hold: true, says: "LINSTOR is stopped. Its data is still in k8s and was not moved to " +
		elsewhere + ": no route to db"},
	"it holds another LINSTOR, and LINSTOR's node is dead": {spoil: func(r rig) {
		r.started()
		r.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"old1"}}}
	}, row: "used", hold: true, says: "LINSTOR may still be running. Its data is still in k8s"},
	"it holds another LINSTOR since it was tried": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"N01", "old1"}}}
	}, row: "used", hold: true, says: "it already contains LINSTOR's nodes old1"},
	"it holds what an earlier try has left": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"N01", "n02"}}}
	}, row: "make", calls: []string{"apply Secret/" + databasebackup.TargetConfigName, "apply Pod/linstor-move"}},
	"it holds another LINSTOR, and LINSTOR runs on": {spoil: func(r rig) {
		r.started()
		r.Kube.ControllerPods = []*corev1.Pod{r.ReadyPod(v1alpha1.ComponentController, "n02")}
		r.Database = cluster.Database{Checked: true, Contents: connection.Contents{Nodes: []string{"old1", "old2"}}}
	}, row: "used", hold: true, says: "LINSTOR is running. Its data is still in k8s and was not moved to " + elsewhere +
		": it already contains LINSTOR's nodes old1, old2: use another database"},
	"it holds another LINSTOR without nodes": {spoil: func(r rig) { r.Database.LocalID = "another" }, row: "used",
		hold: true, says: "it contains data of another LINSTOR cluster (Cluster/LocalID another): use another database"},
	"an import that ended before the first row has made an identity": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Database.LocalID = "another"
	}, row: "make", calls: []string{"apply Secret/" + databasebackup.TargetConfigName, "apply Pod/linstor-move"}},
	"it holds another LINSTOR with nodes of these names since it was tried": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Database.Contents = connection.Contents{Nodes: []string{"N01", "n02"}, LocalID: "another"}
	}, row: "used", hold: true, says: "another LINSTOR cluster (Cluster/LocalID another, nodes N01, n02)"},
	"it holds all that an earlier try has moved, and a node that Kubernetes does not know": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Database.Contents = connection.Contents{Nodes: []string{"N01", "gone"}, LocalID: "local-id", Epoch: "1"}
	}, row: "make", calls: []string{"apply Secret/" + databasebackup.TargetConfigName, "apply Pod/linstor-move"}},
	"LINSTOR has run there, and a Kubernetes of before was put back": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Database.Contents = connection.Contents{Nodes: []string{"N01"}, LocalID: "local-id", Epoch: "2"}
	}, row: "used", hold: true, newer: true, says: "nothing was moved from k8s to " + elsewhere + ": it contains " +
		"newer data of this LINSTOR cluster: its " + linstor.PropEpoch + " property is 2, but ConfigMap " +
		"linstor-storage/linstor-claim contains 1"},
	"LINSTOR may have run there, and the claim has no number": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving, c.Epoch = begun, epoch.Forget(c.Epoch) })
		r.Database.Contents = connection.Contents{Nodes: []string{"N01"}, LocalID: "local-id", Epoch: "1"}
	}, row: "used", hold: true, newer: true, says: "may be newer: its " + linstor.PropEpoch + " property is 1, but " +
		"ConfigMap linstor-storage/linstor-claim contains no number"},
	"it holds data of this LINSTOR from before": {spoil: func(r rig) {
		r.Database.Contents = connection.Contents{Nodes: []string{"N01"}, LocalID: "local-id", Epoch: "7"}
	}, row: "used", hold: true, says: "it already contains data of this LINSTOR cluster (Cluster/LocalID local-id, " +
		"nodes N01): use another database, or empty this one if you are sure that its data is older"},
	"LINSTOR runs": {spoil: func(r rig) { r.started() }, row: "runs", says: "the controller is being stopped",
		calls: []string{"delete Deployment/linstor-controller"}},
	"its pod ends": {spoil: func(r rig) {
		r.Kube.ControllerPods = []*corev1.Pod{r.ReadyPod(v1alpha1.ComponentController, "n02")}
	}, row: "runs", says: "the controller's pod is terminating"},
	"it can begin": {row: "begin", says: "the move is about to start", calls: applies,
		claim: []string{"k8s", elsewhere, move.Mark(elsewhere, clustertest.Begin)}},
	"an earlier move into another one was marked": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = "jdbc:mariadb://db:3306/linstor@1" })
	}, row: "begin", calls: applies, claim: []string{"k8s", elsewhere, move.Mark(elsewhere, clustertest.Begin)}},
	"it has begun": {spoil: func(r rig) { r.Claim(func(c *resources.ClaimData) { c.Moving = begun }) }, row: "make",
		says: "the pod that moves the data is being created", calls: []string{
			"apply Secret/" + databasebackup.TargetConfigName, "apply Pod/linstor-move"}},
	"LINSTOR was started meanwhile": {spoil: func(r rig) {
		r.moving(corev1.PodSucceeded, movedNote)
		r.started()
	}, row: "ran", says: "the move starts over", calls: applies,
		claim: []string{"k8s", elsewhere, spoiled}},
	"LINSTOR was started before there is a pod": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.started()
	}, row: "ran", calls: applies, claim: []string{"k8s", elsewhere, spoiled}},
	"LINSTOR was started, and what was moved does not count": {spoil: func(r rig) {
		r.moving(corev1.PodSucceeded, movedNote)
		r.Claim(func(c *resources.ClaimData) { c.Moving = spoiled })
		r.started()
	}, row: "runs", calls: []string{"delete Deployment/linstor-controller", "delete Pod/linstor-move"}},
	"LINSTOR is stopped once more": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = spoiled })
	}, row: "begin", calls: applies, claim: []string{"k8s", elsewhere, move.Mark(elsewhere, clustertest.Begin)}},
	"one of two pods has failed": {spoil: func(r rig) {
		done := r.moving(corev1.PodSucceeded, movedNote)
		other := r.moving(corev1.PodFailed, "linstor-database import-db ended with status 1")
		other.Name = "linstor-move-2"
		r.Kube.Restores = map[string]*corev1.Pod{done.Name: done, other.Name: other}
	}, row: "move-failed", hold: true, says: "import-db ended with status 1"},
	"it is moved, and a pod of another move hangs": {spoil: func(r rig) {
		done := r.moving(corev1.PodSucceeded, movedNote)
		other := r.moving(corev1.PodRunning, "")
		other.Name, other.Annotations[v1alpha1.Prefix+"backup-id"] = "linstor-move-2", elsewhere+"@0"
		other.DeletionTimestamp = clustertest.At(r.Now)
		r.Kube.Restores = map[string]*corev1.Pod{done.Name: done, other.Name: other}
	}, row: "not-alone", says: "waiting for pod linstor-move-2 on node n01"},
	"the pod works": {spoil: func(r rig) { r.moving(corev1.PodRunning, "") }, row: "moving", says: "is being moved"},
	"the pod works for long": {spoil: func(r rig) {
		r.Phase(v1alpha1.PhaseMigrating, 3*time.Hour)
		p := r.moving(corev1.PodRunning, "")
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "move-database",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}, row: "moving", says: "is being moved"},
	"the pod is not started for long": {spoil: func(r rig) {
		r.Phase(v1alpha1.PhaseMigrating, 3*time.Hour)
		r.moving(corev1.PodPending, "").Status.ContainerStatuses = nil
	}, row: "moving", hold: true, says: "no progress for 1h0m0s"},
	"the pod failed": {spoil: func(r rig) {
		r.moving(corev1.PodFailed, "linstor-database import-db ended with status 1")
	}, row: "move-failed", hold: true, says: "import-db ended with status 1"},
	"the pod has moved something else": {spoil: func(r rig) {
		r.moving(corev1.PodSucceeded, strings.Replace(movedNote, "@1", "@0", 1))
	}, row: "move-failed", hold: true},
	"a pod of an earlier try has moved it": {spoil: func(r rig) {
		r.moving(corev1.PodSucceeded, movedNote).Annotations[v1alpha1.Prefix+"backup-id"] = elsewhere + "@0"
	}, row: "make", calls: []string{"apply Secret/" + databasebackup.TargetConfigName, "apply Pod/linstor-move",
		"delete Pod/linstor-move"}},
	"it is moved": {spoil: func(r rig) { r.moving(corev1.PodSucceeded, movedNote) }, row: "moved", says: "has been moved",
		calls: append([]string{"apply ControllerRevision"}, applies...), claim: []string{elsewhere, "", ""}},
	"it was moved long ago": {spoil: func(r rig) {
		p := r.moving(corev1.PodSucceeded, movedNote)
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = *clustertest.At(r.Now.Add(-11 * time.Minute))
	}, row: "too-old", says: "the move starts over", calls: applies, claim: []string{"k8s", elsewhere, spoiled}},
	"nobody has looked, since a pod of another move hangs": {spoil: func(r rig) {
		p := r.moving(corev1.PodRunning, "")
		p.Annotations[v1alpha1.Prefix+"backup-id"], p.DeletionTimestamp = elsewhere+"@0", clustertest.At(r.Now)
		r.Database = cluster.Database{}
	}, row: "not-looked", says: "waiting for pod linstor-move-1 on node n01"},
	"it is moved, and another pod works": {spoil: func(r rig) {
		done := r.moving(corev1.PodSucceeded, movedNote)
		other := r.moving(corev1.PodRunning, "")
		other.Name = "linstor-move-2"
		r.Kube.Restores = map[string]*corev1.Pod{done.Name: done, other.Name: other}
	}, row: "moving"},
	"the spec is as before": {spoil: func(r rig) {
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Cluster.Spec.Database = v1alpha1.DatabaseSpec{}
	}, row: "over", event: fsm.Advanced, says: "starting LINSTOR against its database", calls: applies,
		claim: []string{"k8s", "", ""}},
	"the spec asks for a third one": {spoil: func(r rig) {
		r.Cluster.Spec.Database = v1alpha1.DatabaseSpec{MariaDB: &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}}
	}, row: "over", event: fsm.Advanced, calls: applies, claim: []string{"k8s", "", ""}},
	"it is the server of before, as it seems": {spoil: rig.atOtherAddress, row: "begin", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, move.MarkSame(elsewhere, clustertest.Begin)}},
	"it is the server of before, and has no nodes": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Database.Contents = connection.Contents{LocalID: "local-id"}
	}, row: "begin", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, move.MarkSame(elsewhere, clustertest.Begin)}},
	"it is the server of before, and Kubernetes knows none of the nodes": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Database.Contents = connection.Contents{Nodes: []string{"gone"}, LocalID: "local-id"}
	}, row: "begin", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, move.MarkSame(elsewhere, clustertest.Begin)}},
	"it is a server of that kind, with another LINSTOR of nodes of these names": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Database.LocalID = "another"
	}, row: "used", hold: true, says: "another LINSTOR cluster (Cluster/LocalID another, nodes N01, n02)"},
	"it is a server of that kind, with what an import has left that ended before the first row": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
		r.Database.Contents = connection.Contents{LocalID: "another"}
	}, row: "make", calls: []string{"apply Secret/" + resources.ControllerConfigName,
		"apply Secret/" + databasebackup.TargetConfigName, "apply Pod/linstor-move"}},
	"it is a server of that kind, with another LINSTOR": {spoil: func(r rig) {
		r.atOtherAddress()
		r.started()
		r.Database.Nodes = []string{"old1"}
	}, row: "used", hold: true, says: "it already contains LINSTOR's nodes old1"},
	"it is the server of before, with a node that Kubernetes does not know": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Database.Nodes = append(r.Database.Nodes, "gone")
	}, row: "begin", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, move.MarkSame(elsewhere, clustertest.Begin)}},
	"its name was given to the server of before since an import failed": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Claim(func(c *resources.ClaimData) { c.Moving = begun })
	}, row: "begin", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, move.MarkSame(elsewhere, clustertest.Begin)}},
	"LINSTOR was started while it was compared": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Claim(func(c *resources.ClaimData) { c.Moving = compared })
		r.started()
	}, row: "ran", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, elsewhere + "@same-spoiled"}},
	"it is compared once more": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Claim(func(c *resources.ClaimData) { c.Moving = elsewhere + "@same-spoiled" })
	}, row: "begin", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, move.MarkSame(elsewhere, clustertest.Begin)}},
	"it was emptied since it was compared": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Database.Nodes = nil
		r.Claim(func(c *resources.ClaimData) { c.Moving = compared })
	}, row: "begin", calls: applies,
		claim: []string{"jdbc:postgresql://old:5432/linstor", elsewhere, move.Mark(elsewhere, clustertest.Begin)}},
	"it is compared": {spoil: func(r rig) {
		r.atOtherAddress()
		r.Claim(func(c *resources.ClaimData) { c.Moving = compared })
	}, row: "make", calls: []string{"apply Secret/" + resources.ControllerConfigName,
		"apply Secret/" + databasebackup.TargetConfigName, "apply Pod/linstor-move"}},
	"it is not the same data": {spoil: func(r rig) {
		r.atOtherAddress()
		p := r.moving(corev1.PodFailed, "rows in table NODES differ")
		p.Annotations[v1alpha1.Prefix+"backup-id"] = compared
		r.Claim(func(c *resources.ClaimData) { c.Moving = compared })
	}, row: "move-failed", hold: true, says: "nothing was imported, but the operator could not confirm that the two " +
		"databases have the same data: rows in table NODES differ. It may be LINSTOR's current database"},
	"it is the same data": {spoil: func(r rig) {
		r.atOtherAddress()
		p := r.moving(corev1.PodSucceeded, strings.Replace(movedNote, begun, compared, 1))
		p.Annotations[v1alpha1.Prefix+"backup-id"] = compared
		r.Claim(func(c *resources.ClaimData) { c.Moving = compared })
	}, row: "moved", calls: append([]string{"apply ControllerRevision"}, applies...), claim: []string{elsewhere, "", ""}},
	"a backup is to be restored": {spoil: func(r rig) {
		r.moving(corev1.PodRunning, "")
		r.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
	}, row: "comparing", calls: []string{"delete Pod/linstor-move"}},
}

func TestMove(t *testing.T) {
	seen := map[string]bool{}
	for name, tc := range moveScenarios {
		seen[tc.row] = true
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { tc.check(t) })
	}
	seen["no-image"] = true // below
	for _, row := range migrating.MoveRows() {
		if !seen[row] {
			t.Errorf("no scenario is decided by %s", row)
		}
	}
}

func (tc *moveScenario) check(t *testing.T) {
	r := newMove(t)
	if tc.spoil != nil {
		tc.spoil(r)
	}
	in, w := r.Input()
	if got := migrating.Row(in); got != tc.row {
		t.Errorf("row %q decides, want %q", got, tc.row)
	}
	o := phases.Decide(t.Context(), in)
	event := tc.event
	if tc.hold {
		event = fsm.HumanNeeded
		want := &cluster.HoldRequest{Reason: v1alpha1.HoldMigrationFailed, Message: o.Message,
			Identities: []string{elsewhere}}
		if tc.newer {
			want.Options = []string{v1alpha1.OptionRetry}
		}
		if d := cmp.Diff(want, o.Hold); d != "" {
			t.Errorf("hold (-want +got):\n%s", d)
		}
	}
	if o.Event != event || !strings.Contains(o.Message, tc.says) {
		t.Errorf("outcome %+v, want event %q and a message with %q", o, event, tc.says)
	}
	var calls []string
	for _, call := range w.Calls {
		for _, verb := range []string{"apply Pod/linstor-move", "delete Pod/linstor-move", "apply ControllerRevision"} {
			if strings.HasPrefix(call, verb) {
				call = verb
			}
		}
		calls = append(calls, call)
	}
	if d := cmp.Diff(tc.calls, calls); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	var claim []string
	if c := clustertest.AppliedClaim(t, w); c != nil {
		claim = []string{c.Backend, c.MoveTo, c.Moving}
		tc.checkEpoch(t, c)
	}
	if d := cmp.Diff(tc.claim, claim); d != "" {
		t.Errorf("claim (-want +got):\n%s", d)
	}
}

// checkEpoch: what is left in the database of before, and a claim that comes back, are of an earlier time once
// LINSTOR's data was moved.
func (tc *moveScenario) checkEpoch(t *testing.T, c *resources.ClaimData) {
	t.Helper()
	if n := epoch.Parse(c.Epoch).Number; tc.row == "moved" && n != 2 {
		t.Errorf("the claim has the number %d", n)
	}
}
