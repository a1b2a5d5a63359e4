package model

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// revisionLabel tells pods of one template from those of another.
const revisionLabel = "controller-revision-hash"

// evictAfter is how long the Deployment's pods stay on a node that does not answer.
const evictAfter = 30 * time.Second

// workloads are the controllers of DaemonSets and Deployments, and the scheduler.
type workloads struct {
	*site
	sets      []*replicaSet
	podNumber int
}

// daemonSets does the work of the DaemonSet controller.
func (w *workloads) daemonSets() {
	var list appsv1.DaemonSetList
	w.must(w.api.List(w.ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace)))
	for i := range list.Items {
		w.daemonSet(&list.Items[i])
	}
	w.orphans(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(list.Items, func(d appsv1.DaemonSet) bool { return selects(d.Spec.Selector, p) })
	}, v1alpha1.ComponentSatellite, v1alpha1.ComponentModuleLoader)
}

func (w *workloads) daemonSet(d *appsv1.DaemonSet) {
	hash := templateHash(&d.Spec.Template)
	wanted := map[string]bool{}
	for _, n := range w.nodeObjects() {
		wanted[n.Name] = wants(&d.Spec.Template.Spec, &n)
	}
	st := appsv1.DaemonSetStatus{ObservedGeneration: d.Generation}
	for _, p := range w.pods(func(p *corev1.Pod) bool { return selects(d.Spec.Selector, p) }) {
		old := d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && p.Labels[revisionLabel] != hash
		if p.DeletionTimestamp == nil && (!wanted[p.Spec.NodeName] || old) {
			w.must(w.api.Delete(w.ctx, &p))
		}
		if invariants.PodReady(&p) {
			st.NumberReady++
		}
		delete(wanted, p.Spec.NodeName)
	}
	for _, name := range sortedTrue(wanted) {
		w.newPod(d, d.Name+"-"+name, name, hash, &d.Spec.Template)
	}
	if !equality.Semantic.DeepEqual(d.Status, st) {
		d.Status = st
		w.must(w.api.Status().Update(w.ctx, d))
	}
}

// replicaSet is what the Deployment controller keeps of one template.
type replicaSet struct {
	owner, hash string
	template    *corev1.PodTemplateSpec
	replicas    int
}

// deployments does the work of the Deployment controller for the strategy RollingUpdate, and the scheduler's.
func (w *workloads) deployments() {
	var list appsv1.DeploymentList
	w.must(w.api.List(w.ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace)))
	for i := range list.Items {
		w.deployment(&list.Items[i])
	}
	w.sets = slices.DeleteFunc(w.sets, func(r *replicaSet) bool {
		return !slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return string(d.UID)+d.Name == r.owner })
	})
	// A Deployment that was made anew has another UID, and does not adopt the pods of the one before.
	w.orphans(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return metav1.IsControlledBy(p, &d) })
	}, v1alpha1.ComponentController)
}

// deployment scales the replica sets, the present template's and those of before, as rolloutRolling does (Kubernetes
// 1.36, pkg/controller/deployment/rolling.go), and has each keep its number of pods. A pod that ends is no pod of
// theirs any more.
func (w *workloads) deployment(d *appsv1.Deployment) {
	hash, owner := templateHash(&d.Spec.Template), string(d.UID)+d.Name
	var sets []*replicaSet
	for _, r := range w.sets {
		if r.owner == owner {
			sets = append(sets, r)
		}
	}
	at := slices.IndexFunc(sets, func(r *replicaSet) bool { return r.hash == hash })
	if at < 0 {
		at = len(sets)
		sets = append(sets, &replicaSet{owner: owner, hash: hash, template: d.Spec.Template.DeepCopy()})
		w.sets = append(w.sets, sets[at])
	}
	newest := sets[at]
	available := map[*replicaSet]int{}
	total, ready := 0, 0
	for _, r := range sets {
		available[r] = w.replicas(d, r)
		total, ready = total+r.replicas, ready+available[r]
	}
	surge, unavailable := d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue(),
		d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue()
	if newest.replicas == 0 && total < 1+surge {
		newest.replicas = 1
	} else if down := total - (1 - unavailable) - (newest.replicas - available[newest]); down > 0 {
		scaleDown(sets, newest, available, down, ready-(1-unavailable))
	}
	st := appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	for _, r := range sets {
		st.ReadyReplicas += int32(w.replicas(d, r))
	}
	if !equality.Semantic.DeepEqual(d.Status, st) {
		d.Status = st
		w.must(w.api.Status().Update(w.ctx, d))
	}
}

// scaleDown takes so many pods from the replica sets of before: those that are not ready, and of the others as many as
// can be spared.
func scaleDown(sets []*replicaSet, newest *replicaSet, available map[*replicaSet]int, down, spare int) {
	for _, r := range sets {
		for r != newest && down > 0 && r.replicas > 0 && (available[r] < r.replicas || spare > 0) {
			if available[r] == r.replicas {
				available[r], spare = available[r]-1, spare-1
			}
			r.replicas, down = r.replicas-1, down-1
		}
	}
}

// replicas has a replica set keep its number of pods, and returns how many are ready.
func (w *workloads) replicas(d *appsv1.Deployment, r *replicaSet) (ready int) {
	active := 0
	for _, p := range w.pods(func(p *corev1.Pod) bool {
		return metav1.IsControlledBy(p, d) && p.Labels[revisionLabel] == r.hash
	}) {
		switch {
		case p.DeletionTimestamp != nil:
		case w.evicted(&p), active == r.replicas:
			w.must(w.api.Delete(w.ctx, &p))
		default:
			active++
			if invariants.PodReady(&p) {
				ready++
			}
		}
	}
	if active < r.replicas {
		if n := w.schedule(); n != "" {
			w.podNumber++
			w.newPod(d, fmt.Sprintf("%s-%d", d.Name, w.podNumber), n, r.hash, r.template)
		}
	}
	return ready
}

// evicted reports whether a pod's node has not answered for too long.
func (w *workloads) evicted(p *corev1.Pod) bool {
	n := w.node(p.Spec.NodeName)
	return n != nil && !n.on && time.Since(n.offSince) > evictAfter
}

// schedule picks a node for the next pod: another one each time, as far as there are any.
func (w *workloads) schedule() string {
	var fit []string
	for _, n := range w.nodeObjects() {
		if invariants.NodeReady(&n) {
			fit = append(fit, n.Name)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	return fit[w.podNumber%len(fit)]
}

// orphans are the pods of components whose workload is gone: the garbage collector removes them.
func (w *workloads) orphans(owned func(*corev1.Pod) bool, components ...string) {
	for _, p := range w.pods(func(p *corev1.Pod) bool {
		return slices.Contains(components,
			p.Labels[v1alpha1.LabelComponent])
	}) {
		if p.DeletionTimestamp == nil && !owned(&p) {
			w.must(w.api.Delete(w.ctx, &p))
		}
	}
}

// newPod makes a pod of a workload. Replica sets are no objects here: their Deployment owns the pods itself.
func (w *workloads) newPod(owner metav1.Object, name, node, hash string, t *corev1.PodTemplateSpec) {
	p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Workload",
		Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}}
	p.Name, p.Namespace, p.Finalizers = name, v1alpha1.WorkloadNamespace, []string{runningFinalizer}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[revisionLabel] = hash
	p.Spec.NodeName = node
	w.must(w.api.Create(w.ctx, p))
}

func selects(selector *metav1.LabelSelector, p *corev1.Pod) bool {
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(labels.Set(p.Labels))
}

// wants reports whether a pod's selector and affinity allow a node, as far as the operator uses them.
func wants(spec *corev1.PodSpec, n *corev1.Node) bool {
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	if spec.Affinity == nil {
		return true
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			value, has := n.Labels[e.Key]
			in := has && slices.Contains(e.Values, value)
			return in != (e.Operator == corev1.NodeSelectorOpIn)
		})
	})
}

func templateHash(t *corev1.PodTemplateSpec) string {
	h := fnv.New32a()
	raw, err := t.Marshal()
	if err != nil {
		return err.Error()
	}
	_, _ = h.Write(raw)
	return fmt.Sprintf("%x", h.Sum32())
}

func sortedTrue(m map[string]bool) []string {
	var out []string
	for k, v := range m {
		if v {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
