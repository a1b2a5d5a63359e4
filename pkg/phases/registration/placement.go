package registration

import (
	"context"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Properties of LINSTOR nodes that keep a node out of LINSTOR's own decisions.
const (
	// propAllowEviction set to false keeps LINSTOR from evicting the node while it is offline.
	propAllowEviction = "DrbdOptions/AutoEvictAllowEviction"
	// WasUnset is the value of remembered.Before for a property that was not there.
	WasUnset = "unset"
)

// switchOff is the wish that a property of a node be false for a while.
type switchOff struct {
	property string
	wanted   bool
	// override is true if a value that somebody else set gives way. It comes back afterwards.
	override bool
}

// switches are the properties that are switched off while a node is cordoned, under maintenance or leaving.
func switches(s *cluster.Facts, m *cluster.Member) []switchOff {
	leaves := !m.Selected && s.RemovalPolicy() != v1alpha1.NodesRetain && m.Property(remembered.LeavingAdmitted) != ""
	cordoned, fresh := m.Selected && m.Node.Spec.Unschedulable, unknownToDriver(s, m)
	return []switchOff{
		{property: linstor.PropAutoplace, wanted: leaves || m.Maintenance || cordoned || fresh,
			override: leaves || m.Maintenance || fresh},
		{property: propAllowEviction, wanted: m.Maintenance, override: true},
	}
}

// untilDriverKnows are the properties with which a node is registered beside a CSI driver that runs, so that nothing
// is placed on it at first: the driver keeps its list of nodes for a minute. It makes a volume on a node that is not
// in the list into a PersistentVolume that every node may use (linstor-csi 1.11, seen); where DRBD is not beneath it,
// a pod on another node gets an empty volume then.
func untilDriverKnows(s *cluster.Snapshot, props map[string]string) map[string]string {
	if d := s.Kube.Deployments[resources.DriverControllerName]; d == nil || d.Status.Replicas == 0 {
		return nil
	}
	c := switching(props, []switchOff{{property: linstor.PropAutoplace, wanted: true, override: true}})
	if c.Set != nil {
		c.Set[remembered.Fresh] = remembered.Stamp(s.Now)
	}
	return c.Set
}

// unknownToDriver reports whether a node was registered so lately that a CSI driver may not know it. A clock that was
// set back does not keep it closed for longer.
func unknownToDriver(s *cluster.Facts, m *cluster.Member) bool {
	since := remembered.Time(m.Property(remembered.Fresh))
	age := s.Now.Sub(since)
	return !since.IsZero() && age >= 0 && age < s.Timing.DriverLearns
}

// switching is what is to be written so that the properties are as wished.
func switching(have map[string]string, wishes []switchOff) linstor.Change {
	c := linstor.Change{Set: map[string]string{}}
	for _, w := range wishes {
		w.write(have, &c)
	}
	if len(c.Set) == 0 {
		c.Set = nil
	}
	return c
}

func (w switchOff) write(have map[string]string, c *linstor.Change) {
	note := remembered.Before + w.property
	value, set := have[w.property]
	before, held := have[note]
	off := linstor.IsFalse(value)
	switch {
	case !w.wanted && !held:
	// a value of somebody else stays theirs unless it has to give way
	case w.wanted && (off || set && !held && !w.override):
	case !held:
		c.Set[w.property], c.Set[note] = "false", WasUnset
		if set {
			c.Set[note] = value
		}
	case w.wanted && w.override:
		c.Set[w.property] = "false"
	case w.wanted, !off: // somebody has set it anew meanwhile: their word is the later one
		c.Delete = append(c.Delete, note)
	case before == WasUnset:
		c.Delete = append(c.Delete, w.property, note)
	default:
		c.Set[w.property] = before
		c.Delete = append(c.Delete, note)
	}
}

// Placed reports whether LINSTOR may place new copies on a member, and why it could not be kept from that.
func Placed(s *cluster.Facts, m *cluster.Member) (placed bool, err error) {
	return !linstor.IsFalse(m.Property(linstor.PropAutoplace)), s.TaskStates[placementKey(m.Name)].Err
}

// placementKey is the task that switches properties of a node.
func placementKey(name string) string { return "placement/" + name }

// NotePlacement says why LINSTOR does not keep what a member is switched off with: a node in maintenance may be
// evicted without it, and nodes that leave wait for it.
func NotePlacement(s *cluster.Facts, m *cluster.Member) {
	err := s.TaskStates[placementKey(m.Name)].Err
	if err == nil || m.Linstor == nil || switching(m.Linstor.Properties, switches(s, m)).Empty() {
		return
	}
	m.Notes = append(m.Notes, &cluster.Problem{Reason: "PlacementNotSet", Message: text.OneLine(
		"cannot set in LINSTOR whether replicas may be placed on the node and whether it may be evicted: " + err.Error())})
}

// NoteTopology names the labels of spec.volumes.topologyKeys that a member lacks: copies that are to be in several
// zones are not placed on it, and a volume that is bound to a zone is not used there.
func NoteTopology(s *cluster.Snapshot, m *cluster.Member) {
	if s.Target == nil || !m.Selected {
		return
	}
	var lacks []string
	for _, key := range s.Target.Spec.Volumes.TopologyKeys {
		if m.Node.Labels[key] == "" {
			lacks = append(lacks, key)
		}
	}
	if len(lacks) > 0 {
		m.Notes = append(m.Notes, &cluster.Problem{Reason: "TopologyLabelMissing", Message: text.Sentence(
			"the Node lacks labels listed in spec.volumes.topologyKeys (" + strings.Join(lacks, ", ") + "): add them so " +
				"that LINSTOR and Kubernetes can take its location into account")})
	}
}

// place writes the properties of a member that keep it out of LINSTOR's own decisions, or takes them back. What is to
// be written is worked out once more on the node as it is then: a look that is a little old could take the operator's
// own value for the user's, and keep it for ever.
func place(in *step.Input, m *cluster.Member) {
	f := &in.Snapshot.Facts
	wishes, young := switches(f, m), unknownToDriver(f, m)
	change := func(have map[string]string) linstor.Change {
		c := switching(have, wishes)
		if have[remembered.Fresh] != "" && !young {
			c.Delete = append(c.Delete, remembered.Fresh)
		}
		return c
	}
	c := change(m.Linstor.Properties)
	if c.Empty() {
		return
	}
	name := m.Name
	in.Ensure(work.Task{Key: placementKey(name), Input: text.Digest(c), Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if err != nil {
			return err
		}
		c := change(n.Properties)
		if c.Empty() {
			return nil
		}
		return in.API.SetNodeProperties(ctx, name, c.Set, c.Delete)
	}})
}

// switchedOff keeps the registration from writing what the node is switched off with: a property that
// spec.nodes.properties sets is the spec's again once the operator has taken its own value back.
func switchedOff(n *linstor.Node, props map[string]string) {
	if n == nil {
		return
	}
	for key := range props {
		if _, held := n.Properties[remembered.Before+key]; held {
			if value, set := n.Properties[key]; set {
				props[key] = value
			} else {
				delete(props, key)
			}
		}
	}
}
