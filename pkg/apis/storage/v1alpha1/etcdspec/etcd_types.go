// Package etcdspec defines spec.database.managedEtcd and status.etcd of a StorageCluster.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package etcdspec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ManagedEtcd is an etcd cluster that the operator runs exclusively for LINSTOR.
//
// kubectl scale writes only replicas, and the defaults of other fields are not applied. In a spec without managedEtcd,
// it would select a different database.
// +kubebuilder:validation:XValidation:rule="has(self.dataPath)",message="kubectl scale sets the number of etcd members, but spec.database.managedEtcd is not set: this cluster uses a different database",reason=FieldValueForbidden
type ManagedEtcd struct {
	// replicas is the number of etcd members, each on a different node: 1, 3 or 5. Three members tolerate the loss of one
	// member, five the loss of two. You can also change it with kubectl scale. Members are added and removed one at a
	// time. Defaults to 3. Example: 5.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Enum=1;3;5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`
	// version is the etcd version. The operator never downgrades etcd. It upgrades one minor release at a time, and takes
	// a database snapshot before each upgrade. Defaults to the running version or, for a new cluster, to the version in
	// the operator's catalogue. Example: "3.6.14".
	// +optional
	// +kubebuilder:validation:MaxLength=14
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}$')",message="version must be three numbers, such as 3.6.14"
	Version string `json:"version,omitempty"`
	// dataPath is the directory on the nodes in which members store their data. It should be on a fast local disk, and
	// must not be on a LINSTOR volume. Only old snapshots are ever deleted from it. It cannot be changed. Defaults to
	// /var/lib/linstor-etcd. Example: /mnt/nvme/linstor-etcd.
	// +optional
	// +kubebuilder:default=/var/lib/linstor-etcd
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])+$') && !self.contains('/../')",message="dataPath must be an absolute path of letters, digits, '_', '.' and '-', such as /var/lib/linstor-etcd"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="dataPath cannot be changed, because the members' data is stored in it: revert the change",reason=FieldValueForbidden
	DataPath string `json:"dataPath,omitempty"`
}

// EtcdStatus is the observed state of the etcd cluster that the operator runs for LINSTOR.
type EtcdStatus struct {
	// replicas is the number of voting members.
	Replicas int32 `json:"replicas"`
	// selector selects the members' pods, for kubectl scale.
	// +optional
	Selector string `json:"selector,omitempty"`
	// clusterID is the cluster ID that etcd reports, in hexadecimal; empty until etcd has responded once.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// step is the name of the current step, as listed in docs/state-diagrams/etcd-membership.md.
	// +optional
	Step string `json:"step,omitempty"`
	// members lists the members, including those that have not joined yet. At most 10.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []EtcdMember `json:"members,omitempty"`
	// snapshot is the most recent database snapshot taken before an upgrade; absent if there is none. The file remains on
	// its node even if this entry disappears.
	// +optional
	Snapshot *EtcdSnapshot `json:"snapshot,omitempty"`
}

// EtcdSnapshot is a snapshot of etcd's database, taken before the first member was upgraded to the next minor release.
type EtcdSnapshot struct {
	// from is the minor release that was running when the snapshot was taken. Example: "3.6".
	From string `json:"from"`
	// to is the minor release of the upgrade for which the snapshot was taken. Example: "3.7".
	To string `json:"to"`
	// node is the node where the snapshot is stored.
	Node string `json:"node"`
	// file is the path of the snapshot on that node.
	File string `json:"file"`
	// time is when the snapshot was taken, according to the node's clock.
	Time metav1.Time `json:"time"`
	// revision is an etcd revision that the snapshot contains; it may contain later ones.
	Revision int64 `json:"revision"`
	// sizeMiB is the size of the snapshot, in MiB.
	SizeMiB int64 `json:"sizeMiB"`
	// sha256 is the hash at the end of the snapshot, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// EtcdMember is an etcd member.
type EtcdMember struct {
	// name is the name of the member. Names are never reused.
	Name string `json:"name"`
	// node is the node that the member runs on.
	Node string `json:"node"`
	// id is the member ID that etcd assigned, in hexadecimal; empty until the member has joined.
	// +optional
	ID string `json:"id,omitempty"`
	// role is Leader, Voter, Learner, or Planned (not joined yet, or removed).
	Role Role `json:"role"`
	// version is the etcd version of the member; empty while the member does not respond.
	// +optional
	Version string `json:"version,omitempty"`
	// sizeMiB is the size of the member's database, in MiB.
	// +optional
	SizeMiB int64 `json:"sizeMiB,omitempty"`
	// healthy is true if the member participates in the cluster.
	Healthy bool `json:"healthy"`
}

// Role is the role of a member in the etcd cluster.
type Role string

// Roles.
const (
	// RoleLeader: a voting member that is the leader.
	RoleLeader Role = "Leader"
	// RoleVoter: a voting member.
	RoleVoter Role = "Voter"
	// RoleLearner: receives the data, but cannot vote yet.
	RoleLearner Role = "Learner"
	// RolePlanned: has not joined yet, or has been removed.
	RolePlanned Role = "Planned"
)

// DefaultDataPath is the default of dataPath.
const DefaultDataPath = "/var/lib/linstor-etcd"
