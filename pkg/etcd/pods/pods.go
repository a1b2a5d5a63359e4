// Package pods reads what the kubelet has published of a pod of etcd, and names what Kubernetes has of a member.
package pods

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// The names of a pod's containers: that of guard.Take, and that of guard.Start, which becomes etcd.
const (
	Take = "take"
	Etcd = "etcd"
)

// The annotations of a DaemonSet's template, which its pods inherit.
const (
	Member   = "storage.linstor.dev/etcd-member"
	Version  = "storage.linstor.dev/etcd-version"
	Revision = "storage.linstor.dev/etcd-revision"
)

// Label is that of a node with a member; its value is the member. Used is the annotation of a Node with the member
// that was placed there last.
const (
	Label = "storage.linstor.dev/etcd"
	Used  = "storage.linstor.dev/etcd-used"
)

// DaemonSet is the name of a member's.
func DaemonSet(member string) string { return "linstor-etcd-" + member }

// Annotations are those of a template.
func Annotations(t seats.Template) map[string]string {
	return map[string]string{Member: t.Member, Version: t.Version, Revision: t.Revision}
}

// Template reads annotations. It is the zero value if they do not say a version.
func Template(annotations map[string]string) seats.Template {
	if annotations[Version] == "" {
		return seats.Template{}
	}
	return seats.Template{Member: annotations[Member], Version: annotations[Version], Revision: annotations[Revision]}
}

// Container is what the kubelet has published of one.
type Container struct {
	// Running is true while it runs.
	Running bool
	// Message is the termination message of its last end: that of the present state, or else of the last one.
	Message string
}

// Published is what the kubelet and the API have of a pod.
type Published struct {
	UID         string
	Annotations map[string]string
	// Ready is the pod's condition, Deleted true once it has a deletion timestamp.
	Ready, Deleted bool
	// Take and Etcd are the containers of these names.
	Take, Etcd Container
}

// Read is what is known of a pod. A refusal counts only while etcd's container does not run.
func Read(pod Published) seats.Pod {
	p := seats.Pod{UID: pod.UID, Template: Template(pod.Annotations), Terminating: pod.Deleted, Ready: pod.Ready}
	if r, ok := guard.Parse(pod.Take.Message); ok {
		p.Configuration, p.Log = &r.Configuration, r.Log
	}
	r, ok := guard.Parse(pod.Etcd.Message)
	if ok && r.Log != nil {
		p.Log = r.Log
	}
	if ok && !pod.Etcd.Running {
		p.Refusal = r.Refusal
	}
	return p
}
