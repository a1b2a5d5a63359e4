package membership_test

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// scenarios are what becomes of a cluster of three at rest on six nodes.
var scenarios = map[string]struct {
	spoil func(*world)
	row   string
	step  membership.Step
	// then are the rows until it is at rest; hold is one that comes instead, if nothing else happens.
	then []string
	hold membership.Reason
}{
	"at rest": {row: "rest", step: membership.Rest},
	"another cluster answers": {spoil: func(w *world) { w.cluster++ }, row: "other-cluster", step: membership.Stop,
		hold: membership.EtcdOtherCluster},
	"one of three was forced to be a new cluster": {spoil: func(w *world) {
		w.mangle = func(f *membership.Facts) {
			answers := f.Look.Answers()
			answers[2].Agreed = answers[2].Agreed[2:]
			f.Look = view.New(answers...)
		}
	}, row: "two-clusters", step: membership.Wait, hold: membership.EtcdOtherCluster},
	"contents differ": {spoil: func(w *world) {
		w.alarms = []view.Alarm{{Member: w.member(1).id, Type: view.Corrupt}}
	}, row: "corrupt", step: membership.Stop, hold: membership.EtcdCorruptAlarm},
	"contents differ, and a database is full": {spoil: func(w *world) {
		w.fill()
		w.alarms = append(w.alarms, view.Alarm{Member: w.member(1).id, Type: view.Corrupt})
	}, row: "corrupt", step: membership.Stop, hold: membership.EtcdCorruptAlarm},
	"the notes are lost": {spoil: func(w *world) { w.facts.Notes = seats.Notes{} }, row: "remains",
		step: membership.Wait, hold: membership.EtcdNotesLost},
	"the notes are lost, and only a pod is left": {spoil: func(w *world) {
		w.facts.Notes = seats.Notes{}
		for _, n := range w.machines {
			n.Label, n.Template, n.Configuration, n.up = "", nil, nil, false
		}
	}, row: "remains", step: membership.Wait, hold: membership.EtcdNotesLost},
	"a DaemonSet was changed": {spoil: func(w *world) { w.member(1).Edited = true }, row: "rewrite",
		step: membership.Place, then: []string{"rewrite", "rest"}},
	"a DaemonSet is changed again and again": {spoil: func(w *world) {
		w.mangle = changed("n1")
		w.step()
		w.now = w.now.Add(membership.Default.Start)
	}, row: "not-written", step: membership.Stop, hold: membership.EtcdStuck},
	"a DaemonSet is changed again and again, and the quorum is lost": {spoil: func(w *world) {
		w.mangle = changed("n3")
		w.down(0, 1)
		w.step()
		w.now = w.now.Add(membership.Default.Start)
	}, row: "no-quorum", step: membership.Stop, hold: membership.EtcdQuorumLost},
	"one is away, which was announced": {spoil: func(w *world) {
		w.member(0).Maintained = true
		w.down(0)
	}, row: "maintained", step: membership.Wait},
	"two members are away": {spoil: func(w *world) { w.down(0, 1) }, row: "no-quorum", step: membership.Wait,
		hold: membership.EtcdQuorumLost},
	"all members are away": {spoil: func(w *world) { w.down(0, 1, 2) }, row: "no-quorum", step: membership.Wait,
		hold: membership.EtcdQuorumLost},
	"the survivor of three has restarted": {spoil: func(w *world) {
		w.down(0, 1)
		w.member(2).running = false
		w.pass()
	}, row: "no-quorum", step: membership.Wait, hold: membership.EtcdQuorumLost},
	"a learner and a survivor are left": {spoil: func(w *world) {
		w.facts.Size = 5
		w.until("promote")
		w.down(0, 1)
		w.pass()
	}, row: "no-quorum", step: membership.Wait, hold: membership.EtcdQuorumLost},
	"two have lost their data": {spoil: func(w *world) {
		w.member(0).loseDisk()
		w.member(1).loseDisk()
		w.pass()
	}, row: "no-quorum", step: membership.Wait, hold: membership.EtcdQuorumLost},
	"a version is not known": {spoil: func(w *world) { w.facts.Version = "v3.9.0" }, row: "refused",
		step: membership.Stop, hold: membership.EtcdStuck},
	"a version is older": {spoil: func(w *world) { w.facts.Version = "v3.6.13" }, row: "refused",
		step: membership.Stop, hold: membership.EtcdStuck},
	"a version is two minors newer, and the one between is not known": {spoil: func(w *world) {
		for i := range w.list {
			w.member(i).ran = "v3.5.33"
		}
		w.facts.Version, w.facts.Releases = "v3.7.1", nil
	}, row: "refused", step: membership.Stop, hold: membership.EtcdStuck},
	"TLS is switched on": {spoil: func(w *world) { w.facts.TLS = true }, row: "tls", step: membership.Stop,
		hold: membership.EtcdStuck},
	"TLS is switched on and off again while all are away": {spoil: func(w *world) {
		w.down(0, 1, 2)
		w.facts.TLS = true
		w.step()
		w.facts.TLS = false
		for _, n := range w.machines {
			n.up = true
		}
		w.pass()
		w.pass()
	}, row: "rest", step: membership.Rest},
	"a machine and its Node object are gone": {spoil: func(w *world) {
		n := w.member(1)
		n.loseDisk()
		n.up, n.Gone, n.Label, n.Used = false, true, "", ""
		w.pass()
	}, row: "lost", step: membership.Wait, then: joins("lost", "gone")},
	"a Node object is gone while settings change, and others are wanted": {spoil: func(w *world) {
		n := w.member(1)
		n.up, n.Gone, n.Label = false, true, ""
		w.facts.Revision, w.facts.Size = "r2", 5
		w.pass()
	}, row: "lost", step: membership.Wait},
	"the notes are lost, and a human says so": {spoil: func(w *world) {
		w.facts.Notes, w.facts.Adopt = seats.Notes{}, "1"
	}, row: "adopt", step: membership.Wait, then: []string{"adopt", "rest"}},
	"old notes were restored, and a human says so": {spoil: func(w *world) {
		w.facts.Notes, w.facts.Adopt = aged(w), "1"
	}, row: "adopt", step: membership.Wait, then: []string{"adopt", "rest"}},
	"old notes were restored": {spoil: func(w *world) { w.facts.Notes = aged(w) }, row: "changed",
		step: membership.Wait, hold: membership.EtcdMembersChanged},
	"old notes were restored, and all members are away": {spoil: func(w *world) {
		w.facts.Notes = aged(w)
		w.down(0, 1, 2)
	}, row: "changed", step: membership.Wait, hold: membership.EtcdMembersChanged},
	"old notes are of before members moved": {spoil: func(w *world) {
		w.moved()
		w.held(100, membership.EtcdQuorumLost)
		w.facts.Adopt = "1"
	}, row: "search", step: membership.Survey},
	"old notes were restored, and the label of a member that is needed is lost": {spoil: func(w *world) {
		w.facts.Notes = aged(w)
		w.down(1, 2)
		w.member(0).Label = ""
		w.pass()
	}, row: "place", step: membership.Place},
	"a foreign etcd is on a planned learner's port": {spoil: func(w *world) {
		w.machines[3].foreign = true
		w.facts.Size = 5
		w.until("joining")
	}, row: "joining", step: membership.Wait, then: joins("joining", "gone", "+")},
	"a client address has changed": {spoil: func(w *world) { w.member(1).ClientURL += "1" }, row: "renew",
		step: membership.Place, then: []string{"renew", "restart", "down", "rest"}},
	"multi-homed nodes get other addresses": {spoil: func(w *world) {
		for i := range w.list {
			w.member(i).multi = true
			w.member(i).address(70 + i)
		}
		w.pass()
	}, row: "readdress", step: membership.UpdateURL, then: []string{"readdress", "place", "restart", "down", "readdress",
		"place", "restart", "down", "readdress", "place", "restart", "down", "rest"}},
	"a pod's version cannot be read": {spoil: func(w *world) { w.member(1).Pod.Template = seats.Template{} },
		row: "unfinished", step: membership.Wait, hold: membership.EtcdMemberDown},
	"a DaemonSet is deleted": {spoil: func(w *world) {
		w.member(1).Template = nil
		w.pass()
	}, row: "place", step: membership.Place, then: []string{"place", "down", "rest"}},
	"a database does not rise": {spoil: func(w *world) {
		for i := range w.list {
			w.member(i).storage = "3.5.0"
		}
		w.slow, w.facts.Version = true, "v3.7.1"
	}, row: "rising", step: membership.Wait, hold: membership.EtcdStuck},
	"the next minor is wanted": {spoil: func(w *world) { w.facts.Version = "v3.7.1" }, row: "save",
		step: membership.Save, then: []string{"save", "renew", "restart", "down", "renew", "restart", "down", "renew",
			"restart", "down", "rest"}},
	"a survivor is chosen while there is a quorum": {spoil: func(w *world) {
		w.facts.Recovery = &seats.Recovery{ID: "1", Force: w.list[2].Name}
		w.step()
		w.down(0, 1)
	}, row: "no-quorum", step: membership.Wait, hold: membership.EtcdQuorumLost},
	"somebody unknown is chosen to survive": {spoil: func(w *world) {
		ruin(w, 2)
		w.facts.Recovery = &seats.Recovery{ID: "1", Force: "n1-99"}
	}, row: "no-quorum", step: membership.Wait, hold: membership.EtcdQuorumLost},
	"the operator is cut off": {spoil: func(w *world) { w.blind = true }, row: "unreachable", step: membership.Wait,
		hold: membership.EtcdUnreachable},
	"the operator is cut off, and settings have changed": {spoil: func(w *world) {
		w.facts.Revision = "r2"
		w.until("restart")
		w.blind = true
	}, row: "unreachable", step: membership.Wait, hold: membership.EtcdUnreachable},
	"a human has added a member": {spoil: func(w *world) {
		w.list = append(w.list, view.Member{ID: 7, Name: "other", PeerURLs: []string{"http://10.9.9.9:1"}, Learner: true})
	}, row: "changed", step: membership.Wait, hold: membership.EtcdMembersChanged},
	"a member has another one's name": {spoil: func(w *world) { w.list[1].Name = "other" }, row: "changed",
		step: membership.Wait, hold: membership.EtcdMembersChanged},
	"a human has removed a member": {spoil: func(w *world) { w.list = slices.Delete(w.list, 2, 3) }, row: "changed",
		step: membership.Wait, hold: membership.EtcdMembersChanged},
	"a human has removed a member and says so": {spoil: func(w *world) {
		w.facts.Forsaken = []string{w.list[2].Name}
		w.list = slices.Delete(w.list, 2, 3)
	}, row: "gone", step: membership.Unplace, then: joins("gone")},
	"a member is down": {spoil: func(w *world) { w.down(2) }, row: "down", step: membership.Wait,
		hold: membership.EtcdMemberDown},
	"a member is down, and nothing says that it is lost, and others are wanted": {spoil: func(w *world) {
		w.down(2)
		w.facts.Size = 5
	}, row: "down", step: membership.Wait, hold: membership.EtcdMemberDown},
	"a member has lost its data": {spoil: func(w *world) {
		w.member(1).loseDisk()
		w.pass()
	}, row: "lost", step: membership.Wait, then: joins("lost", "gone")},
	"a member's disk is mounted late": {spoil: func(w *world) {
		w.member(1).late, w.member(1).running = true, false
		w.until("lost")
		w.member(1).late = false
	}, row: "lost", step: membership.Wait, then: []string{"lost", "rest"}},
	"a member on a dead node is forsaken": {spoil: func(w *world) {
		w.down(1)
		w.facts.Forsaken = []string{w.list[1].Name}
	}, row: "forsaken", step: membership.Remove, then: joins("forsaken", "gone")},
	"a member with a deleted pod on a dead node is forsaken while settings change": {spoil: func(w *world) {
		w.facts.Revision = "r2"
		w.until("restart")
		n := w.on(w.decide().Seat.Node)
		n.Pod.Terminating, n.up = true, false
		w.pass()
		w.facts.Forsaken = []string{n.Configuration.Name}
	}, row: "forsaken", step: membership.Remove},
	"labels and keys are lost without a quorum": {spoil: func(w *world) {
		for i := range w.list {
			n := w.member(i)
			n.Configuration = nil
			if i > 0 {
				n.Label = ""
			}
		}
		w.pass()
	}, row: "place", step: membership.Place, then: []string{"place", "no-quorum", "down", "rest"}},
	"a human forces a survivor": {spoil: func(w *world) {
		ruin(w, 2)
		w.facts.Recovery = &seats.Recovery{ID: "1", Force: w.list[2].Name}
		w.until("force")
	}, row: "force", step: membership.Unplace},
	"a member that answers is forsaken": {spoil: func(w *world) { w.facts.Forsaken = []string{w.list[1].Name} },
		row: "rest", step: membership.Rest},
	"a member has lost its data, and databases are full": {spoil: func(w *world) {
		w.member(1).loseDisk()
		w.pass()
		w.fill()
	}, row: "lost", step: membership.Wait},
	"a member is down, and databases are full": {spoil: func(w *world) {
		w.down(1)
		w.pass()
		w.fill()
	}, row: "down", step: membership.Wait, hold: membership.EtcdNoSpace},
	"a learner finds data of something else": {spoil: func(w *world) {
		w.machines[3].disk = datadir.Found{Data: true, Log: true}
		w.facts.Size = 5
		w.machines[3].Data = nil
		w.until("joining")
	}, row: "joining", step: membership.Wait, then: joins("joining", "gone", "+")},
	"a node's address has changed": {spoil: func(w *world) { w.member(1).address(77) }, row: "readdress",
		step: membership.UpdateURL, then: []string{"readdress", "place", "restart", "down", "rest"}},
	"the only one's address has changed": {spoil: func(w *world) {
		w.facts.Size = 1
		w.rest(30)
		w.member(0).address(77)
		w.pass()
	}, row: "no-quorum", step: membership.Wait, then: []string{"no-quorum", "place", "restart", "no-quorum", "readdress",
		"rest"}},
	"five are wanted": {spoil: func(w *world) { w.facts.Size = 5 }, row: "grow", step: membership.AddLearner,
		then: joins("+")},
	"one is wanted": {spoil: func(w *world) { w.facts.Size = 1 }, row: "shrink", step: membership.Remove,
		then: []string{"shrink", "gone", "shrink", "gone", "rest"}},
	"one is wanted, and one is down": {spoil: func(w *world) {
		w.down(1)
		w.facts.Size = 1
	}, row: "shrink", step: membership.Remove, then: []string{"shrink", "gone", "shrink", "gone", "rest"}},
	"three are wanted while the fifth begins": {spoil: func(w *world) {
		w.facts.Size = 5
		w.until("promote")
		w.facts.Size = 3
	}, row: "shrink", step: membership.Remove, then: []string{"shrink", "gone", "rest"}},
	"members are wanted elsewhere": {spoil: func(w *world) { w.machines[0].selected = false }, row: "grow",
		step: membership.AddLearner},
	"the only one is wanted elsewhere": {spoil: func(w *world) {
		w.facts.Size = 1
		w.rest(30)
		w.member(0).selected = false
	}, row: "grow", step: membership.AddLearner, then: []string{"grow", "place", "joining", "place", "restart",
		"joining", "promote", "shrink", "gone", "rest"}},
	"a new pod has old settings twice": {spoil: func(w *world) {
		w.facts.Revision = "r2"
		w.until("restart")
		w.on(w.decide().Seat.Node).lag = 2
	}, row: "restart", step: membership.Restart, then: []string{"restart", "down", "renew", "restart", "down",
		"renew", "restart", "down", "rest"}},
	"new pods always have old settings": {spoil: func(w *world) {
		w.facts.Revision = "r2"
		w.until("restart")
		w.on(w.decide().Seat.Node).lag = 100
		w.until("exhausted")
	}, row: "exhausted", step: membership.Stop, hold: membership.EtcdStuck},
	"an image is another one": {spoil: func(w *world) {
		for _, n := range w.machines {
			n.wrongImage = "v3.6.14"
		}
		w.facts.Version = "v3.7.1"
		w.until("wrong-version")
	}, row: "wrong-version", step: membership.Wait, hold: membership.EtcdStuck},
	"there is no such image": {spoil: func(w *world) {
		w.facts.Version = "v3.6.99"
		w.until("down")
	}, row: "down", step: membership.Wait, hold: membership.EtcdMemberDown},
	"there was no such image": {spoil: func(w *world) {
		w.facts.Version = "v3.6.99"
		w.until("down")
		w.facts.Version = "v3.7.1"
	}, row: "renew", step: membership.Place},
	"there was no such image for the only one": {spoil: func(w *world) {
		w.facts.Size = 1
		w.rest(30)
		w.facts.Version = "v3.6.99"
		w.until("no-quorum")
		w.facts.Version = "v3.7.1"
	}, row: "no-quorum", step: membership.Wait, then: []string{"no-quorum", "renew", "restart", "no-quorum",
		"save", "renew", "restart", "no-quorum", "rest"}},
	"settings have changed": {spoil: func(w *world) { w.facts.Revision = "r2" }, row: "renew", step: membership.Place,
		then: []string{"renew", "restart", "down", "renew", "restart", "down", "renew", "restart", "down", "rest"}},
	"settings have changed, and a kubelet does not report": {spoil: func(w *world) {
		w.facts.Revision = "r2"
		w.member(0).deaf = true
		w.pass()
	}, row: "unfinished", step: membership.Wait, hold: membership.EtcdMemberDown},
	"databases are full": {spoil: (*world).fill, row: "full-treat", step: membership.Compact,
		then: []string{"full-treat", "full-disarm", "rest"}},
	"the only database is full": {spoil: func(w *world) {
		w.facts.Size = 1
		w.rest(30)
		w.fill()
	}, row: "full-treat", step: membership.Compact, then: []string{"full-treat", "full-disarm", "rest"}},
	"databases are full, and there is a learner": {spoil: func(w *world) {
		w.facts.Size = 5
		w.until("promote")
		w.fill()
	}, row: "full-treat", step: membership.Remove},
	"databases are full, and stay so": {spoil: func(w *world) {
		w.fill()
		w.incurable = true
	}, row: "full-treat", step: membership.Compact, hold: membership.EtcdNoSpace},
	"databases are full again": {spoil: func(w *world) {
		w.fill()
		w.rest(30)
		w.fill()
	}, row: "full", step: membership.Stop, hold: membership.EtcdNoSpace},
	"databases are still full after a day": {spoil: func(w *world) {
		w.fill()
		w.incurable = true
		w.until("full")
		w.incurable = false
		w.now = w.now.Add(seats.CureEvery)
	}, row: "full-treat", step: membership.Compact, then: []string{"full-treat", "full-disarm", "rest"}},
	"a plan was not carried out": {spoil: func(w *world) {
		w.facts.Size = 5
		w.facts.Notes = w.decide().Notes
	}, row: "add", step: membership.AddLearner},
	"a voter's address changes before a learner's first start": {spoil: func(w *world) {
		w.facts.Size = 5
		w.until("joining")
		w.machines[3].copied = nil
		w.machines[3].Pod.Configuration, w.machines[3].running = nil, false
		w.member(1).address(77)
	}, row: "readdress", step: membership.UpdateURL, then: joins("readdress", "place", "restart",
		"down", "joining", "place", "restart", "joining", "promote")},
	"a learner is on a node that died": {spoil: func(w *world) {
		w.facts.Size = 5
		w.until("joining")
		w.machines[3].up, w.machines[3].running = false, false
	}, row: "joining", step: membership.Wait, then: joins("joining", "gone", "+")},
	"a learner that has data is away": {spoil: func(w *world) {
		w.facts.Size = 5
		w.until("promote")
		w.machines[3].up = false
		w.pass()
	}, row: "joining", step: membership.Wait, then: joins("joining", "gone", "+")},
	"a node has something of a member that is not noted": {spoil: func(w *world) {
		n := w.machines[4]
		n.Label, n.Template = "n5-2", &seats.Template{Member: "n5-2", Version: "v3.6.14"}
	}, row: "leftover", step: membership.Unplace, then: []string{"leftover", "rest"}},
	"there is no node for another": {spoil: func(w *world) {
		w.facts.Size = 5
		for _, n := range w.machines[3:] {
			n.Ready = false
		}
	}, row: "no-node", step: membership.Wait, hold: membership.EtcdStuck},
}
