package controller

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// keepsPod reports whether the running controller is kept until its successor, a pod of that Deployment, needs
// nothing but the Lease: it is scheduled, its image is there and its volumes are mounted. A successor that cannot even
// start, because no node has what it requests or its image cannot be pulled, then takes nothing away.
//
// A pod of another version is not kept. Should it die on its own, its ReplicaSet would make another one, which could
// take the Lease between the new version's migration and controller; LINSTOR before 1.35 does not notice that the
// database is newer.
func keepsPod(s *cluster.Facts, want *appsv1.Deployment) bool {
	runs, waits := false, false
	for _, p := range s.Kube.ControllerPods {
		switch {
		case p.DeletionTimestamp != nil:
		case madeFrom(p, want):
			waits = waits || needsOnlyTheLease(p)
		case cluster.PodReady(p):
			runs = runs || sameVersion(p, want)
		}
	}
	return runs && !waits
}

func madeFrom(p *corev1.Pod, d *appsv1.Deployment) bool {
	const hash = resources.AnnotationTemplateHash
	return p.Annotations[hash] == d.Spec.Template.Annotations[hash]
}

// needsOnlyTheLease reports whether the first container that opens the database was started, or has ended.
func needsOnlyTheLease(p *corev1.Pod) bool {
	return cluster.PodReady(p) || slices.ContainsFunc(p.Status.InitContainerStatuses,
		func(c corev1.ContainerStatus) bool {
			return c.Name == resources.MigrationContainer &&
				(c.State.Running != nil || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0)
		})
}

// sameVersion reports whether a pod runs the LINSTOR that the Deployment asks for, from whatever registry.
func sameVersion(p *corev1.Pod, d *appsv1.Deployment) bool {
	version := func(spec *corev1.PodSpec) string {
		image := cluster.ImageOf(spec, resources.ControllerContainer)
		return image[strings.LastIndex(image, "/")+1:]
	}
	return version(&p.Spec) == version(&d.Spec.Template.Spec)
}

// livePods are the pods of the live Deployment's template, and of templates before it, without those that end or have
// ended.
func livePods(s *cluster.Facts) (current, older []*corev1.Pod) {
	live := s.Kube.Deployments[resources.ControllerName]
	for _, p := range s.Kube.ControllerPods {
		switch {
		case p.DeletionTimestamp != nil, poddiagnosis.Ended(p):
		case live == nil || madeFrom(p, live):
			current = append(current, p)
		default:
			older = append(older, p)
		}
	}
	return current, older
}

func olderPod(s *cluster.Facts) *corev1.Pod {
	if _, older := livePods(s); len(older) > 0 {
		return older[0]
	}
	return nil
}

func replacingMessage(s *cluster.Facts) string {
	message := "the controller's pod is being replaced; " + olderPod(s).Name +
		" keeps running until its replacement can start"
	if text := podTrouble(s); text != "" {
		message += ": " + text
	}
	return message + endingPods(s)
}

// PodMessage says why no controller answers.
func PodMessage(s *cluster.Facts) string {
	return cmp.Or(podTrouble(s), "the LINSTOR controller's pod is not ready yet") + endingPods(s)
}

// podTrouble is what keeps the pod from starting that is to run; "" if nothing is known.
func podTrouble(s *cluster.Facts) string {
	current, _ := livePods(s)
	for _, p := range current {
		if t := poddiagnosis.Find(s, p); t != nil {
			return t.String()
		}
		for _, c := range p.Status.Conditions {
			if p.Spec.NodeName == "" && c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				why, _, _ := strings.Cut(c.Message, " preemption: ") // what follows says nothing new
				return "the controller's pod cannot be scheduled" + requests(s) + ": " + head(why)
			}
		}
	}
	if d := s.Kube.Deployments[resources.ControllerName]; d != nil && len(current) == 0 {
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				return "the controller's pod cannot be created" + requests(s) + ": " + text.OneLine(c.Message)
			}
		}
	}
	return ""
}

// requests names the field that the scheduler's words are about; "" if the spec requests nothing.
func requests(s *cluster.Facts) string {
	if s.Target == nil || len(s.Target.Spec.Controller.Resources.Requests) == 0 {
		return ""
	}
	var amounts []string
	for name, amount := range s.Target.Spec.Controller.Resources.Requests {
		amounts = append(amounts, fmt.Sprintf("%s %s", name, amount.String()))
	}
	slices.Sort(amounts)
	return " (spec.controller.resources requests " + strings.Join(amounts, ", ") + ")"
}

// head shortens a text to the beginning of it, in one line, for texts whose beginning says most.
func head(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > text.StatusLine {
		return string(r[:text.StatusLine-1]) + "…"
	}
	return s
}

// Runs reports whether a controller may run: there is its Deployment, or a pod of it that has not ended.
func Runs(s *cluster.Facts) bool {
	return s.Kube.Deployments[resources.ControllerName] != nil || len(unended(s)) > 0
}

// unended are the pods that have not ended, those that hang Terminating included.
func unended(s *cluster.Facts) (pods []*corev1.Pod) {
	for _, p := range s.Kube.ControllerPods {
		if !poddiagnosis.Ended(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// Stop removes the Deployment, so that no controller runs any more. It says what is waited for: a pod on a node that
// died does not end before somebody has seen to it that it runs no more.
func Stop(ctx context.Context, in *step.Input) (message string, err error) {
	s := in.Snapshot
	if d := s.Kube.Deployments[resources.ControllerName]; d != nil && d.DeletionTimestamp == nil {
		if !cluster.Ours(s.Cluster.Name, d) {
			return fmt.Sprintf("Deployment %s/%s was not created by the operator: delete it", d.Namespace,
				d.Name), nil
		}
		if err := in.Stands(ctx); err != nil {
			return "the controller is being stopped", step.IgnoreOutdated(err)
		}
		return "the controller is being stopped", in.Writer.Delete(ctx, d)
	}
	return "the controller's pod is terminating" + Hanging(&s.Facts, s.Kube.ControllerPods, "LINSTOR"), nil
}

// Hanging names those of the pods that do not come to their end, as the end of a message with what to do about them;
// "" if there is none. what may run there.
func Hanging(s *cluster.Facts, pods []*corev1.Pod, what string) (message string) {
	for _, h := range hanging(s, pods) {
		message += fmt.Sprintf("; %s: %s may still be running there. Once that machine is powered off: kubectl -n %s "+
			"delete pod %s --force", h.says, what, v1alpha1.WorkloadNamespace, h.pod)
	}
	return message
}

// endGrace is how long after its time a pod that ends counts as ending still.
const endGrace = time.Minute

// hung is a pod that does not come to its end, and what is to be said of it.
type hung struct{ pod, says string }

// hanging are the pods that do not come to their end, with the nodes that would have to say so.
func hanging(s *cluster.Facts, pods []*corev1.Pod) (out []hung) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil {
			continue
		}
		says := fmt.Sprintf("pod %s is stuck Terminating on node %s", p.Name, p.Spec.NodeName)
		i := slices.IndexFunc(s.Kube.Nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.NodeName })
		switch {
		case i >= 0 && !cluster.NodeReady(s.Kube.Nodes[i]):
			out = append(out, hung{p.Name, says + ", which is not ready"})
		case s.Now.Sub(p.DeletionTimestamp.Time) > endGrace:
			out = append(out, hung{p.Name, says})
		}
	}
	slices.SortFunc(out, func(a, b hung) int { return cmp.Compare(a.says, b.says) })
	return out
}

// endingPods names those pods as the end of a message; "" if there is none. Nothing waits for them, but who looks for
// the old controller finds it here.
func endingPods(s *cluster.Facts) string {
	var out []string
	for _, h := range hanging(s, s.Kube.ControllerPods) {
		out = append(out, h.says)
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + text.QuoteList(out) + ": the operator continues without waiting"
}

// Trouble is the hold for a controller that cannot start; nil while it may.
func Trouble(s *cluster.Facts) *cluster.HoldRequest {
	current, older := livePods(s)
	for _, p := range current {
		t := poddiagnosis.Find(s, p)
		if t == nil || !t.Lasting {
			continue
		}
		h := cluster.Request(v1alpha1.HoldControllerFailed, "the LINSTOR controller cannot start: %s", t)
		if slices.ContainsFunc(older, cluster.PodReady) {
			h.Message = "the LINSTOR controller's new pod cannot start, but the previous one is still running: " + t.String()
		}
		for _, f := range failures {
			if t.Container != "" && f.pattern.MatchString(t.Message) { // what the kubelet says is not LINSTOR's
				h.Reason = f.reason
				break
			}
		}
		return h
	}
	return nil
}

// failures tell apart what LINSTOR says when it exits at start (linstor-server 1.33–1.35:
// DatabaseDriverException, LinStorException "Automatic injection of passphrase failed").
var failures = []struct {
	pattern *regexp.Regexp
	reason  v1alpha1.HoldReason
}{
	{regexp.MustCompile(`(?i)passphrase`), v1alpha1.HoldPassphraseUnusable},
	{regexp.MustCompile(`(?i)connection.*refused|unknown ?host|password authentication|access denied|credentials|` +
		`database.*(unreachable|not available|connect)`), v1alpha1.HoldDatabaseUnreachable},
}
