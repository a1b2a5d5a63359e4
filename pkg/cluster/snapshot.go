// Package cluster is what one reconcile works on: Facts, which were observed, and Snapshot, which adds what they mean.
//
// Package observe fills Facts; nothing changes them afterwards. Package judge makes a Snapshot of them once for each
// reconcile. What was not seen is unknown here: never absent, never fine.
//
// The package reads and counts; it neither writes nor decides. It imports no package of pkg/phases.
package cluster

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/move"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Facts are all that one reconcile has observed. Nobody changes them after they were taken.
type Facts struct {
	Now       time.Time
	Timing    Timing
	Catalogue *catalogue.Catalogue
	// OperatorVersion and OperatorImage are the operator's own; the image is "" if it is not known.
	OperatorVersion, OperatorImage string
	Cluster                        *v1alpha1.StorageCluster
	// Target is the accepted spec; nil before the first acceptance.
	Target *Target
	// Unreadable says why the accepted spec or the claim cannot be used: Target is nil then. Only a deletion goes on.
	Unreadable error
	Kube       Kube
	// Recorded is the claim, whoever's; empty if there is none that can be read.
	Recorded resources.ClaimData
	// ClaimErr says why it cannot be read. It is in Unreadable as well, and nobody writes a claim in its place.
	ClaimErr error
	Linstor  Linstor
	// Certificates are those that lock LINSTOR's REST API, and Netcom what its controller and satellites connect with.
	Certificates apicerts.Kept
	Netcom       netcomtls.Connections
	// Database is what is known, without LINSTOR's help, of one that is not claimed, or that data is to be moved into.
	Database Database
	// Etcd is what is known of the etcd that the operator runs; nil where it runs none.
	Etcd *etcd.Known
	// PassphraseDiffers is true if the passphrase's Secret holds another one than the cluster was set up with.
	PassphraseDiffers bool
	// States are since when members are in their states, by name, and Tainted since when Nodes have taints to leave for.
	States  map[string]StateSince
	Tainted map[TaintedNode]TaintSince
	// TakenPods are addresses of satellites' pods that LINSTOR has for another node, by the Node's UID.
	TakenPods map[types.UID]string
	// TaskStates are the background writes that failed last, by key.
	TaskStates map[string]work.State
}

// Snapshot is the facts of one reconcile and what they mean. judge.Facts makes it, and nobody changes it afterwards.
type Snapshot struct {
	Facts
	// Members are the nodes that take part, by name.
	Members []*Member
	Gone    []*Gone
	// MassFailure is the judgement of how many nodes failed at once.
	MassFailure MassFailure
	Roll        Roll
	// Evidence is how far each link of the chain is, by its state; empty before the first spec is accepted.
	Evidence map[fsm.State]Evidence
	Health   Health
	// Preferences is the change of the preferred interface, node by node.
	Preferences Preferences
	// Upgrade is the change of version, Restore the restore of the database, and Move the move of its data into another
	// one that waits or goes on; nil for none. There is no Move beside a Restore.
	Upgrade *Upgrade
	Restore *restore.Order
	Move    *move.Order
	// Classes and SnapshotClasses are those of the spec, and those of ours that it has no more.
	Classes         []*StorageClass
	SnapshotClasses []*SnapshotClass
	// Wwns are the nodes that have a disk of a WWN, in lower case.
	Wwns map[string][]string
}

// Target is the accepted spec.
type Target struct {
	Name string
	Spec *v1alpha1.StorageClusterSpec
	// Release is the catalogue's entry for the accepted version.
	Release catalogue.Release
}

// Spec is the accepted spec, or the object's before the first acceptance.
func (f *Facts) Spec() *v1alpha1.StorageClusterSpec {
	if f.Target != nil {
		return f.Target.Spec
	}
	return &f.Cluster.Spec
}

// WantsTLS reports whether the accepted spec locks LINSTOR's API and its satellites.
func (f *Facts) WantsTLS() bool { return f.Target != nil && f.Target.Spec.TLS.Mode == tlsspec.Managed }

// NodesSpec is what that spec says of nodes.
func (f *Facts) NodesSpec() *v1alpha1.NodesSpec { return &f.Spec().Nodes }

// RemovalPolicy is what the spec says of nodes that leave.
func (f *Facts) RemovalPolicy() v1alpha1.NodeRemovalPolicy {
	return cmp.Or(f.NodesSpec().RemovalPolicy, v1alpha1.NodesRetain)
}

// Params are the builders' parameters for the accepted spec, with the release that the controller shall run now.
func (s *Snapshot) Params() resources.Params { return s.paramsOf(s.ControllerRelease()) }

// SatelliteParams are the same with the release that satellites shall run now.
func (s *Snapshot) SatelliteParams() resources.Params { return s.paramsOf(s.SatelliteRelease()) }

func (f *Facts) paramsOf(r catalogue.Release) resources.Params {
	return resources.Params{Cluster: f.Cluster.Name, Spec: f.Target.Spec, Release: r,
		API: f.Certificates.Access(&f.Target.Spec.TLS), Netcom: f.Netcom, UserNamespaces: f.Kube.UserNamespaces}
}

// StateSince is the state of a member, and since when it has been seen in it.
type StateSince struct {
	State v1alpha1.NodeState
	Since time.Time
}

// TaintedNode is a taint of a Node. Another Node of the same name, or another taint, has a time of its own.
type TaintedNode struct {
	UID    types.UID
	Key    string
	Effect corev1.TaintEffect
}

// TaintOf is how a Node's taint is remembered.
func TaintOf(n *corev1.Node, t *corev1.Taint) TaintedNode { return TaintedNode{n.UID, t.Key, t.Effect} }

// TaintSince is since when a taint has been seen.
type TaintSince struct {
	Since time.Time
	// AtStart: it was there at the operator's first look, perhaps for much longer.
	AtStart bool
}
