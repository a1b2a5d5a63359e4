package database_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestAForeignViewIsUnknown: what another cluster's database holds says nothing of ours.
func TestAForeignViewIsUnknown(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	if s := w.Snapshot(); !s.Linstor.Known() || s.Linstor.Foreign != nil {
		t.Fatalf("ours: %+v", s.Linstor)
	}
	clustertest.Swap(w, "another")
	s := w.Snapshot()
	if s.Linstor.Known() || s.Linstor.Foreign == nil || !errors.Is(s.Linstor.Err, cluster.ErrForeign) {
		t.Errorf("%+v", s.Linstor)
	}
	if h := s.Health; !h.Degraded || h.Reason != string(v1alpha1.HoldForeignLinstorFound) ||
		!strings.Contains(h.Message, "LocalID is another, but this cluster's is local-id") {
		t.Errorf("health %+v", h)
	}
}

// TestNothingIsDoneOnAnotherDatabase: in the middle of an installation or an upgrade the nodes would be registered in
// it.
func TestNothingIsDoneOnAnotherDatabase(t *testing.T) {
	for name, begin := range map[string]func(w *clustertest.World){
		"module, while a node joins": func(w *clustertest.World) { // it waits for LINSTOR, and the others with it
			w.Phase(v1alpha1.PhaseKernelModule, time.Minute)
			w.Kube.Pods = nil
		},
		"registration": func(w *clustertest.World) { w.Phase(v1alpha1.PhaseNodeRegistration, time.Minute) },
		"pools":        func(w *clustertest.World) { w.Phase(v1alpha1.PhaseStoragePools, time.Minute) },
		"ready":        func(w *clustertest.World) { w.Phase(v1alpha1.PhaseReady, time.Minute) },
		"prechecks":    func(w *clustertest.World) { w.Upgrading(v1alpha1.UpgradePrechecks) },
		"satellites":   func(w *clustertest.World) { w.Upgrading(v1alpha1.UpgradeSatellites) },
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			begin(w)
			clustertest.Swap(w, "another")
			in, r := w.Input()
			o := phases.Decide(t.Context(), in)
			if h := o.Hold; h == nil || h.Reason != v1alpha1.HoldForeignLinstorFound {
				t.Errorf("outcome %s: %s", o.Kind, o.Message)
			}
			if len(r.Queued) > 0 || len(r.Calls) > 0 {
				t.Errorf("calls %v, tasks %v", r.Calls, r.Keys())
			}
		})
	}
}

// TestKubernetesOfAnEarlierTime: nothing is done with a LINSTOR that is of a later time than the claim, and with one
// that has its state in its own memory alone nobody can go on.
func TestKubernetesOfAnEarlierTime(t *testing.T) {
	for name, options := range map[string][]string{
		"kubernetes": {v1alpha1.OptionRetry},
		"postgresql": {v1alpha1.OptionRetry, v1alpha1.OptionContinue},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			if name == "postgresql" {
				w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
				w.Kube.Secrets["db"] = &corev1.Secret{Data: map[string][]byte{"username": []byte("linstor")}}
				w.Accept()
				w.Deploy()
			}
			w.Phase(v1alpha1.PhaseStoragePools, time.Minute)
			clustertest.PutBack(w, "7")
			if s := w.Snapshot(); s.Linstor.Known() || !errors.Is(s.Linstor.Err, epoch.ErrBehind) ||
				s.Health.Reason != string(v1alpha1.HoldKubernetesRestored) {
				t.Errorf("%+v, health %+v", s.Linstor, s.Health)
			}
			in, r := w.Input()
			o := phases.Decide(t.Context(), in)
			h := o.Hold
			if h == nil || h.Reason != v1alpha1.HoldKubernetesRestored || !slices.Equal(h.Options, options) ||
				!slices.Equal(h.Identities, []string{"7"}) || len(r.Queued) > 0 || len(r.Calls) > 0 {
				t.Fatalf("%s: %+v; calls %v, tasks %v", o.Message, h, r.Calls, r.Keys())
			}
		})
	}
}

// TestFollow: the number that a human has agreed to is stored once the cache shows it, and is no alarm any more. What
// was agreed to before is forgotten.
func TestFollow(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	clustertest.PutBack(w, "7")
	w.Claim(func(c *resources.ClaimData) { c.MoveTo, c.BackupConfirmed, c.Restoring = "there", "1.35.3", "b@1" })
	answer := &hold.Answer{Hold: &v1alpha1.Hold{Identities: []string{"7"}}}
	in, r := w.Input()
	in.Answer = answer
	stored, err := database.Follow(t.Context(), in)
	kept := clustertest.AppliedClaim(t, r)
	if stored || err != nil || kept == nil || epoch.Parse(kept.Epoch).Number != 7 ||
		kept.MoveTo+kept.BackupConfirmed != "" || kept.Restoring == "" {
		t.Fatalf("stored %t %v: %+v", stored, err, kept)
	}
	w.Claim(func(c *resources.ClaimData) { c.Epoch = kept.Epoch })
	in, _ = w.Input()
	in.Answer = answer
	if stored, err := database.Follow(t.Context(), in); !stored || err != nil || !in.Snapshot.Linstor.Known() {
		t.Errorf("stored %t %v, LINSTOR %+v", stored, err, in.Snapshot.Linstor)
	}
	w.Claim(func(c *resources.ClaimData) { c.Epoch = "" }) // somebody has taken it out
	in, r = w.Input()
	in.Answer = answer
	if stored, err := database.Follow(t.Context(), in); !stored || err != nil || len(r.Calls) > 0 {
		t.Errorf("without a number: stored %t %v, %v", stored, err, r.Calls)
	}
}

// TestACacheOfAnEarlierTime: the cache alone is behind LINSTOR. That is no reason to stop anything, nor to write.
func TestACacheOfAnEarlierTime(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	clustertest.PutBack(w, "7")
	w.Linstor.Behind = false
	w.Phase(v1alpha1.PhaseStoragePools, time.Minute)
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Hold != nil || !in.Snapshot.Linstor.Known() || len(r.Calls) > 0 ||
		len(r.Queued) > 0 {
		t.Errorf("%s: %s; calls %v, tasks %v", o.Kind, o.Message, r.Calls, r.Keys())
	}
}

// TestEpoch: a claim gets a number with what LINSTOR has, and LINSTOR gets that of the claim.
func TestEpoch(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Claim(func(c *resources.ClaimData) { c.Epoch = "" })
	w.Phase(v1alpha1.PhaseStoragePools, time.Minute)
	w.Linstor.View.Properties[linstor.PropEpoch] = "4"
	in, r := w.Input()
	phases.Decide(t.Context(), in)
	c := clustertest.AppliedClaim(t, r)
	if c == nil || epoch.Parse(c.Epoch).Number != 5 || len(r.Queued) > 0 {
		t.Fatalf("%+v, tasks %v", c, r.Keys())
	}
	w.Claim(func(old *resources.ClaimData) { old.Epoch = c.Epoch })
	in, r = w.Input()
	phases.Decide(t.Context(), in)
	if keys := r.Keys(); !slices.Equal(keys, []string{"controller/epoch"}) || len(r.Calls) > 0 {
		t.Fatalf("tasks %v, calls %v", keys, r.Calls)
	}
	want := fmt.Sprintf("controller set %s del ", clustertest.Sorted(map[string]string{linstor.PropEpoch: "5"}))
	if err := r.Run(t, "controller/epoch"); err != nil || !slices.Equal(r.Calls, []string{want}) {
		t.Errorf("%v, %v", r.Calls, err)
	}
	w.Linstor.View.Properties[linstor.PropEpoch] = "5"
	in, r = w.Input()
	if phases.Decide(t.Context(), in); len(r.Queued)+len(r.Calls) > 0 {
		t.Errorf("at rest: tasks %v, calls %v", r.Keys(), r.Calls)
	}
	w.Claim(func(c *resources.ClaimData) { c.Epoch = "5 2000-01-01T00:00:00Z of-before" })
	in, r = w.Input()
	phases.Decide(t.Context(), in)
	if c = clustertest.AppliedClaim(t, r); c == nil || epoch.Parse(c.Epoch).Number != 6 {
		t.Errorf("%+v", c)
	}
}

// TestADeletionDoesNotBelieveAnotherDatabase: its volumes are not ours, and that it has none must not take our cluster
// down.
func TestADeletionDoesNotBelieveAnotherDatabase(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Cluster.DeletionTimestamp = &metav1.Time{Time: w.Now}
	w.Cluster.Status.Volumes = &volumespec.VolumesStatus{Total: 3}
	w.Phase(v1alpha1.PhaseDeleting, time.Second)
	clustertest.Swap(w, "another")
	in, r := w.Input()
	o := phases.Decide(t.Context(), in)
	if o.Kind != step.KindWait || o.Reason != string(v1alpha1.HoldVolumesUnknown) ||
		!strings.Contains(o.Message, "is running with another cluster's data") || len(r.Calls) > 0 {
		t.Errorf("%s %s: %s; %v", o.Kind, o.Reason, o.Message, r.Calls)
	}
	w.Phase(v1alpha1.PhaseDeleting, time.Hour)
	in, _ = w.Input()
	if o = phases.Decide(t.Context(), in); o.Hold == nil || o.Hold.Reason != v1alpha1.HoldVolumesUnknown {
		t.Errorf("%s %s: %s", o.Kind, o.Reason, o.Message)
	}
}

// TestALookBeforeTheDeletionSeesWhoseDataItIs: the database was replaced after the view was taken.
func TestALookBeforeTheDeletionSeesWhoseDataItIs(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Cluster.DeletionTimestamp = &metav1.Time{Time: w.Now}
	w.Phase(v1alpha1.PhaseDeleting, time.Second)
	for want, now := range map[error]*linstor.View{
		cluster.ErrForeign: {LocalID: "another"},
		epoch.ErrBehind:    {LocalID: "local-id", Properties: map[string]string{linstor.PropEpoch: "7"}},
	} {
		in, r := w.Input()
		r.Now = now
		if o := phases.Decide(t.Context(), in); !errors.Is(o.Err, want) || len(r.Calls) > 0 {
			t.Errorf("%v: %s: %s; %v", want, o.Kind, o.Message, r.Calls)
		}
	}
}

// TestHalfABackupIsLeft: a database into which a backup was being imported when its cluster was deleted is nobody's,
// and is not taken for an empty one either.
func TestHalfABackupIsLeft(t *testing.T) {
	for _, restoring := range []string{"", "manual-a@5ac3@1"} {
		w := clustertest.NewWorld(t, 2)
		w.Claim(func(c *resources.ClaimData) {
			c.Restoring = restoring
			*c = c.Release("earlier")
		})
		w.Cluster.Status.Database = ""
		w.Database = cluster.Database{Checked: true}
		w.Phase(v1alpha1.PhaseDatabase, time.Minute)
		in, r := w.Input()
		o := phases.Decide(t.Context(), in)
		claimed := clustertest.AppliedClaim(t, r) != nil
		if claimed != (restoring == "") || !claimed && !strings.Contains(o.Message, "only part of the backup") {
			t.Errorf("restoring %q: claimed is %v, %s: %s", restoring, claimed, o.Kind, o.Message)
		}
	}
}
