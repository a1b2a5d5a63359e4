package databasebackup_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/take"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/backuptest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
)

// bench is a cluster at rest, with a store for backups; its time begins at noon.
type bench struct{ *clustertest.World }

func newBench(t *testing.T) bench {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	backuptest.Store(w)
	w.Cluster.Spec.Backup.Schedule = "0 */6 * * *"
	return bench{w}
}

func (b bench) spec() *backupspec.BackupSpec { return b.Cluster.Spec.Backup }

func (b bench) current() backupspec.CurrentBackup {
	if st := b.Cluster.Status.Backup; st != nil && st.Current != nil {
		return *st.Current
	}
	return backupspec.CurrentBackup{}
}

func (b bench) ask(name string) {
	b.Cluster.Annotations = map[string]string{v1alpha1.AnnotationBackup: name}
}

// step does what a reconcile does about backups, and what the API server makes of it. It returns the writes, and what
// the condition says.
func (b bench) step() (calls []string, said cluster.Evidence) {
	b.T.Helper()
	in, r := b.Input()
	in.Failures = &step.Failures{}
	databasebackup.Work(b.T.Context(), in)
	if why := in.Failures.Aside("BackupReady"); why != "" {
		b.T.Fatal(why)
	}
	b.Cluster.Status.Backup = databasebackup.Status(in.Snapshot, upgrade.WantsBackup(in.Snapshot))
	said = databasebackup.Judge(in.Snapshot, b.Cluster.Status.Backup)
	for _, call := range r.Calls {
		if name, deleted := strings.CutPrefix(call, "delete Pod/"); deleted {
			delete(b.Kube.Backups, name)
		}
		calls = append(calls, strings.Split(call, "/linstor-backup-")[0])
	}
	for _, o := range r.Applied {
		if p, ok := o.(*corev1.Pod); ok {
			p = p.DeepCopy()
			p.CreationTimestamp = metav1.NewTime(b.Now)
			if b.Kube.Backups == nil {
				b.Kube.Backups = map[string]*corev1.Pod{}
			}
			b.Kube.Backups[p.Name] = p
		}
	}
	return calls, said
}

// begunBefore lets the present attempt have gone on for so long.
func (b bench) begunBefore(d time.Duration) {
	b.Cluster.Status.Backup.Current.Attempted = clustertest.At(b.Now.Add(-d))
}

// pod is the only one that is there.
func (b bench) pod() *corev1.Pod {
	b.T.Helper()
	if len(b.Kube.Backups) != 1 {
		b.T.Fatalf("there are %d pods", len(b.Kube.Backups))
	}
	for _, p := range b.Kube.Backups {
		return p
	}
	return nil
}

// ends lets the pod end with what its container said last.
func (b bench) ends(phase corev1.PodPhase, message string) {
	b.T.Helper()
	end := &corev1.ContainerStateTerminated{Message: message}
	if phase == corev1.PodFailed {
		end.ExitCode = 1
	}
	p := b.pod()
	p.Status.Phase = phase
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "backup", State: corev1.ContainerState{Terminated: end}}}
}

// takes lets the pod take what it was told to.
func (b bench) takes() {
	b.T.Helper()
	config, err := take.ParseConfig(b.pod().Spec.Containers[0].Args[1], b.Now)
	if err != nil {
		b.T.Fatal(err)
	}
	r := &take.Result{Backup: store.Backup{ID: config.ID, Begun: config.Begun, Bytes: 1000, SHA256: "ab",
		Restored: config.Restored != ""}}
	r.Export.Taken, r.Export.Linstor, r.Export.ResourceDefinitions = b.Now, "1.35.3", 3
	note, err := r.Note()
	if err != nil {
		b.T.Fatal(err)
	}
	b.ends(corev1.PodSucceeded, string(note))
}

// look makes a step and compares.
func (b *bench) look(what string, calls []string, state cluster.EvidenceState, reason string) {
	b.T.Helper()
	got, e := b.step()
	if !slices.Equal(got, calls) || e.State != state || e.Reason != reason {
		b.T.Errorf("%s: writes %q, want %q; evidence %v %s (%s), want %v %s", what, got, calls, e.State, e.Reason, e.Message,
			state, reason)
	}
}

const (
	makes   = "apply Pod"
	removes = "delete Pod"
)

// TestSchedule goes through a day. Each step is what a killed operator finds.
func TestSchedule(t *testing.T) {
	b := newBench(t)
	b.look("nothing is made before the status has it", nil, cluster.Unknown, databasebackup.ReasonTaking)
	b.look("it begins", []string{makes}, cluster.Unknown, databasebackup.ReasonTaking)
	b.look("it goes on", nil, cluster.Unknown, databasebackup.ReasonTaking)
	if c := b.pod().Spec.Containers[0]; !strings.Contains(c.Args[1], `"id":"scheduled-20260301t120000z"`) ||
		!strings.Contains(c.Args[1], `"cluster":"local-id"`) || !strings.Contains(c.Args[1], `"keep":28`) {
		t.Errorf("it is told %s", c.Args)
	}
	b.Now = b.Now.Add(time.Minute)
	b.takes()
	b.look("it is noted before its pod goes", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	st := b.Cluster.Status.Backup
	if l := st.Last; l == nil || l.ID != "scheduled-20260301t120000z" || !l.Taken.Time.Equal(b.Now) || l.Bytes != 1000 ||
		l.ResourceDefinitions != 3 || st.Next == nil || !st.Next.Time.Equal(clustertest.Begin.Add(6*time.Hour)) {
		t.Errorf("status %+v", st)
	}
	b.look("its pod goes", []string{removes}, cluster.Satisfied, databasebackup.ReasonTaken)
	b.Now = clustertest.Begin.Add(6*time.Hour - time.Second)
	rest := b.Cluster.Status.Backup.DeepCopy()
	b.look("rest", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	if d := cmp.Diff(rest, b.Cluster.Status.Backup); d != "" {
		t.Errorf("a status at rest changes (-want +got):\n%s", d)
	}
	b.Now = clustertest.Begin.Add(17 * time.Hour) // two were missed
	b.look("the next one, and stale until it is there", nil, cluster.Failed, databasebackup.ReasonStale)
	b.look("it begins", []string{makes}, cluster.Failed, databasebackup.ReasonStale)
	b.takes()
	b.look("what was missed is taken once", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	b.look("rest again", []string{removes}, cluster.Satisfied, databasebackup.ReasonTaken)
	if got := b.current(); got.ID != "" {
		t.Errorf("another one begins: %+v", got)
	}
}

// TestRequest: each value of the annotation asks for one backup, once.
func TestRequest(t *testing.T) {
	b := newBench(t)
	b.spec().Schedule = ""
	b.look("nothing is asked for", nil, cluster.Unknown, databasebackup.ReasonNone)
	b.ask("before-the-move")
	b.step()
	b.step()
	if c := b.pod().Spec.Containers[0]; !strings.Contains(c.Args[1], `"id":"manual-before-the-move"`) ||
		strings.Contains(c.Args[1], "keep") {
		t.Errorf("it is told %s", c.Args)
	}
	b.takes()
	b.look("taken", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	b.look("its pod goes", []string{removes}, cluster.Satisfied, databasebackup.ReasonTaken)
	b.look("the annotation stays", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	b.Cluster.Annotations = nil
	b.look("the annotation goes", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	b.ask("Before the move!")
	b.look("no name", nil, cluster.Failed, databasebackup.ReasonRequestInvalid)
	b.ask("2")
	b.look("another one", nil, cluster.Satisfied, databasebackup.ReasonTaken)
	b.look("it begins", []string{makes}, cluster.Satisfied, databasebackup.ReasonTaken)
	b.Cluster.Annotations = nil
	b.look("nobody wants it any more", []string{removes}, cluster.Satisfied, databasebackup.ReasonTaken)
}

// TestFailures: an attempt that fails is said and comes again, later each time, under the same name.
func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		fail func(bench)
		says string
	}{
		"it fails": {func(b bench) { b.ends(corev1.PodFailed, "operator: there is no bucket backups") },
			"will be retried: there is no bucket backups"},
		"without a word": {func(b bench) { b.pod().Status.Phase = corev1.PodFailed }, "failed without a message"},
		"evicted": {func(b bench) {
			b.pod().Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
		}, "Evicted"},
		"it says nothing": {func(b bench) { b.ends(corev1.PodSucceeded, "") }, "succeeded but produced no result"},
		"it took another": {func(b bench) {
			b.takes()
			end := b.pod().Status.ContainerStatuses[0].State.Terminated
			end.Message = strings.Replace(end.Message, "scheduled-", "manual-", 1)
		}, "succeeded but produced no result"},
		"it is deleted": {func(b bench) { b.pod().DeletionTimestamp = clustertest.At(b.Now) },
			"deleted before it finished"},
		"it does not end": {func(b bench) { b.begunBefore(46 * time.Minute) }, "did not finish"},
		"no node": {func(b bench) {
			b.begunBefore(46 * time.Minute)
			b.pod().Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/3 nodes are available"}}
		}, "cannot be scheduled: 0/3 nodes are available"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.step()
			b.step()
			first := b.pod().Name
			tc.fail(b)
			calls, e := b.step()
			if len(calls) != 0 || e.Reason != databasebackup.ReasonFailed || !strings.Contains(e.Message, tc.says) {
				t.Errorf("writes %v, evidence %+v", calls, e)
			}
			id, c := "scheduled-20260301t120000z", b.current()
			if c.ID != id || c.Attempts != 1 || c.Pod != first {
				t.Errorf("status %+v", c)
			}
			b.look("it rests", nil, cluster.Failed, databasebackup.ReasonFailed)
			b.Now = b.Now.Add(4 * b.Snapshot().Timing.PollSteady)
			b.look("the next attempt is noted first", nil, cluster.Failed, databasebackup.ReasonFailed)
			calls, _ = b.step()
			gone := b.Kube.Backups[first] != nil // on its way, as far as it can go
			want := []string{removes, makes}
			if gone {
				want = []string{makes}
			}
			if !slices.Equal(calls, want) {
				t.Errorf("writes %v, want %v", calls, want)
			}
			delete(b.Kube.Backups, first)
			if b.pod().Name == first || b.current().ID != id {
				t.Errorf("the second attempt is pod %s, of %s", b.pod().Name, b.current().ID)
			}
			b.takes()
			b.look("taken in the end", nil, cluster.Satisfied, databasebackup.ReasonTaken)
		})
	}
}

// TestPauses grow from a minute to half an hour, and end when somebody has changed what the attempt depends on.
func TestPauses(t *testing.T) {
	b := newBench(t)
	b.step()
	var pauses []time.Duration
	fail := func() {
		b.ends(corev1.PodFailed, "no")
		b.step()
	}
	for range 7 {
		if calls, _ := b.step(); !slices.Contains(calls, makes) {
			t.Fatalf("writes %v", calls)
		}
		fail()
		begin := b.Now
		for b.step(); b.current().Attempted == nil; b.step() {
			b.Now = b.Now.Add(15 * time.Second)
		}
		pauses = append(pauses, b.Now.Sub(begin))
	}
	b.step()
	fail()
	if want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute,
		30 * time.Minute, 30 * time.Minute}; !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	for what, change := range map[string]func(){
		"the bucket": func() { b.spec().S3.Bucket = "others" },
		"the Secret": func() {
			b.Kube.Secrets["s3"].Data = map[string][]byte{"AWS_ACCESS_KEY_ID": []byte("another")}
		},
		"a request comes first": func() { b.ask("now") },
	} {
		b.look(what+": it rests", nil, cluster.Failed, databasebackup.ReasonFailed)
		change()
		b.step()
		b.step()
		if p := b.pod(); p.Status.Phase == corev1.PodFailed {
			t.Errorf("%s was changed, and nothing is tried", what)
		}
		fail()
	}
}

// TestHindrances: no pod is made, and why is said.
func TestHindrances(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(bench)
		state  cluster.EvidenceState
		reason string
		says   string
	}{
		"nothing is wanted": {func(b bench) { b.Cluster.Spec.Backup = nil }, cluster.Unknown,
			databasebackup.ReasonNotConfigured, "spec.backup is not set"},
		"never Ready": {func(b bench) { b.Phase(v1alpha1.PhaseStoragePools, 0) }, cluster.Unknown,
			databasebackup.ReasonPutOff, "has never been Ready"},
		"silence": {func(b bench) { b.Linstor = cluster.Linstor{Asked: true, Err: errors.New("no")} }, cluster.Unknown,
			databasebackup.ReasonPutOff, "LINSTOR does not respond"},
		"suspended": {func(b bench) { b.Cluster.Spec.Suspend = true }, cluster.Unknown, databasebackup.ReasonPutOff,
			"spec.suspend"},
		"an upgrade": {func(b bench) { b.Upgrading(v1alpha1.UpgradeSatellites) }, cluster.Unknown,
			databasebackup.ReasonPutOff, "upgraded"},
		"no Secret": {func(b bench) { delete(b.Kube.Secrets, "s3") }, cluster.Failed, databasebackup.ReasonInvalid,
			"Secret linstor-storage/s3 does not exist"},
		"no claim": {func(b bench) {
			b.spec().S3, b.spec().Claim = nil, &backupspec.ClaimSpec{Name: "backups"}
		}, cluster.Failed, databasebackup.ReasonInvalid, "PersistentVolumeClaim linstor-storage/backups does not exist"},
		"a claim of LINSTOR's": {func(b bench) {
			b.spec().S3, b.spec().Claim = nil, &backupspec.ClaimSpec{Name: "backups"}
			b.Kube.BackupClaim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"volume.kubernetes.io/storage-provisioner": "linstor.csi.linbit.com"}}}
		}, cluster.Failed, databasebackup.ReasonInvalid, "the volume of PersistentVolumeClaim backups is stored in LINSTOR"},
		"no such day": {func(b bench) { b.spec().Schedule = "0 0 31 2 *" }, cluster.Failed, databasebackup.ReasonInvalid,
			"spec.backup.schedule"},
		"no such zone": {func(b bench) { b.spec().TimeZone = "Mars" }, cluster.Failed, databasebackup.ReasonInvalid,
			"spec.backup.timeZone"},
		"an old LINSTOR": {func(b bench) {
			b.Cluster.Spec.Version, b.Cluster.Status.Version = "1.33.3", "1.33.3"
			b.Settle()
		}, cluster.Failed, databasebackup.ReasonInvalid, "LINSTOR 1.33.3 cannot export its database"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.change(b)
			b.step()
			rest, said := b.Cluster.Status.Backup.DeepCopy(), ""
			for range 3 {
				b.Now = b.Now.Add(time.Minute)
				calls, e := b.step()
				if d := cmp.Diff(rest, b.Cluster.Status.Backup); d != "" || said != "" && e.Message != said {
					t.Errorf("a status at rest changes (-want +got):\n%s%s, was %s", d, e.Message, said)
				}
				said = e.Message
				if len(calls) > 0 || e.State != tc.state || e.Reason != tc.reason || !strings.Contains(e.Message, tc.says) {
					t.Errorf("writes %v, evidence %+v", calls, e)
				}
			}
		})
	}
}

// TestWithoutAnImage: outside of a pod, the operator cannot take backups.
func TestWithoutAnImage(t *testing.T) {
	b := newBench(t)
	in, r := b.Input()
	in.Snapshot.OperatorImage = ""
	databasebackup.Work(t.Context(), in)
	st := databasebackup.Status(in.Snapshot, false)
	if e := databasebackup.Judge(in.Snapshot, st); e.Reason != databasebackup.ReasonInvalid || st.Current != nil ||
		len(r.Calls) > 0 {
		t.Errorf("evidence %+v, status %+v, writes %v", e, st, r.Calls)
	}
}

// TestNoLongerWanted: what is there of a backup goes with spec.backup, and a pod that others delete is left to them.
func TestNoLongerWanted(t *testing.T) {
	b := newBench(t)
	b.step()
	b.step()
	b.Cluster.Spec.Backup = nil
	b.look("it goes", []string{removes}, cluster.Unknown, databasebackup.ReasonNotConfigured)
	if b.Cluster.Status.Backup != nil {
		t.Errorf("status %+v", b.Cluster.Status.Backup)
	}
}
