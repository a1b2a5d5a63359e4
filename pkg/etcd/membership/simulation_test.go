package membership_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// mishaps are what happens to a cluster, and what its users want of it.
var mishaps = []func(*world, *machine){
	func(_ *world, n *machine) { n.running = false }, // its container restarts
	func(_ *world, n *machine) { n.up, n.running = false, false },
	func(_ *world, n *machine) { n.up = true },
	func(_ *world, n *machine) { n.up = true },
	func(_ *world, n *machine) { n.deaf = !n.deaf },
	func(w *world, n *machine) { // a disk is lost, and nobody loses two of three
		if mayLose(w, n) {
			n.loseDisk()
		}
	},
	func(w *world, n *machine) { // a machine burns
		if mayLose(w, n) {
			n.up = false
			n.loseDisk()
			if l := w.seat(n); l != "" {
				w.facts.Forsaken = append(w.facts.Forsaken, l)
			}
		}
	},
	func(w *world, _ *machine) { // all disks but one are lost
		if len(w.list) > 0 && w.chance.IntN(4) == 0 {
			ruin(w, w.chance.IntN(len(w.list)))
		}
	},
	func(_ *world, n *machine) { n.late, n.running = n.disk.Data, n.running && !n.disk.Data },
	func(_ *world, n *machine) { n.late = false },
	func(w *world, _ *machine) { w.blind = !w.blind },
	func(w *world, _ *machine) { w.blind = false },
	func(_ *world, n *machine) { n.foreign = !n.foreign },
	func(_ *world, n *machine) { n.foreign = false },
	func(_ *world, n *machine) { n.lag = 1 },
	func(_ *world, n *machine) { n.Label = "" },
	func(_ *world, n *machine) { n.Configuration, n.old = nil, nil },
	func(_ *world, n *machine) { n.Template, n.oldTemplate = nil, nil },
	func(w *world, _ *machine) {
		for _, n := range w.machines {
			n.Label = ""
		}
	},
	func(w *world, n *machine) { // a machine is thrown away, and its Node object deleted
		if mayLose(w, n) && !slices.ContainsFunc(w.machines, func(o *machine) bool { return o.Gone }) {
			n.loseDisk()
			n.up, n.Gone, n.Label, n.Used = false, true, "", ""
		}
	},
	func(w *world, _ *machine) {
		if w.facts.Notes.ClusterID != 0 {
			w.backup = w.facts.Notes.Clone(time.Time{})
		}
	},
	func(w *world, _ *machine) { // a human restores old notes
		if w.backup.ClusterID == w.facts.Notes.ClusterID && w.backup.ClusterID != 0 && w.chance.IntN(3) == 0 {
			w.facts.Notes = w.backup.Clone(time.Time{})
			w.facts.NotesVersion = "restored"
		}
	},
	func(w *world, _ *machine) {
		if w.facts.Notes.ClusterID != 0 && w.chance.IntN(3) == 0 {
			w.backup, w.facts.Notes, w.facts.NotesVersion = w.facts.Notes, seats.Notes{}, "lost"
		}
	},
	func(w *world, _ *machine) { w.facts.TLS = w.facts.Notes.ClusterID != 0 },
	func(_ *world, n *machine) { n.multi = true },
	func(_ *world, n *machine) { n.ClientURL += "1" },
	func(w *world, _ *machine) { // etcdctl member remove
		if voters, live := w.voters(); voters > 2 && voters == live {
			w.list = slices.Delete(w.list, 0, 1)
			w.raft()
		}
	},
	func(w *world, _ *machine) { w.facts.Size = 1 + 2*w.chance.IntN(3) },
	func(w *world, _ *machine) { w.facts.Size = 1 + 2*w.chance.IntN(3) },
	func(_ *world, n *machine) { n.selected = !n.selected },
	func(_ *world, n *machine) { n.selected = true },
	func(_ *world, n *machine) { n.Ready = !n.Ready },
	func(w *world, _ *machine) {
		if w.facts.Version == "v3.6.14" {
			w.facts.Version = "v3.6.99" // there is no such image
		} else {
			w.facts.Version = "v3.7.1"
		}
	},
	func(w *world, _ *machine) { w.facts.Revision += "x" },
	func(w *world, n *machine) { n.address(10 + w.chance.IntN(200)*10 + slices.Index(w.machines, n)) },
	func(w *world, _ *machine) { w.fill() },
	func(w *world, n *machine) {
		if !n.disk.Data && w.seat(n) == "" {
			n.disk = datadir.Found{Data: true, Log: true} // somebody else's
		}
	},
	func(w *world, _ *machine) { w.now = w.now.Add(-time.Duration(w.chance.IntN(100)) * time.Hour) },
	func(w *world, _ *machine) { w.now = w.now.Add(time.Duration(w.chance.IntN(3)) * time.Hour) },
	func(w *world, _ *machine) { w.now = w.now.Add(seats.CureEvery) },
	func(w *world, _ *machine) {
		w.term, w.leader = w.term+1, 0
		w.raft()
	},
	func(w *world, _ *machine) { w.human(w.last.Hold) },
}

// human does what a hold's plan names, and nothing else.
func (w *world) human(h *membership.Hold) {
	if h != nil {
		names := func(what string) bool { return strings.Contains(h.Plan, what) }
		acts(w, names)
		answers(w, h.Reason, names)
	}
}

// acts are what a human does to machines, network and spec.
func acts(w *world, names func(string) bool) {
	stop := names("stop the members of the other one") || names("foreign data") || names("move the data directories away")
	back := names("Recover the member") || names("Recover any member") || names("Bring the nodes") ||
		names("make an existing one ready")
	for _, n := range w.machines {
		if stop {
			clean(w, n)
		}
		if back && !n.Gone {
			n.up, n.Ready, n.deaf, n.late = true, true, false, false
		}
		n.deaf = n.deaf && !names("the kubelet on its node")
	}
	w.blind = w.blind && !names("Check the network between the operator's node")
	w.facts.TLS = w.facts.TLS && !names("Revert this change")
}

// clean takes another etcd and its data from a machine, and before there is a cluster what is left of a former one.
func clean(w *world, n *machine) {
	n.foreign = false
	if n.disk.Data && n.disk.Owner.Token == "" {
		n.disk, n.id = datadir.Found{}, 0
	}
	if w.cluster == 0 && len(w.facts.Notes.Seats) == 0 {
		n.disk, n.id, n.Label, n.Template, n.Configuration = datadir.Found{}, 0, "", nil, nil
	}
}

// answers are what a human answers, and how the operator's notes are put back.
func answers(w *world, reason membership.Reason, names func(string) bool) {
	w.ids++
	lost := w.backup.ClusterID != 0
	if names("`retry`") {
		w.facts.Notes = w.facts.Notes.Retried()
	}
	if names("`forsake@") {
		forsake(w, reason == membership.EtcdMembersChanged)
	}
	if names("restore the records") && lost && (!w.quorum() || w.facts.Adopt != "") {
		w.facts.Notes, w.facts.NotesVersion = w.backup.Clone(time.Time{}), "restored"
	} else if names("`adopt`") && lost {
		w.facts.Adopt, w.facts.AdoptOf = fmt.Sprint(w.ids), w.facts.KnownClusters()
	}
	if names("etcdctl member remove") && w.facts.Notes.Adopted != "" {
		removeStrangers(w)
	}
	if names("`force@") {
		survivor(w)
	}
}

// removeStrangers has a human remove learners that the operator does not know, and their DaemonSets.
func removeStrangers(w *world) {
	w.list = slices.DeleteFunc(w.list, func(m view.Member) bool {
		return m.Learner && !slices.ContainsFunc(w.facts.Notes.Seats, func(s seats.Seat) bool { return s.ID == m.ID })
	})
	for _, n := range w.machines {
		if t := n.Template; t != nil && n.Label == "" && n.Configuration == nil && w.seat(n) == "" {
			n.Template = nil
		}
	}
}

// forsake has a human give up the members that vanished, or those whose data is gone.
func forsake(w *world, vanished bool) {
	for _, s := range w.facts.Notes.Seats {
		listed := slices.ContainsFunc(w.list, func(m view.Member) bool { return m.ID == s.ID })
		n := w.on(s.Node)
		dead := n.disk.Owner.Name != s.Name || n.id != s.ID && s.ID != 0
		if vanished && s.ID != 0 && !listed || !vanished && dead {
			w.facts.Forsaken = append(w.facts.Forsaken, s.Name)
		}
	}
}

// survivor has a human switch all others off and force the member that has most, if the quorum is lost for good.
func survivor(w *world) {
	voters, have := 0, 0
	var best *machine
	for _, m := range w.list {
		for _, n := range w.machines {
			if n.id == m.ID && !m.Learner {
				have++
				if best == nil || n.applied > best.applied {
					best = n
				}
			}
		}
		if !m.Learner {
			voters++
		}
	}
	if have >= view.Quorum(voters) {
		return
	}
	for _, n := range w.machines { // a human switches the others off, and mostly does so
		if n != best && w.chance.IntN(3) > 0 && w.listed(n) != nil {
			n.running, n.up = false, false
		}
	}
	if best != nil && w.seat(best) != "" {
		w.ids++
		w.facts.Recovery = &seats.Recovery{ID: fmt.Sprint(w.ids), Force: w.seat(best)}
	}
}

// seat is the name of the one that is planned on a machine; "" for none.
func (w *world) seat(n *machine) string {
	for _, s := range w.facts.Notes.Seats {
		if s.Node == n.Name {
			return s.Name
		}
	}
	return ""
}

// mayLose reports whether the cluster has a quorum without a machine for good, also if all others come back.
func mayLose(w *world, n *machine) bool {
	voters, have := 0, 0
	for _, m := range w.list {
		if m.Learner {
			continue
		}
		voters++
		for _, o := range w.machines {
			if o != n && o.id == m.ID {
				have++
			}
		}
	}
	return have >= view.Quorum(voters)
}

// mend ends all that is not lost for ever, as people would.
func (w *world) mend() {
	w.lose, w.mangle, w.blind = 0, nil, false
	for i, n := range w.machines {
		if n.Gone { // for ever
			continue
		}
		n.up, n.selected, n.Ready, n.wrongImage = true, true, true, ""
		n.deaf, n.late, n.foreign, n.lag = false, false, false, 0
		if l := w.listed(n); l != nil && !n.multi { // renumbering is taken back where others find a member elsewhere
			for j := range 3000 {
				if l.PeerURLs[0] == address(j, 3380) {
					n.address(j)
				}
			}
		} else if slices.ContainsFunc(w.machines[:i], func(o *machine) bool { return o.PeerURL == n.PeerURL }) {
			n.address(9000 + i)
		}
	}
	if w.facts.Version == "v3.6.99" {
		w.facts.Version = "v3.7.1"
	}
}

func TestSimulation(t *testing.T) {
	lives := uint64(600)
	if testing.Short() {
		lives = 60
	}
	rows, steps, holds := map[string]int{}, map[membership.Step]int{}, map[membership.Reason]int{}
	for seed := range lives {
		w := newWorld(t, seed, 1+2*int(seed%3), "a", "b", "c", "a", "b", "c", "")
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w.t = t
			w.life(holds)
		})
		for k, n := range w.rows {
			rows[k] += n
		}
		for k, n := range w.steps {
			steps[k] += n
		}
	}
	t.Logf("rows %v, steps %v, holds %v", rows, steps, holds)
	for _, s := range []membership.Step{membership.AddLearner, membership.Place, membership.Promote,
		membership.Remove, membership.Unplace, membership.Survey, membership.Save,
		membership.UpdateURL, membership.MoveLeader, membership.Restart,
		membership.Compact, membership.Defragment, membership.Disarm} {
		if steps[s] == 0 {
			t.Errorf("no life has step %s", s)
		}
	}
	for _, r := range []membership.Reason{membership.EtcdStuck, membership.EtcdMemberDown, membership.EtcdQuorumLost,
		membership.EtcdNoSpace, membership.EtcdUnreachable, membership.EtcdOtherCluster,
		membership.EtcdMembersChanged} {
		if holds[r] == 0 {
			t.Errorf("no life has hold %s", r)
		}
	}
}

// life is a time of mishaps, and then one without, in which all comes to rest.
func (w *world) life(holds map[membership.Reason]int) {
	w.t.Helper()
	defer func() {
		if r := recover(); r != nil {
			w.t.Errorf("row %s: %v", w.last.Row, r)
			panic(r)
		}
	}()
	w.lose = 12
	every := 3 + w.chance.IntN(30)
	for range 300 {
		w.patient(holds)
		if w.chance.IntN(every) == 0 {
			mishaps[w.chance.IntN(len(mishaps))](w, w.machines[w.chance.IntN(len(w.machines))])
		}
	}
	w.mend()
	var rows []string
	for range 800 {
		d := w.patient(holds)
		if len(rows) == 0 || rows[len(rows)-1] != d.Row {
			rows = append(rows, d.Row)
		}
		if d.Step == membership.Rest {
			w.wanted()
			return
		}
		w.human(d.Hold)
	}
	w.fall("never at rest: %s; %s", strings.Join(rows, " "), w)
}

// patient is a minute with one reconcile.
func (w *world) patient(holds map[membership.Reason]int) membership.Decision {
	w.t.Helper()
	d := w.step()
	if d.Hold != nil {
		holds[d.Hold.Reason]++
	}
	w.pass()
	return d
}

// String is all that there is, for a failure.
func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "list %v, leader %s, committed %d, alarms %v, forsaken %v, recovery %+v, hold %+v\n", w.list,
		w.leader, w.committed, w.alarms, w.facts.Forsaken, w.facts.Recovery, w.last.Hold)
	for _, n := range w.machines {
		fmt.Fprintf(&b, "%+v conf %+v pod %+v copied %+v\n", *n, n.Configuration, n.Pod, n.copied)
	}
	return b.String()
}
