package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/endstate"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// picture is what a cluster comes to, without what differs from run to run: times, identities of objects, addresses of
// pods.
type picture struct {
	Status     []string
	Objects    []string
	Labels     []string
	Properties map[string]string
	Nodes      map[string]nodePicture
	Copies     map[string]int
	Groups     map[string][]sim.VolumeGroup
}

type nodePicture struct {
	Status     string
	Flags      []string
	Interfaces []linstor.Interface
	Properties map[string]string
	Pools      map[string]poolPicture
}

type poolPicture struct {
	Provider, Backing string
	Properties        map[string]string
	Sized             bool
	Errors            []string
}

// look takes a picture of all that the operator answers for. While LINSTOR does not answer, its part is empty.
func look(e *harness.Env) picture {
	e.T.Helper()
	p := picture{Objects: e.Owned(), Labels: e.MemberLabels(), Groups: map[string][]sim.VolumeGroup{}}
	slices.Sort(p.Labels)
	s := status(e)
	p.Status = append(p.Status, fmt.Sprintf("phase %s, version %s, nodes %s, pools %s, %d problems, %d leave, %d node "+
		"holds",
		s.Phase, s.Version, s.Nodes.Summary, s.Pools.Summary, len(s.Nodes.Problems), s.Nodes.LeavingCount, len(s.NodeHolds)))
	for _, c := range s.Conditions {
		p.Status = append(p.Status, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	if s.Hold != nil {
		p.Status = append(p.Status, "hold "+string(s.Hold.Reason))
	}
	v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{Resources: true})
	if err != nil {
		return p
	}
	p.Properties = maps.Clone(v.Properties)
	maps.DeleteFunc(p.Properties, func(k, _ string) bool { return strings.HasPrefix(k, "Cluster/") })
	p.Nodes, p.Copies = map[string]nodePicture{}, map[string]int{}
	for _, r := range v.Resources {
		p.Copies[r.Name]++
	}
	for _, n := range v.Nodes {
		for k, v := range n.Properties {
			n.Properties[k] = endstate.Text(v) // a skipped pool names the hold that was answered
		}
		np := nodePicture{Status: n.Status, Flags: n.Flags, Interfaces: n.Interfaces, Properties: n.Properties,
			Pools: map[string]poolPicture{}}
		for _, pool := range n.Pools {
			np.Pools[pool.Name] = poolPicture{Provider: pool.Provider, Backing: pool.Backing, Properties: pool.Properties,
				Sized: pool.TotalKiB != nil, Errors: pool.Errors}
		}
		p.Nodes[n.Name] = np
		p.Groups[n.Name] = e.Sim.World().Machine(n.Name).LVM().Groups()
	}
	return p
}
