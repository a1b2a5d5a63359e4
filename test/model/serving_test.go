package model

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// looks notes what the operator's observer sees, so that the status can be compared with that.
type looks struct {
	linstor.Reader
	cache client.Reader
	// whole reports whether it has looked at Kubernetes since reset, and view is LINSTOR's last answer, nil if it failed.
	whole bool
	view  *linstor.View
}

// View implements linstor.Reader.
func (l *looks) View(ctx context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	view, err := l.Reader.View(ctx, want)
	l.view = view
	return view, err
}

func (l *looks) kubernetes() client.Reader { return kubernetesLooks{l.cache, l} }

type kubernetesLooks struct {
	client.Reader
	noted *looks
}

// List implements client.Reader.
func (k kubernetesLooks) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	k.noted.whole = true
	return k.Reader.List(ctx, into, opts...)
}

// judgeServing compares the status after a reconcile with what the operator saw in it. A step that accepted a spec, or
// that was there to take an answer away, made no status of the whole: the next one is judged. now is when it looked:
// it may have waited for an answer since.
func (c *checked) judgeServing(before *v1alpha1.StorageCluster, now time.Time) {
	after := c.cluster()
	if !c.operator.looks.whole || after == nil || after.Status.Target == "" ||
		after.Status.Target != before.Status.Target ||
		before.Annotations[v1alpha1.AnnotationResume] != "" {
		return
	}
	rev := &appsv1.ControllerRevision{}
	if c.operator.seen.get(client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: after.Status.Target},
		rev) != nil {
		return
	}
	spec, err := revision.Spec(rev)
	c.must(err)
	if err != nil {
		return
	}
	spec.Nodes.MinReady = before.Spec.Nodes.MinReady // holds at once, whatever else was accepted
	var nodes corev1.NodeList
	var pods corev1.PodList
	var sets appsv1.DaemonSetList
	satellites := client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}
	c.must(c.operator.seen.list(&nodes))
	c.must(c.operator.seen.list(&pods, client.InNamespace(v1alpha1.WorkloadNamespace), satellites))
	c.must(c.operator.seen.list(&sets, client.InNamespace(v1alpha1.WorkloadNamespace), satellites))
	s := &invariants.Serving{Now: now, Status: &after.Status, Spec: spec, Nodes: nodes.Items, Pods: pods.Items,
		Sets: sets.Items, View: c.ours()}
	for _, fault := range s.Check() {
		c.violate(fault)
	}
}
