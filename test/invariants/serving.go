package invariants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

const (
	// restartExcused is how long a satellite that was replaced counts as serving before it is back.
	restartExcused = 2 * time.Minute
	// joinExcused is how long a node that is added may take before it counts among those that must serve.
	joinExcused = 15 * time.Minute
	// silenceExcused is how long LINSTOR may be silent before nobody counts as served.
	silenceExcused = 30 * time.Second
	// mostRestarts is from how many restarts on a failing container is not expected to come back.
	mostRestarts = 3
	// templateHash is the annotation that tells what a satellite was made from.
	templateHash = v1alpha1.Prefix + "template-hash"
)

// Serving is what an operator saw in one step, and the status that it made of that.
type Serving struct {
	Now    time.Time
	Status *v1alpha1.StorageClusterStatus
	// Spec is the accepted one.
	Spec *v1alpha1.StorageClusterSpec
	// Nodes are all of Kubernetes', Pods and Sets those of satellites.
	Nodes []corev1.Node
	Pods  []corev1.Pod
	Sets  []appsv1.DaemonSet
	// View is LINSTOR's last answer; nil if it did not answer.
	View *linstor.View
}

// Check says what is wrong with the conditions Ready and Reconciling.
func (s *Serving) Check() []string {
	var out []string
	if fault := s.checkReady(); fault != "" {
		out = append(out, fault)
	}
	if old := s.outdated(); len(old) > 0 && mayReconcile(s.Status) &&
		!meta.IsStatusConditionTrue(s.Status.Conditions, conditions.Reconciling) {
		out = append(out, fmt.Sprintf("Reconciling is not True in phase %s while the satellites on %v run as an earlier "+
			"spec wanted them", s.Status.Phase, old))
	}
	return out
}

// checkReady compares the condition with the members that LINSTOR can use, those that may come back from a restart
// included.
func (s *Serving) checkReady() string {
	if !meta.IsStatusConditionTrue(s.Status.Conditions, conditions.Ready) {
		return ""
	}
	available := meta.FindStatusCondition(s.Status.Conditions, conditions.Available)
	if available == nil || available.Status != metav1.ConditionTrue {
		if available == nil || s.Now.Sub(available.LastTransitionTime.Time) > silenceExcused {
			return fmt.Sprintf("Ready is True although LINSTOR has not answered for more than %s: %+v", silenceExcused,
				available)
		}
		return ""
	}
	if s.View == nil {
		return "Available is True although LINSTOR did not answer"
	}
	if s.Now.Sub(available.LastTransitionTime.Time) <= silenceExcused {
		return "" // LINSTOR answers before it has connected to any satellite
	}
	var serve, others []string
	for i := range s.Nodes {
		switch n := &s.Nodes[i]; {
		case !s.selected(n):
		case s.serves(n):
			serve = append(serve, n.Name)
		case maintained(n): // nobody counts on it
		case s.joins(n): // it takes nothing from those that serve
		default:
			others = append(others, n.Name)
		}
	}
	if need := minReady(s.Spec.Nodes.MinReady, len(serve)+len(others)); len(serve) < need {
		return fmt.Sprintf("Ready is True in phase %s with %d members that serve, %v, and without %v: %d are needed",
			s.Status.Phase, len(serve), serve, others, need)
	}
	return ""
}

// minReady is how many of n members must serve: all but a tenth, one at least, unless the spec says otherwise.
func minReady(spec *intstr.IntOrString, n int) int {
	if spec == nil {
		return max(1, n-max(1, n/10))
	}
	if want, err := intstr.GetScaledValueFromIntOrPercent(spec, n, true); err == nil {
		return max(1, min(want, n))
	}
	return n
}

func (s *Serving) selected(n *corev1.Node) bool {
	return n.DeletionTimestamp == nil && labels.SelectorFromSet(s.Spec.Nodes.NodeSelector).Matches(labels.Set(n.Labels))
}

// serves reports whether LINSTOR is connected to this very machine, or may be at any moment: it was once, and the
// satellite was replaced a moment ago and does not fail for good.
func (s *Serving) serves(n *corev1.Node) bool {
	have := s.View.Nodes[strings.ToLower(n.Name)]
	if have == nil {
		return false
	}
	machine, uname := have.Properties[linstor.AuxPrefix+"system-uuid"], have.Properties["NodeUname"]
	if uname == "" || !strings.EqualFold(uname, n.Name) ||
		machine != "" && !strings.EqualFold(machine, n.Status.NodeInfo.SystemUUID) {
		return false
	}
	if have.Status == linstor.StatusOnline {
		return true
	}
	return NodeReady(n) && slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool {
		since := p.CreationTimestamp
		if p.DeletionTimestamp != nil {
			since = *p.DeletionTimestamp
		}
		return p.Spec.NodeName == n.Name && s.Now.Sub(since.Time) < restartExcused &&
			(p.DeletionTimestamp != nil || !failsForGood(&p))
	})
}

// joins reports whether a cluster that was installed before takes the node in: LINSTOR was never connected to its
// satellite, which is young or not made yet.
func (s *Serving) joins(n *corev1.Node) bool {
	have := s.View.Nodes[strings.ToLower(n.Name)]
	if s.Status.FirstReady == nil || have != nil && have.Properties["NodeUname"] != "" {
		return false
	}
	since, pods := n.CreationTimestamp.Time, 0
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Spec.NodeName == n.Name {
			if pods++; p.CreationTimestamp.After(since) {
				since = p.CreationTimestamp.Time
			}
		}
	}
	return s.Now.Sub(since) < joinExcused || pods == 0 && have == nil && NodeReady(n)
}

func failsForGood(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" && c.RestartCount >= mostRestarts
		})
}

// outdated are the members whose satellite was made from another template than its DaemonSet has, without those under
// maintenance, whose time is the administrator's.
func (s *Serving) outdated() []string {
	var out []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if maintained(n) || n.Labels[v1alpha1.LabelMember] == "" {
			continue
		}
		for j := range s.Pods {
			if p := &s.Pods[j]; p.Spec.NodeName == n.Name && p.DeletionTimestamp == nil && PodReady(p) && s.old(p) {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

func (s *Serving) old(p *corev1.Pod) bool {
	return slices.ContainsFunc(s.Sets, func(ds appsv1.DaemonSet) bool {
		selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
		return err == nil && selector.Matches(labels.Set(p.Labels)) &&
			p.Annotations[templateHash] != ds.Spec.Template.Annotations[templateHash]
	})
}

func maintained(n *corev1.Node) bool {
	v, announced := n.Annotations[v1alpha1.AnnotationMaintenance]
	return announced && v != "false"
}
