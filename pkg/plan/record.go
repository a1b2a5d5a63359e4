package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// record is all that links and handlers are given to act with while something is planned. It takes down what they ask
// for. It has no client: whatever a link does, nothing can leave it.
type record struct {
	facts *cluster.Facts

	mu      sync.Mutex
	applied []client.Object
	deleted []client.Object
	// labelled are the Nodes whose labels would be written, with these.
	labelled map[string]map[string]*string
	tasks    []work.Task
	// ensured are the keys of tasks.
	ensured map[string]bool
	writes  []write
	// unknown is what of the tasks cannot be known.
	unknown []string
}

// errNotAsked is what a link gets that looks once more before it acts. It does not act then.
var errNotAsked = errors.New("this is a plan: nothing is read again")

// input is what a link would get now, with this record in the place of all servers.
func (r *record) input(s *cluster.Snapshot) *step.Input {
	r.facts = &s.Facts
	in := &step.Input{Snapshot: s, Writer: r, API: api{r}, Tasks: r, Live: live{r}, Backups: live{r},
		Failures: &step.Failures{}}
	// An answer that is wrong is told by the operator; here it is none.
	if a, err := hold.ParseAnswer(s.Cluster); err == nil {
		in.Answer = a
	}
	return in
}

// Apply takes down that an object would be applied.
func (r *record) Apply(_ context.Context, o client.Object) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = append(r.applied, o)
	return nil
}

// Delete takes down that an object would be removed.
func (r *record) Delete(_ context.Context, o client.Object) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted = append(r.deleted, o)
	return nil
}

// DeletePod takes down that a pod would be removed.
func (r *record) DeletePod(ctx context.Context, p *corev1.Pod) error { return r.Delete(ctx, p) }

// DeleteOwnPod takes down that a pod would be removed.
func (r *record) DeleteOwnPod(ctx context.Context, p *corev1.Pod) error { return r.Delete(ctx, p) }

// LabelNode takes down which labels a Node would get.
func (r *record) LabelNode(_ context.Context, n *corev1.Node, labels map[string]*string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.labelled == nil {
		r.labelled = map[string]map[string]*string{}
	}
	if r.labelled[n.Name] == nil {
		r.labelled[n.Name] = map[string]*string{}
	}
	maps.Copy(r.labelled[n.Name], labels)
	return nil
}

// Ensure takes down a task, which nobody runs.
func (r *record) Ensure(t work.Task) work.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ensured == nil {
		r.ensured = map[string]bool{}
	}
	if !r.ensured[t.Key] {
		r.ensured[t.Key], r.tasks = true, append(r.tasks, t)
	}
	return work.State{Queued: true}
}

// State is what the operator has observed of a task.
func (r *record) State(key string) work.State { return r.facts.TaskStates[key] }

// Forget does nothing: there are no tasks.
func (r *record) Forget(string) {}

// Quiesce says that no task runs.
func (r *record) Quiesce(string) int { return 0 }

// live answers what is asked past the cache from what was observed a moment ago.
type live struct{ *record }

// Cluster is the planned object.
func (l live) Cluster(context.Context, string) (*v1alpha1.StorageCluster, error) {
	return l.facts.Cluster, nil
}

// Node is a Node as it was observed.
func (l live) Node(_ context.Context, name string) (*corev1.Node, error) {
	for _, n := range l.facts.Kube.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, nil
}

// Pod is a drain guard, or a pod that restores LINSTOR's database, as it was observed.
func (l live) Pod(_ context.Context, name string) (*corev1.Pod, error) {
	if guard := drainguard.Named(l.facts.Kube.Pods[v1alpha1.ComponentDrainGuard], name); guard != nil {
		return guard, nil
	}
	return l.facts.Kube.Restores[name], nil
}

// Satellites serves restores, which are not planned that far.
func (l live) Satellites(context.Context) ([]corev1.Pod, error) { return nil, errNotAsked }

// ConfigMap is one as it was observed. The claim is as the facts have it, who may be of a later time.
func (l live) ConfigMap(_ context.Context, name string) (*corev1.ConfigMap, error) {
	found := l.facts.Kube.ConfigMaps[name]
	if found != nil && name == resources.ClaimName && l.facts.Recorded.Backend != "" {
		return resources.Claim(l.facts.Cluster.Name, l.facts.Recorded), nil
	}
	return found, nil
}

// Secret is one as it was observed.
func (l live) Secret(_ context.Context, name string) (*corev1.Secret, error) {
	return l.facts.Kube.Secrets[name], nil
}

// Labelled is asked by deletions and moves, which are not planned that far.
func (l live) Labelled(context.Context, string) ([]metav1.PartialObjectMetadata, error) {
	return nil, errNotAsked
}

// Volumes are as many of each class as were observed: who asks wants to know whether there are any.
func (l live) Volumes(context.Context, string) (map[string]string, error) {
	return counted(l.facts.Kube.Driver.Volumes), nil
}

// DiskVolumes are those that were observed.
func (l live) DiskVolumes(context.Context, []*corev1.Node) (map[string][]nodevolumes.Volume, error) {
	return l.facts.Kube.DiskVolumes, nil
}

// SnapshotContents are as many of each class as were observed.
func (l live) SnapshotContents(context.Context, string) (map[string]string, error) {
	return counted(l.facts.Kube.Driver.Snapshots), nil
}

func counted(u usage.Used) map[string]string {
	out := map[string]string{}
	for class, n := range u.ByClass {
		for i := range n {
			out[fmt.Sprintf("%s-%d", class, i)] = class
		}
	}
	return out
}

// Read is asked during an upgrade, when the new controller has been started.
func (l live) Read(context.Context, string, time.Time) (string, error) { return "", errNotAsked }

// SchemaVersion is read right before the new controller is started. For the plan it may stay unknown.
func (l live) SchemaVersion(context.Context) (string, error) { return "", nil }

// harmless reports whether an error of a link's work is none of the edit's: it comes from the record.
func harmless(err error) bool {
	return err == nil || errors.Is(err, errNotAsked) || errors.Is(err, step.ErrOutdated) ||
		errors.Is(err, step.ErrUnconfirmed)
}
