package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

func TestFinalizerComesBeforeAnyEffect(t *testing.T) {
	b := newBench(t, storageCluster(func(c *v1alpha1.StorageCluster) { c.Finalizers = nil }), node("n1"))
	_, log, err := b.step()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"patch *v1alpha1.StorageCluster"}, log); d != "" {
		t.Error(d)
	}
	if got := b.stored(); !slices.Equal(got.Finalizers, []string{v1alpha1.Finalizer}) || got.Status.Phase != "" {
		t.Errorf("finalizers %v, phase %q", got.Finalizers, got.Status.Phase)
	}
}

func TestOneStatusPatchThenTheEvent(t *testing.T) {
	b := newBench(t, storageCluster(nil), node("n1"))
	res, log, err := b.step()
	if err != nil || res.RequeueAfter <= 0 {
		t.Fatalf("%v, again after %s", err, res.RequeueAfter)
	}
	want := []string{"apply", "patch status",
		"event Normal Assessing Accepted: Pending → Assessing: the spec has been accepted with LINSTOR " +
			catalogue.Embedded().Newest()}
	if d := cmp.Diff(want, log); d != "" {
		t.Error(d)
	}
	st := b.stored().Status
	if st.Phase != v1alpha1.PhaseAssessing || len(st.Conditions) != len(conditions.Types()) || st.Target == "" {
		t.Errorf("stored %s, %d conditions, target %q", st.Phase, len(st.Conditions), st.Target)
	}
	if got := b.metric("storagecluster_transitions_total"); got != 1 {
		t.Errorf("%v transitions counted", got)
	}
}

func TestStepsOfAnEmptyClusterEndInQuiet(t *testing.T) {
	b := newBench(t, storageCluster(nil))
	for range 12 {
		if _, _, err := b.step(); err != nil {
			t.Fatal(err)
		}
	}
	res, log, err := b.step()
	if err != nil || len(log) != 0 || res.RequeueAfter <= 0 {
		t.Errorf("err %v, again after %s, and at rest %v", err, res.RequeueAfter, log)
	}
}

func TestNothingIsToldWhenThePatchFails(t *testing.T) {
	gr := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "storageclusters"}
	for _, tc := range []struct {
		name  string
		fault error
		quiet bool
	}{
		{"conflict", apierrors.NewConflict(gr, "linstor", errors.New("changed")), true},
		{"refused", apierrors.NewInternalError(errors.New("etcd is away")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, storageCluster(nil), node("n1"))
			b.fault["patch status"] = tc.fault
			res, log, err := b.step()
			if (err == nil) != tc.quiet || tc.quiet && res.RequeueAfter <= 0 {
				t.Errorf("err = %v, again after %s", err, res.RequeueAfter)
			}
			if slices.ContainsFunc(log, func(l string) bool { return strings.HasPrefix(l, "event ") }) ||
				b.metric("storagecluster_transitions_total") != 0 {
				t.Errorf("told although it is not stored: %v", log)
			}
			delete(b.fault, "patch status")
			_, log, err = b.step()
			if err != nil || b.stored().Status.Phase != v1alpha1.PhaseAssessing ||
				b.metric("storagecluster_transitions_total") != 1 {
				t.Errorf("the next time: %v, %v", err, log)
			}
			if slices.Contains(log, "apply") {
				t.Error("the kept spec was written again")
			}
		})
	}
}

// TestAStaleObjectIsAConflictAndNoEvent: somebody writes after the cache was read. If that is nothing to the operator,
// the status is written all the same.
func TestAStaleObjectIsAConflictAndNoEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		write  func(*v1alpha1.StorageCluster)
		status bool // the write is one of the status
		stale  bool
	}{
		"others' label and annotation": {write: func(c *v1alpha1.StorageCluster) {
			c.Labels, c.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
		}},
		"an answer": {write: func(c *v1alpha1.StorageCluster) {
			c.Annotations = map[string]string{v1alpha1.AnnotationResume: "h-1:retry"}
		}, stale: true},
		"a new spec": {write: func(c *v1alpha1.StorageCluster) { c.Generation++ }, stale: true},
		"a finalizer": {write: func(c *v1alpha1.StorageCluster) {
			c.Finalizers = append(c.Finalizers, "example.com/keep")
		}, stale: true},
		"a status": {write: func(c *v1alpha1.StorageCluster) { c.Status.Message = "m" }, status: true, stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, storageCluster(nil), node("n1"))
			old := b.stored()
			changed := old.DeepCopy()
			tc.write(changed)
			write := func() error { return b.c.Update(t.Context(), changed) }
			if tc.status {
				write = func() error { return b.c.Status().Update(t.Context(), changed) }
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
			b.stale = staleReader{b.c, old}
			res, log, err := b.step()
			if err != nil || res.RequeueAfter <= 0 {
				t.Errorf("err = %v, again after %s", err, res.RequeueAfter)
			}
			told := slices.ContainsFunc(log, func(l string) bool { return strings.HasPrefix(l, "event ") })
			stored := b.stored()
			if told == tc.stale || (stored.Status.Phase == "") != tc.stale || !slices.Contains(log, "patch status") {
				t.Errorf("phase %q; %v", stored.Status.Phase, log)
			}
			if !tc.stale && stored.Labels["a"]+stored.Annotations["a"] != "bb" {
				t.Errorf("what others wrote is lost: %v, %v", stored.Labels, stored.Annotations)
			}
		})
	}
}

type staleReader struct {
	client.Reader
	old *v1alpha1.StorageCluster
}

func (s staleReader) Get(ctx context.Context, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if c, ok := o.(*v1alpha1.StorageCluster); ok {
		s.old.DeepCopyInto(c)
		return nil
	}
	return s.Reader.Get(ctx, k, o, opts...)
}

func TestNothingIsDoneOnAnObjectFromBeforeTheLastPatch(t *testing.T) {
	b := newBench(t, storageCluster(nil), node("n1"))
	old := b.stored()
	if _, _, err := b.step(); err != nil {
		t.Fatal(err)
	}
	b.stale = staleReader{b.c, old}
	res, log, err := b.step()
	if err != nil || len(log) != 0 || res.RequeueAfter <= 0 || res.RequeueAfter > time.Second {
		t.Errorf("err %v, again after %s, did %v", err, res.RequeueAfter, log)
	}
	b.clock.SetTime(b.clock.Now().Add(time.Minute)) // a cache that never catches up must not stop the operator for ever
	if _, log, _ = b.step(); len(log) == 0 {
		t.Error("still waiting for the cache")
	}
}

func TestAnIllegalEventWritesNoStatus(t *testing.T) {
	b := newBench(t, storageCluster(nil), node("n1"))
	table := fsm.Cluster()
	table.Rows = slices.DeleteFunc(table.Rows,
		func(r fsm.Row) bool { return r.From == fsm.Pending && r.Event == fsm.Accepted })
	b.r.table = table
	_, log, err := b.step()
	var illegal *fsm.IllegalEventError
	if !errors.As(err, &illegal) || illegal.State != fsm.Pending || illegal.Event != fsm.Accepted {
		t.Errorf("err = %v", err)
	}
	if d := cmp.Diff([]string{"apply"}, log); d != "" {
		t.Error(d)
	}
	if got := b.metric("storagecluster_illegal_transitions_total"); got != 1 {
		t.Errorf("counted %v times", got)
	}
}

func TestAnUnknownPhaseIsLeftAlone(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		b := newBench(t, storageCluster(func(c *v1alpha1.StorageCluster) { c.Status.Phase = "Teleporting" }), node("n1"))
		if deleted {
			if err := b.c.Delete(t.Context(), b.stored()); err != nil {
				t.Fatal(err)
			}
		}
		before := b.stored()
		res, log, err := b.step()
		if err != nil || res.RequeueAfter <= 0 {
			t.Errorf("err %v, again after %s", err, res.RequeueAfter)
		}
		if len(log) != 1 || !strings.HasPrefix(log[0], "event Warning UnknownPhase") ||
			!strings.Contains(log[0], "Teleporting") {
			t.Errorf("got %v", log)
		}
		if _, log, _ = b.step(); len(log) != 0 {
			t.Errorf("said again: %v", log)
		}
		if d := cmp.Diff(before, b.stored()); d != "" {
			t.Errorf("deleted %t: %s", deleted, d)
		}
	}
}

func TestGoneAndForeignFinalizer(t *testing.T) {
	b := newBench(t)
	if res, log, err := b.step(); err != nil || len(log) != 0 || res.RequeueAfter != 0 {
		t.Errorf("gone: %v %v %v", res, log, err)
	}
	b = newBench(t, storageCluster(func(c *v1alpha1.StorageCluster) { c.Finalizers = []string{"example.com/other"} }))
	if err := b.c.Delete(t.Context(), b.stored()); err != nil {
		t.Fatal(err)
	}
	if res, log, err := b.step(); err != nil || len(log) != 0 || res.RequeueAfter != 0 {
		t.Errorf("ours is done: %v %v %v", res, log, err)
	}
}

func TestDeletionOfAClusterThatNeverStarted(t *testing.T) {
	b := newBench(t, storageCluster(nil))
	if err := b.c.Delete(t.Context(), b.stored()); err != nil {
		t.Fatal(err)
	}
	var all []string
	for range 4 {
		_, log, err := b.step()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, log...)
	}
	if err := b.c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterName},
		&v1alpha1.StorageCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("still there (%v) after %v", err, all)
	}
	if slices.Contains(all, "apply") {
		t.Errorf("something was made for a cluster that goes: %v", all)
	}
	if all[len(all)-1] != "patch *v1alpha1.StorageCluster" {
		t.Errorf("the finalizer is not the last to go: %v", all)
	}
	if got := b.metric("storagecluster_phase"); got != 0 {
		t.Errorf("series of a cluster that is gone: %v", got)
	}
}

// held is a cluster that waits for an answer to h-2 and has got another one.
func held(token string) *v1alpha1.StorageCluster {
	return storageCluster(func(c *v1alpha1.StorageCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationResume: token}
		c.Status.Phase, c.Status.ObservedGeneration = v1alpha1.PhaseHumanIntervention, 1
		c.Status.Hold = &v1alpha1.Hold{ID: "h-2", Reason: v1alpha1.HoldDeviceNotEmpty,
			Options: []v1alpha1.HoldOption{{Answer: v1alpha1.OptionRetry}}}
	})
}

func TestAWrongTokenIsSaidOnceAndDoesNothing(t *testing.T) {
	b := newBench(t, held("h-1:retry"))
	b.r.known = b.stored().UID // the token came later
	_, log, err := b.step()
	if err != nil || len(log) != 2 || !strings.HasPrefix(log[0], "event Warning ResumeIgnored") ||
		!strings.Contains(log[0], "h-1") || log[1] != "patch status" {
		t.Errorf("%v %v", err, log)
	}
	if _, log, err = b.step(); err != nil || len(log) != 0 {
		t.Errorf("said again: %v %v", err, log)
	}
	got := b.stored()
	if got.Status.Phase != v1alpha1.PhaseHumanIntervention || got.Status.Hold.ID != "h-2" ||
		got.Annotations[v1alpha1.AnnotationResume] == "" {
		t.Errorf("a stale token did something: %s %+v %v", got.Status.Phase, got.Status.Hold, got.Annotations)
	}
}

// An operator may be killed, or hear nothing, after an answer was carried out and before the annotation was removed.
func TestATokenThatWasCarriedOutIsRemoved(t *testing.T) {
	for _, tc := range []struct {
		name, token, answered string
		known, stays          bool
	}{
		{name: "by an operator that was killed", token: "h-1:retry"},
		{name: "by this one", token: "h-1:retry", answered: "h-1:retry", known: true},
		{name: "another one", token: "h-0:retry", answered: "h-1:retry", known: true, stays: true},
		{name: "an option that the hold does not have", token: "h-2:adopt", stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, held(tc.token))
			b.r.answered = tc.answered
			if tc.known {
				b.r.known = b.stored().UID
			}
			if _, _, err := b.step(); err != nil {
				t.Fatal(err)
			}
			got := b.stored()
			if there := got.Annotations[v1alpha1.AnnotationResume] != ""; there != tc.stays || got.Status.Hold == nil {
				t.Errorf("annotation there: %v, hold %+v", there, got.Status.Hold)
			}
		})
	}
}

func TestTheRightTokenResumesAndIsRemovedAfterwards(t *testing.T) {
	b := newBench(t, storageCluster(func(c *v1alpha1.StorageCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationResume: "h-2:retry"}
		c.Status.Phase, c.Status.ObservedGeneration = v1alpha1.PhaseHumanIntervention, 1
		c.Status.Hold = &v1alpha1.Hold{ID: "h-2", Reason: v1alpha1.HoldControllerFailed,
			Options: []v1alpha1.HoldOption{{Answer: v1alpha1.OptionRetry}}}
	}))
	_, log, err := b.step()
	if err != nil {
		t.Fatal(err)
	}
	if len(log) != 3 || log[0] != "patch status" || !strings.HasPrefix(log[1], "event Normal Assessing Resumed") ||
		log[2] != "patch *v1alpha1.StorageCluster" {
		t.Errorf("the annotation goes after the transition is stored: %v", log)
	}
	got := b.stored()
	if got.Status.Phase != v1alpha1.PhaseAssessing || got.Status.Hold != nil ||
		got.Annotations[v1alpha1.AnnotationResume] != "" {
		t.Errorf("%s %+v %v", got.Status.Phase, got.Status.Hold, got.Annotations)
	}

	// Somebody gives the old token again, as one that is kept in Git comes back: it is told, not taken away.
	got.Annotations = map[string]string{v1alpha1.AnnotationResume: "h-2:retry"}
	if err := b.c.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	_, log, err = b.step()
	if err != nil || len(log) == 0 || !strings.HasPrefix(log[0], "event Warning ResumeIgnored") ||
		b.stored().Annotations[v1alpha1.AnnotationResume] == "" {
		t.Errorf("%v %v %v", err, log, b.stored().Annotations)
	}
}
