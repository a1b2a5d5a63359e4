package membership_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

const (
	tick  = time.Minute
	quota = 1000
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// machine is a node with its disk, and the pod on it.
type machine struct {
	seats.Node
	seats.Site
	selected, up bool
	// multi is a node that keeps its former addresses.
	multi bool
	// deaf is a node whose kubelet does not report while etcd runs on.
	deaf bool
	// running is true while etcd runs, serving once it has had a quorum since it started.
	running, serving bool
	disk             datadir.Found
	// late is true while the disk is not mounted.
	late bool
	// copied is what the pod's init container has copied, old and oldTemplate what the node's key and its DaemonSet had
	// before, and lag how many pods get that.
	copied, old *seats.Configuration
	oldTemplate *seats.Template
	lag         int
	// surveyed is true once a pod looks into the data directory.
	surveyed bool
	// packed is a node without space for a snapshot.
	packed bool
	// foreign is another etcd at the client port.
	foreign bool
	// closed is a node that runs no pod that looks into data directories.
	closed bool
	// id, applied and size are of the data on the disk, synced is what it is known there to be committed, storage the
	// form of the database, leader what a member knew last.
	id, leader view.ID
	applied    uint64
	synced     uint64
	storage    string
	size       int64
	compacted  bool
	// forgotten is data of a member that a forced cluster has forgotten.
	forgotten bool
	// ran is the version that runs; wrongImage has another one run than the image's tag says.
	ran        string
	wrongImage string
	asides     int
}

// world is a model of an etcd cluster, of the nodes that it is on, and of an operator that loses its memory.
type world struct {
	t        *testing.T
	chance   *rand.Rand
	now      time.Time
	machines []*machine
	// cluster is its ID; 0 before there is one. The others are the truth that a majority has.
	cluster, leader view.ID
	term, committed uint64
	list            []view.Member
	alarms          []view.Alarm
	// incurable databases do not become smaller.
	incurable bool
	// slow databases do not rise to a new minor.
	slow bool
	// saved is the minor for whose upgrade a snapshot was taken last, at savedAt; snapshots are the IDs of all. packed is
	// true while no node has space for one.
	saved     string
	savedAt   time.Time
	snapshots []string
	packed    bool
	// backup is a copy of the notes.
	backup seats.Notes
	// blind is an operator that reaches no member.
	blind bool
	// mangle changes what the operator finds; nil for nothing.
	mangle func(*membership.Facts)
	ids    uint64
	facts  membership.Facts
	// lose has calls and looks fail, one in so many; 0 for none. Such a call may have had its effect.
	lose int
	last membership.Decision
	// forced is the recovery that was carried out last.
	forced string
	rows   map[string]int
	// steps are those taken.
	steps map[membership.Step]int
}

func newWorld(t *testing.T, seed uint64, size int, zones ...string) *world {
	w := &world{t: t, chance: rand.New(rand.NewPCG(seed, 2)), now: begin, rows: map[string]int{},
		steps: map[membership.Step]int{}, ids: 100}
	for i, zone := range zones {
		n := &machine{selected: true, up: true}
		n.Node = seats.Node{Name: fmt.Sprintf("n%d", i+1), Zone: zone, Ready: true}
		n.address(i + 1)
		w.machines = append(w.machines, n)
	}
	w.facts = membership.Facts{Size: size, Version: "v3.6.14", Revision: "r1", Quota: quota, Limits: membership.Default,
		Releases: []string{"v3.5.33", "v3.6.14", "v3.7.1"}, NotesVersion: "0", ConfigVersion: "0"}
	return w
}

// settled is a world at rest.
func settled(t *testing.T, size int, zones ...string) *world {
	t.Helper()
	if len(zones) == 0 {
		zones = []string{"", "", "", "", "", ""}
	}
	w := newWorld(t, 1, size, zones...)
	w.rest(200)
	return w
}

func (n *machine) address(i int) { n.PeerURL, n.ClientURL = address(i, 3380), address(i, 3379) }

func address(i, port int) string { return fmt.Sprintf("http://10.0.%d.%d:%d", i/250, i%250, port) }

// fall is a violation of what must never happen.
func (w *world) fall(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%v, row %s, step %s of %s: %s\n%+v\n%s", w.now.Sub(begin), w.last.Row, w.last.Step, w.last.Seat.Name,
		fmt.Sprintf(format, args...), w.facts.Notes, w)
}

// listed is a machine's entry in the truth, by the data on its disk; nil if there is none.
func (w *world) listed(n *machine) *view.Member {
	i := slices.IndexFunc(w.list, func(m view.Member) bool { return n.id != 0 && m.ID == n.id })
	if i < 0 {
		return nil
	}
	return &w.list[i]
}

// live reports whether a machine's member takes part: others find it where the list says.
func (w *world) live(n *machine) bool {
	l, voters := w.listed(n), 0
	for _, m := range w.list {
		if !m.Learner {
			voters++
		}
	}
	return l != nil && n.running && (l.PeerURLs[0] == n.copied.PeerURL || !l.Learner && voters == 1)
}

func (w *world) voters() (voters, live int) {
	for _, m := range w.list {
		if !m.Learner {
			voters++
		}
	}
	for _, n := range w.machines {
		if w.live(n) && !w.listed(n).Learner {
			live++
		}
	}
	return voters, live
}

func (w *world) quorum() bool {
	voters, live := w.voters()
	return voters > 0 && live >= view.Quorum(voters)
}

// pass is a minute: kubelets and DaemonSet do their work, and then raft.
func (w *world) pass() {
	w.now = w.now.Add(tick)
	for _, n := range w.machines {
		w.kubelet(n)
	}
	w.raft()
	w.probe()
}

// probe is the kubelets' readiness probe.
func (w *world) probe() {
	for _, n := range w.machines {
		if n.Pod != nil && !n.Down {
			l := w.listed(n)
			n.Pod.Ready = n.running && l != nil && !l.Learner && w.quorum() && w.live(n)
		}
	}
}

// placed reports whether a DaemonSet has a pod on the node.
func (n *machine) placed() bool { return n.Template != nil && n.Label == n.Template.Member }

// owns reports whether a node has an address.
func (n *machine) owns(url string) bool { return n.multi || url == n.PeerURL }

func (w *world) kubelet(n *machine) {
	placed := n.placed()
	n.Down = !n.up || n.deaf
	if len(w.facts.Notes.Seats) > 0 && (w.quorum() || !w.facts.Adopts()) {
		n.Data, n.surveyed = nil, false
	} else if n.surveyed && !n.Silent() && !n.closed {
		found := n.disk
		n.Data = &found
	}
	manage(w, n, placed)
	if n.running && !n.owns(n.copied.PeerURL) {
		n.running = false // the address that it listens at is gone
	}
}

// manage is what becomes of a node's pod.
func manage(w *world, n *machine, placed bool) {
	switch {
	case n.Gone:
		n.Pod, n.running, n.copied = nil, false, nil
	case n.Down:
		n.running = n.running && n.up
		if n.Pod != nil && !placed {
			n.Pod.Terminating = true // the object stays, since nobody confirms that it is gone
		}
	case n.leaves(placed):
		n.Pod, n.running, n.copied = nil, false, nil
	case placed && n.Pod == nil:
		create(w, n)
	case placed && n.copied == nil:
		take(n)
	case placed && !n.running:
		start(w, n)
	}
}

// leaves reports whether a node's pod is to go.
func (n *machine) leaves(placed bool) bool {
	return n.Pod != nil && (!placed || n.Pod.Terminating || n.Pod.Member != "" && n.Pod.Member != n.Label)
}

// create is the DaemonSet's controller.
func create(w *world, n *machine) {
	w.ids++
	n.Pod = &seats.Pod{UID: fmt.Sprint(w.ids), Template: *n.Template}
	if n.lag > 0 && n.oldTemplate != nil {
		n.Pod.Template = *n.oldTemplate
	}
}

// take is the init container.
func take(n *machine) {
	mounted := n.Configuration
	if n.lag > 0 && n.old != nil {
		n.lag--
		mounted = n.old
	}
	if mounted == nil || mounted.Name != n.Pod.Member {
		return
	}
	c := *mounted
	n.copied, n.Pod.Configuration, n.Pod.Disk = &c, &c, n.found()
}

// found is what is in the data directory.
func (n *machine) found() *datadir.Found {
	disk := n.disk
	if n.late {
		disk = datadir.Found{}
	}
	return &disk
}

// guard is guard.Start, before etcd is started.
func guard(w *world, n *machine) (v datadir.Verdict, ok bool) {
	p, e := n.Pod, n.copied.Expectation
	p.Disk = n.found()
	v = datadir.Judge(e, *p.Disk)
	p.Refusal = ""
	switch {
	case errors.Is(v.Err, datadir.ErrLost):
		p.Refusal = seats.Lost
	case errors.Is(v.Err, datadir.ErrFound):
		p.Refusal = seats.Found
	case errors.Is(v.Err, datadir.ErrAlive):
		p.Refusal = seats.Alive
	case v.Force && accepts(w, n.copied.Others):
		p.Refusal, n.disk.Owner.Recalled = seats.Alive, e.Recovery
	case !v.Mark && p.Disk.Owner.Bears(n.copied.Version) != nil:
		p.Refusal = seats.Older
	}
	if p.Refusal != "" || n.late {
		return v, false
	}
	if v.Force {
		n.disk.Owner.Forced = e.Recovery
	}
	if v.Aside {
		n.asides++
		n.disk.Data, n.disk.Log, n.id, n.forgotten = false, false, 0, false
	}
	if v.Anew {
		n.disk.Data, n.disk.Log, n.disk.Unbegun = false, false, false
	}
	if v.Mark {
		n.disk.Owner = datadir.Owner{Name: e.Name, Token: e.Token}
	}
	if versions.Older(n.disk.Owner.Version, n.copied.Version) {
		n.disk.Owner.Version = n.copied.Version
	}
	return v, true
}

// start is the guard and then etcd.
func start(w *world, n *machine) {
	p, e := n.Pod, n.copied.Expectation
	if p.Version == "v3.6.99" { // there is no such image
		return
	}
	v, ok := guard(w, n)
	// There may be no such address, or another etcd has the port, or the database is of a later release.
	late := n.disk.Log && versions.Older(versions.Minor(p.Version)+".0", n.storage)
	if !ok || !n.owns(n.copied.PeerURL) || n.foreign || late {
		return
	}
	if n.forgotten {
		w.fall("%s, which was forgotten, starts again", e.Name)
	}
	if unbegun(w, n) || !n.disk.Log && !bootstrap(w, n, *n.copied) {
		return
	}
	if v.Force {
		force(w, n)
	}
	n.running, n.serving, n.ran = w.listed(n) != nil, false, p.Version
	if n.wrongImage != "" {
		n.ran = n.wrongImage
	}
}

// unbegun reports whether a first member is none: its first start ended when it had made its log and written nothing
// to it, as it may at any call that is lost, and what etcd finds now is a log.
func unbegun(w *world, n *machine) bool {
	if !n.disk.Log && n.copied.Mode == datadir.Seed && w.lost() {
		n.disk.Data, n.disk.Log, n.disk.Unbegun = true, true, true
	}
	return n.disk.Unbegun
}
