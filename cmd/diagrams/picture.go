package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// box is where a state is drawn, and what is said about it in a few words.
type box struct {
	state fsm.State
	words string
	class string
}

// The picture has a column of boxes on each side of the state that looks where to go on.
const hub = fsm.Assessing

var left = []box{
	{fsm.Pending, "the spec is validated and stored", "work"},
	{fsm.KernelModule, "DRBD is loaded on each node", "work"},
	{fsm.Database, "LINSTOR's database is claimed", "work"},
	{fsm.Controller, "the LINSTOR controller starts", "work"},
	{fsm.Satellites, "a satellite starts on each node", "work"},
	{fsm.NodeRegistration, "each node is registered in LINSTOR", "work"},
	{fsm.StoragePools, "each node gets its storage pools", "work"},
}

var right = []box{
	{fsm.VolumeDriver, "CSI driver and StorageClasses", "work"},
	{fsm.Canary, "a pod tests a volume of each class", "work"},
	{fsm.Upgrading, "LINSTOR's version is being changed", "work"},
	{fsm.Migrating, "the database is restored or moved", "work"},
	{fsm.Ready, "everything in the spec is in place", "good"},
	{fsm.Degraded, "usable, but something is missing", "warn"},
	{fsm.HumanIntervention, "from any state; waits for a decision", "stop"},
	{fsm.Deleting, "from any state; cannot be reverted", "end"},
}

// aside are events that nearly every state has. They are told in words.
var aside = []fsm.Event{fsm.SpecChanged, fsm.EvidenceLost, fsm.RestoreRequested, fsm.HumanNeeded, fsm.DeleteRequested}

const (
	margin, boxWidth, boxHeight, gap = 20, 232, 42, 66
	hubWidth, rowHeight, top         = 132, 62, 44
	hubLeft                          = margin + boxWidth + gap
	rightLeft                        = hubLeft + hubWidth + gap
	pictureWidth                     = rightLeft + boxWidth + margin
)

const style = `<style>
text{font-family:system-ui,sans-serif;fill:#1f2933}
.name{font-size:14px;font-weight:600}.words{font-size:12px}
rect{stroke-width:1.5}.work{fill:#e8f0fa;stroke:#5b83b5}.hub{fill:#f4f1fb;stroke:#7c68b8}
.good{fill:#e3f5e6;stroke:#3d8b4c}.warn{fill:#fdf3d8;stroke:#b98a17}
.stop{fill:#fde6e4;stroke:#bb4a40}.end{fill:#eceff1;stroke:#78868f}
path{stroke:#52606d;stroke-width:1.5;fill:none;marker-end:url(#tip)}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" style="fill:#52606d;stroke:none;marker-end:none"/></marker></defs>
`

// picture draws the states of a StorageCluster as an image that needs no program to be shown. A state without a place,
// or a transition that cannot be drawn, is an error.
func picture(t *fsm.Table) (string, error) {
	rows := max(len(left), len(right))
	height := top + rows*rowHeight + 50
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		pictureWidth, height, pictureWidth, height)
	b.WriteString("<title>The states of a StorageCluster</title>\n" + style)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="6" style="fill:#fff;stroke:#d3dae0"/>`+"\n", pictureWidth, height)
	for _, s := range t.States {
		if _, _, ok := place(s.State); !ok && s.State != hub {
			return "", fmt.Errorf("state %s has no position in the picture", s.State)
		}
	}
	fmt.Fprintf(&b, `<path d="M%d %dV%d"/><circle cx="%d" cy="%d" r="6" style="fill:#52606d"/>`+"\n",
		margin+boxWidth/2, 20, top, margin+boxWidth/2, 18)
	for _, e := range edges(t) {
		if err := drawEdge(&b, e, slices.Contains(edges(t), edge{e.to, e.from})); err != nil {
			return "", err
		}
	}
	drawBox(&b, hubLeft, top, hubWidth, rows*rowHeight-(rowHeight-boxHeight), "hub")
	middle := top + (rows*rowHeight-rowHeight+boxHeight)/2
	label(&b, hubLeft+hubWidth/2, middle-10, "name", string(hub))
	for i, words := range []string{"finds the first", "step that is", "not complete"} {
		label(&b, hubLeft+hubWidth/2, middle+8+16*i, "words", words)
	}
	for _, column := range [][]box{left, right} {
		for _, bx := range column {
			x, y, _ := place(bx.state)
			drawBox(&b, x, y, boxWidth, boxHeight, bx.class)
			label(&b, x+boxWidth/2, y+18, "name", string(bx.state))
			label(&b, x+boxWidth/2, y+34, "words", bx.words)
		}
	}
	label(&b, pictureWidth/2, height-22, "words", "When the spec changes or something is lost, the phase returns "+
		"to "+string(hub)+" and continues from there.")
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// edge is a transition, whatever its event.
type edge struct{ from, to fsm.State }

func edges(t *fsm.Table) []edge {
	var out []edge
	for _, r := range t.Rows {
		if e := (edge{r.From, r.To}); !slices.Contains(aside, r.Event) && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// place is the upper left corner of a state's box.
func place(s fsm.State) (x, y int, ok bool) {
	is := func(b box) bool { return b.state == s }
	if i := slices.IndexFunc(left, is); i >= 0 {
		return margin, top + i*rowHeight, true
	}
	i := slices.IndexFunc(right, is)
	return rightLeft, top + i*rowHeight, i >= 0
}

// drawEdge draws a transition from or to the hub, or to the box above or below. Of two that lead to and fro each has a
// line of its own.
func drawEdge(b *strings.Builder, e edge, both bool) error {
	if e.from == hub || e.to == hub {
		drawToHub(b, e, both)
		return nil
	}
	x, from, _ := place(e.from)
	x2, to, _ := place(e.to)
	if x != x2 || max(from-to, to-from) != rowHeight {
		return fmt.Errorf("%s and %s are not adjacent in the picture", e.from, e.to)
	}
	x += boxWidth / 2
	if down := to > from; down {
		if both {
			x -= 12
		}
		fmt.Fprintf(b, `<path d="M%d %dV%d"/>`+"\n", x, from+boxHeight, to)
		return nil
	}
	if both {
		x += 12
	}
	fmt.Fprintf(b, `<path d="M%d %dV%d"/>`+"\n", x, from, to+boxHeight)
	return nil
}

func drawToHub(b *strings.Builder, e edge, both bool) {
	other, leaves := e.to, true
	if e.to == hub {
		other, leaves = e.from, false
	}
	x, y, _ := place(other)
	y += boxHeight / 2
	switch {
	case both && leaves:
		y -= 8
	case both:
		y += 8
	}
	from, to := hubLeft, x+boxWidth
	if x > hubLeft {
		from, to = hubLeft+hubWidth, x
	}
	if !leaves {
		from, to = to, from
	}
	fmt.Fprintf(b, `<path d="M%d %dH%d"/>`+"\n", from, y, to)
}

func drawBox(b *strings.Builder, x, y, width, height int, class string) {
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+"\n", class, x, y, width, height)
}

func label(b *strings.Builder, x, y int, class, text string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", class, x, y, text)
}
