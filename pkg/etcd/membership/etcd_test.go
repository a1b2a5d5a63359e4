package membership_test

import (
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// accepts reports whether a member accepts connections at one of the peer URLs.
func accepts(w *world, urls string) bool {
	return slices.ContainsFunc(w.machines, func(o *machine) bool {
		return o.running && slices.Contains(strings.Split(urls, ","), o.copied.PeerURL)
	})
}

// force is --force-new-cluster. It drops what is not known on the disk to be committed.
func force(w *world, n *machine) {
	for _, o := range w.machines {
		if o != n && o.running && w.listed(o) != nil {
			w.fall("a cluster is forced on %s beside %s", n.Name, o.Name)
		}
		o.forgotten = o.forgotten || o != n && w.listed(o) != nil
	}
	l := w.listed(n)
	if l == nil || w.facts.Recovery == nil {
		w.fall("a cluster is forced on %s", n.Name)
	}
	l.Learner = false
	w.list, w.alarms, n.applied = []view.Member{*l}, nil, n.synced
	if id := n.copied.Recovery; w.forced != id { // a human has chosen this, once
		w.forced, w.committed = id, n.applied
		w.backup = seats.Notes{} // notes from before that must not be restored
	}
}

// bootstrap is etcd on an empty directory.
func bootstrap(w *world, n *machine, c seats.Configuration) bool {
	if c.Mode == datadir.Seed {
		if len(w.facts.Notes.Endpoints) > 0 || w.facts.Notes.Token != c.Token {
			w.fall("another cluster begins on %s", n.Name)
		}
		if w.cluster == 0 || w.list[0].Name != c.Name { // IDs are made from the token
			w.ids++
			w.cluster = view.ID(w.ids)
			w.list = []view.Member{{ID: w.cluster + 1000, Name: c.Name, PeerURLs: []string{c.PeerURL}}}
		}
		n.id, w.committed = w.list[0].ID, 0
	} else {
		i := slices.IndexFunc(w.list, func(m view.Member) bool { return m.PeerURLs[0] == c.PeerURL })
		if i < 0 || w.list[i].Name != "" || !w.quorum() { // etcd gives up, or panics
			return false
		}
		if !w.list[i].Learner {
			w.fall("voter %s starts on an empty directory", c.Name)
		}
		for _, m := range w.list { // "member count is unequal", or unmatched URLs
			if m.ID != w.list[i].ID && !slices.Contains(peerURLs(c.Peers), m.PeerURLs[0]) {
				return false
			}
		}
		if len(peerURLs(c.Peers)) != len(w.list) {
			return false
		}
		n.id = w.list[i].ID
		w.list[i].Name = c.Name
	}
	n.disk.Data, n.disk.Log, n.applied, n.size, n.compacted = true, true, 0, 10, false
	n.synced, n.storage = 0, ""
	return true
}

func (w *world) raft() {
	if !w.quorum() {
		w.leader = 0
		return
	}
	var live []*machine
	lead, most := false, uint64(0)
	for _, n := range w.machines {
		if w.live(n) {
			live = append(live, n)
			lead = lead || n.id == w.leader && !w.listed(n).Learner
			if !w.listed(n).Learner {
				most = max(most, n.applied)
			}
		}
	}
	if most < w.committed {
		w.fall("entries from %d to %d are lost", most, w.committed)
	}
	w.committed++
	if !lead {
		w.term++
		voters := slices.DeleteFunc(slices.Clone(live), func(n *machine) bool { return w.listed(n).Learner })
		w.leader = voters[w.chance.IntN(len(voters))].id
	}
	for _, n := range live {
		n.applied, n.synced, n.leader, n.serving = w.committed, w.committed-1, w.leader, true
	}
	rise(w, live)
}

// rise is how databases get the form of a minor that all members run.
func rise(w *world, live []*machine) {
	oldest := ""
	for _, n := range live {
		if oldest == "" || versions.Older(n.ran, oldest) {
			oldest = n.ran
		}
	}
	for _, n := range live {
		if minor := versions.Minor(oldest); len(live) == len(w.list) && !w.slow && minor != "3.5" {
			n.storage = minor + ".0"
		}
	}
}
