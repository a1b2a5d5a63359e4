package phases

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sync"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// record stands for everything that a handler can change, and writes down what it was asked to do.
type record struct {
	mu sync.Mutex
	// calls are the writes in their order, as words: "apply ConfigMap/linstor-claim".
	calls   []string
	applied []client.Object
	queued  []work.Task
	// fail makes the call of that name fail.
	fail map[string]error
	// states are what Tasks.State says.
	states map[string]work.State
	// pools and devices are what LINSTOR says when it is asked uncached: pools by "node/pool".
	pools   map[string]*linstor.Pool
	devices map[string][]linstor.Device
	// volumes is how many volumes LINSTOR has when it is asked uncached.
	volumes int
	// now is what LINSTOR says when it is asked uncached, if that is not what the snapshot has; snapshots are names by node.
	now       *linstor.View
	snapshots map[string][]string
	// live is the API server; it has what the snapshot has.
	live fakeLive
	// running is how many tasks still run.
	running int
}

func (r *record) note(format string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	r.calls = append(r.calls, call)
	return r.fail[call]
}

func name(o client.Object) string {
	return reflect.TypeOf(o).Elem().Name() + "/" + o.GetName()
}

func (r *record) Apply(_ context.Context, o client.Object) error {
	if err := r.note("apply %s", name(o)); err != nil {
		return err
	}
	r.applied = append(r.applied, o)
	return nil
}

func (r *record) Delete(_ context.Context, o client.Object) error {
	return r.note("delete %s", name(o))
}

func (r *record) LabelNode(_ context.Context, n *corev1.Node, labels map[string]*string) error {
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

func (r *record) Ensure(t work.Task) work.State {
	r.queued = append(r.queued, t)
	return work.State{Queued: true}
}

func (r *record) State(key string) work.State { return r.states[key] }

func (r *record) Quiesce(string) int { return r.running }

func (r *record) Forget(prefix string) { _ = r.note("forget %s", prefix) }

// keys are the keys of the tasks that were asked for.
func (r *record) keys() []string {
	out := []string{}
	for _, t := range r.queued {
		out = append(out, t.Key)
	}
	return out
}

// run does the queued task of that key.
func (r *record) run(t *testing.T, key string) error {
	t.Helper()
	i := slices.IndexFunc(r.queued, func(t work.Task) bool { return t.Key == key })
	if i < 0 {
		t.Fatalf("no task %s; there are %v", key, r.keys())
	}
	return r.queued[i].Do(t.Context())
}

// fakeLive is the API server, past the cache.
type fakeLive struct {
	cluster *v1alpha1.StorageCluster
	kube    *Kube
	// labelled are what the cluster has left.
	labelled []metav1.PartialObjectMetadata
}

func (f *fakeLive) Cluster(context.Context, string) (*v1alpha1.StorageCluster, error) {
	return f.cluster, nil
}

func (f *fakeLive) Node(_ context.Context, name string) (*corev1.Node, error) {
	for _, n := range f.kube.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, nil
}

func (f *fakeLive) Labelled(context.Context, string) ([]metav1.PartialObjectMetadata, error) {
	return f.labelled, nil
}

// fakeAPI is LINSTOR. What is not defined here must not be called.
type fakeAPI struct {
	linstor.API
	*record
}

func (f fakeAPI) SetProperties(_ context.Context, set map[string]string, del []string) error {
	return f.note("controller set %s del %s", sorted(set), strings.Join(del, ","))
}

func (f fakeAPI) CreateNode(_ context.Context, spec linstor.NodeSpec) error {
	return f.note("create node %s at %s", spec.Name, spec.Interfaces[0].Address)
}

func (f fakeAPI) SetNodeProperties(_ context.Context, node string, set map[string]string, del []string) error {
	return f.note("node %s set %s del %s", node, sorted(set), strings.Join(del, ","))
}

func (f fakeAPI) CreateInterface(_ context.Context, node string, i linstor.Interface) error {
	return f.note("create interface %s/%s %s", node, i.Name, i.Address)
}

func (f fakeAPI) ModifyInterface(_ context.Context, node string, i linstor.Interface) error {
	return f.note("modify interface %s/%s %s active=%t", node, i.Name, i.Address, i.Active)
}

func (f fakeAPI) DeleteInterface(_ context.Context, node, name string) error {
	if f.now != nil && f.now.Node(node) != nil {
		f.now.Node(node).Status = linstor.StatusNoConnection // it was the last one that has a port
	}
	return f.note("delete interface %s/%s", node, name)
}

func (f fakeAPI) DeleteNode(_ context.Context, node string) error {
	return f.note("delete node %s", node)
}

func (f fakeAPI) CreatePool(_ context.Context, spec linstor.PoolSpec) error {
	return f.note("create pool %s/%s %s %s", spec.Node, spec.Name, spec.Provider, spec.Backing)
}

func (f fakeAPI) SetPoolProperties(_ context.Context, node, pool string, set map[string]string, del []string) error {
	return f.note("pool %s/%s set %s del %s", node, pool, sorted(set), strings.Join(del, ","))
}

func (f fakeAPI) DeletePool(_ context.Context, node, pool string) error {
	return f.note("delete pool %s/%s", node, pool)
}

func (f fakeAPI) CreateDevices(_ context.Context, spec linstor.DeviceSpec) error {
	return f.note("create devices %s %s %s from %s", spec.Node, spec.Provider, spec.PoolName, strings.Join(spec.Paths, ","))
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
		delete(f.now.Nodes, strings.ToLower(node))
	}
	return err
}

func (f fakeAPI) Node(_ context.Context, name string) (*linstor.Node, error) {
	if err := f.fail["node "+name]; err != nil {
		return nil, err
	}
	if f.now != nil && f.now.Node(name) != nil {
		found := *f.now.Node(name)
		return &found, nil
	}
	return nil, &linstor.Error{Op: "read node", Status: 404, Codes: []int64{failure(linstor.CodeNodeNotFound)}}
}

func (f fakeAPI) Resources(_ context.Context, q linstor.ResourceQuery) ([]linstor.Resource, error) {
	var out []linstor.Resource
	if f.now == nil {
		return nil, f.fail["resources"]
	}
	for _, r := range f.now.Resources {
		if (len(q.Nodes) == 0 || slices.Contains(q.Nodes, r.Node)) && (len(q.Names) == 0 || slices.Contains(q.Names, r.Name)) {
			out = append(out, r)
		}
	}
	return out, f.fail["resources"]
}

func (f fakeAPI) Snapshots(_ context.Context, node string) ([]string, error) {
	return f.snapshots[node], f.fail["snapshots "+node]
}

func (f fakeAPI) View(context.Context, linstor.ViewOptions) (*linstor.View, error) {
	if f.now != nil {
		return f.now, f.fail["view"]
	}
	return &linstor.View{Volumes: f.volumes, VolumeNames: []string{"pvc-new"}}, f.fail["view"]
}

func (f fakeAPI) Pool(_ context.Context, node, pool string) (*linstor.Pool, error) {
	if err := f.fail["pool "+node+"/"+pool]; err != nil {
		return nil, err
	}
	if p := f.pools[node+"/"+pool]; p != nil {
		return p, nil
	}
	return nil, &linstor.Error{Op: "read pool", Status: 404, Codes: []int64{failure(linstor.CodePoolNotFound)}}
}

func (f fakeAPI) Devices(_ context.Context, node string) ([]linstor.Device, error) {
	return f.devices[node], f.fail["devices "+node]
}

// failure is LINSTOR's ret_code of an error: both type bits set.
func failure(code int64) int64 { return -0x4000000000000000 | code }

// refused is LINSTOR's answer with that code.
func refused(code int64) error {
	return &linstor.Error{Op: "test", Status: 500, Codes: []int64{failure(code)}, Message: fmt.Sprintf("code %d", code)}
}

// sorted shows properties without the list of managed keys, which follows from the others.
func sorted(props map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(props)) {
		if k != linstor.AuxPrefix+"keys" {
			out = append(out, strings.TrimPrefix(k, linstor.AuxPrefix)+"="+props[k])
		}
	}
	return strings.Join(out, " ")
}
