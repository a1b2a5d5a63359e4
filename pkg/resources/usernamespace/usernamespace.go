// Package usernamespace finds out whether pods can have a user namespace of their own (hostUsers: false), in which
// root is not the node's root.
//
// A pod must not have one where a node cannot do it: the kubelet never starts such a pod. So it depends on all nodes,
// and what is running changes only if it has to. Hosts with user.max_user_namespaces=0 report that they can and cannot
// (Talos' default), which nothing shows beforehand: so the spec has to want it.
package usernamespace

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
)

// What a node needs: Kubernetes 1.33, the first that has the feature on by default, and Linux 6.3, the first that maps
// the users of a tmpfs, which Secrets are mounted as (Kubernetes' documentation, User Namespaces).
var (
	oldestKubelet = version.MustParseGeneric("1.33")
	oldestKernel  = version.MustParseGeneric("6.3")
)

// Wanted reports whether pods may have user namespaces, given LINSTOR's controller as it is; nil if there is none.
// Nodes come and go, and say nothing of it before they are ready; each change restarts the controller. So pods get
// user namespaces once every node is known to support them, and lose them only if a node that is ready does not.
func Wanted(nodes []*corev1.Node, controller *appsv1.Deployment) bool {
	if controller != nil && !ptr.Deref(controller.Spec.Template.Spec.HostUsers, true) {
		return !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return linux(n) && ready(n) && !supports(n) })
	}
	return slices.ContainsFunc(nodes, linux) &&
		!slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return linux(n) && !supports(n) })
}

func linux(n *corev1.Node) bool { return n.Status.NodeInfo.OperatingSystem != "windows" }

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func supports(n *corev1.Node) bool {
	info := &n.Status.NodeInfo
	return atLeast(info.KubeletVersion, oldestKubelet) && atLeast(info.KernelVersion, oldestKernel) &&
		slices.ContainsFunc(n.Status.RuntimeHandlers, Supports)
}

// Supports reports whether a handler is the default one of its node and can start pods with user namespaces.
func Supports(h corev1.NodeRuntimeHandler) bool {
	return h.Name == "" && h.Features != nil && h.Features.UserNamespaces != nil && *h.Features.UserNamespaces
}

// atLeast compares a version with what may follow it, such as v1.36.3+k3s1 or 6.12.88+deb13-amd64.
func atLeast(have string, want *version.Version) bool {
	v, err := version.ParseGeneric(have)
	return err == nil && v.AtLeast(want)
}
