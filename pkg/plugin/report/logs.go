package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Bounds of the logs.
const (
	// mostLines and mostBytes are of one container; the last ones count.
	mostLines = 5000
	mostBytes = 5 << 20
	// mostPods is how many pods' logs are read. In a large cluster most pods say the same.
	mostPods = 200
	// logTime bounds how long one log may take. A kubelet that is away is noticed by nothing else.
	logTime = 20 * time.Second
)

// logs reads the containers' logs. Pods that are not well come first, then those of which there are few: if the report
// is full, the logs of healthy satellites are what is missing. Pods whose node seems to be away come last.
func (c *collector) logs(ctx context.Context) error {
	defer c.tellSilent()
	kinds := map[string]int{}
	for i := range c.pods {
		kinds[kindOf(&c.pods[i])]++
	}
	slices.SortStableFunc(c.pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(kinds[kindOf(&a)], kinds[kindOf(&b)]),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i := range c.pods {
		if i == mostPods || c.bundle.full() {
			c.bundle.leaveOut("logs of %d more pods: limit reached; kinds of pods: %s", len(c.pods)-i,
				strings.Join(kindsOf(c.pods[i:]), ", "))
			return nil
		}
		if err := c.podLogs(ctx, &c.pods[i]); err != nil {
			return err
		}
	}
	return nil
}

// tellSilent notes which logs were not asked for.
func (c *collector) tellSilent() {
	for _, node := range slices.Sorted(maps.Keys(c.silent)) {
		if n := c.silent[node]; n > 0 {
			c.bundle.leaveOut("%s of pods on node %s: the kubelet is not returning logs",
				text.Amount(n, "more log", "more logs"), node)
		}
	}
}

// kindOf is what a pod belongs to.
func kindOf(p *corev1.Pod) string {
	return cmp.Or(p.Labels[v1alpha1.LabelComponent], p.Labels["app.kubernetes.io/name"], "other")
}

func kindsOf(pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		if k := kindOf(&pods[i]); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// rank puts pods that are not well first, and those last whose node seems to be away: Kubernetes has set their Ready
// to False, although the last that their kubelet has said is that all their containers are ready.
func rank(p *corev1.Pod) int {
	ready := true
	for _, s := range p.Status.ContainerStatuses {
		ready = ready && s.Ready
	}
	notReady := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	}
	if ready && p.Status.Phase == corev1.PodRunning && slices.ContainsFunc(p.Status.Conditions, notReady) {
		return 2
	}
	for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		if s.RestartCount > 0 || s.State.Waiting != nil {
			return 0
		}
	}
	if p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodSucceeded {
		return 0
	}
	return 1
}

// podLogs reads the logs of a pod's containers, and of those that ran before them.
func (c *collector) podLogs(ctx context.Context, p *corev1.Pod) error {
	for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		if s.State.Running == nil && s.State.Terminated == nil && s.LastTerminationState.Terminated == nil {
			continue // it has not begun
		}
		if err := c.log(ctx, p, s.Name, false); err != nil {
			return err
		}
		if s.RestartCount > 0 {
			if err := c.log(ctx, p, s.Name, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) log(ctx context.Context, p *corev1.Pod, container string, previous bool) error {
	name := path.Join("logs", p.Namespace, p.Name, container)
	if previous {
		name += ".previous"
	}
	name += ".log"
	node := p.Spec.NodeName
	if _, silent := c.silent[node]; silent {
		c.silent[node]++
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	lines := int64(mostLines)
	stream, err := c.cluster.Logs(ctx, p.Namespace, p.Name, &corev1.PodLogOptions{Container: container,
		Previous: previous, TailLines: &lines, Timestamps: true})
	switch {
	case apierrors.IsForbidden(err):
		c.unreadable(name, err, "pods/log", p.Namespace)
		return nil
	case err != nil: // its kubelet is away, or the container was removed
		c.failed(name, node, err)
		return interrupted(ctx)
	}
	defer func() { _ = stream.Close() }()
	end, err := tail(stream, mostBytes)
	if err != nil {
		c.failed(name+": incomplete", node, err)
	}
	return errors.Join(interrupted(ctx), c.bundle.add(name, end))
}

// failed notes that a log could not be read. Unless the kubelet itself said so, the next log from that node would take
// as long and say the same.
func (c *collector) failed(what, node string, err error) {
	c.bundle.leaveOut("%s: %v", what, err)
	if node != "" && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) {
		c.silent[node] = 0
	}
}

// interrupted is the error of a user who does not wait any longer; a log that takes too long is none.
func interrupted(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// tail is the end of what can be read, in whole lines. An error may come with what was read before it.
func tail(r io.Reader, limit int) (string, error) {
	var kept []byte
	cut := false
	block := make([]byte, 64<<10)
	for {
		n, err := r.Read(block)
		kept = append(kept, block[:n]...)
		if len(kept) > 2*limit {
			kept, cut = append(kept[:0], kept[len(kept)-limit:]...), true
		}
		if err == nil {
			continue
		}
		if len(kept) > limit {
			kept, cut = kept[len(kept)-limit:], true
		}
		if i := bytes.IndexByte(kept, '\n'); cut && i >= 0 {
			kept = kept[i+1:] // it may have begun within a line
		}
		if errors.Is(err, io.EOF) {
			return string(kept), nil
		}
		return string(kept), fmt.Errorf("read the log: %w", err)
	}
}
