package phases

import (
	"context"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Properties of LINSTOR nodes that keep a node out of LINSTOR's own decisions.
const (
	// propAutoplace set to false keeps new copies of volumes away; what is there stays.
	propAutoplace = "AutoplaceTarget"
	// propAllowEviction set to false keeps LINSTOR from evicting the node while it is offline.
	propAllowEviction = "DrbdOptions/AutoEvictAllowEviction"
	// auxBefore, followed by a property's name, says that the operator set that property to false for a while, and what it
	// was before. It is written together with the property, so that neither is there without the other.
	auxBefore = linstor.AuxPrefix + "before."
	// wasUnset is the value of auxBefore for a property that was not there.
	wasUnset = "unset"
)

// switchOff is the wish that a property of a node be false for a while.
type switchOff struct {
	property string
	// wanted is whether it shall be false now.
	wanted bool
	// override is whether a value that somebody else set gives way. It comes back afterwards.
	override bool
}

// switches are the properties that are switched off while a node is cordoned, under maintenance or leaving.
func (s *Snapshot) switches(m *Member) []switchOff {
	leaves := !m.Selected && s.removalPolicy() != v1alpha1.NodesRetain && m.Linstor.Properties[auxAdmitted] != ""
	return []switchOff{
		{property: propAutoplace, wanted: leaves || m.Maintenance || m.Selected && m.Node.Spec.Unschedulable, override: leaves || m.Maintenance},
		{property: propAllowEviction, wanted: m.Maintenance, override: true},
	}
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
	before, held := have[auxBefore+w.property]
	switch {
	case w.wanted:
		w.begin(have, held, c)
	case !held:
	case !isFalse(have[w.property]): // somebody has set it anew meanwhile: their word is the later one
		c.Delete = append(c.Delete, auxBefore+w.property)
	case before == wasUnset:
		c.Delete = append(c.Delete, w.property, auxBefore+w.property)
	default:
		c.Set[w.property] = before
		c.Delete = append(c.Delete, auxBefore+w.property)
	}
}

// begin switches the property off. A value of somebody else stays theirs unless it has to give way.
func (w switchOff) begin(have map[string]string, held bool, c *linstor.Change) {
	value, set := have[w.property]
	off := set && isFalse(value)
	switch {
	case off, !held && set && !w.override:
	case held && w.override:
		c.Set[w.property] = "false"
	case held:
		c.Delete = append(c.Delete, auxBefore+w.property)
	default:
		c.Set[w.property], c.Set[auxBefore+w.property] = "false", wasUnset
		if set {
			c.Set[auxBefore+w.property] = value
		}
	}
}

func isFalse(v string) bool { return strings.EqualFold(v, "false") || strings.EqualFold(v, "no") }

func placementKey(name string) string { return "placement/" + name }

// notePlacement tells why LINSTOR does not keep what a member is switched off with: a node in maintenance may be evicted without
// it, and nodes that leave wait for it.
func (s *Snapshot) notePlacement(m *Member) {
	err := s.TaskStates[placementKey(m.Name)].Err
	if err == nil || m.Linstor == nil || switching(m.Linstor.Properties, s.switches(m)).Empty() {
		return
	}
	m.Notes = append(m.Notes, &Problem{Reason: "PlacementNotSet", Message: oneLine(
		"LINSTOR cannot be told whether it may place copies on the node, or evict it: " + err.Error())})
}

// place writes the properties of a member that keep it out of LINSTOR's own decisions, or takes them back. What is to be
// written is worked out once more on the node as it is then: a look that is a little old could take the operator's own value
// for the user's, and keep it for ever.
func (in *Input) place(m *Member) {
	wishes := in.switches(m)
	c := switching(m.Linstor.Properties, wishes)
	if c.Empty() {
		return
	}
	name := m.Name
	in.ensure(work.Task{Key: placementKey(name), Input: digest(c), Do: func(ctx context.Context) error {
		n, err := in.API.Node(ctx, name)
		if err != nil {
			return err
		}
		c := switching(n.Properties, wishes)
		if c.Empty() {
			return nil
		}
		return in.API.SetNodeProperties(ctx, name, c.Set, c.Delete)
	}})
}

// switchedOff keeps the registration from writing what the node is switched off with: a property that spec.nodes.properties
// sets is the spec's again once the operator has taken its own value back.
func switchedOff(n *linstor.Node, props map[string]string) {
	if n == nil {
		return
	}
	for key := range props {
		if _, held := n.Properties[auxBefore+key]; held {
			if value, set := n.Properties[key]; set {
				props[key] = value
			} else {
				delete(props, key)
			}
		}
	}
}
