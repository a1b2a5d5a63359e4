package observe

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// withDisks is a source whose node n1 has empty disks and may have the pool.
type withDisks struct {
	*source
	disks []linstor.Device
	pool  bool
	away  bool
	looks int
	err   error
}

func (s *withDisks) View(_ context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	n := &linstor.Node{Name: "n1", Status: linstor.StatusOnline, Pools: map[string]*linstor.Pool{}}
	if s.away {
		n.Status = linstor.StatusOffline
	}
	if want.Devices {
		s.looks++
		if !s.away {
			n.Devices, n.DevicesKnown = s.disks, true
		}
	}
	if s.pool {
		n.Pools["hot"] = &linstor.Pool{Name: "hot"}
	}
	if s.err != nil {
		return nil, s.err
	}
	return &linstor.View{TakenAt: s.clock.Now(), Nodes: map[string]*linstor.Node{"n1": n}}, nil
}

func satellitePod() *corev1.Pod { return pod("s", v1alpha1.ComponentSatellite, "n1", nil) }

// A cluster at rest, a node of which may be without a pool, looks for disks now and then, and keeps what it found in
// between.
func TestDisksThatComeLaterAreFound(t *testing.T) {
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM:     &v1alpha1.LVMPool{VolumeGroup: "vg"},
		Devices: &v1alpha1.DevicesSpec{Optional: true, Match: []v1alpha1.DeviceMatch{{Serial: "S*"}}}}}}
	n1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	b := newBench(t, spec, interceptor.Funcs{}, controllerPod(), satellitePod(), n1)
	src := &withDisks{source: b.src}
	b.Linstor = src
	after := func(d time.Duration, what string, looks int, pools bool) {
		t.Helper()
		b.clock.SetTime(b.clock.Now().Add(d))
		s := b.observe()
		if m := s.MemberByName("n1"); src.looks != looks || !m.Linstor.DevicesKnown ||
			(len(m.Linstor.Devices) > 0) != pools {
			t.Errorf("%s: %d looks, disks known %t: %v", what, src.looks, m.Linstor.DevicesKnown, m.Linstor.Devices)
		}
	}
	after(0, "at first", 1, false)
	for range 3 {
		after(15*time.Second, "in between", 1, false)
	}
	src.disks = []linstor.Device{{Path: "/dev/sdb", Serial: "S1", SizeBytes: 2 << 30}}
	after(30*time.Second, "a disk came", 2, true)
	after(15*time.Second, "it is kept in mind", 2, true)
	src.pool = true
	after(15*time.Second, "the pool is there", 2, true)
	after(time.Hour, "nothing is lacking", 2, true)
	src.pool = false
	after(time.Hour, "the pool is gone", 2, true)
	after(time.Hour, "which matters again", 3, true)
}

func TestDisksAreAskedForOnlyWhenAPoolIsMissing(t *testing.T) {
	fromDisks := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{}}}}
	type counts struct{ wanted, ready, members, online int32 }
	for _, tc := range []struct {
		name  string
		spec  v1alpha1.StorageClusterSpec
		phase v1alpha1.Phase
		counts
		want bool
	}{
		{"no pool from disks", v1alpha1.StorageClusterSpec{}, v1alpha1.PhaseStoragePools, counts{2, 0, 2, 2}, false},
		{"being made", fromDisks, v1alpha1.PhaseStoragePools, counts{2, 0, 2, 2}, true},
		{"made, but the phase is not over", fromDisks, v1alpha1.PhaseStoragePools, counts{2, 2, 2, 2}, true},
		{"all there", fromDisks, v1alpha1.PhaseReady, counts{2, 2, 2, 2}, false},
		{"one missing", fromDisks, v1alpha1.PhaseReady, counts{2, 1, 2, 2}, true},
		{"a node joins, whose pools are not counted yet", fromDisks, v1alpha1.PhaseReady, counts{1, 1, 2, 1}, true},
		{"a node that is no member", fromDisks, v1alpha1.PhaseReady, counts{1, 1, 1, 1}, false},
		{"a member whose Node is gone", fromDisks, v1alpha1.PhaseReady, counts{2, 2, 3, 2}, false},
	} {
		b := newBench(t, tc.spec, interceptor.Funcs{}, controllerPod(),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
		st := &b.c.Status
		st.Phase, st.Pools.Wanted, st.Pools.Ready = tc.phase, tc.wanted, tc.ready
		st.Nodes.Members, st.Nodes.Online = tc.members, tc.online
		b.observe()
		if b.src.asked.Devices != tc.want {
			t.Errorf("%s: asked for disks: %t", tc.name, b.src.asked.Devices)
		}
	}
}

// A node that connects between the list of disks and that of nodes has none in the first. It is not one without disks.
func TestNoDisksOfANodeThatHasJustConnected(t *testing.T) {
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{}}}}
	b := newBench(t, spec, interceptor.Funcs{}, controllerPod(), satellitePod(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	b.c.Status.Phase = v1alpha1.PhaseStoragePools
	src := &withDisks{source: b.src, away: true}
	b.Linstor = src
	for _, look := range []struct {
		what  string
		away  bool
		disks []linstor.Device
		known bool
	}{
		{"away", true, nil, false},
		{"just back", false, nil, false},
		{"back for a while", false, nil, true},
		{"away again", true, nil, false},
		{"just back, with a disk", false, []linstor.Device{{Path: "/dev/sdb"}}, true},
	} {
		src.away, src.disks = look.away, look.disks
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		if m := b.observe().MemberByName("n1"); m.Linstor.DevicesKnown != look.known {
			t.Errorf("%s: disks known %t: %v", look.what, m.Linstor.DevicesKnown, m.Linstor.Devices)
		}
	}
}

// An empty list of disks that comes in place of one with disks, or of a satellite that goes or has just come, is not
// believed: LINSTOR may have asked nobody, although it calls the node ONLINE.
func TestNoDisksOfASatelliteThatGoes(t *testing.T) {
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{}}}}
	satellite := satellitePod()
	b := newBench(t, spec, interceptor.Funcs{}, controllerPod(), satellite,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	b.c.Status.Phase = v1alpha1.PhaseStoragePools
	src := &withDisks{source: b.src}
	b.Linstor = src
	some := []linstor.Device{{Path: "/dev/sdb"}}
	silent := errors.New("refused")
	const gone, comes = corev1.ConditionFalse, corev1.ConditionTrue
	for _, look := range []struct {
		what  string
		ready corev1.ConditionStatus // that Kubernetes has just changed to; "" if nothing changed
		disks []linstor.Device
		err   error
		known bool
	}{
		{what: "disks", disks: some, known: true},
		{what: "the satellite restarted between two lists"},
		{what: "no disks twice", known: true},
		{what: "disks again", disks: some, known: true},
		{what: "LINSTOR is silent", err: silent},
		{what: "LINSTOR answers, and has not connected to all satellites"},
		{what: "disks are back", disks: some, known: true},
		{what: "the satellite goes", ready: gone},
		{what: "it is still away, and called ONLINE"},
		{what: "it has just come", ready: comes},
		{what: "it has been there for a minute", known: true},
		{what: "it goes, and had no disks before", ready: gone, known: true},
	} {
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		if look.ready != "" {
			satellite.Status.Conditions[0].Status = look.ready
			satellite.Status.Conditions[0].LastTransitionTime = metav1.NewTime(b.clock.Now())
			if err := b.Reader.(client.Client).Status().Update(t.Context(), satellite); err != nil {
				t.Fatal(err)
			}
		}
		src.disks, src.err = look.disks, look.err
		m := b.observe().MemberByName("n1")
		if known := m.Linstor != nil && m.Linstor.DevicesKnown; known != look.known {
			t.Errorf("%s: disks known %t", look.what, known)
		}
	}
	// An operator that has just started has no look before to compare with.
	b.before = nil
	for _, ready := range []corev1.ConditionStatus{gone, comes} {
		satellite.Status.Conditions[0].Status = ready
		if err := b.Reader.(client.Client).Status().Update(t.Context(), satellite); err != nil {
			t.Fatal(err)
		}
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		if m := b.observe().MemberByName("n1"); m.Linstor.DevicesKnown != (ready == comes) {
			t.Errorf("Ready %s, the first look: disks known %t", ready, m.Linstor.DevicesKnown)
		}
		b.before = nil
	}
}

// failingDisks is a source that cannot list disks any more.
type failingDisks struct {
	*withDisks
	err error
}

func (s *failingDisks) View(ctx context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	v, err := s.withDisks.View(ctx, want)
	if s.err != nil {
		v.DevicesErr, v.Nodes["n1"].Devices, v.Nodes["n1"].DevicesKnown = s.err, nil, false
	}
	return v, err
}

// Disks that were empty once are not shown in place of a look that failed: somebody may use them by now.
func TestDisksOfAFailedLookAreUnknown(t *testing.T) {
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{Optional: true}}}}
	b := newBench(t, spec, interceptor.Funcs{}, controllerPod(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	src := &failingDisks{withDisks: &withDisks{source: b.src, disks: []linstor.Device{{Path: "/dev/sdb"}}}}
	b.Linstor = src
	if m := b.observe().MemberByName("n1"); !m.Linstor.DevicesKnown {
		t.Fatal("the disks of the first look are unknown")
	}
	src.err = errors.New("lsblk hangs")
	b.clock.SetTime(b.clock.Now().Add(time.Hour))
	if m := b.observe().MemberByName("n1"); src.looks != 2 || m.Linstor.DevicesKnown || m.Linstor.Devices != nil {
		t.Errorf("%d looks, disks known %t: %v", src.looks, m.Linstor.DevicesKnown, m.Linstor.Devices)
	}
}

// Copies of volumes are the longest list. At rest they are looked at rarely, and never where there are no volumes.
func TestCopiesAreAskedForWhenTheyMatter(t *testing.T) {
	safety := cluster.DefaultTiming().Safety
	upgrading := func(st *v1alpha1.StorageClusterStatus) { st.Upgrade = &v1alpha1.UpgradeStatus{} }
	for _, tc := range []struct {
		name    string
		volumes int
		after   time.Duration // since the first look
		change  func(*v1alpha1.StorageClusterStatus)
		looks   int // in all
		copies  bool
	}{
		{"no volumes", 0, safety, nil, 2, false},
		{"volumes, soon", 1, safety - time.Second, nil, 2, false},
		{"volumes, in time", 1, safety, nil, 2, true},
		{"an upgrade", 0, safety, upgrading, 2, true},
		{"an upgrade begins, and no look is due", 0, time.Second, upgrading, 1, true},
		{"no look is due", 1, time.Second, nil, 1, true}, // the first look had them
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod())
			b.src.view.Volumes = tc.volumes
			if b.observe(); !b.src.asked.Resources {
				t.Error("the first look was without copies")
			}
			if tc.change != nil {
				tc.change(&b.c.Status)
			}
			b.clock.SetTime(b.clock.Now().Add(tc.after))
			if b.observe(); b.src.views != tc.looks || b.src.asked.Resources != tc.copies {
				t.Errorf("%d looks, the last with copies: %t", b.src.views, b.src.asked.Resources)
			}
		})
	}
}

// TestCopiesAreLookedAtWhenANodeReturns: they were unknown as long as LINSTOR was not connected to it.
func TestCopiesAreLookedAtWhenANodeReturns(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod())
	b.src.view.Volumes = 1
	n := &linstor.Node{Name: "n1", Status: linstor.StatusOffline}
	b.src.view.Nodes = map[string]*linstor.Node{"N1": n}
	soon := cluster.DefaultTiming().Safety / 3 // no time for a look at copies comes
	for i, look := range []struct {
		status string
		views  int
		copies bool
	}{
		{linstor.StatusOffline, 1, true}, {linstor.StatusOffline, 2, false}, {linstor.StatusOnline, 4, true},
		{linstor.StatusOnline, 5, false},
	} {
		n.Status = look.status
		if i > 0 {
			b.clock.SetTime(b.clock.Now().Add(soon))
		}
		b.Refresh()
		if b.observe(); b.src.views != look.views || b.src.asked.Resources != look.copies {
			t.Errorf("at look %d: %d views, the last with copies: %t", i, b.src.views, b.src.asked.Resources)
		}
	}
}

// What the last look did not list and is needed now is looked for at once.
func TestALookThatLacksSomethingDoesNotServe(t *testing.T) {
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{}}}}
	b := newBench(t, spec, interceptor.Funcs{}, controllerPod())
	b.src.view.Volumes = 1
	b.observe()
	b.clock.SetTime(b.clock.Now().Add(cluster.DefaultTiming().PollSteady))
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.StorageClusterStatus)
		looks  int // in all
		asked  linstor.ViewOptions
	}{
		{"a poll is over", func(*v1alpha1.StorageClusterStatus) {}, 2, linstor.ViewOptions{}},
		{"nothing else", func(*v1alpha1.StorageClusterStatus) {}, 2, linstor.ViewOptions{}},
		{"a pool is missing", func(st *v1alpha1.StorageClusterStatus) { st.Pools.Wanted = 1 }, 3,
			linstor.ViewOptions{Devices: true}},
		{"it is still missing", func(*v1alpha1.StorageClusterStatus) {}, 3, linstor.ViewOptions{Devices: true}},
		{"an upgrade begins", func(st *v1alpha1.StorageClusterStatus) { st.Upgrade = &v1alpha1.UpgradeStatus{} }, 4,
			linstor.ViewOptions{Devices: true, Resources: true}},
		{"it goes on", func(*v1alpha1.StorageClusterStatus) {}, 4, linstor.ViewOptions{Devices: true, Resources: true}},
	} {
		tc.change(&b.c.Status)
		if b.observe(); b.src.views != tc.looks || !reflect.DeepEqual(b.src.asked, tc.asked) {
			t.Errorf("%s: %d looks, the last for %+v", tc.name, b.src.views, b.src.asked)
		}
	}
}

// What is under way in LINSTOR at rest is polled as in a working phase.
func TestWhatIsUnderWayIsPolledOften(t *testing.T) {
	timing := cluster.DefaultTiming()
	satellite := func(hash string) *corev1.Pod {
		return pod("s", v1alpha1.ComponentSatellite, "n1", func(p *corev1.Pod) {
			p.Annotations = map[string]string{resources.AnnotationTemplateHash: hash}
		})
	}
	for _, tc := range []struct {
		name  string
		state v1alpha1.NodeState
		hash  string // of the satellite's pod
		poll  time.Duration
	}{
		{"nothing", v1alpha1.NodeOnline, "new", timing.PollSteady},
		{"a node joins", v1alpha1.NodeRegistering, "new", timing.PollWorking},
		{"a satellite is to be restarted", v1alpha1.NodeOnline, "old", timing.PollWorking},
	} {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: resources.SatelliteName,
			Namespace: v1alpha1.WorkloadNamespace, Labels: map[string]string{v1alpha1.LabelCluster: "linstor"}}}
		set.Spec.Template.Annotations = map[string]string{resources.AnnotationTemplateHash: "new"}
		b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod(), set, satellite(tc.hash))
		b.c.Status.Nodes.States = []v1alpha1.NodeStateCount{{State: tc.state, Count: 1}}
		b.observe()
		for _, look := range []struct {
			at    time.Duration
			looks int
		}{{tc.poll / 2, 1}, {tc.poll, 2}} {
			b.clock.SetTime(time.Unix(1000, 0).Add(look.at))
			if b.observe(); b.src.views != look.looks {
				t.Errorf("%s: %d looks after %s, want %d", tc.name, b.src.views, look.at, look.looks)
			}
		}
	}
}

// An outage has one text: which request of a look fails first is chance, and each new text would be a write.
func TestAnOutageHasOneText(t *testing.T) {
	refused := &linstor.Error{Op: "list nodes", Err: errors.New("connection refused from port 1")}
	again := &linstor.Error{Op: "list pools", Err: errors.New("connection refused from port 2")}
	broken := &linstor.Error{Op: "list nodes", Status: http.StatusInternalServerError, Err: errors.New("no database")}
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{}, controllerPod())
	for i, tc := range []struct{ err, want error }{
		{nil, nil}, {refused, refused}, {again, refused}, {broken, broken}, {again, again}, {nil, nil}, {refused, refused},
	} {
		b.clock.SetTime(b.clock.Now().Add(time.Hour))
		if b.src.err = tc.err; !errors.Is(b.observe().Linstor.Err, tc.want) {
			t.Errorf("look %d: %v, want %v", i, b.last.Err, tc.want)
		}
	}
}
