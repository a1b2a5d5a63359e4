package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// judge looks at each destructive write of an operator at the moment when it is sent. What justifies it must be true
// in the API server and on the machines then, whatever the operator's own view says.
type judge struct {
	e *harness.Env

	mu      sync.Mutex
	volumes []string
	// changed is when the test changed the world last.
	changed time.Time
	// away is set while there is no StorageCluster and the operator has let the last one go: nothing may be written then.
	away   bool
	faults []string
	deeds  map[string]int
}

// inFlight is how long after a change a write may still be about what was before it: the operator looked, and then it
// wrote.
const inFlight = time.Second

func newJudge(e *harness.Env) *judge { return &judge{e: e, deeds: map[string]int{}} }

// install puts it before the operators that are started from now on; next carries their requests to LINSTOR out.
func (j *judge) install(next http.RoundTripper) {
	j.e.Wrap = j.wrap
	j.e.Transport = judgeTransport{j, next}
}

// change notes that the world is changed by f, which operators see later or not at all.
func (j *judge) change(f func()) {
	j.noteChange()
	f()
	j.noteChange()
}

func (j *judge) noteChange() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changed = time.Now()
}

func (j *judge) setAway(away bool) {
	j.noteChange()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.away = away
}

func (j *judge) err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.faults) > 0 {
		return fmt.Errorf("%s", strings.Join(j.faults, "\n"))
	}
	return nil
}

// sentence records a deed, and why it is wrong.
func (j *judge) sentence(deed, fault string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deeds[deed]++
	if fault != "" && time.Since(j.changed) > machine.Slow(inFlight) {
		j.faults = append(j.faults, deed+": "+fault)
	}
}

func (j *judge) idle(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.away && time.Since(j.changed) > machine.Slow(inFlight) {
		j.faults = append(j.faults, what+" while there is no StorageCluster")
	}
}

// cluster is the StorageCluster as it is; nil if there is none.
func (j *judge) cluster() *v1alpha1.StorageCluster {
	c := &v1alpha1.StorageCluster{}
	if err := j.e.Client().Get(j.e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); err != nil {
		return nil
	}
	return c
}

// node is a Node as it is; nil if there is none.
func (j *judge) node(name string) *corev1.Node {
	n := &corev1.Node{}
	if err := j.e.Client().Get(j.e.Ctx, client.ObjectKey{Name: name}, n); err != nil {
		return nil
	}
	return n
}

// stays is why a node may not be taken away: it is there and selected, and the cluster is not being deleted with its
// data.
func (j *judge) stays(name string) string {
	c, n := j.cluster(), j.node(name)
	switch {
	case c == nil:
		return "there is no StorageCluster"
	case c.DeletionTimestamp != nil && c.Spec.DeletionPolicy == v1alpha1.DeletionDelete, n == nil:
		return ""
	case labels.SelectorFromSet(c.Spec.Nodes.NodeSelector).Matches(labels.Set(n.Labels)):
		return "the spec selects the node"
	}
	return ""
}

// copies names a volume of which the node's machine holds a copy.
func (j *judge) copies(node string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.volumes {
		if slices.Contains(j.e.Sim.World().Volumes().Data(v), node) {
			return "its machine holds a copy of " + v
		}
	}
	return ""
}

// wants reports whether the spec has an entry for a node that ok takes.
func (j *judge) wants(node string, ok func(*v1alpha1.StoragePoolSpec) bool) bool {
	c, n := j.cluster(), j.node(node)
	if c == nil || c.DeletionTimestamp != nil || n == nil {
		return false
	}
	return slices.ContainsFunc(c.Spec.StoragePools, func(p v1alpha1.StoragePoolSpec) bool {
		return labels.SelectorFromSet(p.NodeSelector).Matches(labels.Set(n.Labels)) && ok(&p)
	})
}

// wrap judges what an operator deletes in Kubernetes.
func (j *judge) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			fault := j.deletion(o)
			err := c.Delete(ctx, o, opts...)
			if err == nil {
				j.sentence(fmt.Sprintf("delete %T", o), fault)
			}
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if n, ok := o.(*corev1.Node); ok {
				data, err := p.Data(o)
				if err == nil && strings.Contains(string(data), fmt.Sprintf("%q:null", v1alpha1.LabelMember)) {
					fault := j.stays(n.Name)
					if c := j.cluster(); c != nil && c.DeletionTimestamp != nil {
						fault = ""
					}
					j.sentence("take the labels off a Node", fault)
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

// deletion is what is wrong with the deletion of an object.
func (j *judge) deletion(o client.Object) string {
	c := j.cluster()
	if c == nil {
		return "there is no StorageCluster"
	}
	if c.DeletionTimestamp != nil {
		if o.GetName() == resources.ClaimName {
			return "the claim stays as long as the database"
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if len(j.volumes) > 0 {
			return "volumes exist: " + strings.Join(j.volumes, ", ")
		}
		return ""
	}
	switch o := o.(type) {
	case *corev1.Pod:
		return j.restart(o)
	case *appsv1.ControllerRevision:
		if o.Name == c.Status.Target {
			return "it is the accepted spec"
		}
		return ""
	}
	return "the StorageCluster is not being deleted"
}

// restart is what is wrong with the deletion of a satellite's pod: it must differ from what its DaemonSet makes now.
func (j *judge) restart(o *corev1.Pod) string {
	var pods corev1.PodList
	var sets appsv1.DaemonSetList
	in := client.InNamespace(v1alpha1.WorkloadNamespace)
	if j.e.Client().List(j.e.Ctx, &pods, in) != nil || j.e.Client().List(j.e.Ctx, &sets, in) != nil {
		return ""
	}
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.UID == o.UID })
	if i < 0 {
		return ""
	}
	for _, ds := range sets.Items {
		if len(pods.Items[i].OwnerReferences) == 0 || ds.UID != pods.Items[i].OwnerReferences[0].UID {
			continue
		}
		want := ds.Spec.Template.Annotations[resources.AnnotationTemplateHash]
		if want == pods.Items[i].Annotations[resources.AnnotationTemplateHash] {
			return "the pod is as its DaemonSet makes it"
		}
	}
	return ""
}

// judgeTransport judges what an operator does to LINSTOR.
type judgeTransport struct {
	*judge
	next http.RoundTripper
}

func (t judgeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		t.idle(r.Method + " " + r.URL.Path)
		if deed, fault := t.linstor(r); deed != "" {
			t.sentence(deed, fault)
		}
	}
	return t.next.RoundTrip(r)
}

// linstor is what a request destroys, if it does, and what is wrong with that.
func (j *judge) linstor(r *http.Request) (deed, fault string) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // v1 nodes NAME storage-pools POOL
	join := func(faults ...string) string {
		return strings.Join(slices.DeleteFunc(faults, func(f string) bool { return f == "" }), "; ")
	}
	switch what := r.Method + " " + strings.Join(append([]string{parts[1]}, parts[min(3, len(parts)):]...), "/"); {
	case what == "DELETE nodes":
		return "delete a LINSTOR node", join(j.stays(parts[2]), j.copies(parts[2]))
	case what == "DELETE nodes/lost":
		return "declare a LINSTOR node lost", j.stays(parts[2])
	case what == "PUT nodes/evacuate", what == "PUT nodes/evict":
		return "evacuate a LINSTOR node", j.stays(parts[2])
	case strings.HasPrefix(what, "DELETE nodes/storage-pools/"):
		wanted := j.wants(parts[2],
			func(p *v1alpha1.StoragePoolSpec) bool { return strings.EqualFold(poolspec.LinstorName(p), parts[4]) })
		if wanted && j.stays(parts[2]) != "" {
			fault = "the spec wants the pool"
		}
		return "delete a LINSTOR pool", fault
	case what == "POST physical-storage":
		return "make a pool's storage from disks", j.disks(r, parts[2])
	}
	return "", ""
}

// disks is what is wrong with making a pool's storage from disks.
func (j *judge) disks(r *http.Request, node string) string {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	var body struct {
		Pool  string   `json:"pool_name"`
		Paths []string `json:"device_paths"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return err.Error()
	}
	group, _, _ := strings.Cut(body.Pool, "/")
	wanted := j.wants(node, func(p *v1alpha1.StoragePoolSpec) bool {
		_, backing := poolspec.Backing(p)
		have, _, _ := strings.Cut(backing, "/")
		return p.Devices != nil && have == group
	})
	if !wanted {
		return "the spec does not want " + body.Pool + " on " + node
	}
	for _, g := range j.e.Sim.World().Machine(node).LVM().Groups() {
		if g.Name == group {
			return fmt.Sprintf("volume group %s is there already, on %v", group, g.Devices)
		}
	}
	for _, d := range j.e.Sim.World().Machine(node).Disks() {
		if d.Signature != "" && slices.Contains(body.Paths, "/dev/"+d.Name) {
			return fmt.Sprintf("disk %s holds %s", d.Serial, d.Signature)
		}
	}
	return ""
}
