// Package membership decides what is done next with an etcd cluster whose members are pods on chosen nodes: one step
// at a time, from one look at all members, what the nodes have, and a few notes.
//
// The rules that keep data are those of raft. A voter never starts on another directory than its own, because what it
// acknowledged is gone with it: a learner gets its vote only after the guard on its node has reported that it starts
// on its own data only. A member is removed only if a linearizable read passed in the same look, and with a majority
// left among those that are fit. A member begins as a learner and gets a vote when all voters are fit. Silence proves
// nothing: that data is lost, the node itself must report; and members that do not answer the operator may serve
// others.
//
// Each member has a key of the ConfigMap, a label on its node whose value is its name, and a DaemonSet of its own,
// named linstor-etcd-<member>, which selects that value and whose pods are replaced only when they are deleted
// (OnDelete). So each member has its own version, resources and template, and a change of them reaches one member at a
// time.
//
// Kubernetes may be restored to a time before that of the disks. What a disk says then counts more than what is noted:
// its guard refuses a release that is too old for it, and a member that is not the one whose data it is. Where notes
// are lost altogether, all disks are looked at before a cluster begins.
//
// Each wait has a bound and ends in the wanted state, in another step, or in a hold. A step that has no effect within
// its bound is tried on, and a human is called.
package membership

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/facts"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// Facts are all that a decision rests on.
type Facts = facts.Facts

// Limits bound the waits.
type Limits = facts.Limits

// Default are the usual limits.
var Default = facts.Default

// Step is what is to be done next. Each can be repeated.
type Step string

// The steps.
const (
	// Rest does nothing. Wait does nothing either, until Decision.Until; then another decision is made. Stop does nothing
	// before a human has acted, or its cause is gone.
	Rest Step = "Rest"
	Wait Step = "Wait"
	Stop Step = "Stop"
	// Place has a node run its member, Unplace ends that.
	Place   Step = "Place"
	Unplace Step = "Unplace"
	// Restart deletes a member's pod. Its DaemonSet makes another one.
	Restart Step = "Restart"
	// Survey has a pod look into a node's data directory. Save has a pod take a snapshot of the database.
	Survey Step = "Survey"
	Save   Step = "Save"
	// These are calls to etcd, see api.API.
	AddLearner Step = "AddLearner"
	Promote    Step = "Promote"
	Remove     Step = "Remove"
	UpdateURL  Step = "UpdateURL"
	MoveLeader Step = "MoveLeader"
	Compact    Step = "Compact"
	Defragment Step = "Defragment"
	Disarm     Step = "Disarm"
)

// Reason is why a human is called.
type Reason string

// The reasons.
const (
	EtcdStuck          Reason = "EtcdStuck"
	EtcdMemberDown     Reason = "EtcdMemberDown"
	EtcdMembersChanged Reason = "EtcdMembersChanged"
	EtcdQuorumLost     Reason = "EtcdQuorumLost"
	EtcdUnreachable    Reason = "EtcdUnreachable"
	EtcdNoSpace        Reason = "EtcdNoSpace"
	EtcdCorruptAlarm   Reason = "EtcdCorruptAlarm"
	EtcdOtherCluster   Reason = "EtcdOtherCluster"
	EtcdNotesLost      Reason = "EtcdNotesLost"
)

// Hold calls a human. It comes with Stop, or with a step that has had no effect so far and is tried on.
type Hold struct {
	Reason Reason
	advice.Advice
}

// Decision is the next step, and why.
type Decision struct {
	// Row is the name of the row of the table that decided.
	Row  string
	Step Step
	// Seat is the member that it is about; the zero value if it is about none.
	Seat seats.Seat
	// Endpoint is where a call to etcd is sent.
	Endpoint string
	// Target is the member that becomes the leader, or whose alarm is disarmed.
	Target seats.Seat
	// Revision is for Compact.
	Revision int64
	// Snapshot is for Save: the one that is taken.
	Snapshot seats.Snapshot
	// Configuration is for Place. The image and the resources of the member's DaemonSet are those of its version and
	// revision.
	Configuration seats.Configuration
	// Spot is for Place, Unplace and Survey, PodUID for Restart, as a precondition.
	Spot   seats.Spot
	PodUID string
	// Until is when a wait ends, or when a human is called because a step has had no effect.
	Until time.Time
	Hold  *Hold
	// Endpoints are where clients find the cluster: its voters that start on their own data only.
	Endpoints []string
	// Notes are to be written before the step is carried out if they have changed, over those of NotesVersion.
	Notes        seats.Notes
	Changed      bool
	NotesVersion string
}

// Plan finds the next step. It is a pure function of the facts.
func Plan(f Facts) Decision {
	s := newSituation(f)
	s.clocks()
	s.d.Row = table.Decide(s)
	s.d.Endpoints, s.d.Notes, s.d.NotesVersion = s.notes.Endpoints, s.notes, f.NotesVersion
	s.d.Changed = !reflect.DeepEqual(s.notes, f.Notes.Clone(time.Time{}))
	return s.d
}

// clocks starts the time of each wait whose condition holds, and ends the time of each row whose condition does not,
// whichever row decides. So two rows in turn do not wait for ever, and each member has a time of its own.
func (s *situation) clocks() {
	keep := map[string]bool{}
	for _, k := range s.tried { // what was waited for long enough is not begun again
		keep[k] = true
	}
	for _, r := range rules {
		for _, m := range r.about(s) {
			keep[key(r.name, m)] = true
			if r.do == nil {
				s.since(r, m)
			}
		}
	}
	for k := range s.notes.Since {
		if !keep[k] {
			delete(s.notes.Since, k)
		}
	}
}

// since is from when on a rule counts its time for a member: from now on at the latest.
func (s *situation) since(r rule, m *member) time.Time {
	k := key(r.name, m)
	t, ok := s.notes.Since[k]
	if !ok {
		t = s.Now
		s.notes.Since[k] = t
	}
	return t
}

func key(row string, m *member) string { return row + "/" + cmp.Or(m.Name, m.Node) }

// endpoints notes the client URLs of voters. Without a quorum the former ones stay: one of them is most likely to
// serve again.
func (s *situation) endpoints() {
	var urls []string
	for _, m := range s.members {
		if m.Votes() && m.Sealed {
			urls = append(urls, m.Endpoint)
		}
	}
	slices.Sort(urls)
	if len(urls) > 0 {
		s.notes.Endpoints = urls
	}
}
