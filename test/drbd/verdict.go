package drbd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// seen is what LINSTOR reports of a volume: for each resource, by node, "n01 in use UpToDate 10102 n02:up n03:down".
func seen(v *linstor.View, volume string) []string {
	var out []string
	for i := range v.Resources {
		r := &v.Resources[i]
		if r.Name != volume {
			continue
		}
		words := []string{r.Node}
		if r.InUse != nil && *r.InUse {
			words = append(words, "in use")
		}
		for _, s := range r.States {
			words = append(words, cmp.Or(s, "-"))
		}
		if r.PromotionScore != nil {
			words = append(words, fmt.Sprint(*r.PromotionScore))
		}
		var peers []string
		for peer, up := range r.Connected {
			state := "down"
			switch {
			case up:
				state = "up"
			case r.Refuses(peer):
				state = "StandAlone"
			}
			peers = append(peers, peer+":"+state)
		}
		slices.Sort(peers)
		if r.SkipsDisk {
			peers = append(peers, "SkipDisk")
		}
		out = append(out, strings.Join(append(words, peers...), " "))
	}
	slices.Sort(out)
	return out
}

func seenText(v *linstor.View, volume string) string { return strings.Join(seen(v, volume), ", ") }

// world is a cluster at rest whose LINSTOR is as the view shows. off are the nodes whose kubelets do not respond.
func world(t testing.TB, v *linstor.View, off ...string) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	rest := w.Linstor.View
	v.TakenAt = rest.TakenAt
	w.Claim(func(c *resources.ClaimData) { c.LocalID = v.LocalID })
	v.Properties = rest.Properties
	v.Volumes = len(volumesOf(v))
	for name, n := range v.Nodes {
		if n.Properties == nil {
			n.Properties = map[string]string{}
		}
		for key, value := range rest.Nodes[name].Properties {
			if _, there := n.Properties[key]; !there {
				n.Properties[key] = value
			}
		}
	}
	w.Linstor.View = v
	for _, n := range v.Nodes {
		if !n.Online() {
			status := n.Status
			w.LinkDown(n.Name, time.Hour)
			n.Status = status
		}
	}
	for _, name := range off {
		w.NodeDown(name, time.Hour)
	}
	return w
}

func volumesOf(v *linstor.View) []string {
	var out []string
	for i := range v.Resources {
		out = append(out, v.Resources[i].Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// verdict is what the operator makes of LINSTOR's view: how each volume is, on which nodes it may have its last
// replica, and the answer to a drain and to an evacuation of each node.
func verdict(t testing.TB, fresh func() *linstor.View, off ...string) []string {
	t.Helper()
	var out []string
	w := world(t, fresh(), off...)
	volumes, known := replica.Volumes(&w.Snapshot().Facts)
	if !known {
		out = append(out, "health: not known")
	}
	for i := range volumes {
		v := &volumes[i]
		line := "health: " + v.State().String() + ": " + v.String()
		if len(v.Skipping) > 0 {
			line += ", SkipDisk on " + strings.Join(v.Skipping, ", ")
		}
		out = append(out, line)
	}
	for _, node := range []string{"n01", "n02", "n03"} {
		out = append(out, "drain "+node+": "+drain(t, world(t, fresh(), off...), node),
			"evacuate "+node+": "+evacuate(world(t, fresh(), off...), node))
	}
	return out
}

// drain is what the drain guard says of a node.
func drain(t testing.TB, w *clustertest.World, node string) string {
	t.Helper()
	clustertest.Cordon(w, node)
	j := drainguard.Judge(w.Snapshot())
	switch {
	case j.Off != "" || j.Unknown:
		t.Errorf("no drain guard: %+v", j)
	case slices.Contains(j.Free, node):
		return "allowed"
	case len(j.Refused) == 1:
		return "refused: " + j.Refused[0].Why
	}
	t.Errorf("%s is neither free nor refused: %+v", node, j)
	return ""
}

// evacuate is the operator's next step for a node that the spec no longer selects and that it may evacuate now.
func evacuate(w *clustertest.World, node string) string {
	w.Leaves(v1alpha1.NodesEvacuate, node)
	w.LeavingSince(node)
	return text(w.LeaveOf(node))
}

func text(l *cluster.Leave) string {
	switch {
	case l.Hold != "":
		return fmt.Sprintf("stops (%s): %s", l.Hold, l.Message)
	case l.Step != "":
		return fmt.Sprintf("%s: %s", l.Step, l.Message)
	default:
		return "waits: " + l.Message
	}
}
