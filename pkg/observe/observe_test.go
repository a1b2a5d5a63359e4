package observe

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// source is LINSTOR, the database and the background writer. It counts how often it is asked.
type source struct {
	linstor.Reader
	views, probes int
	asked         linstor.ViewOptions
	view          linstor.View // what a look finds
	err           error
	errs          map[string]error
	// took is what a view takes.
	took  time.Duration
	clock *clocktesting.FakePassiveClock
}

func (s *source) View(_ context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	s.views++
	s.asked = want
	s.clock.SetTime(s.clock.Now().Add(s.took))
	if s.err != nil {
		return nil, s.err
	}
	view := s.view
	view.Nodes, view.ResourcesKnown = map[string]*linstor.Node{}, want.Resources
	maps.Copy(view.Nodes, s.view.Nodes)
	return &view, nil
}

func (s *source) Look(context.Context, *v1alpha1.DatabaseSpec, connection.Settings) (connection.Contents, error) {
	s.probes++
	return connection.Contents{Nodes: []string{"old"}}, s.err
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
	if err := errors.Join(clientgoscheme.AddToScheme(s), snapshotv1.AddToScheme(s),
		v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: "linstor", Generation: 1}, Spec: spec}
	rev := revision.Of("linstor", 1, (&cluster.Facts{Cluster: c, Catalogue: catalogue.Embedded()}).WorkingSpec())
	c.Status.Target, c.Status.AcceptedGeneration, c.Status.Phase = rev.Name, 1, v1alpha1.PhaseReady
	b := &bench{t: t, src: &source{}, c: c, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	b.src.clock = b.clock
	reader := fake.NewClientBuilder().WithScheme(s).WithObjects(append(objects, rev)...).WithInterceptorFuncs(f).Build()
	b.Observer = &Observer{
		Reader: reader, Live: reader,
		Linstor: b.src, Prober: b.src, Tasks: b.src, Catalogue: catalogue.Embedded(), Timing: cluster.DefaultTiming(),
		Clock: b.clock,
	}
	return b
}

func (b *bench) observe() *cluster.Snapshot {
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
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{},
		pod("c", v1alpha1.ComponentController, "n1", func(p *corev1.Pod) { p.Status.Conditions = nil }))
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
	timing := cluster.DefaultTiming()
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
		pod("a-going", v1alpha1.ComponentSatellite, "n1", at(9, true)),
		pod("b-stays", v1alpha1.ComponentSatellite, "n1", at(5, false)),
		pod("a-stays", v1alpha1.ComponentSatellite, "n2", at(5, false)),
		pod("b-going", v1alpha1.ComponentSatellite, "n2", at(9, true)),
		pod("a-old", v1alpha1.ComponentSatellite, "n3", at(5, false)),
		pod("b-new", v1alpha1.ComponentSatellite, "n3", at(9, false)),
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
	if s := b.observe(); s.TaskStates["node/n1"].Attempts != 2 || s.Unreadable != nil {
		t.Errorf("%+v, %v", s.TaskStates, s.Unreadable)
	}
}

func TestObserveFailsRatherThanGuess(t *testing.T) {
	boom := errors.New("boom")
	b := newBench(t, v1alpha1.StorageClusterSpec{},
		interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
			opts ...client.ListOption) error {
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
	if s, err := b.Observe(t.Context(), b.c); err != nil || s.Unreadable == nil || s.Target != nil {
		t.Error("an accepted version that the catalogue does not know is taken for none")
	}
	b = newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	b.c.Status.Target = "gone"
	if s := b.observe(); s.Target != nil || s.Unreadable != nil {
		t.Errorf("a revision that is gone: %+v, %v", s.Target, s.Unreadable)
	}
	b = newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{},
		resources.Claim("linstor", resources.ClaimData{Backend: "k8s", Version: "0.0.1"}))
	if s := b.observe(); s.Unreadable == nil || s.Target != nil {
		t.Error("a database of a version that the catalogue does not know is taken for one of ours")
	}
	b = newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, resources.Claim("linstor", resources.ClaimData{}))
	b.c.Status.Target = ""
	if s := b.observe(); s.Unreadable == nil {
		t.Error("a claim that cannot be read is taken for none before the first spec is accepted")
	}
}

func TestDiskVolumes(t *testing.T) {
	volume := func(name, path string, hosts ...string) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pv.Spec.Local = &corev1.LocalVolumeSource{Path: path}
		if hosts != nil {
			on := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: hosts}
			terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{on}}}
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
		}
		return pv
	}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelHostname: "host-" + name}}}
	}
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{}}}}
	block, formatted := volume("e", "/mnt/local-storage/localblock/disk1", "n2"),
		volume("f", "/mnt/local-storage/localfs/disk2", "n2")
	block.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	formatted.Spec.Local.FSType = ptr.To("xfs")
	objects := []client.Object{node("n1"), node("n2"), volume("a", "/dev/sdb", "host-n1"), volume("b", "/dev/sdc", "n2"),
		volume("c", "/dev/sdd"),
		volume("d", "/mnt/data", "host-n1"), block, formatted}
	got := newBench(t, spec, interceptor.Funcs{}, objects...).observe().Kube.DiskVolumes
	want := map[string][]nodevolumes.Volume{
		"n1": {{Name: "a", Path: "/dev/sdb", Raw: true}, {Name: "c", Path: "/dev/sdd", Raw: true},
			{Name: "d", Path: "/mnt/data"}},
		"n2": {{Name: "b", Path: "/dev/sdc", Raw: true}, {Name: "c", Path: "/dev/sdd", Raw: true},
			{Name: "e", Path: "/mnt/local-storage/localblock/disk1", Raw: true},
			{Name: "f", Path: "/mnt/local-storage/localfs/disk2", Raw: true}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	none := v1alpha1.StorageClusterSpec{}
	for _, tc := range []struct {
		name             string
		accepted, wanted v1alpha1.StorageClusterSpec
		want             bool
	}{
		{"no pool from disks", none, none, false},
		{"one that is not accepted yet", none, spec, true},
		{"one that is not wanted any more", spec, none, true},
	} {
		b := newBench(t, tc.accepted, interceptor.Funcs{}, objects...)
		b.c.Spec = tc.wanted
		if got := b.observe().Kube.DiskVolumes; (got != nil) != tc.want {
			t.Errorf("%s: volumes %v", tc.name, got)
		}
	}
}
