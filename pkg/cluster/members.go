package cluster

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// Member is a node that takes part. Everything in it follows from the snapshot.
type Member struct {
	Presence
	Name string
	Node *corev1.Node
	// Selected is true if the spec picks the node now; a member that it no longer picks is leaving.
	Selected bool
	// Labelled is true if the node has the labels of a member and of its operating system.
	Labelled bool
	Profile  platform.Profile
	// OSKey is the value of the label that its module loader's DaemonSet selects on.
	OSKey  string
	Loader catalogue.Loader
	// LoaderPod, SatellitePod and DriverPod are nil when there is none.
	LoaderPod, SatellitePod, DriverPod *corev1.Pod
	// Linstor is its LINSTOR node; nil when it is not registered or LINSTOR is not known.
	Linstor    *linstor.Node
	Interfaces []MemberInterface
	Pools      []*MemberPool
	// OldPools are pools that the operator made and that the spec no longer wants there.
	OldPools []*linstor.Pool
	// AddressTaken is why it must have no satellite: LINSTOR has its address for another node.
	AddressTaken *Problem
	// TakenPodAddress is the address if it is that of its satellite's pod, on the pods' network.
	TakenPodAddress string
	// Notes are what is worth knowing although it keeps the member from nothing.
	Notes []*Problem
	// Disks are what the satellite's inventory found; none are known while no pool is made from devices.
	Disks Disks
	// Restarting is true if the satellite was replaced a moment ago, which is no trouble yet (package satellites).
	Restarting bool
	// Joining is true if the member came so lately that being unfinished is no trouble (package judge).
	Joining bool
	// State and Problem are the judgement.
	State   v1alpha1.NodeState
	Problem *Problem
	// Leave is how far a member is that the spec no longer picks; nil for others.
	Leave                                        *Leave
	ModuleOK, SatelliteOK, RegisteredOK, PoolsOK bool
	// DriverOK: the kubelet has the CSI driver, or the operator does not run it.
	DriverOK bool
	// Outdated: its satellite's pod is not as wanted any more.
	Outdated bool
	// OldLoader: its loader's pod is not as wanted any more.
	OldLoader bool
}

// Problem is what keeps a member from going on.
type Problem struct {
	Reason  string
	Message string
	// Pool is the entry of spec.storagePools that it is about; "" for others.
	Pool string
	// Hold is the reason of a hold if going on by itself does not help; "" while it may.
	Hold v1alpha1.HoldReason
}

// Problems are what the status shows of a member: its trouble, and what is worth knowing besides.
func (m *Member) Problems() []*Problem {
	if m.Problem == nil {
		return m.Notes
	}
	return append([]*Problem{m.Problem}, m.Notes...)
}

// Troubles calls f for what the status shows of each node: the members, and the nodes whose Node object is gone.
func (s *Snapshot) Troubles(f func(node string, p *Problem)) {
	for _, m := range s.Members {
		for _, p := range m.Problems() {
			f(m.Name, p)
		}
	}
	for _, g := range s.Gone {
		if g.Problem != nil {
			f(g.Name, g.Problem)
		}
	}
}

// MemberByName finds a member, by its name in Kubernetes or in LINSTOR, which may show it with capitals.
func (s *Snapshot) MemberByName(name string) *Member {
	order := func(m *Member, n string) int { return cmp.Compare(m.Name, n) }
	if i, ok := slices.BinarySearchFunc(s.Members, strings.ToLower(name), order); ok {
		return s.Members[i]
	}
	return nil
}

// Where are the members for which f is true.
func (s *Snapshot) Where(f func(*Member) bool) []*Member {
	var out []*Member
	for _, m := range s.Members {
		if f(m) {
			out = append(out, m)
		}
	}
	return out
}

// Count is the number of members for which f is true.
func (s *Snapshot) Count(f func(*Member) bool) int {
	n := 0
	for _, m := range s.Members {
		if f(m) {
			n++
		}
	}
	return n
}

// Identity is the machine on which the member runs now, as holds list it: another may take its name before an answer.
func (m *Member) Identity() string {
	return m.Name + "=" + strings.ToLower(m.Node.Status.NodeInfo.SystemUUID)
}

// Property is a property of the member's LINSTOR node; "" if it has none, or there is no such node.
func (m *Member) Property(key string) string {
	if m.Linstor == nil {
		return ""
	}
	return m.Linstor.Properties[key]
}

// DrbdSeen reports whether LINSTOR sees DRBD on the node: a loader that ran is no proof that LINSTOR can use it.
func (m *Member) DrbdSeen() bool { return slices.Contains(m.Linstor.Layers, "DRBD") }

// Registered reports whether the operator registered the node in LINSTOR: one there without the label leaves.
func (f *Facts) Registered(n *corev1.Node) bool {
	if !f.Linstor.Known() {
		return false
	}
	have := f.Linstor.View.Node(n.Name)
	return have != nil && have.Properties[linstor.PropNodeUID] == string(n.UID)
}

// Runs reports whether the member's satellite is of a release's image.
func (m *Member) Runs(image string) bool { return SameImage(m.SatelliteImage(), image) }

// SatelliteImage is the image of the member's satellite; "" if it has none.
func (m *Member) SatelliteImage() string {
	if m.SatellitePod == nil {
		return ""
	}
	return ImageOf(&m.SatellitePod.Spec, resources.SatelliteContainer)
}

// ReasonAddressConflict is the reason of the problem with an address that another node has as well.
const ReasonAddressConflict = "AddressConflict"

// MemberInterface is one interface that a member has, or would have if its address were known and could be used.
type MemberInterface struct {
	linstor.Interface
	// Source says for people where the address comes from.
	Source string
	// Unknown: the node reports no addresses now.
	Unknown bool
	// Trouble says why the address cannot be used.
	Trouble *Problem
}

// AddressOwner is who has an address.
type AddressOwner struct {
	Node, What string
}
