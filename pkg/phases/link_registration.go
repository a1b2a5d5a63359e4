package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Properties of LINSTOR nodes that are the operator's memory.
const (
	// auxUID and auxSystemUUID say which Node and which machine was registered, so that another machine under the same name
	// can be told apart.
	auxUID        = linstor.AuxPrefix + "node-uid"
	auxSystemUUID = linstor.AuxPrefix + "system-uuid"
	// auxInterfaces lists the interfaces that the operator made, so that those of others are left alone.
	auxInterfaces = linstor.AuxPrefix + "interfaces"
	// propPrefNic names the interface that DRBD replicates over.
	propPrefNic = "PrefNic"
)

// defaultInterface is the interface that satellites are reached at.
const defaultInterface = "default"

// registrationLink registers each member in LINSTOR.
type registrationLink struct{}

func (registrationLink) State() fsm.State          { return fsm.NodeRegistration }
func (registrationLink) Missing() fsm.Event        { return fsm.NodesMissing }
func (registrationLink) Condition() string         { return v1alpha1.ConditionNodesRegistered }
func (registrationLink) Hold() v1alpha1.HoldReason { return v1alpha1.HoldNodeRegistrationFailed }

func (registrationLink) Evidence(s *Snapshot) Evidence {
	if !s.Linstor.Known() {
		return s.linstorUnknown()
	}
	e := s.perMember(hasSatellite, func(m *Member) bool { return m.registeredOK })
	return describe(e, "NodesOnline", "RegisteringNodes", "nodes are registered and ONLINE")
}

func (registrationLink) Work(_ context.Context, in *Input) error {
	if !in.Linstor.Known() {
		return nil
	}
	for _, m := range in.Members {
		if machineReplaced(m) {
			in.replaceMachine(m)
			continue
		}
		in.treat(m)
		if m.Linstor != nil {
			in.place(m)
		}
		// Registering before the satellite listens costs ten seconds: LINSTOR retries a failed connection only so often.
		if m.moduleOK && m.satelliteOK && m.Selected || m.satelliteOK && m.Linstor != nil {
			in.register(m)
		}
	}
	return nil
}

// registerNew registers the members that LINSTOR does not know and whose satellites are ready.
func (in *Input) registerNew() {
	for _, m := range in.Members {
		if m.Linstor == nil && hasSatellite(m) && m.Selected {
			in.register(m)
		}
	}
}

func hasSatellite(m *Member) bool { return m.moduleOK && m.satelliteOK }

// linstorUnknown is the evidence of a link that only LINSTOR can tell about, while it does not answer.
func (s *Snapshot) linstorUnknown() Evidence {
	e := Evidence{State: Unknown, Reason: v1alpha1.ReasonUnknown, Message: "LINSTOR does not answer", Total: s.Counted()}
	if !s.Linstor.Asked {
		e.State, e.Reason, e.Message = Missing, "WaitingForController", "the LINSTOR controller is not running yet"
	}
	return e
}

// registration is what is to be written for one member.
type registration struct {
	create *linstor.NodeSpec
	add    []linstor.Interface
	modify []linstor.Interface
	remove []string
	props  linstor.Change
}

func (r *registration) empty() bool {
	return r.create == nil && len(r.add)+len(r.modify)+len(r.remove) == 0 && r.props.Empty()
}

// digest tells one registration from another.
func (r *registration) digest() string {
	return digest([]any{r.create, r.add, r.modify, r.remove, r.props})
}

// register brings one member's registration in line, as one background task.
func (in *Input) register(m *Member) {
	r := in.Snapshot.registration(m)
	if r.empty() {
		return
	}
	name := m.Name
	rejoined := m.Linstor != nil && m.Linstor.Properties[auxUID] != "" && r.props.Set[auxUID] != ""
	in.ensure(work.Task{Key: "node/" + name, Input: r.digest(), Do: func(ctx context.Context) error {
		if r.create != nil {
			if err := in.API.CreateNode(ctx, *r.create); err != nil && !linstor.IsExists(err) {
				return err
			}
			return nil // what it lacks is written when the next view shows the node
		}
		for _, i := range r.add {
			if err := in.API.CreateInterface(ctx, name, i); err != nil && !linstor.IsExists(err) {
				return err
			}
		}
		for _, i := range r.modify {
			if err := in.API.ModifyInterface(ctx, name, i); err != nil {
				return err
			}
		}
		if !r.props.Empty() {
			if err := in.API.SetNodeProperties(ctx, name, r.props.Set, r.props.Delete); err != nil {
				return err
			}
			if rejoined {
				in.announce(Notice{Reason: "NodeRejoined", Action: "Rejoin " + name, Note: fmt.Sprintf(
					"node %s joined the Kubernetes cluster anew on the same machine; it keeps its registration and its volumes", name)})
			}
		}
		for _, i := range r.remove {
			if err := in.API.DeleteInterface(ctx, name, i); err != nil {
				return err
			}
		}
		return nil
	}})
}

// registration compares what LINSTOR has of a member with what the spec wants.
func (s *Snapshot) registration(m *Member) registration {
	want := m.wantedInterfaces()
	if len(want) == 0 {
		return registration{}
	}
	props := s.nodeProperties(m, want)
	if m.Linstor == nil {
		// PrefNic names an interface, which must exist before: it follows in a second write.
		delete(props, propPrefNic)
		return registration{create: &linstor.NodeSpec{Name: m.Name, Interfaces: want, Properties: linstor.Diff(nil, props).Set}}
	}
	var r registration
	for _, w := range want {
		i := slices.IndexFunc(m.Linstor.Interfaces, func(h linstor.Interface) bool { return strings.EqualFold(h.Name, w.Name) })
		switch {
		case i < 0:
			r.add = append(r.add, w)
		case !linstor.SameAddress(m.Linstor.Interfaces[i].Address, w.Address):
			// A PUT on the active interface reconnects the satellite, so it is sent on a real difference only.
			w.Active = m.Linstor.Interfaces[i].Active
			r.modify = append(r.modify, w)
		}
	}
	r.remove = slices.DeleteFunc(s.ownInterfaces(m, want)[len(want)-1:], m.keeps)
	if slices.ContainsFunc(r.remove, func(name string) bool { return m.Linstor.Interface(name).Active }) {
		// Somebody let LINSTOR connect over it. The satellite is connected over its own address before that goes.
		r.modify = append(slices.DeleteFunc(r.modify, func(i linstor.Interface) bool { return i.Name == defaultInterface }), want[0])
	}
	r.props = linstor.Diff(m.Linstor.Properties, props)
	return r
}

// nodeProperties are the properties that the operator wants on a member's LINSTOR node. What identifies the machine is
// written once and kept: rewriting it would hide that the machine was replaced. Nothing is written for one that was.
func (s *Snapshot) nodeProperties(m *Member, want []linstor.Interface) map[string]string {
	props := map[string]string{}
	for k, v := range s.Target.Spec.Nodes.Properties {
		props[k] = v
	}
	once := func(key, value string) {
		if m.Linstor != nil && m.Linstor.Properties[key] != "" {
			value = m.Linstor.Properties[key]
		}
		if value != "" {
			props[key] = value
		}
	}
	props[auxUID] = string(m.Node.UID) // a node that joined anew on the same machine has another
	once(auxSystemUUID, m.Node.Status.NodeInfo.SystemUUID)
	if names := s.ownInterfaces(m, want); len(names) > 0 {
		slices.Sort(names) // an interface that cannot be used for a while must not change the note
		props[auxInterfaces] = strings.Join(names, ",")
	}
	for _, i := range s.Target.Spec.Nodes.Interfaces {
		kept := m.Linstor != nil && m.keeps(i.Name) && m.Linstor.Interface(i.Name) != nil
		if i.Preferred && (kept || slices.ContainsFunc(want, func(w linstor.Interface) bool { return w.Name == i.Name })) {
			props[propPrefNic] = i.Name
		}
	}
	switchedOff(m.Linstor, props)
	return props
}

// ownInterfaces are the interfaces that the operator answers for: those that it wants, and those that it made and that are
// not gone yet. Forgetting one before it is gone would leave it there for ever if its removal fails.
func (s *Snapshot) ownInterfaces(m *Member, want []linstor.Interface) []string {
	var names []string
	for _, w := range want[1:] {
		names = append(names, w.Name)
	}
	if m.Linstor == nil {
		return names
	}
	for _, name := range strings.Split(m.Linstor.Properties[auxInterfaces], ",") {
		same := func(other string) bool { return strings.EqualFold(other, name) }
		there := func(h linstor.Interface) bool { return same(h.Name) }
		if name != "" && !slices.ContainsFunc(names, same) && slices.ContainsFunc(m.Linstor.Interfaces, there) {
			names = append(names, name)
		}
	}
	return names
}

// interfacesMatch is whether nothing is left to be written for the member, and nothing hinders it.
func interfacesMatch(s *Snapshot, m *Member) bool {
	r := s.registration(m)
	_, hinders := m.addressProblem()
	return r.empty() && !hinders
}

// registrationProblem explains why a member whose satellite runs is not registered and ONLINE.
func (s *Snapshot) registrationProblem(m *Member) *Problem {
	n := m.Linstor
	if p, hinders := m.addressProblem(); hinders && (n == nil || n.Online()) {
		return &Problem{Reason: p.Reason, Message: p.Message, Hold: v1alpha1.HoldNodeRegistrationFailed}
	}
	if n == nil {
		return s.taskProblem("node/"+m.Name, "", v1alpha1.HoldNodeRegistrationFailed)
	}
	if !n.Online() {
		return s.statusProblem(m)
	}
	if !s.drbdSeen(m) {
		return &Problem{Reason: string(v1alpha1.HoldKernelModuleFailed), Hold: v1alpha1.HoldKernelModuleFailed,
			Message: oneLine("LINSTOR does not see DRBD on the node: " + strings.Join(n.Unsupported["DRBD"], "; "))}
	}
	return s.updateProblem(m)
}

// updateProblem explains a registered member whose interfaces or properties are not as wanted yet. The failure of an earlier
// write to the node, such as its registration of which only the answer was lost, is no reason to ask a human.
func (s *Snapshot) updateProblem(m *Member) *Problem {
	key := "node/" + m.Name
	p := s.taskProblem(key, "", v1alpha1.HoldNodeRegistrationFailed)
	if r := s.registration(m); p != nil && s.TaskStates[key].Input != r.digest() {
		p.Hold = ""
	}
	return p
}
