// Package pods reads what the kubelet has published of a pod of etcd, and names what Kubernetes has of a member.
package pods

import (
	"cmp"
	"encoding/json"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
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

// Label is that of a node with a member; its value is the member. Used is another one, with the member that was placed
// there last.
const (
	Label = "storage.linstor.dev/etcd"
	Used  = "storage.linstor.dev/etcd-used"
)

// Where a pod has its files. Data is a directory in the one of the host, which the kubelet makes: the guard makes it,
// or finds it missing where a disk is not mounted. Kept has snapshots. It is beside Data, with which it must not be
// lost when somebody moves a member's data away.
const (
	Order   = "/order/order.json"
	Work    = "/work"
	Guard   = Work + "/guard"
	Host    = "/var/lib/etcd"
	Data    = Host + "/data"
	Kept    = Host + "/snapshots"
	Message = "/dev/termination-log"
	Binary  = "/usr/local/bin/etcd"
)

// Flags of the operator's program, each with the name of the member: guard.Take, and guard.Start. FlagLook has the
// directory of the host in place of that: datadir.Look; and FlagSave has a snapshot.Config as JSON: snapshot.Take.
const (
	FlagTake  = "--take-etcd-member"
	FlagStart = "--start-etcd-member"
	FlagLook  = "--look-for-etcd"
	FlagSave  = "--snapshot-etcd"
)

// Paths are those of a member's pod.
func Paths(member string) guard.Paths {
	return guard.Paths{Member: member, Mounted: Order, Work: Work, Data: Data, Message: Message, Etcd: Binary,
		Log: datadir.End}
}

// Found reads what a look into a data directory has said. It returns false for a text that is nothing of that kind.
func Found(message string) (f datadir.Found, ok bool) {
	return f, message != "" && json.Unmarshal([]byte(message), &f) == nil
}

// Taken reads what was said of a snapshot. It returns false for a text that is nothing of that kind.
func Taken(message string) (t seats.Taken, ok bool) {
	return t, message != "" && json.Unmarshal([]byte(message), &t) == nil && t.ID != ""
}

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
		p.Configuration, p.Log, p.Disk = &r.Configuration, r.Log, r.Found
	}
	r, ok := guard.Parse(pod.Etcd.Message)
	if ok && (r.Found != nil || r.Log != nil) {
		p.Log, p.Disk = r.Log, cmp.Or(r.Found, p.Disk)
	}
	if ok && !pod.Etcd.Running {
		p.Refusal, p.Message = r.Refusal, r.Message
	}
	return p
}
