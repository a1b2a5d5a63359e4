package membership_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/act"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// calls are those to the members of a world.
type calls struct{ *world }

var errLost = errors.New("no answer")

func (w *world) lost() bool { return w.lose > 0 && w.chance.IntN(w.lose) == 0 }

func (w *world) at(endpoint string) *machine {
	i := slices.IndexFunc(w.machines, func(n *machine) bool {
		return n.running && n.serving && n.copied.ClientURL == endpoint
	})
	if i < 0 {
		return nil
	}
	return w.machines[i]
}

// foreign reports whether another etcd answers at an endpoint.
func foreign(w *world, endpoint string) bool {
	return !w.blind && slices.ContainsFunc(w.machines, func(n *machine) bool {
		return n.ClientURL == endpoint && n.foreign && !n.running
	})
}

func (w calls) Look(_ context.Context, endpoint string) view.Answer {
	n := w.at(endpoint)
	if foreign(w.world, endpoint) {
		return view.Answer{Endpoint: endpoint, ClusterID: 666, MemberID: 667, Version: "3.5.1", Leader: 667, Term: 99,
			Linearizable: true, Agreed: []view.Member{{ID: 667, Name: "foreign"}}}
	}
	if n == nil || w.lost() || w.listed(n) == nil || w.blind {
		return view.Answer{Endpoint: endpoint, Err: errLost}
	}
	l := w.listed(n)
	a := view.Answer{Endpoint: endpoint, ClusterID: w.cluster, MemberID: n.id, Version: strings.TrimPrefix(n.ran, "v"),
		Storage: n.storage, DBSize: n.size, Quota: quota, Learner: l.Learner, Term: w.term, Committed: n.applied,
		Applied: n.applied, Revision: int64(n.applied)}
	if l.Learner || w.quorum() && w.live(n) { // a learner goes on naming the leader that it had
		a.Leader = n.leader
	}
	if !l.Learner && w.quorum() && w.live(n) && !w.lost() {
		a.Linearizable, a.Agreed = true, slices.Clone(w.list)
	}
	return a
}

func (w calls) Alarms(_ context.Context, endpoint string) (alarms []view.Alarm, err error) {
	err = w.call(endpoint, func(*machine) error {
		alarms = slices.Clone(w.alarms)
		return nil
	})
	return alarms, err
}

// call is one that changes something: it may be lost before or after its effect.
func (w calls) call(endpoint string, do func(*machine) error) error {
	n := w.at(endpoint)
	if n == nil || w.lost() || w.blind || !w.quorum() || w.listed(n) == nil || w.listed(n).Learner {
		return errLost
	}
	if err := do(n); err != nil {
		return err
	}
	if w.lost() {
		return errLost
	}
	return nil
}

var errRefused = errors.New("refused")

func (w calls) AddLearner(_ context.Context, endpoint, peerURL string) error {
	return w.call(endpoint, func(*machine) error {
		for _, m := range w.list {
			if m.Learner {
				w.fall("a second learner is added")
			}
			if m.PeerURLs[0] == peerURL {
				return errRefused
			}
		}
		w.ids++
		w.list = append(w.list, view.Member{ID: view.ID(w.ids + 1000), PeerURLs: []string{peerURL}, Learner: true})
		return nil
	})
}

// change changes one entry of the list; what must have had a quorum afterwards, must still have one.
func (w calls) change(endpoint string, id view.ID, do func(i int) error) error {
	return w.call(endpoint, func(*machine) error {
		i := slices.IndexFunc(w.list, func(m view.Member) bool { return m.ID == id })
		if i < 0 {
			return errRefused
		}
		err := do(i)
		if !w.quorum() {
			w.fall("the quorum is lost")
		}
		return err
	})
}

func (w calls) Promote(_ context.Context, endpoint string, id view.ID) error {
	return w.change(endpoint, id, func(i int) error {
		for _, n := range w.machines {
			if n.id == id && w.live(n) && w.list[i].Learner {
				if n.copied.Mode != datadir.Resume {
					w.fall("%s would start on an empty directory, and gets a vote", n.Name)
				}
				if voters, live := w.voters(); voters != live && w.lose == 0 {
					w.fall("promoted with %d of %d voters", live, voters)
				}
				w.list[i].Learner = false
				return nil
			}
		}
		return errRefused
	})
}

func (w calls) Remove(_ context.Context, endpoint string, id view.ID) error {
	return w.change(endpoint, id, func(i int) error {
		if !slices.ContainsFunc(w.facts.Notes.Seats, func(s seats.Seat) bool { return s.ID == id && s.Removing }) {
			w.fall("%s is removed, and that is not noted", id)
		}
		w.list = slices.Delete(w.list, i, i+1)
		return nil
	})
}

func (w calls) Update(_ context.Context, endpoint string, id view.ID, peerURL string) error {
	return w.change(endpoint, id, func(i int) error {
		w.list[i].PeerURLs = []string{peerURL}
		return nil
	})
}

func (w calls) MoveLeader(_ context.Context, endpoint string, id view.ID) error {
	return w.call(endpoint, func(n *machine) error {
		if n.id != w.leader {
			w.fall("the leader is moved at another member")
		}
		w.leader = id
		w.raft()
		return nil
	})
}

func (w calls) Compact(_ context.Context, endpoint string, revision int64) error {
	return w.call(endpoint, func(n *machine) error {
		if revision <= 0 || uint64(revision) > w.committed {
			w.fall("compacted to %d", revision)
		}
		n.compacted = true
		return nil
	})
}

func (w calls) Defragment(_ context.Context, endpoint string) error {
	return w.call(endpoint, func(n *machine) error {
		if voters, _ := w.voters(); n.id == w.leader && voters > 1 {
			w.fall("the leader is defragmented")
		}
		if n.compacted && !w.incurable {
			n.size = 10
		}
		return nil
	})
}

func (w calls) Disarm(_ context.Context, endpoint string, id view.ID) error {
	return w.call(endpoint, func(*machine) error {
		for _, n := range w.machines {
			if w.live(n) && !w.listed(n).Learner && n.size >= quota {
				w.fall("disarmed while %s is full", n.Name)
			}
		}
		w.alarms = slices.DeleteFunc(w.alarms, func(a view.Alarm) bool { return a.Member == id && a.Type == view.NoSpace })
		return nil
	})
}

var (
	_ api.API   = calls{}
	_ act.Hands = (*world)(nil)
)
