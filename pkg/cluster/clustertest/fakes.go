package clustertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/linstortest"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	guards "github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Record stands for everything that a handler can change, and writes down what it was asked to do.
type Record struct {
	mu sync.Mutex
	// Calls are the writes in their order, as words: "apply ConfigMap/linstor-claim".
	Calls   []string
	Applied []client.Object
	Queued  []work.Task
	// Fail makes the call of that name fail.
	Fail map[string]error
	// states are what Tasks.State says.
	states map[string]work.State
	// Pools and DisksOf are what LINSTOR says when it is asked uncached: pools by "node/pool".
	Pools   map[string]*linstor.Pool
	DisksOf map[string][]linstor.Device
	// Volumes is how many volumes LINSTOR has when it is asked uncached.
	Volumes int
	// PassphraseState is that of LINSTOR's master passphrase.
	PassphraseState string
	// Now is what LINSTOR says when it is asked uncached, if that is not what the snapshot has; SnapshotsOf are by
	// node what linstortest.Snapshots takes.
	Now         *linstor.View
	SnapshotsOf map[string][]string
	// Sticks is how often a node stays, flagged DELETE, although its deletion was answered with 200.
	Sticks map[string]int
	// Live is the API server; it has what the snapshot has.
	Live fakeLive
	// Running is how many tasks still run.
	Running int
}

func (r *Record) note(format string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	r.Calls = append(r.Calls, call)
	return r.Fail[call]
}

func name(o client.Object) string {
	return reflect.TypeOf(o).Elem().Name() + "/" + o.GetName()
}

// Apply notes that an object was applied.
func (r *Record) Apply(_ context.Context, o client.Object) error {
	if err := r.note("apply %s", name(o)); err != nil {
		return err
	}
	r.Applied = append(r.Applied, o)
	return nil
}

// Delete notes that an object was deleted.
func (r *Record) Delete(_ context.Context, o client.Object) error {
	return r.note("delete %s", name(o))
}

// DeletePod notes that a pod was deleted.
func (r *Record) DeletePod(ctx context.Context, p *corev1.Pod) error { return r.Delete(ctx, p) }

// DeleteOwnPod notes that a pod was deleted that the operator made by itself.
func (r *Record) DeleteOwnPod(ctx context.Context, p *corev1.Pod) error { return r.Delete(ctx, p) }

// LabelNode notes which labels were written.
func (r *Record) LabelNode(_ context.Context, n *corev1.Node, labels map[string]*string) error {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		v := "-"
		if labels[k] != nil {
			v = *labels[k]
		}
		words = append(words, k[strings.LastIndex(k, "/")+1:]+"="+v)
	}
	return r.note("label %s %s", n.Name, strings.Join(words, " "))
}

// Ensure queues a task, which Run runs.
func (r *Record) Ensure(t work.Task) work.State {
	r.Queued = append(r.Queued, t)
	return work.State{Queued: true}
}

// State is a task's as the world says.
func (r *Record) State(key string) work.State { return r.states[key] }

// Quiesce says that tasks still run.
func (r *Record) Quiesce(string) int { return r.Running }

// Forget notes which tasks were forgotten.
func (r *Record) Forget(prefix string) { _ = r.note("forget %s", prefix) }

// Keys are the keys of the tasks that were asked for.
func (r *Record) Keys() []string {
	out := []string{}
	for _, t := range r.Queued {
		out = append(out, t.Key)
	}
	return out
}

// Run does the queued task of that key.
func (r *Record) Run(t *testing.T, key string) error {
	t.Helper()
	i := slices.IndexFunc(r.Queued, func(t work.Task) bool { return t.Key == key })
	if i < 0 {
		t.Fatalf("no task %s; there are %v", key, r.Keys())
	}
	return r.Queued[i].Do(t.Context())
}

// fakeLive is the API server, past the cache.
type fakeLive struct {
	Object *v1alpha1.StorageCluster
	Kube   *cluster.Kube
	// Left are what the cluster has left.
	Left []metav1.PartialObjectMetadata
	// NewVolumes are PersistentVolumes of the CSI driver that the cache does not show yet, with their StorageClasses.
	NewVolumes map[string]string
	// NewContents are such VolumeSnapshotContents, with their VolumeSnapshotClasses.
	NewContents map[string]string
	// Evicted are nodes whose drain guards are gone and that the cache still shows.
	Evicted []string
	// NewDisks are volumes that may be disks and that the cache does not show yet, by node; DisksErr keeps all unknown.
	NewDisks map[string][]nodevolumes.Volume
	DisksErr error
}

func (f *fakeLive) Cluster(context.Context, string) (*v1alpha1.StorageCluster, error) {
	return f.Object, nil
}

func (f *fakeLive) Node(_ context.Context, name string) (*corev1.Node, error) {
	for _, n := range f.Kube.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, nil
}

func (f *fakeLive) Pod(_ context.Context, name string) (*corev1.Pod, error) {
	guard := guards.Named(f.Kube.Pods[v1alpha1.ComponentDrainGuard], name)
	if guard != nil && !slices.Contains(f.Evicted, guard.Spec.NodeName) {
		return guard, nil
	}
	return f.Kube.Restores[name], nil
}

// Satellites are none: a test that needs one has an API server of its own.
func (f *fakeLive) Satellites(context.Context) ([]corev1.Pod, error) { return nil, nil }

func (f *fakeLive) ConfigMap(_ context.Context, name string) (*corev1.ConfigMap, error) {
	return f.Kube.ConfigMaps[name], nil
}

func (f *fakeLive) Secret(_ context.Context, name string) (*corev1.Secret, error) {
	return f.Kube.Secrets[name], nil
}

func (f *fakeLive) Labelled(context.Context, string) ([]metav1.PartialObjectMetadata, error) {
	return f.Left, nil
}

// fakeAPI is LINSTOR. What is not defined here must not be called.
type fakeAPI struct {
	linstor.API
	*Record
}

func (f fakeAPI) SetProperties(_ context.Context, set map[string]string, del []string) error {
	return f.note("controller set %s del %s", Sorted(set), strings.Join(del, ","))
}

func (f fakeAPI) Passphrase(context.Context) (string, error) {
	return f.PassphraseState, f.Fail["passphrase"]
}

func (f fakeAPI) CreateNode(_ context.Context, spec linstor.NodeSpec) error {
	return f.note("create node %s at %s", spec.Name, spec.Interfaces[0].Address)
}

func (f fakeAPI) SetNodeProperties(_ context.Context, node string, set map[string]string, del []string) error {
	return f.note("node %s set %s del %s", node, Sorted(set), strings.Join(del, ","))
}

func (f fakeAPI) CreateInterface(_ context.Context, node string, i linstor.Interface) error {
	return f.note("create interface %s/%s %s", node, i.Name, i.Address)
}

func (f fakeAPI) ModifyInterface(_ context.Context, node string, i linstor.Interface) error {
	return f.note("modify interface %s/%s %s active=%t", node, i.Name, i.Address, i.Active)
}

func (f fakeAPI) DeleteInterface(_ context.Context, node, name string) error {
	if f.Now != nil && f.Now.Node(node) != nil {
		n := f.Now.Node(node)
		gone := func(i linstor.Interface) bool { return i.Name == name }
		n.Interfaces = slices.DeleteFunc(slices.Clone(n.Interfaces), gone)
		n.Status = linstor.StatusNoConnection // it was the last one that has a port
	}
	return f.note("delete interface %s/%s", node, name)
}

func (f fakeAPI) DeleteNode(_ context.Context, node string) error {
	err := f.note("delete node %s", node)
	if f.Now == nil || err != nil || f.Now.Node(node) == nil || f.Now.Node(node).HasFlag(linstor.FlagEvicted) {
		return err
	}
	if n := f.Now.Node(node); f.Sticks[node] > 0 {
		f.Sticks[node]--
		n.Flags = []string{linstor.FlagDelete}
		return nil
	}
	delete(f.Now.Nodes, strings.ToLower(node))
	return nil
}

func (f fakeAPI) CreatePool(_ context.Context, spec linstor.PoolSpec) error {
	return f.note("create pool %s/%s %s %s", spec.Node, spec.Name, spec.Provider, spec.Backing)
}

func (f fakeAPI) SetPoolProperties(_ context.Context, node, pool string, set map[string]string, del []string) error {
	return f.note("pool %s/%s set %s del %s", node, pool, Sorted(set), strings.Join(del, ","))
}

func (f fakeAPI) DeletePool(_ context.Context, node, pool string) error {
	return f.note("delete pool %s/%s", node, pool)
}

func (f fakeAPI) CreateDevices(_ context.Context, spec linstor.DeviceSpec) error {
	return f.note("create devices %s %s %s from %s",
		spec.Node, spec.Provider, spec.PoolName, strings.Join(spec.Paths, ","))
}

func (f fakeAPI) EvacuateNode(_ context.Context, node string) error {
	return f.note("evacuate node %s", node)
}

func (f fakeAPI) EvictNode(_ context.Context, node string) error {
	return f.note("evict node %s", node)
}

func (f fakeAPI) RestoreNode(_ context.Context, node string) error {
	return f.note("restore node %s", node)
}

func (f fakeAPI) Reconnect(_ context.Context, node string) error {
	return f.note("reconnect node %s", node)
}

func (f fakeAPI) LoseNode(_ context.Context, node string) error {
	err := f.note("lose node %s", node)
	if err == nil {
		delete(f.Now.Nodes, strings.ToLower(node))
	}
	return err
}

func (f fakeAPI) Node(_ context.Context, name string) (*linstor.Node, error) {
	if err := f.Fail["node "+name]; err != nil {
		return nil, err
	}
	if f.Now != nil && f.Now.Node(name) != nil {
		found := *f.Now.Node(name)
		return &found, nil
	}
	return nil, &linstor.Error{Op: "read node", Status: 404, Codes: []int{linstor.CodeNodeNotFound}}
}

func (f fakeAPI) Resources(_ context.Context, q linstor.ResourceQuery) ([]linstor.Resource, error) {
	var out []linstor.Resource
	if f.Now == nil {
		return nil, f.Fail["resources"]
	}
	for _, r := range f.Now.Resources {
		if (len(q.Nodes) == 0 || slices.Contains(q.Nodes, r.Node)) &&
			(len(q.Names) == 0 || slices.Contains(q.Names, r.Name)) {
			out = append(out, r)
		}
	}
	return out, f.Fail["resources"]
}

func (f fakeAPI) Snapshots(_ context.Context, nodes ...string) ([]linstor.Snapshot, error) {
	return linstortest.Snapshots(f.SnapshotsOf[nodes[0]]...), f.Fail["snapshots "+nodes[0]]
}

func (f fakeAPI) View(context.Context, linstor.ViewOptions) (*linstor.View, error) {
	if f.Now != nil {
		f.Now.LocalID = cmp.Or(f.Now.LocalID, "local-id")
		return f.Now, f.Fail["view"]
	}
	return &linstor.View{LocalID: "local-id", Volumes: f.Volumes, VolumeNames: []string{"pvc-new"}}, f.Fail["view"]
}

func (f fakeAPI) Pool(_ context.Context, node, pool string) (*linstor.Pool, error) {
	if err := f.Fail["pool "+node+"/"+pool]; err != nil {
		return nil, err
	}
	if p := f.Pools[node+"/"+pool]; p != nil {
		return p, nil
	}
	return nil, &linstor.Error{Op: "read pool", Status: 404, Codes: []int{linstor.CodePoolNotFound}}
}

func (f fakeAPI) Devices(_ context.Context, node string) ([]linstor.Device, error) {
	return f.DisksOf[node], f.Fail["devices "+node]
}

// Refused is LINSTOR's answer with that code.
func Refused(code int) error {
	return &linstor.Error{Op: "test", Status: 500, Codes: []int{code}, Message: fmt.Sprintf("code %d", code)}
}

// Sorted shows properties without the list of managed keys and what a pool was made from, which follow from the
// others.
func Sorted(props map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(props)) {
		if k != linstor.AuxPrefix+"keys" && !strings.HasPrefix(k, remembered.PoolDisks) {
			out = append(out, strings.TrimPrefix(k, linstor.AuxPrefix)+"="+props[k])
		}
	}
	return strings.Join(out, " ")
}

func (fakeLive) Read(context.Context, string, time.Time) (string, error) { return "", nil }
func (fakeLive) SchemaVersion(context.Context) (string, error)           { return "", nil }
