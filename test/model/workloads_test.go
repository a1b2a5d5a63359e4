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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// revisionLabel tells pods of one template from those of another.
const revisionLabel = "controller-revision-hash"

// evictAfter is how long the Deployment's pods stay on a node that does not answer.
const evictAfter = 30 * time.Second

// daemonSets does the work of the DaemonSet controller.
func (s *site) daemonSets() {
	var list appsv1.DaemonSetList
	s.must(s.api.List(s.ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace)))
	for i := range list.Items {
		s.daemonSet(&list.Items[i])
	}
	s.orphans(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(list.Items, func(d appsv1.DaemonSet) bool { return selects(d.Spec.Selector, p) })
	}, v1alpha1.ComponentSatellite, v1alpha1.ComponentModuleLoader)
}

func (s *site) daemonSet(d *appsv1.DaemonSet) {
	hash := templateHash(&d.Spec.Template)
	wanted := map[string]bool{}
	for _, n := range s.nodeObjects() {
		wanted[n.Name] = wants(&d.Spec.Template.Spec, &n)
	}
	st := appsv1.DaemonSetStatus{ObservedGeneration: d.Generation}
	for _, p := range s.pods(func(p *corev1.Pod) bool { return selects(d.Spec.Selector, p) }) {
		old := d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && p.Labels[revisionLabel] != hash
		if p.DeletionTimestamp == nil && (!wanted[p.Spec.NodeName] || old) {
			s.must(s.api.Delete(s.ctx, &p))
		}
		if podReady(&p) {
			st.NumberReady++
		}
		delete(wanted, p.Spec.NodeName)
	}
	for _, name := range sortedTrue(wanted) {
		s.newPod(d.Name+"-"+name, name, hash, &d.Spec.Template)
	}
	if !equality.Semantic.DeepEqual(d.Status, st) {
		d.Status = st
		s.must(s.api.Status().Update(s.ctx, d))
	}
}

// deployments does the work of the Deployment controller for the strategy Recreate, and the scheduler's.
func (s *site) deployments() {
	var list appsv1.DeploymentList
	s.must(s.api.List(s.ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace)))
	for i := range list.Items {
		s.deployment(&list.Items[i])
	}
	s.orphans(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return selects(d.Spec.Selector, p) })
	}, v1alpha1.ComponentController)
}

func (s *site) deployment(d *appsv1.Deployment) {
	hash := templateHash(&d.Spec.Template)
	var active, old int
	st := appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	for _, p := range s.pods(func(p *corev1.Pod) bool { return selects(d.Spec.Selector, p) }) {
		outdated := p.Labels[revisionLabel] != hash
		if p.DeletionTimestamp == nil && (outdated || s.evicted(&p)) {
			s.must(s.api.Delete(s.ctx, &p))
		} else if p.DeletionTimestamp == nil {
			active++
		}
		if outdated {
			old++
		}
		if podReady(&p) {
			st.ReadyReplicas++
		}
	}
	if active == 0 && old == 0 {
		if n := s.schedule(); n != "" {
			s.podNumber++
			s.newPod(fmt.Sprintf("%s-%d", d.Name, s.podNumber), n, hash, &d.Spec.Template)
		}
	}
	if !equality.Semantic.DeepEqual(d.Status, st) {
		d.Status = st
		s.must(s.api.Status().Update(s.ctx, d))
	}
}

// evicted is whether a pod's node has not answered for too long.
func (s *site) evicted(p *corev1.Pod) bool {
	n := s.node(p.Spec.NodeName)
	return n != nil && !n.on && time.Since(n.offSince) > evictAfter
}

// schedule picks a node for the next pod: another one each time, as far as there are any.
func (s *site) schedule() string {
	var fit []string
	for _, n := range s.nodeObjects() {
		if nodeReady(&n) {
			fit = append(fit, n.Name)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	return fit[s.podNumber%len(fit)]
}

// orphans are the pods of components whose workload is gone: the garbage collector removes them.
func (s *site) orphans(owned func(*corev1.Pod) bool, components ...string) {
	for _, p := range s.pods(func(p *corev1.Pod) bool { return slices.Contains(components, p.Labels[v1alpha1.LabelComponent]) }) {
		if p.DeletionTimestamp == nil && !owned(&p) {
			s.must(s.api.Delete(s.ctx, &p))
		}
	}
}

func (s *site) newPod(name, node, hash string, t *corev1.PodTemplateSpec) {
	p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	p.Name, p.Namespace, p.Finalizers = name, v1alpha1.WorkloadNamespace, []string{runningFinalizer}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[revisionLabel] = hash
	p.Spec.NodeName = node
	s.must(s.api.Create(s.ctx, p))
}

func selects(selector *metav1.LabelSelector, p *corev1.Pod) bool {
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(labels.Set(p.Labels))
}

// wants is whether a pod's selector and affinity allow a node, as far as the operator uses them.
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

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
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
