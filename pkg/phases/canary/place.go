package canary

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of Kubernetes' Events about claims and pods (k8s.io/kubernetes 1.36, pkg/kubelet/events,
// pkg/controller/volume/events).
const (
	failedAttach = "FailedAttachVolume"
	failedMount  = "FailedMount"
)

// place is the step that the try is at, with what it waits for. No step: nothing is left to be done.
func (t *try) place(s *cluster.Snapshot) (volumespec.CanaryStep, string) {
	warnings := s.Kube.Warnings[objects.Name(t.class.Name)]
	written := t.pod != nil && t.pod.Status.Phase == corev1.PodSucceeded
	if written && t.last.Step != volumespec.CanaryCleanUp {
		if waits := t.judgeSnapshot(s); waits != "" {
			return volumespec.CanarySnapshot, waits
		}
	}
	switch {
	case t.last.Step == volumespec.CanaryCleanUp, written:
		if left := t.left(s); left != "" {
			return volumespec.CanaryCleanUp, left + " is being removed"
		}
		return "", ""
	case t.claim == nil || t.claim.Status.Phase != corev1.ClaimBound:
		return volumespec.CanaryProvision, t.lacks() + because(t.pod, warnings,
			"the PersistentVolumeClaim has not been bound yet")
	case exited(t.pod):
		return volumespec.CanaryWriteAndRead, because(t.pod, nil, "the pod failed")
	case started(t.pod):
		return volumespec.CanaryWriteAndRead, because(t.pod, nil, "the pod is writing data and reading it back")
	}
	has := func(reason string) bool {
		return slices.ContainsFunc(warnings, func(w cluster.Warning) bool { return w.Reason == reason })
	}
	if poddiagnosis.Of(t.pod) != nil && !spoiled(t.pod) || has(failedMount) && !has(failedAttach) {
		return volumespec.CanaryMount, because(t.pod, warnings, "the volume has not been mounted yet")
	}
	return volumespec.CanaryAttach, because(t.pod, warnings, "the volume has not been attached yet")
}

// lacks says what has hindered the StorageClass since the try began, as the beginning of a message; "" if nothing is
// known to.
func (t *try) lacks() string {
	if t.class.Message == "" {
		return ""
	}
	return text.Sentence(t.class.Message) + "; "
}

// started reports whether the pod's program has begun, for which its volume must be mounted.
func started(p *corev1.Pod) bool {
	return p != nil && slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil
	})
}

// because is the best that is known of why a step is not done: what Kubernetes warned of last, what is wrong with the
// pod's container, why the pod has no node; else what is said of it anyway.
func because(p *corev1.Pod, warnings []cluster.Warning, otherwise string) string {
	if len(warnings) > 0 {
		return text.OneLine(warnings[0].Reason + ": " + warnings[0].Message)
	}
	if trouble := poddiagnosis.Of(p); trouble != nil {
		return text.Sentence(trouble.String())
	}
	if c := cluster.PodCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return text.OneLine("the pod cannot be scheduled: " + c.Message)
	}
	return otherwise
}

// left names the first that is left of the try; "" if nothing is.
func (t *try) left(s *cluster.Snapshot) string {
	switch name := objects.Name(t.class.Name); {
	case t.pod != nil:
		return fmt.Sprintf("Pod %s/%s", v1alpha1.WorkloadNamespace, name)
	case t.snapshot != nil:
		return fmt.Sprintf("VolumeSnapshot %s/%s", v1alpha1.WorkloadNamespace, name)
	case t.claim != nil:
		return fmt.Sprintf("PersistentVolumeClaim %s/%s", v1alpha1.WorkloadNamespace, name)
	case s.Kube.Canary.Volumes[name] != "":
		return "PersistentVolume " + s.Kube.Canary.Volumes[name]
	case t.volume != "" && (!s.Linstor.Known() || !s.Linstor.View.Gone(t.volume)):
		return "LINSTOR volume " + t.volume
	default:
		return ""
	}
}
