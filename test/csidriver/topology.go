package csidriver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/container-storage-interface/spec/lib/go/csi"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// segments are the topology of a node: its name, and the properties that are meant to be.
func (d *Driver) segments(n client.Node) map[string]string {
	out := map[string]string{HostnameTopology: n.Name}
	for property, value := range n.Props {
		if key, ok := strings.CutPrefix(property, d.opts.PropertyNamespace+"/"); ok {
			out[key] = value
		}
	}
	return out
}

// within are the names of the nodes that a topology means; of none it means all.
func (d *Driver) within(nodes []client.Node, t *csi.Topology) []string {
	var names []string
	for _, n := range nodes {
		has, fits := d.segments(n), true
		for key, value := range t.GetSegments() {
			fits = fits && has[key] == value
		}
		if fits {
			names = append(names, n.Name)
		}
	}
	return names
}

// reach are nodes that a new volume may be placed on.
type reach struct {
	// preferred are one node each, or those of a zone, the best first; the first copy goes there.
	preferred [][]string
	// requisite are all nodes that may be chosen. Without a topology they are all.
	requisite []string
}

func (d *Driver) reachOf(ctx context.Context, want *csi.TopologyRequirement) (reach, error) {
	nodes, err := d.linstor.Nodes.GetAll(ctx)
	if err != nil {
		return reach{}, fmt.Errorf("read LINSTOR's nodes: %w", err)
	}
	var out reach
	for _, t := range want.GetPreferred() {
		if names := d.within(nodes, t); len(names) > 0 {
			out.preferred = append(out.preferred, names)
		}
	}
	for _, t := range want.GetRequisite() {
		for _, name := range d.within(nodes, t) {
			if !slices.Contains(out.requisite, name) {
				out.requisite = append(out.requisite, name)
			}
		}
	}
	if len(want.GetRequisite()) == 0 {
		out.requisite = d.within(nodes, nil)
	}
	return out, nil
}

// accessible is where a volume can be used: anywhere, or on the nodes with a copy. Nodes that the driver has not read
// yet are left out, as by the real driver, whose volumes on new nodes can be used anywhere for that reason.
func (d *Driver) accessible(ctx context.Context, name string, remote bool) ([]*csi.Topology, error) {
	if remote {
		return nil, nil
	}
	nodes, err := d.linstor.Nodes.GetAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read LINSTOR's nodes: %w", err)
	}
	copies, err := d.copies(ctx, name)
	if err != nil {
		return nil, err
	}
	var out []*csi.Topology
	for _, c := range copies {
		known := slices.ContainsFunc(nodes, func(n client.Node) bool { return n.Name == c.NodeName })
		if known && !slices.Contains(c.Flags, linstor.FlagDiskless) {
			out = append(out, &csi.Topology{Segments: map[string]string{HostnameTopology: c.NodeName}})
		}
	}
	return out, nil
}

// copies are a volume's resources, diskless ones included.
func (d *Driver) copies(ctx context.Context, name string) ([]client.ResourceWithVolumes, error) {
	all, err := d.linstor.Resources.GetResourceView(ctx)
	if err != nil {
		return nil, fmt.Errorf("read LINSTOR's resources: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(all), func(r client.ResourceWithVolumes) bool { return r.Name != name }), nil
}

// freeSpace is the free space of the class's pools on all nodes that the volume could be used from, which with remote
// access is the whole cluster's: G view/storage-pools, G nodes.
func (d *Driver) freeSpace(ctx context.Context, c class, where *csi.Topology) (int64, error) {
	pools, err := d.linstor.Nodes.GetStoragePoolView(ctx)
	if err != nil {
		return 0, fmt.Errorf("read LINSTOR's storage pools: %w", err)
	}
	nodes, err := d.linstor.Nodes.GetAll(ctx)
	if err != nil {
		return 0, fmt.Errorf("read LINSTOR's nodes: %w", err)
	}
	if c.remote {
		where = nil
	}
	within := d.within(nodes, where)
	var free int64
	for _, p := range pools {
		if p.ProviderKind == client.DISKLESS || !slices.Contains(within, p.NodeName) ||
			len(c.pools) > 0 && !slices.Contains(c.pools, p.StoragePoolName) {
			continue
		}
		free += p.FreeCapacity * kib
	}
	return free, nil
}
