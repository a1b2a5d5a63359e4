package access

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// OperatorName is the name of the operator's Deployment, of its Lease, and of the application that its pods are, as
// deploy/operator.yaml has it.
const OperatorName = "storagecluster-operator"

// Of the Deployment's pods.
const (
	operatorContainer = "operator"
	operatorBinary    = "/operator"
)

// What the operator's program can be asked: the names of its flags.
const (
	questionPlan  = "plan"
	questionDisks = "disks"
)

// askInPod runs the operator's program once more in one of its pods, where it has the operator's rights, its image and
// its flags, and one more: what it is to judge a manifest by.
func (c *Cluster) askInPod(ctx context.Context, flags *genericclioptions.ConfigFlags, question string,
	manifest []byte) ([]byte, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(v1alpha1.OperatorNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": OperatorName}); err != nil {
		return nil, c.Explain(err, "list", "pods", "in "+v1alpha1.OperatorNamespace)
	}
	lease := &coordinationv1.Lease{}
	// Without a Lease any pod will do.
	_ = c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: OperatorName}, lease)
	pod := pickPod(pods.Items, ptr.Deref(lease.Spec.HolderIdentity, ""))
	if pod == nil {
		return nil, fmt.Errorf("no operator pod is Ready in namespace %s, but only the operator can evaluate a spec; "+
			"check: kubectl -n %s get pods", v1alpha1.OperatorNamespace, v1alpha1.OperatorNamespace)
	}
	command, err := commandIn(pod, question)
	if err != nil {
		return nil, err
	}
	out, err := Exec(ctx, flags, bytes.NewReader(manifest), pod.Namespace, pod.Name, operatorContainer, command...)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the operator did not respond in time (--timeout): %w", ctx.Err())
	}
	unknown := unknownFlag + question
	if failed := (*ExecError)(nil); errors.As(err, &failed) && strings.Contains(failed.Said, unknown) {
		return nil, fmt.Errorf("the operator in pod %s is older than this plugin and does not support this request: %s; "+
			"upgrade the operator, or use the plugin version that matches it (kubectl linstor version)", pod.Name, unknown)
	}
	if err != nil {
		return nil, fmt.Errorf("run the operator binary in pod %s/%s (--%s): %w", pod.Namespace, pod.Name, question, err)
	}
	return out, nil
}

// unknownFlag is what an operator says first that does not know a flag. All that it knows follow.
const unknownFlag = "flag provided but not defined: -"

// pickPod is a pod of the operator that is ready and does not lead: what judges takes memory of the container's, and
// must not have the operator killed that works. It is of the image that leads, or what it says would not be what is
// done. Where there is none it is the pod that leads; nil if none is ready.
func pickPod(pods []corev1.Pod, leader string) *corev1.Pod {
	var leads *corev1.Pod
	for i := range pods {
		if strings.HasPrefix(leader, pods[i].Name+"_") {
			leads = &pods[i]
		}
	}
	var found *corev1.Pod
	for i := range pods {
		p := &pods[i]
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		switch {
		case p.DeletionTimestamp != nil || !ready:
		case p == leads:
			found = cmp.Or(found, p)
		case leads == nil || imageOf(p) == imageOf(leads):
			return p
		}
	}
	return found
}

// imageOf is the image of the operator in a pod, as the kubelet has found it where it says so.
func imageOf(p *corev1.Pod) string {
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.Name == operatorContainer && s.ImageID != "" {
			return s.ImageID
		}
	}
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == operatorContainer {
			return c.Image
		}
	}
	return ""
}

// commandIn is what runs in the pod: the program with the flags that the operator has, so that it knows the same
// LINSTOR releases and waits for as long.
func commandIn(pod *corev1.Pod, question string) ([]string, error) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name != operatorContainer {
			continue
		}
		command := slices.Clone(c.Command)
		if len(command) == 0 {
			command = []string{operatorBinary}
		}
		for _, arg := range slices.Concat(command, c.Args) {
			if strings.Contains(arg, "$(") {
				return nil, fmt.Errorf("pod %s/%s starts the operator with argument %q, which contains a variable that only the "+
					"kubelet can expand, so the plugin cannot run the same command", pod.Namespace, pod.Name, arg)
			}
		}
		return slices.Concat(command, c.Args, []string{"--" + question + "=-"}), nil
	}
	return nil, fmt.Errorf("pod %s/%s has no container %s", pod.Namespace, pod.Name, operatorContainer)
}
