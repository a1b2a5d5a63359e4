// Package roster has what one look knows of each member of an etcd cluster, and what follows from that alone. What is
// to be done is decided by package membership.
package roster

import (
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Member is a seat with what is known of it.
type Member struct {
	*seats.Seat
	Site seats.Site
	// Pod is nil if the kubelet does not report on it, or if it is deleted.
	Pod *seats.Pod
	// Endpoint is where the member was asked.
	Endpoint string
	// Place is the node as a place for members; nil if no member is wanted there.
	Place *seats.Node
	// Listed is nil without a quorum, and if the quorum's list does not have it.
	Listed *view.Member
	// Answers reports whether it answered at all; Fit whether it takes part; Leads whether it is the leader.
	Answers, Fit, Leads bool
	Answer              view.Answer
}

// Votes reports whether the quorum's list has it with a vote.
func (m *Member) Votes() bool { return m.Listed != nil && !m.Listed.Learner }

// Learns reports whether the quorum's list has it without a vote.
func (m *Member) Learns() bool { return m.Listed != nil && m.Listed.Learner }

// FitVoter reports whether it is a voter that takes part.
func (m *Member) FitVoter() bool { return m.Votes() && m.Fit }

// Unfit reports whether it is a voter that does not take part.
func (m *Member) Unfit() bool { return m.Votes() && !m.Fit }

// Wanted reports whether a member is wanted on its node.
func (m *Member) Wanted() bool { return m.Place != nil }

// Serving reports whether the kubelet says that it has a quorum.
func (m *Member) Serving() bool { return m.Site.Reported(m.Name) != nil && m.Pod.Ready }

// Other reports whether the node has another member than is noted, and not one that the noted one came after.
func (m *Member) Other() bool {
	c := m.Site.Configuration
	return c != nil && c.Name != m.Name && !m.Replaces(m.Site)
}

// Startable reports whether it may start on its node, by what its guard has said. For one that may not, all others
// would be dismantled in vain. Of one that was dismantled itself, for another survivor, nothing more is known.
func (m *Member) Startable() bool {
	r := m.Site.Refused(m.Name)
	known := m.Site.Reported(m.Name) != nil && (r == "" || r == seats.Alive || r == seats.Older)
	return known || m.Site.Empty() && !m.Site.Silent()
}

// Worth orders members by how much is lost with them.
func (m *Member) Worth() int {
	switch {
	case m.Learns():
		return 0
	case !m.Fit:
		return 1
	case !m.Leads:
		return 2
	}
	return 3
}

// Purpose is what a restart is for.
func (m *Member) Purpose() string {
	c := m.Site.Configuration
	return fmt.Sprint(c.Mode, c.Recovery, " ", c.Version, " ", c.PeerURL, " ", c.Revision, " ", c.Peers)
}

// Address is the peer URL that it shall have. On a node that is not wanted any more it is the one that was noted.
func (m *Member) Address() string {
	if m.Place != nil && m.Place.Reached() {
		return m.Place.PeerURL
	}
	return m.PeerURL
}

// Move notes the node's new address beside the former one: the list has one or the other, whether or not a call has
// had its effect.
func (m *Member) Move() {
	n := m.Place
	if n == nil || !n.Reached() || m.PeerURL == n.PeerURL && m.ClientURL == n.ClientURL {
		return
	}
	if m.PeerURL != n.PeerURL {
		m.Former = append(slices.Clone(m.Former), m.PeerURL)
	}
	m.PeerURL, m.ClientURL = n.PeerURL, n.ClientURL
}

// Amend takes back what must not be: an older version than the member has run, as its disk may know alone after
// Kubernetes was restored; a recovery that its guard refuses; and a removal that was never carried out.
func (m *Member) Amend() {
	if d := m.Site.Disk(); m.Site.Refused(m.Name) == seats.Older && d != nil && versions.Older(m.Ran, d.Owner.Version) {
		m.Ran = d.Owner.Version
	}
	m.Removing = m.Removing && !m.Fit
	if versions.Older(m.Version, m.Ran) {
		m.Version = m.Ran
	}
	if m.Site.Refused(m.Name) == seats.Alive && m.Pod.Configuration.Recovery == m.Force {
		m.Force = ""
	}
}
