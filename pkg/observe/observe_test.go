package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// source is LINSTOR, the database and the background writer. It counts how often it is asked.
type source struct {
	linstor.Reader
	views, probes int
	devices       bool
	err           error
	errs          map[string]error
	// took is what a view takes.
	took  time.Duration
	clock *clocktesting.FakePassiveClock
}

func (s *source) View(_ context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	s.views++
	s.devices = want.Devices
	s.clock.SetTime(s.clock.Now().Add(s.took))
	if s.err != nil {
		return nil, s.err
	}
	return &linstor.View{Nodes: map[string]*linstor.Node{}}, nil
}

func (s *source) Nodes(context.Context, *v1alpha1.DatabaseSpec, resources.Database) ([]string, error) {
	s.probes++
	return []string{"old"}, s.err
}

func (s *source) Errors() map[string]error    { return s.errs }
func (s *source) State(key string) work.State { return work.State{Err: s.errs[key], Attempts: 2} }

type bench struct {
	*Observer
	t     *testing.T
	src   *source
	clock *clocktesting.FakePassiveClock
	c     *v1alpha1.StorageCluster
}

// newBench is an accepted cluster with a ready controller pod, unless the objects say otherwise.
func newBench(t *testing.T, spec v1alpha1.StorageClusterSpec, f interceptor.Funcs, objects ...client.Object) *bench {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: "linstor", Generation: 1}, Spec: spec}
	rev := resources.Revision("linstor", 1, phases.WorkingSpec(c, catalogue.Embedded().Newest()))
	c.Status.Target, c.Status.AcceptedGeneration, c.Status.Phase = rev.Name, 1, v1alpha1.PhaseReady
	b := &bench{t: t, src: &source{}, c: c, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	b.src.clock = b.clock
	b.Observer = &Observer{
		Reader:  fake.NewClientBuilder().WithScheme(s).WithObjects(append(objects, rev)...).WithInterceptorFuncs(f).Build(),
		Linstor: b.src, Prober: b.src, Tasks: b.src, Catalogue: catalogue.Embedded(), Timing: phases.DefaultTiming(), Clock: b.clock,
	}
	return b
}

func (b *bench) observe() *phases.Snapshot {
	b.t.Helper()
	s, err := b.Observe(b.t.Context(), b.c)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func pod(name, component, node string, f func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.WorkloadNamespace,
			Labels: map[string]string{v1alpha1.LabelCluster: "linstor", v1alpha1.LabelComponent: component}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if f != nil {
		f(p)
	}
	return p
}

func controllerPod() *corev1.Pod { return pod("c", v1alpha1.ComponentController, "n1", nil) }

func TestLinstorIsNotAskedWithoutAController(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, pod("c", v1alpha1.ComponentController, "n1", func(p *corev1.Pod) { p.Status.Conditions = nil }))
	if s := b.observe(); s.Linstor.Asked || s.Linstor.Known() || b.src.views != 0 {
		t.Errorf("%+v after %d looks", s.Linstor, b.src.views)
	}
}

func TestASourceThatFailsIsUnknown(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod())
	b.observe()
	b.clock.SetTime(b.clock.Now().Add(time.Hour))
	b.src.err = errors.New("refused")
	if s := b.observe(); s.Linstor.Known() || !s.Linstor.Asked || !errors.Is(s.Linstor.Err, b.src.err) {
		t.Errorf("the old view stands for a look that failed: %+v", s.Linstor)
	}
	if s := b.observe(); !s.Database.Checked || !errors.Is(s.Database.Err, b.src.err) {
		t.Errorf("%+v", s.Database)
	}
}

func TestViewsAreKeptForAWhile(t *testing.T) {
	timing := phases.DefaultTiming()
	for _, tc := range []struct {
		name  string
		phase v1alpha1.Phase
		after time.Duration
		dirty bool
		want  int // looks in all
	}{
		{"a burst", v1alpha1.PhaseStoragePools, time.Millisecond, false, 1},
		{"a burst after writes", v1alpha1.PhaseStoragePools, time.Millisecond, true, 1},
		{"after writes, when the last look took a tenth", v1alpha1.PhaseStoragePools, 100 * time.Millisecond, true, 2},
		{"soon after a write", v1alpha1.PhaseStoragePools, timing.PollWorking / 2, true, 2},
		{"soon", v1alpha1.PhaseStoragePools, timing.PollWorking / 2, false, 1},
		{"at the next poll", v1alpha1.PhaseStoragePools, timing.PollWorking, false, 2},
		{"at rest, at the next poll of a working phase", v1alpha1.PhaseReady, timing.PollWorking, false, 1},
		{"at rest, at the next poll", v1alpha1.PhaseReady, timing.PollSteady, false, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod())
			b.c.Status.Phase, b.src.took = tc.phase, 10*time.Millisecond
			b.observe()
			if tc.dirty {
				b.Invalidate()
			}
			b.clock.SetTime(b.clock.Now().Add(tc.after))
			b.observe()
			if b.src.views != tc.want {
				t.Errorf("%d looks, want %d", b.src.views, tc.want)
			}
		})
	}
}

func TestAWriteThatEndedMakesTheNextLookDueSoon(t *testing.T) {
	for _, tc := range []struct{ took, due time.Duration }{
		{10 * time.Millisecond, 90 * time.Millisecond},
		{100 * time.Millisecond, 400 * time.Millisecond}, // not later than a quarter of the poll
	} {
		b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod())
		b.src.took = tc.took
		never := b.Due()
		b.Invalidate()
		if b.Due() != never || never < time.Hour {
			t.Errorf("due in %s before LINSTOR was looked at", b.Due())
		}
		b.observe()
		if b.Due() != never {
			t.Errorf("due in %s although nothing was written", b.Due())
		}
		b.Invalidate()
		if b.Due() != tc.due {
			t.Errorf("due in %s, want %s", b.Due(), tc.due)
		}
		b.observe()
		if b.src.views != 1 {
			t.Error("looked at once more before it was due")
		}
		b.clock.SetTime(b.clock.Now().Add(tc.due))
		if b.observe(); b.src.views != 2 || b.Due() != never {
			t.Errorf("%d looks, the next due in %s", b.src.views, b.Due())
		}
	}
}

func TestDisksAreAskedForOnlyWhenAPoolIsMissing(t *testing.T) {
	devices := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{}}}}
	for _, tc := range []struct {
		name  string
		spec  v1alpha1.StorageClusterSpec
		phase v1alpha1.Phase
		ready int32
		want  bool
	}{
		{"no pool from disks", v1alpha1.StorageClusterSpec{}, v1alpha1.PhaseStoragePools, 0, false},
		{"being made", devices, v1alpha1.PhaseStoragePools, 0, true},
		{"all there", devices, v1alpha1.PhaseReady, 2, false},
		{"one missing", devices, v1alpha1.PhaseReady, 1, true},
	} {
		b := newBench(t, tc.spec, interceptor.Funcs{}, controllerPod())
		b.c.Status.Phase, b.c.Status.Pools.Wanted, b.c.Status.Pools.Ready = tc.phase, 2, tc.ready
		b.observe()
		if b.src.devices != tc.want {
			t.Errorf("%s: asked for disks: %t", tc.name, b.src.devices)
		}
	}
}

func TestTheDatabaseIsLookedIntoOnlyBeforeItIsClaimed(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	if s := b.observe(); !s.Database.Checked || !cmp.Equal(s.Database.Nodes, []string{"old"}) {
		t.Errorf("%+v", s.Database)
	}
	b = newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, resources.Claim("linstor", resources.ClaimData{Backend: "k8s"}))
	if s := b.observe(); s.Database.Checked || b.src.probes != 0 {
		t.Errorf("claimed: %+v", s.Database)
	}
	sql := v1alpha1.StorageClusterSpec{Database: v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "none"}}}
	b = newBench(t, sql, interceptor.Funcs{})
	if s := b.observe(); !s.Database.Checked || s.Database.Err == nil || b.src.probes != 0 {
		t.Errorf("without credentials: %+v", s.Database)
	}
}

func TestOnePodForEachNode(t *testing.T) {
	at := func(sec int64, going bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.Unix(sec, 0)
			if going {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(2000, 0)}, []string{"x/y"}
			}
		}
	}
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{},
		pod("a-going", v1alpha1.ComponentSatellite, "n1", at(9, true)), pod("b-stays", v1alpha1.ComponentSatellite, "n1", at(5, false)),
		pod("a-stays", v1alpha1.ComponentSatellite, "n2", at(5, false)), pod("b-going", v1alpha1.ComponentSatellite, "n2", at(9, true)),
		pod("a-old", v1alpha1.ComponentSatellite, "n3", at(5, false)), pod("b-new", v1alpha1.ComponentSatellite, "n3", at(9, false)),
		pod("unscheduled", v1alpha1.ComponentSatellite, "", nil),
		pod("theirs", v1alpha1.ComponentSatellite, "n4", func(p *corev1.Pod) { p.Labels[v1alpha1.LabelCluster] = "other" }),
	)
	got := map[string]string{}
	for node, p := range b.observe().Kube.Pods[v1alpha1.ComponentSatellite] {
		got[node] = p.Name
	}
	if d := cmp.Diff(map[string]string{"n1": "b-stays", "n2": "a-stays", "n3": "b-new"}, got); d != "" {
		t.Error(d)
	}
}

func TestFailedWritesAreInTheSnapshot(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	b.src.errs = map[string]error{"node/n1": errors.New("x")}
	if s := b.observe(); s.TaskStates["node/n1"].Attempts != 2 {
		t.Errorf("%+v", s.TaskStates)
	}
}

func TestObserveFailsRatherThanGuess(t *testing.T) {
	boom := errors.New("boom")
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		if _, ok := l.(*corev1.SecretList); ok {
			return boom
		}
		return c.List(ctx, l, opts...)
	}})
	if s, err := b.Observe(t.Context(), b.c); !errors.Is(err, boom) || s != nil {
		t.Errorf("%v %v", s, err)
	}
	b = newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	b.Catalogue = &catalogue.Catalogue{}
	if _, err := b.Observe(t.Context(), b.c); err == nil {
		t.Error("an accepted version that the catalogue does not know is taken for none")
	}
	b = newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	b.c.Status.Target = "gone"
	if s := b.observe(); s.Target != nil {
		t.Errorf("a revision that is gone: %+v", s.Target)
	}
}

func TestLocalVolumes(t *testing.T) {
	volume := func(name, path string, hosts ...string) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}}}
		if hosts != nil {
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: hosts}}}}}}
		}
		return pv
	}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: "host-" + name}}}
	}
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{}}}}
	objects := []client.Object{node("n1"), node("n2"), volume("a", "/dev/sdb", "host-n1"), volume("b", "/dev/sdc", "n2"), volume("c", "/dev/sdd"), volume("d", "/mnt/data", "host-n1")}
	got := newBench(t, spec, interceptor.Funcs{}, objects...).observe().Kube.LocalVolumePaths
	if d := cmp.Diff(map[string][]string{"n1": {"/dev/sdb", "/dev/sdd"}, "n2": {"/dev/sdc", "/dev/sdd"}}, got); d != "" {
		t.Error(d)
	}
	if got := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, objects...).observe().Kube.LocalVolumePaths; got != nil {
		t.Errorf("looked up without need: %v", got)
	}
}
