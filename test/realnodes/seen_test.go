package realnodes

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
)

const operatorSays = "the operator says: "

// seen is what an operator can see of a pod, one fact a line, without what differs from run to run.
func seen(p *corev1.Pod, warnings []corev1.Event) []string {
	out := []string{"phase " + string(p.Status.Phase)}
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled { // pods with a node name have not been scheduled
			out = append(out, fmt.Sprintf("condition %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	out = append(out, containersSeen("init container", p.Status.InitContainerStatuses)...)
	out = append(out, containersSeen("container", p.Status.ContainerStatuses)...)
	for i := range warnings {
		// Events of these reasons say in other words what the containers' statuses say.
		if e := &warnings[i]; e.Reason != "BackOff" && e.Reason != "Failed" {
			out = append(out, fmt.Sprintf("event %s: %s", e.Reason, e.Message))
		}
	}
	if t := poddiagnosis.Of(p); t != nil {
		out = append(out, operatorSays+t.String())
	}
	for i := range out {
		for _, v := range varying {
			out[i] = v.pattern.ReplaceAllString(out[i], v.by)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// warningsAbout are the warnings among Events that are about a pod.
func warningsAbout(p *corev1.Pod, events []corev1.Event) []corev1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool {
		return e.InvolvedObject.UID != p.UID || e.Type != corev1.EventTypeWarning
	})
}

func containersSeen(kind string, statuses []corev1.ContainerStatus) (out []string) {
	for i := range statuses {
		s := &statuses[i]
		name := kind + " " + s.Name
		out = append(out, fmt.Sprintf("%s: ready %t, started %t, at least %d restarts", name, s.Ready,
			s.Started != nil && *s.Started, min(s.RestartCount, restarts)))
		switch {
		case s.State.Waiting != nil:
			out = append(out, fmt.Sprintf("%s: waiting: %s: %s", name, s.State.Waiting.Reason, s.State.Waiting.Message))
		case s.State.Running != nil:
			out = append(out, name+": running")
		case s.State.Terminated != nil:
			out = append(out, name+": "+terminatedSeen(s.State.Terminated))
		}
		if last := s.LastTerminationState.Terminated; last != nil {
			out = append(out, name+": before: "+terminatedSeen(last))
		}
	}
	return out
}

func terminatedSeen(t *corev1.ContainerStateTerminated) string {
	return fmt.Sprintf("terminated: %s, exit code %d, signal %d: %q", t.Reason, t.ExitCode, t.Signal, t.Message)
}

// restarts is after how many restarts a crash loop is compared.
const restarts = 2

var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`back-off \d\S*s restarting`), "back-off TIME restarting"},
	{regexp.MustCompile(`failed to resolve image: .*`), "failed to resolve image: WHY"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
}
