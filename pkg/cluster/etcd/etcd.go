// Package etcd is what one reconcile knows of the etcd that the operator runs for LINSTOR.
package etcd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Task is the key of the task that takes a step.
const Task = "etcd/step"

// Known is one look.
type Known struct {
	// Facts are those that the decision rests on.
	Facts membership.Facts
	// Decision is the next step.
	Decision membership.Decision
	// At is when the members were asked. Asked reports whether that was in this reconcile: a decision on an earlier look
	// is shown, and not carried out.
	At    time.Time
	Asked bool
	// Image is etcd's by version.
	Image map[string]string
	// Answers are those of a human as they are kept now, and Heard is the last of them that the decision rests on.
	Answers Answers
	Heard   string
	// Err is why nothing is known: then there is no decision.
	Err error
}

// Answers are what a human has decided about members, as it is kept beside the notes.
type Answers struct {
	// Forsaken are the members whose data does not come back.
	Forsaken []string `json:"forsaken,omitempty"`
	// Force is the survivor of which a new cluster is made, and ForceID the answer's. Adopt is the ID of the answer that
	// the notes are to be made anew, and AdoptOf the clusters that it is for; see membership.Facts.
	Force   string    `json:"force,omitempty"`
	ForceID string    `json:"forceID,omitempty"`
	Adopt   string    `json:"adopt,omitempty"`
	AdoptOf []view.ID `json:"adoptOf,omitempty"`
	// Last is the ID of the hold that was answered last.
	Last string `json:"last,omitempty"`
}

// Recovery is the survivor that was chosen; nil for none.
func (a Answers) Recovery() *seats.Recovery {
	if a.Force == "" {
		return nil
	}
	return &seats.Recovery{ID: a.ForceID, Force: a.Force}
}

// Look makes what is known of facts. It decides on the next step.
func Look(f membership.Facts) *Known {
	return &Known{Facts: f, Decision: membership.Plan(f), At: f.Now, Asked: true}
}

// Failed is what is known if the facts cannot be read.
func Failed(err error) *Known { return &Known{Err: err} }

// UnderWay reports whether the next step waits for what members and their pods do. A look at one that does not answer
// takes seconds, in which nothing else is done: what changes with its pod is seen without looking often.
func (k *Known) UnderWay() bool {
	if k == nil || k.Err != nil {
		return false
	}
	switch k.Decision.Step {
	case membership.Rest, membership.Stop:
		return false
	case membership.Wait:
		return !slices.ContainsFunc(k.Facts.Look.Answers(), func(a view.Answer) bool { return a.Err != nil })
	default:
		return true
	}
}

// Serves reports whether a client of the members has a quorum behind it.
func (k *Known) Serves() bool {
	return k != nil && k.Err == nil && k.Facts.Look.Quorum() && len(k.Decision.Endpoints) > 0
}

// Recovers reports whether there is no quorum, and what is done about it has a bound: a human is called in time, or
// has been. What LINSTOR lacks meanwhile is nobody's question.
func (k *Known) Recovers() bool {
	return k != nil && k.Err == nil && k.Facts.Notes.ClusterID != 0 && !k.Facts.Look.Quorum()
}

// Complete reports whether as many members as are wanted have a vote.
func (k *Known) Complete() bool { return k.Serves() && len(k.Decision.Endpoints) >= k.Facts.Size }

// On is the member on a node, by the notes or by the Node's label; "" if there is none, or if the operator runs no
// etcd. What was noted may be unreadable, and the label stays then.
func (k *Known) On(node, label string) string {
	if k == nil {
		return ""
	}
	for _, s := range k.Facts.Notes.Seats {
		if s.Node == node {
			return s.Name
		}
	}
	return label
}

// Ours reports whether the members that answer are of our cluster, as far as that is known. LINSTOR must not be
// started on another one.
func (k *Known) Ours() bool {
	if k == nil || k.Err != nil {
		return false
	}
	h := k.Decision.Hold
	return k.Facts.Notes.ClusterID != 0 && (h == nil || h.Reason != membership.EtcdOtherCluster)
}

// URL is LINSTOR's connection_url: the members that clients are to be given. What LINSTOR has already stays as long as
// it names voters and members come and go: each change restarts LINSTOR's controller.
func (k *Known) URL(has string) (string, error) {
	if k == nil || k.Err != nil || len(k.Decision.Endpoints) == 0 {
		return "", fmt.Errorf("no etcd member is serving yet")
	}
	var hosts []string
	for _, e := range k.Decision.Endpoints {
		_, host, _ := strings.Cut(e, "://")
		hosts = append(hosts, host)
	}
	old := strings.Split(strings.TrimPrefix(has, scheme), ",")
	left := slices.ContainsFunc(old, func(h string) bool { return !slices.Contains(hosts, h) })
	if strings.HasPrefix(has, scheme) && !left && !k.Complete() {
		return has, nil
	}
	return scheme + strings.Join(hosts, ","), nil
}

const scheme = "etcd://"

// Message is what is done, or waited for, in words.
func (k *Known) Message() string {
	switch {
	case k == nil:
		return "etcd has not been checked yet"
	case k.Err != nil:
		return k.Err.Error()
	}
	d := &k.Decision
	about := ""
	if d.Seat.Name != "" {
		about = " for member " + d.Seat.Name
	}
	text := fmt.Sprintf("%d of %d etcd members can vote; current step: %s%s", len(d.Endpoints), k.Facts.Size, d.Row,
		about)
	if d.Step == membership.Rest {
		text = fmt.Sprintf("all %d etcd members can vote", len(d.Endpoints))
	}
	if d.Hold != nil {
		text = d.Hold.Message
	}
	return text
}

// Same reports whether two facts are the same, but for when they were read and what members have said. It compares
// them as texts: all of them are data.
func Same(a, b membership.Facts) bool {
	plain := func(f membership.Facts) string {
		f.Now, f.NewToken, f.NotesVersion = time.Time{}, "", ""
		f.Look = membership.Facts{}.Look
		text, err := json.Marshal(f)
		if err != nil {
			return ""
		}
		return string(text)
	}
	x := plain(a)
	return x != "" && x == plain(b)
}
