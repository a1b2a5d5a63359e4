package chaos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
)

// TestStaleUpgrade upgrades LINSTOR while the view of one kind is old: once the operator is told late, and once one
// starts beyond the point of no return and is told what was before it. No older controller may be started on the
// database then.
func TestStaleUpgrade(t *testing.T) {
	t.Parallel()
	kinds := staleKinds
	if !full() {
		kinds = []string{"configmaps"} // the claim, which says that there is no way back
	}
	for _, kind := range kinds {
		if !chaosenv.Part(t, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			late := func(w *staleWorld, to string) (release func()) {
				release = w.views.hold(kind)
				w.wantVersion(to)
				return release
			}
			start := func(w *staleWorld, to string) (release func()) {
				before := w.version()
				w.wantVersion(to)
				w.pastEdge(to)
				w.top.StopOperator()
				release = w.views.travel(kind, before)
				w.top.Run()
				w.restartController()
				return release
			}
			back := func(w *staleWorld, to string) (release func()) {
				from := w.Get().Spec.Version
				release = late(w, to)
				w.pastEdge(to)
				w.wantVersion(from)
				return release
			}
			for _, way := range []struct {
				name    string
				happens func(*staleWorld, string) func()
				// mistaken reports whether the spec is wrong in the end.
				mistaken bool
			}{{"late", late, false}, {"start", start, false}} {
				if kind == "configmaps" && way.name == "late" {
					way.name, way.happens, way.mistaken = "back", back, true
				}
				const to = newVersion
				t.Run(way.name, func(t *testing.T) {
					w := startStale(t, oldVersion, patientRoll)
					release := way.happens(w, to)
					w.During(staleLong, "while the operator is told late", w.judge.err)
					release()
					if way.mistaken {
						w.Eventually("the operator says what to do", func() error { return w.asksFor(to) })
						w.wantVersion(to)
					}
					w.Eventually("LINSTOR is upgraded", func() error { return w.upgraded(to) })
					if err := w.judge.err(); err != nil {
						t.Fatal(err)
					}
					injected("stale: " + kind + " in an upgrade")
				})
			}
		})
	}
}

func (w *staleWorld) wantVersion(v string) {
	w.T.Helper()
	w.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = v })
}

// pastEdge waits until the claim says that the upgrade cannot be taken back.
func (w *staleWorld) pastEdge(to string) {
	w.T.Helper()
	w.Eventually("the upgrade is past the edge", func() error {
		cm := &corev1.ConfigMap{}
		if err := w.Client().Get(w.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName},
			cm); err != nil {
			return err
		}
		claim, err := resources.ClaimFrom(cm)
		if err == nil && claim.UpgradeTo != to && claim.Version != to {
			err = fmt.Errorf("the claim is %+v", claim)
		}
		return err
	})
}

// restartController takes the controller's pods away: LINSTOR does not tell its version for a while.
func (w *staleWorld) restartController() {
	w.T.Helper()
	err := w.Client().DeleteAllOf(w.Ctx, &corev1.Pod{}, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentController})
	if err != nil {
		w.T.Fatal(err)
	}
}

// asksFor is nil once the operator says that the spec must have another version, because the database was moved to it.
func (w *staleWorld) asksFor(version string) error {
	if s := w.Get().Status; !strings.Contains(s.Message, "set spec.version to "+version) {
		return fmt.Errorf("%s: %s", s.Phase, s.Message)
	}
	return nil
}

func (w *staleWorld) upgraded(to string) error {
	if err := w.ready(); err != nil {
		return err
	}
	if v := w.Get().Status.Version; v != to {
		return fmt.Errorf("LINSTOR is %s", v)
	}
	if diff := cmp.Diff(w.rest, worldState(w.Env)); diff != "" {
		return fmt.Errorf("%s", diff)
	}
	return nil
}
