package membership_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/act"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// peerURLs are those of an initial cluster.
func peerURLs(peers string) (urls []string) {
	for _, p := range strings.Split(peers, ",") {
		_, url, _ := strings.Cut(p, "=")
		urls = append(urls, url)
	}
	return urls
}

// look is what the operator finds.
func (w *world) look() membership.Facts {
	f := w.facts
	f.Now, f.NewToken, f.Sites = w.now, fmt.Sprintf("token-%d", w.chance.Uint64()), map[string]seats.Site{}
	for _, n := range w.machines {
		site := n.Site
		if site.Pod != nil {
			p := *site.Pod
			site.Pod = &p
		}
		if site.Data != nil {
			d := *site.Data
			site.Data = &d
		}
		f.Sites[n.Name] = site
		node := n.Node
		if f.TLS {
			node.PeerURL = strings.Replace(node.PeerURL, "http:", "https:", 1)
			node.ClientURL = strings.Replace(node.ClientURL, "http:", "https:", 1)
		}
		if n.selected && !n.Gone {
			f.Nodes = append(f.Nodes, node)
		}
	}
	urls := f.Ask()
	answers := make([]view.Answer, 0, len(urls))
	for _, u := range urls {
		answers = append(answers, calls{w}.Look(context.Background(), u))
	}
	f.Look = view.New(answers...).Armed(func(url string) ([]view.Alarm, error) {
		return calls{w}.Alarms(context.Background(), url)
	})
	if w.mangle != nil {
		w.mangle(&f)
	}
	return f
}

// decide is a decision that is not carried out.
func (w *world) decide() membership.Decision { return membership.Plan(w.look()) }

var errConflict = errors.New("the precondition does not hold")

// step is one reconcile.
func (w *world) step() membership.Decision {
	w.t.Helper()
	f := w.look()
	d := membership.Plan(f)
	w.last = d
	w.rows[d.Row]++
	w.check(f, d)
	if w.lose > 0 && w.chance.IntN(w.lose*4) == 0 { // the operator's process ends
		return d
	}
	w.steps[d.Step]++
	err := act.Do(context.Background(), calls{w}, w, d)
	if err != nil && !errors.Is(err, errLost) && !errors.Is(err, errRefused) {
		w.fall("%v", err)
	}
	return d
}

// check is what holds for each decision.
func (w *world) check(f membership.Facts, d membership.Decision) {
	w.t.Helper()
	if d.Step == membership.Stop && d.Hold == nil {
		w.fall("a stop without a hold")
	}
	if h := d.Hold; h != nil && (h.Message == "" || h.Plan == "" || strings.Contains(h.Message+h.Plan, "%!")) {
		w.fall("hold %+v", h)
	}
	if d.Step != membership.Rest && d.Step != membership.Stop && d.Until.IsZero() {
		w.fall("no bound")
	}
	for k, t := range d.Notes.Since {
		if t.After(f.Now) {
			w.fall("%s since a time that is to come", k)
		}
	}
	checkLook(w, f, d)
}

// checkLook is what holds for a decision after its look.
func checkLook(w *world, f membership.Facts, d membership.Decision) {
	w.t.Helper()
	if d.Step == membership.Remove && !f.Look.Quorum() {
		w.fall("removed without a quorum in the same look")
	}
	if !f.Look.Quorum() && !slices.Equal(d.Endpoints, f.Notes.Endpoints) {
		w.fall("endpoints %v were %v, and there is no quorum", d.Endpoints, f.Notes.Endpoints)
	}
	if len(f.Notes.Endpoints) > 0 && len(d.Endpoints) == 0 {
		w.fall("no endpoints")
	}
	learners := 0
	for _, m := range w.list {
		if m.Learner {
			learners++
		}
	}
	if learners > 1 || len(w.list) > 7 {
		w.fall("members %v", w.list)
	}
}

func (w *world) Note(_ context.Context, notes seats.Notes, version string) error {
	names := map[string]bool{}
	for _, s := range notes.Seats {
		if names[s.Name] || names[s.Node] {
			w.fall("two seats %s on %s", s.Name, s.Node)
		}
		names[s.Name], names[s.Node] = true, true
	}
	if version != w.facts.NotesVersion {
		return errConflict
	}
	if reflect.DeepEqual(notes, w.facts.Notes.Clone(time.Time{})) {
		return nil
	}
	w.facts.Notes = notes
	w.facts.NotesVersion += "'"
	if len(w.facts.NotesVersion) > 9 {
		w.facts.NotesVersion = fmt.Sprint(w.chance.Uint64())
	}
	return nil
}

func (w *world) on(name string) *machine {
	return w.machines[slices.IndexFunc(w.machines, func(n *machine) bool { return n.Name == name })]
}

// write is one to a node's key of the ConfigMap.
func (w *world) write(n *machine, at seats.Spot, c *seats.Configuration) error {
	if at.ConfigVersion != w.facts.ConfigVersion {
		return errConflict
	}
	w.ids++
	w.facts.ConfigVersion = fmt.Sprint(w.ids)
	n.old, n.Configuration = n.Configuration, c
	return nil
}

func (w *world) Place(_ context.Context, at seats.Spot, c seats.Configuration) error {
	n := w.on(at.Node)
	if c.Mode == datadir.Join && len(peerURLs(c.Peers)) != len(w.list) && w.lose == 0 {
		w.fall("peers %s of members %v", c.Peers, w.list)
	}
	if n.Gone || at.UID != n.UID {
		w.fall("placed on a node that is gone")
	}
	edge(w, c)
	if err := w.write(n, at, &c); err != nil {
		return err
	}
	if w.lost() {
		return errLost // between the writes
	}
	n.oldTemplate = nil
	if n.Template != nil && n.Template.Member == c.Name && *n.Template != c.Template() {
		n.oldTemplate = n.Template
	}
	template := c.Template()
	n.Template, n.Edited = &template, false
	if w.lost() {
		return errLost
	}
	n.Label, n.Used = c.Name, c.Name
	return nil
}

// edge fails if a member is to run a minor that no member runs, and there was no snapshot, or databases have not
// risen.
func edge(w *world, c seats.Configuration) {
	for _, n := range w.machines {
		if w.listed(n) != nil && (n.ran == "" || versions.Minor(n.ran) >= versions.Minor(c.Version)) {
			return
		}
	}
	for _, n := range w.machines {
		if l := w.listed(n); l != nil && w.facts.Notes.ClusterID != 0 && versions.Minor(c.Version) != "" {
			if n.storage != "" && versions.Minor(n.storage) != versions.Minor(n.ran) && w.live(n) && w.lose == 0 {
				w.fall("%s begins, and %s has a database of %s", c.Version, n.Name, n.storage)
			}
			saved(w, c)
		}
	}
}

func (w *world) Unplace(_ context.Context, at seats.Spot) error {
	n := w.on(at.Node)
	if w.listed(n) != nil && n.Configuration != nil && w.listed(n).Name == n.Configuration.Name && w.quorum() {
		w.fall("a member of the cluster is taken from its node")
	}
	if at.ConfigVersion != w.facts.ConfigVersion {
		return errConflict
	}
	n.Label = ""
	if w.lost() {
		return errLost
	}
	n.Template, n.oldTemplate = nil, nil
	if w.lost() {
		return errLost
	}
	return w.write(n, at, nil)
}

func (w *world) Survey(_ context.Context, at seats.Spot) error {
	w.on(at.Node).surveyed = true
	return nil
}

// Save has the pod report at once, or never if the node is full. It takes one snapshot of an ID only.
func (w *world) Save(_ context.Context, endpoint string, s seats.Snapshot) error {
	n := w.on(s.Node)
	switch {
	case w.at(endpoint) != n || w.listed(n) == nil || !w.quorum() || w.lost():
		return errLost
	case n.Taken != nil && n.Taken.ID == s.ID:
	case w.packed || n.packed:
		n.Taken = &seats.Taken{ID: s.ID, Error: "no space"}
	default:
		n.Taken = &seats.Taken{ID: s.ID, At: w.now, Revision: int64(w.committed)}
		w.saved, w.savedAt = s.To, w.now
		w.snapshots = append(w.snapshots, s.ID)
	}
	if w.lost() {
		return errLost
	}
	return nil
}

func (w *world) Restart(_ context.Context, node, uid string) error {
	n := w.on(node)
	before := w.quorum()
	if n.Pod == nil || n.Pod.UID != uid {
		return errConflict
	}
	if before && w.blind && w.live(n) {
		w.fall("restarted by an operator that is cut off")
	}
	if n.up && !n.deaf {
		n.Pod, n.running, n.copied = nil, false, nil
	} else {
		n.Pod.Terminating = true
	}
	if voters, _ := w.voters(); before && !w.quorum() && voters != 1 {
		w.fall("the quorum is lost")
	}
	return nil
}

// rest reconciles, one look a minute, until nothing is left to be done, and lists the rows that decided.
func (w *world) rest(within int) (rows []string) {
	w.t.Helper()
	for range within {
		d := w.step()
		if len(rows) == 0 || rows[len(rows)-1] != d.Row {
			rows = append(rows, d.Row)
		}
		switch d.Step {
		case membership.Rest:
			w.wanted()
			return rows
		case membership.Stop:
			w.fall("hold %+v after %v", d.Hold, rows)
		}
		w.pass()
	}
	w.fall("never at rest: %v", rows)
	return nil
}

// held reconciles until there is a hold.
func (w *world) held(within int, reason membership.Reason) *membership.Hold {
	w.t.Helper()
	for range within {
		if d := w.step(); d.Hold != nil {
			if d.Hold.Reason != reason {
				w.fall("hold %+v, want %s", d.Hold, reason)
			}
			return d.Hold
		}
		w.pass()
	}
	w.fall("no hold")
	return nil
}

// until reconciles until that row decides, which is not carried out.
func (w *world) until(row string) {
	w.t.Helper()
	for range 100 {
		if w.decide().Row == row {
			return
		}
		w.step()
		w.pass()
	}
	w.fall("row %s never decides", row)
}

// wanted fails if the cluster at rest is not as it is wanted.
func (w *world) wanted() {
	w.t.Helper()
	if len(w.list) != w.facts.Size || !w.quorum() || len(w.facts.Notes.Endpoints) != w.facts.Size {
		w.fall("at rest with members %v, endpoints %v", w.list, w.facts.Notes.Endpoints)
	}
	for _, m := range w.list {
		i := slices.IndexFunc(w.machines, func(n *machine) bool { return n.id == m.ID })
		if i < 0 {
			w.fall("at rest with member %s, which is nowhere", m.Name)
		}
		serves(w, w.machines[i], m)
	}
	for _, n := range w.machines {
		if !n.Empty() && w.listed(n) == nil {
			w.fall("at rest with something left on %s", n.Name)
		}
	}
	if len(w.alarms) > 0 {
		w.fall("at rest with %v", w.alarms)
	}
}

// serves fails if a member does not run as it is wanted.
func serves(w *world, n *machine, m view.Member) {
	w.t.Helper()
	if !n.running || !n.selected || m.Learner || n.applied < w.committed || m.PeerURLs[0] != n.PeerURL ||
		n.copied.ClientURL != n.ClientURL || !slices.Contains(w.facts.Notes.Endpoints, n.ClientURL) {
		w.fall("at rest with %+v", n)
	}
	c := n.copied
	if !versions.Equal(n.ran, w.facts.Version) || c.Revision != w.facts.Revision || c.Mode != datadir.Resume {
		w.fall("at rest with %+v", n)
	}
}

// member is the machine of the i-th member of the truth.
func (w *world) member(i int) *machine {
	for _, n := range w.machines {
		if n.id == w.list[i].ID {
			return n
		}
	}
	return nil
}

// loseDisk is a disk that is replaced by an empty one.
func (n *machine) loseDisk() {
	n.disk, n.id, n.running, n.forgotten = datadir.Found{}, 0, false, false
}

// fill has all databases reach their quota.
func (w *world) fill() {
	for _, n := range w.machines {
		if l := w.listed(n); l != nil {
			n.size, n.compacted = quota, false
			if !l.Learner {
				w.alarms = append(w.alarms, view.Alarm{Member: n.id, Type: view.NoSpace})
			}
		}
	}
}
