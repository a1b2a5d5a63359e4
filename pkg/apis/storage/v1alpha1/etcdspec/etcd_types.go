// Package etcdspec is the section spec.database.managedEtcd of a StorageCluster, and what the status says of the
// members.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package etcdspec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ManagedEtcd is an etcd cluster that the operator runs for LINSTOR alone.
//
// kubectl scale writes replicas alone, without the defaults that come with any manifest. Where the spec has no
// managedEtcd, it would choose another database.
// +kubebuilder:validation:XValidation:rule="has(self.dataPath)",message="kubectl scale sets the number of members of etcd, and spec.database.managedEtcd is not set: this cluster has another database",reason=FieldValueForbidden
type ManagedEtcd struct {
	// replicas is how many members there are, each on a node of its own: 1, 3 or 5. Three go on without one of them, five
	// without two. kubectl scale sets it, too. Members are added and removed one at a time. Default: 3. Example: 5.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Enum=1;3;5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`
	// version is the version of etcd. It is not lowered, and raised by one minor release at a time, each after a snapshot of the
	// database. Default: the one that the operator's catalogue has for new clusters, and what runs after that. Example:
	// "3.6.14".
	// +optional
	// +kubebuilder:validation:MaxLength=14
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}$')",message="version must be three numbers, such as 3.6.14"
	Version string `json:"version,omitempty"`
	// dataPath is the directory of the nodes in which members keep their data. It should be on a fast local disk, and must not
	// be on a volume of LINSTOR. Nothing in it is ever deleted but old snapshots. It
	// cannot be changed. Default: /var/lib/linstor-etcd.
	// Example: /mnt/nvme/linstor-etcd.
	// +optional
	// +kubebuilder:default=/var/lib/linstor-etcd
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])+$') && !self.contains('/../')",message="dataPath must be an absolute path of plain names, such as /var/lib/linstor-etcd"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="dataPath cannot be changed, because the members' data is there: take the change back",reason=FieldValueForbidden
	DataPath string `json:"dataPath,omitempty"`
}

// EtcdStatus is what was seen of the etcd that the operator runs for LINSTOR.
type EtcdStatus struct {
	// replicas is how many members have a vote.
	Replicas int32 `json:"replicas"`
	// selector picks the members' pods, for kubectl scale.
	// +optional
	Selector string `json:"selector,omitempty"`
	// clusterID is etcd's own ID of the cluster, in hexadecimal; empty before it has served.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// step is what is being done, or waited for, by the name of its row in docs/state-diagrams/etcd-membership.md.
	// +optional
	Step string `json:"step,omitempty"`
	// members are those that the operator has planned, at most 10.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []EtcdMember `json:"members,omitempty"`
	// snapshot is the last one of the database that was taken before an upgrade; absent before the first one. It stays on its
	// node, whatever becomes of this.
	// +optional
	Snapshot *EtcdSnapshot `json:"snapshot,omitempty"`
}

// EtcdSnapshot is a snapshot of etcd's database, taken before members began with the next minor release.
type EtcdSnapshot struct {
	// from is the minor release that ran when it was taken. Example: "3.6".
	From string `json:"from"`
	// to is the minor release before which it was taken. Example: "3.7".
	To string `json:"to"`
	// node is where it is kept.
	Node string `json:"node"`
	// file is its path there.
	File string `json:"file"`
	// time is when it was taken, by the node's clock.
	Time metav1.Time `json:"time"`
	// revision is one of etcd's that is in it; later ones may be.
	Revision int64 `json:"revision"`
	// sizeMiB is how large it is, in MiB.
	SizeMiB int64 `json:"sizeMiB"`
	// sha256 is the hash at its end, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// EtcdMember is one member.
type EtcdMember struct {
	// name is the member's, which no other one gets.
	Name string `json:"name"`
	// node is where it is.
	Node string `json:"node"`
	// id is etcd's own ID of the member, in hexadecimal; empty until it is one.
	// +optional
	ID string `json:"id,omitempty"`
	// role is Leader, Voter, Learner, or Planned while it is no member.
	Role Role `json:"role"`
	// version is what it runs; empty while it does not answer.
	// +optional
	Version string `json:"version,omitempty"`
	// sizeMiB is how large its database is, in MiB.
	// +optional
	SizeMiB int64 `json:"sizeMiB,omitempty"`
	// healthy reports whether it takes part.
	Healthy bool `json:"healthy"`
}

// Role is what a member is in its cluster.
type Role string

// Roles.
const (
	// RoleLeader: has a vote, and leads.
	RoleLeader Role = "Leader"
	// RoleVoter: has a vote.
	RoleVoter Role = "Voter"
	// RoleLearner: gets the data, and has no vote yet.
	RoleLearner Role = "Learner"
	// RolePlanned: is no member yet, or not any more.
	RolePlanned Role = "Planned"
)

// DefaultDataPath is that of a spec without one.
const DefaultDataPath = "/var/lib/linstor-etcd"
