package usernamespace_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources/usernamespace"
)

type machine struct {
	kubelet, kernel, os string
	handler             string
	supports, ready     bool
}

func (m machine) node() *corev1.Node {
	n := &corev1.Node{}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.KernelVersion = m.kubelet, m.kernel
	n.Status.NodeInfo.OperatingSystem = m.os
	n.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{Name: m.handler,
		Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: ptr.To(m.supports)}}}
	status := corev1.ConditionFalse
	if m.ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	return n
}

// TestWanted: pods get user namespaces where every node can start them, and keep them as long as no node that is ready
// could not.
func TestWanted(t *testing.T) {
	good := machine{kubelet: "v1.36.3", kernel: "6.12.88+deb13-amd64", os: "linux", supports: true, ready: true}
	with := func(change func(*machine)) machine {
		m := good
		change(&m)
		return m
	}
	for name, tc := range map[string]struct {
		nodes       []machine
		fresh, kept bool // without user namespaces now, and with them
	}{
		"none":                   {nil, false, true},
		"all":                    {[]machine{good, good}, true, true},
		"k3s":                    {[]machine{with(func(m *machine) { m.kubelet = "v1.33.0+k3s1" })}, true, true},
		"an old kernel":          {[]machine{good, with(func(m *machine) { m.kernel = "6.1.0-40-amd64" })}, false, false},
		"Red Hat's kernel":       {[]machine{with(func(m *machine) { m.kernel = "5.14.0-427.el9.x86_64" })}, false, false},
		"an old kubelet":         {[]machine{with(func(m *machine) { m.kubelet = "v1.32.9" })}, false, false},
		"an old runtime":         {[]machine{with(func(m *machine) { m.supports = false })}, false, false},
		"another handler only":   {[]machine{with(func(m *machine) { m.handler = "kata" })}, false, false},
		"no versions":            {[]machine{with(func(m *machine) { m.kernel, m.kubelet = "", "" })}, false, false},
		"a Windows node as well": {[]machine{good, {os: "windows", ready: true}}, true, true},
		// It says nothing yet, and no pod comes there yet.
		"one that joins": {[]machine{good, {os: "linux", kubelet: "v1.36.3", kernel: "6.12"}}, false, true},
		// Were it forgotten while it reboots, LINSTOR's controller would be restarted twice.
		"an old one reboots": {[]machine{good, with(func(m *machine) { m.kernel, m.ready = "6.1.0", false })}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*corev1.Node
			for _, m := range tc.nodes {
				nodes = append(nodes, m.node())
			}
			without, with := &appsv1.Deployment{}, &appsv1.Deployment{}
			with.Spec.Template.Spec.HostUsers = ptr.To(false)
			for controller, want := range map[*appsv1.Deployment]bool{nil: tc.fresh, without: tc.fresh, with: tc.kept} {
				if got := usernamespace.Wanted(nodes, controller); got != want {
					t.Errorf("controller %v: %t, want %t", controller, got, want)
				}
			}
		})
	}
}
