package adopt

import (
	"cmp"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// lines shows a plan.
func lines(p *judge.Plan, style tree.Style) []string {
	verdict, state := "nothing found that blocks the adoption", tree.Well
	if !p.Clear {
		verdict, state = text.Amount(len(p.Blockers), "problem blocks", "problems block")+" the adoption", tree.Bad
	}
	var out []string
	for _, line := range style.Wrap("Piraeus in the cluster at "+p.Found.Host+": "+verdict+". "+p.Note, "") {
		out = append(out, style.Paint(state, line))
	}
	items := []tree.Item{foundItem(&p.Found), blockerItem(p.Blockers), nodesItem(p.Nodes)}
	for _, s := range []tree.Item{settingsItem(p.Settings), objectsItem(p.Objects), stepsItem(p.Steps)} {
		if len(s.Items) > 0 {
			items = append(items, s)
		}
	}
	out = append(append(out, style.Lines(items)...), "")
	out = append(out, style.Wrap("StorageCluster that describes the installation. Do not apply it while Piraeus' "+
		"satellites are running: this version would start its own satellites on all of these nodes at once.", "")...)
	manifest, err := yaml.Marshal(p.StorageCluster)
	if err != nil {
		manifest = []byte(err.Error())
	}
	for line := range strings.Lines(string(manifest)) {
		out = append(out, "  "+tree.Clean(strings.TrimRight(line, "\n")))
	}
	return append(append(out, ""), byHand(p.Steps, style)...)
}

// byHand are the commands, which can be copied.
func byHand(steps []judge.Step, style tree.Style) []string {
	out := style.Wrap("Commands for the steps that require only kubectl. To roll them back, see above. Do not perform "+
		"the other steps manually: this version cannot start its controller while Piraeus' satellites are running.", "")
	for i := range steps {
		if len(steps[i].Commands) == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("  # %d. %s", i+1, steps[i].Title))
		for _, c := range steps[i].Commands {
			out = append(out, style.Command(c, "  ")...)
		}
	}
	return out
}

func item(name string, state tree.State, words string, below ...tree.Item) tree.Item {
	return tree.Item{Name: name, State: state, Text: words, Items: below}
}

func foundItem(f *judge.Found) tree.Item {
	linstor := item("LINSTOR", tree.Well, f.Linstor+", supported by this version of the operator")
	if !f.Supported {
		linstor = item("LINSTOR", tree.Bad, cmp.Or(f.Linstor, "unknown version")+", not supported by this version of the "+
			"operator")
	}
	db := item("Database", tree.Well, string(f.Database))
	switch {
	case f.Database == "":
		db.State, db.Text = tree.Unknown, cmp.Or(f.DatabaseURL, "not found")
	case f.Tables > 0:
		db.Text += fmt.Sprintf(", %s in %s", text.Amount(f.Objects, "object", "objects"),
			text.Amount(f.Tables, "table", "tables"))
	default:
		db.Text += " at " + f.DatabaseURL
	}
	passphrase := item("Passphrase", tree.Note, "none configured")
	if f.Passphrase != "" {
		passphrase = item("Passphrase", tree.Well, "the Secret "+f.Passphrase+" exists")
		if !f.Present {
			passphrase.State, passphrase.Text = tree.Bad, "the Secret "+f.Passphrase+" was not found"
		}
	}
	who := item("State", tree.Well, "reported by "+f.Source)
	if !f.Running {
		who.State = tree.Unknown
		who.Text = "source: " + cmp.Or(f.Source, "none") + "; unknown whether nodes are online and replicas are up to date"
	}
	return item("Found", tree.Note, "Piraeus "+cmp.Or(f.Piraeus, "of an unknown version")+" in "+f.Namespace, linstor, db,
		passphrase, item("TLS", tree.Note, "API "+locked(f.APITLS)+", satellites "+locked(f.InternalTLS)),
		item("Volumes", tree.Note, fmt.Sprintf("%s in LINSTOR, %s", text.Amount(f.Resources, "resource", "resources"),
			text.Amount(f.Volumes, "PersistentVolume", "PersistentVolumes"))), who)
}

func locked(yes bool) string {
	if yes {
		return "encrypted"
	}
	return "unencrypted"
}

func blockerItem(all []judge.Blocker) tree.Item {
	if len(all) == 0 {
		return item("Blockers", tree.Well, "none")
	}
	out := item("Blockers", tree.Bad, "")
	for _, b := range all {
		out.Items = append(out.Items, item(b.Reason, tree.Bad, b.Message, item("fix", tree.Note, b.Do)))
	}
	return out
}

// mostNodes is how many nodes without a risk are shown.
const mostNodes = 10

func nodesItem(all []judge.Node) tree.Item {
	out := item("Nodes", tree.Note, text.NodesOf(len(all)))
	var well, hidden int
	for i := range all {
		n := &all[i]
		if len(n.Risks) == 0 && ok(n) {
			if well++; well > mostNodes {
				hidden++
				continue
			}
		}
		out.Items = append(out.Items, nodeItem(n))
	}
	if hidden > 0 {
		out.Items = append(out.Items, item("others", tree.Well, text.NodesOf(hidden)+" without risks; -o json lists them"))
	}
	return out
}

// ok reports whether a node is known to be well.
func ok(n *judge.Node) bool { return n.Status == "ONLINE" && len(n.Flags) == 0 }

func nodeItem(n *judge.Node) tree.Item {
	state := tree.Well
	switch {
	case n.Status == "":
		state = tree.Unknown
	case !ok(n):
		state = tree.Bad
	}
	words := []string{cmp.Or(n.Status, "status unknown")}
	words = append(words, n.Flags...)
	words = append(words, n.Network+" network", text.Amount(n.Copies, "replica", "replicas"), fmt.Sprintf("%d diskless",
		n.Diskless))
	out := item(n.Name, state, strings.Join(words, ", "))
	for _, i := range n.Interfaces {
		out.Items = append(out.Items, item(i.Name, tree.Note, i.Now+" → "+cmp.Or(i.After, "unknown")))
	}
	for _, p := range n.Pools {
		out.Items = append(out.Items, poolItem(&p))
	}
	for _, r := range n.Risks {
		out.Items = append(out.Items, item("risk", tree.Warn, r))
	}
	return out
}

func poolItem(p *judge.Pool) tree.Item {
	words := p.Kind + " " + p.Place
	if p.Entry != "" {
		words += " = storagePools[" + p.Entry + "]"
	}
	states := map[string]tree.State{judge.PoolSame: tree.Well, judge.PoolExtra: tree.Note,
		judge.PoolUnknown: tree.Unknown}
	said := map[string]string{judge.PoolExtra: ", not in Piraeus' objects",
		judge.PoolMissing: ", not in LINSTOR",
		judge.PoolDiffers: ", different in Piraeus' objects", judge.PoolUnknown: ", not compared"}
	return item("pool "+p.Name, cmp.Or(states[p.State], tree.Warn), words+said[p.State])
}

func settingsItem(all []judge.Setting) tree.Item {
	out := item("No equivalent", tree.Warn, text.Amount(len(all), "Piraeus setting", "Piraeus settings"))
	for _, s := range all {
		out.Items = append(out.Items, item(s.Where, tree.Warn, s.Message))
	}
	return out
}

func objectsItem(all []judge.Object) tree.Item {
	out := item("Objects", tree.Note, "")
	for _, o := range all {
		out.Items = append(out.Items, item(o.Fate, tree.Note, o.Kind+" "+o.Name+": "+o.Message))
	}
	return out
}

func stepsItem(all []judge.Step) tree.Item {
	out := item("Steps", tree.Note, "in this order")
	for i, s := range all {
		out.Items = append(out.Items, item(fmt.Sprintf("%d. %s", i+1, s.Title), tree.Note, s.Does,
			item("pauses", tree.Note, s.Pauses), item("rollback", tree.Note, s.Back)))
	}
	return out
}
