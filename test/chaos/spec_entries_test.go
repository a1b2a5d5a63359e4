package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// rival is a further entry of spec.storagePools that is on what an entry of the base is on.
type rival struct {
	// first is the name of the entry of the base, second what the further one is on.
	first, second string
	// on is what the two share, as a message names it.
	on string
	// seen reports whether the API server can see by itself that the two meet, where both are for all nodes.
	seen bool
}

var rivals = []rival{
	{first: "thick", second: "lvm: {volumeGroup: vg_hdd}", on: "volume group vg_hdd", seen: true},
	{first: "thin", second: "lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}", on: "thin pool vg_ssd0/thin"},
	{first: "zthick", second: "zfsThin: {zpool: tank/thick}", on: "zpool tank/thick", seen: true},
	{first: "files", second: "fileThin: {directory: /var/lib/linstor-pools/a}", on: "directory /var/lib/linstor-pools/a",
		seen: true},
}

// broadMatches take disks that they do not name. Of the base's disks all fit that are still empty: those of the serial
// numbers ZA….
var broadMatches = []string{
	`{serial: "ZB*"}, {minSize: 1Gi}`, `{rotational: true}`, `{maxSize: 20Ti}`, `{serial: "*"}`,
	`{wwn: "**", minSize: 1Ti}`, `{model: "*"}`,
}

// tierLabel selects nodes that no entry of the bases selects.
const tierLabel = "example.com/tier"

// TestSpecEntries adds entries to spec.storagePools that get into the way of those that are there: what LINSTOR cannot
// have twice is made once, both entries are named, and nothing of what runs is touched.
func TestSpecEntries(t *testing.T) {
	t.Parallel()
	t.Run("pools", func(t *testing.T) {
		t.Parallel()
		c := startCampaign(t, base{name: "pools", spec: rich, databases: []string{"k8s"}})
		for _, r := range rivals {
			if r.seen {
				c.tryEntry(t, r.on+", for all nodes", mutation{
					class: classRival, value: tree("{name: again, " + r.second + "}"), invalid: true,
					says: []string{"count its free space twice"},
				})
			}
			c.tryEntry(t, r.on+", for some nodes",
				c.heldRival(t, r.first, "{name: again, "+r.second+", nodeSelector: {example.com/zone: a}}", "n1", "n2").on(r.on))
		}
		c.labelBringsRival(t, &rivals[0])
		c.end(t)
	})
	t.Run("disks", func(t *testing.T) {
		t.Parallel()
		c := startCampaign(t, base{name: "disks", spec: disks, databases: []string{"k8s"}})
		const again = `{name: again, lvm: {volumeGroup: vg_made}, devices: {match: [{serial: "ZA*"}]}}`
		m := c.heldRival(t, "made", again, "n1", "n2").on("volume group " + madeGroup + " from disks")
		c.tryEntry(t, "one group from other disks", m)
		for i, match := range broadMatches {
			c.tryBroad(t, match, full() || i < 2)
		}
		c.newWithRival(t, again)
		c.normalise(t)
	})
}

// tryEntry adds an entry to the pools of the base, and takes it away.
func (c *campaign) tryEntry(t *testing.T, what string, m mutation) {
	t.Helper()
	l := leafAt(t, "storagePools")
	p := locate(c.spec, l.path)[0]
	m.what, m.value = what, append(slices.Clone(p.value(c.spec).([]any)), m.value)
	c.Sim.World().ResetRequests()
	c.try(t, l, p, m, "one more entry of storagePools: "+what)
}

// leafAt is the field of that path.
func leafAt(t testing.TB, path string) leaf {
	t.Helper()
	leaves := specLeaves(t)
	i := slices.IndexFunc(leaves, func(l leaf) bool { return l.path == path })
	if i < 0 {
		t.Fatalf("there is no field %s", path)
	}
	return leaves[i]
}

// heldRival is an entry for which the whole spec is held. It is named with the entry that it meets and the nodes, and
// nothing changes.
func (c *campaign) heldRival(t *testing.T, first, entry string, nodes ...string) mutation {
	m := mutation{class: classRival, value: tree(entry),
		says: []string{"spec.storagePools[" + first + "]", "spec.storagePools[again]"}}
	m.check = func(o verdict) {
		t.Helper()
		if o.hold == nil {
			return // which is told already
		}
		if o.hold.Reason != v1alpha1.HoldPoolConflict || !slices.Equal(o.hold.Nodes, nodes) {
			t.Errorf("%s: hold %s of %v, not of %v", entry, o.hold.Reason, o.hold.Nodes, nodes)
		}
		c.WaitEvent(string(v1alpha1.HoldPoolConflict), o.hold.ID)
		c.untouched(t, entry)
	}
	return m
}

// on adds what the two entries share to what the message must say.
func (m mutation) on(what string) mutation {
	m.says = append(slices.Clone(m.says), what)
	return m
}

// untouched: LINSTOR was not written to, and all but the StorageCluster is as ever.
func (c *campaign) untouched(t *testing.T, name string) {
	t.Helper()
	for _, w := range c.Sim.World().Writes() {
		t.Errorf("%s: LINSTOR was written to: %s %s %s", name, w.Method, w.Path, w.Body)
	}
	if diff := c.around(); diff != "" {
		t.Errorf("%s: held, and there are differences:\n%s", name, diff)
	}
}

// around says what differs from the normal state, the StorageCluster left out.
func (c *campaign) around() string {
	return c.inTime(func() string {
		got, err := c.lookAround()
		if err != nil {
			return err.Error()
		}
		return differences(c.normal.around(), got)
	})
}

// labelBringsRival: only a label that a node gets later makes the two entries meet, so the spec is accepted.
func (c *campaign) labelBringsRival(t *testing.T, r *rival) {
	t.Helper()
	name := r.on + ", by a label that comes later"
	m := mutation{class: classRival,
		value: tree("{name: again, " + r.second + ", nodeSelector: {" + tierLabel + ": extra}}")}
	m.check = func(o verdict) {
		t.Helper()
		if o.hold != nil {
			t.Fatalf("%s: held although no node has both: %s", name, o.hold.Message)
		}
		c.Sim.World().ResetRequests()
		c.label(t, "n2", tierLabel, "extra")
		c.Eventually("the two entries are told", func() error {
			s := &c.Get().Status
			for _, p := range s.Nodes.Problems {
				if p.Reason == string(v1alpha1.HoldPoolConflict) && slices.Equal(p.Nodes, []string{"n2"}) {
					told := mutation{says: []string{"spec.storagePools[" + r.first + "]", "spec.storagePools[again]", r.on}}
					told.checkSays(t, p.Message, name)
					return nil
				}
			}
			return fmt.Errorf("%s: %s, problems %+v", s.Phase, s.Message, s.Nodes.Problems)
		})
		for _, w := range c.Sim.World().Writes() {
			if w.Method == http.MethodDelete || strings.HasSuffix(w.Path, "/storage-pools") {
				t.Errorf("%s: LINSTOR was written to: %s %s %s", name, w.Method, w.Path, w.Body)
			}
		}
		c.label(t, "n2", tierLabel, "")
		if diff := c.around(); diff != "" {
			t.Errorf("%s: the label is gone, and there are differences:\n%s", name, diff)
		}
	}
	c.tryEntry(t, name, m)
}

// label gives a node a label, or takes it away where the value is empty.
func (c *campaign) label(t *testing.T, node, key, value string) {
	t.Helper()
	before := c.Node(node)
	after := before.DeepCopy()
	if after.Labels[key] = value; value == "" {
		delete(after.Labels, key)
	}
	if err := c.Client().Patch(c.Ctx, after, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// newWithRival: a new cluster with both entries makes neither of the two.
func (c *campaign) newWithRival(t *testing.T, entry string) {
	t.Helper()
	injected(classRival)
	spec := c.base.tree()
	spec["storagePools"] = append(spec["storagePools"].([]any), tree(entry))
	c.clear()
	c.Sim.World().ResetRequests()
	if _, o := c.fresh(spec); o.hold == nil || o.hold.Reason != v1alpha1.HoldPoolConflict {
		t.Errorf("a new cluster with %s is not held for the conflict: %+v", entry, o.hold)
	}
	c.noDisksUsed(t, entry)
}

// noDisksUsed: since the last reset of requests no disk was written to.
func (c *campaign) noDisksUsed(t *testing.T, name string) {
	t.Helper()
	for _, w := range c.Sim.World().Writes() {
		if strings.HasPrefix(w.Path, "/v1/physical-storage") {
			t.Errorf("%s: disks were used: %s %s", name, w.Path, w.Body)
		}
	}
}

// tryBroad: an entry that takes whatever disk it finds says by itself whether a human is asked. Without a word it is
// refused, and where it says Manual nothing is used before the answer.
func (c *campaign) tryBroad(t *testing.T, match string, ask bool) {
	t.Helper()
	entry := func(approval string) any {
		return tree("{name: broad, lvm: {volumeGroup: vg_broad}, devices: {match: [" + match + "]" + approval + "}}")
	}
	c.tryEntry(t, match, mutation{class: classBroad, value: entry(""), invalid: true,
		says: []string{"devices.approval", "approval: Manual"}})
	if !ask {
		return
	}
	c.tryEntry(t, match+", Manual", mutation{
		class: classBroad, value: entry(", approval: Manual"),
		says: []string{"pool broad: creating vg_broad from"},
		check: func(o verdict) {
			t.Helper()
			var listed []string
			if o.hold != nil {
				for _, d := range o.hold.Devices {
					listed = append(listed, d.Node+":"+d.Serial)
				}
			}
			if want := []string{"n1:ZA1", "n2:ZA2"}; !slices.Equal(listed, want) {
				t.Errorf("%s: the hold lists the disks %v, not %v", match, listed, want)
			}
			c.untouched(t, match)
			for _, n := range c.base.nodes() {
				for _, d := range c.Sim.World().Machine(n.Name).Disks() {
					if strings.HasPrefix(d.Serial, "ZA") && d.Signature != "" {
						t.Errorf("%s: disk %s holds %s", match, d.Serial, d.Signature)
					}
				}
			}
		},
	})
}
