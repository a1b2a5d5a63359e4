package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

var viewAll linstor.ViewOptions

// steady is for how long a hold must have stood to be an answer, and not a step on the way.
const steady = 2 * time.Second

// bench is a cluster on which specs are tried, one after another.
type bench struct {
	*harness.Env
	objects dynamic.Interface
	kinds   []schema.GroupVersionResource
	base    base
}

// tree is the base's spec. Where it says nothing of TLS, LINSTOR is open: certificates would take some time of each
// change, and a mode that is left out stays what it was, which no new cluster could be compared with.
func (s *base) tree() map[string]any {
	spec := tree(s.spec).(map[string]any)
	if spec["tls"] == nil {
		spec["tls"] = map[string]any{"mode": "Disabled"}
	}
	return spec
}

// newBench starts a cluster for a base, without a StorageCluster.
func newBench(t *testing.T, s base) *bench {
	t.Helper()
	e := harness.StartAlone(t, s.nodes())
	e.Lease = lease
	b := &bench{Env: e, objects: dynamicClient(e), kinds: kinds(e), base: s}
	e.Apply(secrets)
	if s.within == "tls.authorities" { // each run makes others
		for _, name := range authorities {
			harness.BringAuthority(&e.Administrator, name)
		}
	}
	e.Run()
	return b
}

// For is the same cluster for a test within the test.
func (b *bench) For(t testing.TB) *bench {
	inner := *b
	inner.Env = b.Env.For(t)
	return &inner
}

func (b *bench) clusters() dynamic.ResourceInterface {
	return b.objects.Resource(v1alpha1.GroupVersion.WithResource("storageclusters"))
}

// put makes the spec that of the StorageCluster, which is created if it is not there.
func (b *bench) put(spec map[string]any) error {
	spec = runtime.DeepCopyJSON(spec)
	for {
		now, err := b.clusters().Get(b.Ctx, v1alpha1.ClusterName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			o.SetAPIVersion(v1alpha1.GroupVersion.String())
			o.SetKind("StorageCluster")
			o.SetName(v1alpha1.ClusterName)
			_, err = b.clusters().Create(b.Ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		}
		if err != nil {
			return err
		}
		now.Object["spec"] = spec
		_, err = b.clusters().Update(b.Ctx, now, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// mustPut is put for a spec that is valid.
func (b *bench) mustPut(spec map[string]any) {
	b.T.Helper()
	if err := b.put(spec); err != nil {
		b.T.Fatalf("the API server refuses a spec that is meant to be valid: %v", err)
	}
}

// refusal is the reason for which the API server does not take a spec; nil if it does. Other errors are fatal.
func (b *bench) refusal(spec map[string]any) error {
	b.T.Helper()
	err := b.put(spec)
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		b.T.Fatalf("update: %v", err)
	}
	return err
}

// verdict is what a spec came to.
type verdict struct {
	// hold is the cluster's, or that of nodes; nil if the spec is carried out.
	hold *v1alpha1.Hold
	// suspended reports whether the spec says that nothing be done.
	suspended bool
	status    v1alpha1.StorageClusterStatus
}

// settle waits until the operator has seen the spec and has carried it out or says why not.
func (b *bench) settle() verdict {
	b.T.Helper()
	var out verdict
	var held string
	var since time.Time
	b.Eventually("the spec is carried out, or a hold says why not", func() error {
		c := b.Get()
		st := c.Status
		if st.ObservedGeneration != c.Generation {
			return fmt.Errorf("generation %d is not seen yet", c.Generation)
		}
		out = verdict{status: st, suspended: c.Spec.Suspend, hold: st.Hold}
		if out.hold == nil && len(st.NodeHolds) > 0 {
			out.hold = &st.NodeHolds[0]
		}
		switch {
		case out.suspended && harness.Condition(c, conditions.Suspended) == "True/Suspended":
			return nil
		case out.hold == nil && st.Phase == v1alpha1.PhaseReady && st.AcceptedGeneration == c.Generation &&
			len(st.Nodes.Problems) == 0:
			return nil
		case out.hold == nil:
			held = ""
			return fmt.Errorf("%s, generation %d of %d: %s", st.Phase, st.AcceptedGeneration, c.Generation, st.Message)
		case held != out.hold.ID:
			held, since = out.hold.ID, time.Now()
		}
		if time.Since(since) < steady {
			return fmt.Errorf("hold %s: %s", out.hold.Reason, out.hold.Message)
		}
		return nil
	})
	return out
}

// becomes waits until the state is the wanted one, and says what differs if it is not in time.
func (b *bench) becomes(want state) string {
	b.T.Helper()
	return b.inTime(func() string {
		// Forty lists are worth it only once the StorageCluster says that all is done.
		cluster := state{}
		if err := b.lookAtCluster(cluster); err != nil {
			return err.Error()
		}
		for name, text := range cluster {
			if want[name] != text {
				return differences(state{name: want[name]}, state{name: text})
			}
		}
		got, err := b.look()
		if err != nil {
			return err.Error()
		}
		return differences(want, got)
	})
}

// inTime looks until nothing is wrong any more, and returns what is wrong if that takes too long.
func (b *bench) inTime(wrong func() string) string {
	b.T.Helper()
	watch := machine.StartStopwatch()
	for {
		begin := time.Now()
		what := wrong()
		if what == "" || watch.Elapsed() > b.Patience {
			return what
		}
		<-time.After(harness.Pause(lookEvery, time.Since(begin)))
	}
}

// atRest is the state once it has not changed for a while.
func (b *bench) atRest() state {
	b.T.Helper()
	var last state
	quiet := b.Silence(time.Second)
	b.EventuallyEvery(lookEvery, "the cluster is at rest", func() error {
		s, err := b.look()
		if err != nil {
			last = nil
			return err
		}
		if last == nil || differences(last, s) != "" {
			last = s
			quiet.Broken()
		}
		return quiet.Lasts()
	})
	return last
}

// clear takes the cluster away with all that it left, so that the next one is new.
func (b *bench) clear() {
	b.T.Helper()
	c := &v1alpha1.StorageCluster{}
	err := b.Client().Get(b.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		b.T.Fatal(err)
	}
	b.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Suspend, c.Spec.DeletionPolicy = false, v1alpha1.DeletionDelete
	})
	b.Remove()
	b.WaitGone()
	b.Eventually("the pods are gone", b.NoPods)
	for _, list := range []client.Object{&corev1.ConfigMap{}} {
		if err := b.Client().DeleteAllOf(b.Ctx, list, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.HasLabels{v1alpha1.LabelCluster}); err != nil {
			b.T.Fatal(err)
		}
	}
	if left := b.Owned(); len(left) > 0 {
		b.T.Errorf("left by a deletion with policy Delete: %s", strings.Join(left, ", "))
	}
	for _, url := range b.base.databases {
		b.Sim.World().Database(url).Wipe()
	}
	for _, n := range b.base.nodes() {
		m := b.Sim.World().Machine(n.Name)
		m.LVM().Remove(madeGroup)
	}
}

// fresh installs a spec on a cluster that has seen no other, and returns what it comes to; the state is nil if that is
// a hold.
func (b *bench) fresh(spec map[string]any) (state, verdict) {
	b.T.Helper()
	b.clear()
	b.mustPut(spec)
	o := b.settle()
	if o.hold != nil || o.suspended {
		return nil, o
	}
	return b.atRest(), o
}
