// Package registration is the link that registers members in LINSTOR and keeps them as the spec says.
package registration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

const (
	// PropPrefNic is the property of a LINSTOR node that names the interface which DRBD replicates over.
	PropPrefNic      = "PrefNic"
	defaultInterface = netcomtls.Interface
)

// Link is the link that registers each member in LINSTOR.
func Link() step.Link {
	return step.Link{State: fsm.NodeRegistration, Missing: fsm.NodesMissing, Condition: conditions.NodesRegistered,
		Hold: registrationFailed, ClearsOn: []v1alpha1.HoldReason{registrationFailed, v1alpha1.HoldSatelliteVersionMismatch},
		ByTrying: true, Judge: judgeRegistration, Work: workRegistration, Through: registrationThrough}
}

func registrationThrough(m *cluster.Member) bool { return m.RegisteredOK }

func judgeRegistration(s *cluster.Snapshot) cluster.Evidence {
	if !s.Linstor.Known() {
		return step.LinstorUnknown(s)
	}
	e := step.JudgeMembers(s, hasSatellite, registrationThrough)
	e = step.Describe(e, "NodesOnline", "RegisteringNodes",
		"nodes are registered, ONLINE and configured as in spec.nodes")
	if pending := PreferencesMessage(s); pending != "" {
		e.Message += pending
		if e.State == cluster.Satisfied {
			e.Reason = conditions.ReasonChangingInterface
		}
	}
	if e.State == cluster.Satisfied {
		unkept := map[string]string{}
		for _, m := range s.Members {
			if m.Linstor != nil {
				maps.Copy(unkept, linstor.Unkept(m.Linstor.Properties, s.Target.Spec.Nodes.Properties, s.Linstor.View.Version))
			}
		}
		e.Message += step.UnkeptNote("spec.nodes.properties", s.Linstor.View.Version, unkept)
	}
	return e
}

func workRegistration(_ context.Context, in *step.Input) error {
	s := in.Snapshot
	if !s.Linstor.Known() {
		return nil
	}
	for _, m := range s.Members {
		if m.Replaced {
			noderemoval.ReplaceMachine(in, m)
			continue
		}
		treat(in, m)
		if m.Linstor != nil {
			place(in, m)
		}
		// Registering before the satellite listens costs ten seconds: LINSTOR retries a failed connection only so often.
		if m.ModuleOK && m.SatelliteOK && m.Selected || m.SatelliteOK && m.Linstor != nil {
			register(in, m)
		}
	}
	return nil
}

// RegisterNew registers the members that LINSTOR does not know and whose satellites are ready.
func RegisterNew(in *step.Input) {
	for _, m := range in.Snapshot.Members {
		if m.Linstor == nil && hasSatellite(m) && m.Selected {
			register(in, m)
		}
	}
}

func hasSatellite(m *cluster.Member) bool { return m.ModuleOK && m.SatelliteOK }

// Registration is what is to be written to LINSTOR for a member: a node that is to be made, or changes of one.
type Registration struct {
	Create *linstor.NodeSpec
	Add    []linstor.Interface
	Modify []linstor.Interface
	Remove []string
	Props  linstor.Change
}

func (r *Registration) empty() bool {
	return r.Create == nil && len(r.Add)+len(r.Modify)+len(r.Remove) == 0 && r.Props.Empty()
}

// Digest identifies what is written. The time of a change is no part of it: each look would be another task.
func (r *Registration) Digest() string {
	set := maps.Clone(r.Props.Set)
	delete(set, remembered.PreferredSince)
	node := r.Create
	if node != nil {
		timeless := *node
		timeless.Properties = maps.Clone(node.Properties)
		delete(timeless.Properties, remembered.Fresh)
		node = &timeless
	}
	return text.Digest([]any{node, r.Add, r.Modify, r.Remove, set, r.Props.Delete})
}

// register brings one member's registration in line, as one background task.
func register(in *step.Input, m *cluster.Member) {
	if m.RegisteredOK || m.AddressTaken != nil {
		return
	}
	r := WantedRegistration(in.Snapshot, m)
	if r.empty() {
		return
	}
	rejoined := m.Property(linstor.PropNodeUID) != "" && r.Props.Set[linstor.PropNodeUID] != ""
	in.Ensure(work.Task{Key: step.NodeKey(m), Input: r.Digest(), Do: func(ctx context.Context) error {
		if r.Create == nil {
			return r.write(ctx, in, m, rejoined)
		}
		if err := in.API.CreateNode(ctx, *r.Create); err != nil && !linstor.IsExists(err) {
			return err
		}
		return nil // what it lacks is written when the next view shows the node
	}})
}

// write sends to LINSTOR what a registered node lacks, and what it has too much. That a node rejoined is announced.
func (r *Registration) write(ctx context.Context, in *step.Input, m *cluster.Member, rejoined bool) error {
	name := m.Name
	for _, i := range r.Add {
		if err := in.API.CreateInterface(ctx, name, i); err != nil && !linstor.IsExists(err) {
			return err
		}
	}
	for _, i := range r.Modify {
		if err := in.API.ModifyInterface(ctx, name, i); err != nil {
			return err
		}
	}
	if r.movesLinks() {
		if err := replicatesNothing(ctx, in, name); err != nil {
			return err
		}
	}
	if !r.Props.Empty() {
		if err := r.sendProperties(ctx, in, name); err != nil {
			return err
		}
		if rejoined {
			in.Notify(step.Notice{Reason: "NodeRejoined", Action: "Rejoin " + name, Note: fmt.Sprintf(
				"node %s rejoined the Kubernetes cluster on the same machine; it keeps its registration and its volumes",
				name)})
		}
	}
	if len(r.Remove) == 0 {
		return nil
	}
	return removeInterfaces(ctx, in, m.Linstor, r.Remove)
}

func (r *Registration) sendProperties(ctx context.Context, in *step.Input, name string) error {
	return r.Props.Send(in.Snapshot.Linstor.View.Version, func(set map[string]string, del []string) error {
		return in.API.SetNodeProperties(ctx, name, set, del)
	})
}

// removeInterfaces takes interfaces that the operator made from a node, as seen in a view. It looks at the node right
// before: a name may have been given to another address since, by a human who would lose it.
func removeInterfaces(ctx context.Context, in *step.Input, seen *linstor.Node, names []string) error {
	now, err := in.API.Node(ctx, seen.Name)
	if err != nil {
		return fmt.Errorf("read node %s before removing interfaces: %w", seen.Name, err)
	}
	for _, name := range names {
		i := now.Interface(name)
		if i == nil {
			continue // it is gone already
		}
		if !linstor.SameAddress(i.Address, seen.Interface(name).Address) {
			return fmt.Errorf("%w: interface %s of node %s now has a different address", step.ErrOutdated, name, seen.Name)
		}
		if err := in.API.DeleteInterface(ctx, seen.Name, name); err != nil {
			return err
		}
	}
	return nil
}

// WantedRegistration compares what LINSTOR has of a member with what the spec says.
func WantedRegistration(s *cluster.Snapshot, m *cluster.Member) Registration {
	return registrationWith(s, m, s.Preferences.Next)
}

// registrationWith is the same if next may change its preferred interface.
func registrationWith(s *cluster.Snapshot, m, next *cluster.Member) Registration {
	want := WantedInterfaces(m)
	if len(want) == 0 {
		return Registration{}
	}
	props := NodeProperties(s, m, next, want)
	if m.Linstor == nil {
		// PrefNic names an interface, which must exist before: it follows in a second write.
		delete(props, PropPrefNic)
		set := linstor.Initial(props)
		maps.Copy(set, untilDriverKnows(s, props))
		return Registration{Create: &linstor.NodeSpec{Name: m.Name, Interfaces: want, Properties: set}}
	}
	var r Registration
	for _, w := range want {
		switch have := m.Linstor.Interface(w.Name); {
		case have == nil:
			r.Add = append(r.Add, w)
		case !linstor.SameAddress(have.Address, w.Address), w.Port != 0 && (have.Port != w.Port || have.TLS != w.TLS):
			// A PUT on the active interface reconnects the satellite, so it is sent on a real difference only.
			w.Active = have.Active
			r.Modify = append(r.Modify, w)
		}
	}
	r.Remove = slices.DeleteFunc(ownInterfaces(m, want)[len(want)-1:], func(name string) bool {
		// DRBD replicates over it until it is the node's turn
		return keeps(m, name) || strings.EqualFold(name, props[PropPrefNic])
	})
	if slices.ContainsFunc(r.Remove, func(name string) bool { return m.Linstor.Interface(name).Active }) {
		// Somebody let LINSTOR connect over it. The satellite is connected over its own address before that goes.
		r.Modify = append(slices.DeleteFunc(r.Modify, func(i linstor.Interface) bool { return i.Name == defaultInterface }),
			want[0])
	}
	r.Props = linstor.Diff(m.Linstor.Properties, props, s.Linstor.View.Version)
	return r
}

// NodeProperties are the properties that the operator keeps on a member's LINSTOR node. What identifies the machine is
// written once and kept: rewriting it would hide that the machine was replaced. Nothing is written for one that was.
func NodeProperties(s *cluster.Snapshot, m, next *cluster.Member, want []linstor.Interface) map[string]string {
	props := map[string]string{}
	maps.Copy(props, s.Target.Spec.Nodes.Properties)
	for _, key := range s.Target.Spec.Volumes.TopologyKeys {
		if value := m.Node.Labels[key]; value != "" {
			props[linstor.TopologyPrefix+key] = value
		}
	}
	props[linstor.PropNodeUID] = string(m.Node.UID) // a node that joined anew on the same machine has another
	if machine := cmp.Or(m.Property(remembered.SystemUUID), m.Node.Status.NodeInfo.SystemUUID); machine != "" {
		props[remembered.SystemUUID] = machine
	}
	if names := ownInterfaces(m, want); len(names) > 0 {
		slices.Sort(names) // an interface that cannot be used for a while must not change the note
		props[remembered.Interfaces] = strings.Join(names, ",")
	}
	setPreferred(s, m, next, want, props)
	switchedOff(m.Linstor, props)
	return props
}

// ownInterfaces are the interfaces that the operator answers for: those that it registers, and those that it made and
// that are not gone yet. Forgetting one before it is gone would leave it there for ever if its removal fails.
func ownInterfaces(m *cluster.Member, want []linstor.Interface) []string {
	var names []string
	for _, w := range want[1:] {
		names = append(names, w.Name)
	}
	for _, name := range strings.Split(m.Property(remembered.Interfaces), ",") {
		same := func(other string) bool { return strings.EqualFold(other, name) }
		if name != "" && !slices.ContainsFunc(names, same) && m.Linstor.Interface(name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// InterfacesMatch reports whether nothing is left to be written for the member, and nothing hinders it.
func InterfacesMatch(s *cluster.Snapshot, m *cluster.Member) bool {
	r := WantedRegistration(s, m)
	_, hinders := AddressProblem(m)
	return r.empty() && !hinders
}

// Problem explains why a member whose satellite runs is not registered and ONLINE.
func Problem(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	n := m.Linstor
	switch p, hinders := AddressProblem(m); {
	case hinders && (n == nil || m.Online):
		return &cluster.Problem{Reason: p.Reason, Message: p.Message, Hold: registrationFailed}
	case n == nil:
		return writeProblem(s, m)
	case !m.Online:
		return statusProblem(&s.Facts, m)
	case !m.DrbdSeen():
		return &cluster.Problem{Reason: string(v1alpha1.HoldKernelModuleFailed), Hold: v1alpha1.HoldKernelModuleFailed,
			Message: text.OneLine("LINSTOR does not detect DRBD on the node: " + strings.Join(whyUnseen(n), "; "))}
	}
	// Its interfaces or properties are not as wanted yet. The failure of an earlier write to the node, such as its
	// registration of which only the answer was lost, is no reason to ask a human.
	p := writeProblem(s, m)
	if r := WantedRegistration(s, m); p != nil && s.TaskStates[step.NodeKey(m)].Input != r.Digest() {
		p.Hold = ""
	}
	return p
}

// whyUnseen are LINSTOR's reasons not to see DRBD, each once: where it cannot run drbdadm it gives the same one for
// the kernel module and for the tools (linstor-server 1.34, DrbdVersion).
func whyUnseen(n *linstor.Node) []string { return slices.Compact(slices.Clone(n.Unsupported["DRBD"])) }

func writeProblem(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	p := step.TaskProblem(&s.Facts, step.NodeKey(m), "", registrationFailed)
	err := s.TaskStates[step.NodeKey(m)].Err
	why := step.RefusedProperty(s, err, "spec.nodes.properties", s.Target.Spec.Nodes.Properties)
	if p != nil && why != "" {
		p.Reason, p.Message = step.ReasonPropertyRefused, why
	}
	return p
}
