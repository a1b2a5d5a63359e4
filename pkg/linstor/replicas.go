package linstor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	lapi "github.com/LINBIT/golinstor/client"
)

// Resource is one copy of a volume on a node, or a diskless client of it (LINSTOR's "resource").
type Resource struct {
	// Name is the resource definition's, Node the node's, as they were created.
	Name, Node string
	Flags      []string
	// Diskful is whether it holds data: neither a client nor a tie-breaker.
	Diskful bool
	// InUse is whether a device is opened (DRBD's role Primary); nil while the satellite does not tell.
	InUse *bool
	// States are DRBD's disk states, one for each volume; "" while the satellite does not tell. LINSTOR leaves out resources
	// without volumes.
	States []string
	// Pools are the storage pools of the volumes, in the order of States.
	Pools []string
	// Connected tells for each peer's node name whether this side of DRBD's connection is up; nil while not known.
	Connected map[string]bool
}

// Flags of a resource.
const (
	FlagDiskless = "DISKLESS"
	FlagInactive = "INACTIVE"
)

// stateUpToDate is DRBD's disk state of a copy that has all data.
const stateUpToDate = "UpToDate"

// HasFlag tells whether the resource has the flag.
func (r *Resource) HasFlag(f string) bool { return hasFlag(r.Flags, f) }

// UpToDate is whether the copy is known to hold all data of all its volumes.
func (r *Resource) UpToDate() bool {
	return r.Diskful && len(r.States) > 0 && !slices.ContainsFunc(r.States, func(s string) bool { return s != stateUpToDate })
}

// ResourceQuery selects resources: those on one of Nodes whose definition is one of Names. Empty means all.
type ResourceQuery struct {
	Nodes, Names []string
}

type wireResource struct {
	Name  string   `json:"name"`
	Node  string   `json:"node_name"`
	Flags []string `json:"flags"`
	State *struct {
		InUse *bool `json:"in_use"`
	} `json:"state"`
	Layer   wireLayer `json:"layer_object"`
	Volumes []struct {
		Pool  string `json:"storage_pool_name"`
		State *struct {
			Disk string `json:"disk_state"`
		} `json:"state"`
	} `json:"volumes"`
}

type wireLayer struct {
	Children []wireLayer `json:"children"`
	DRBD     *struct {
		Connections map[string]struct {
			Connected bool `json:"connected"`
		} `json:"connections"`
	} `json:"drbd"`
}

// connections are those of the DRBD layer, wherever it is among the layers.
func (w *wireLayer) connections() map[string]bool {
	if w.DRBD != nil {
		if w.DRBD.Connections == nil {
			return nil
		}
		out := make(map[string]bool, len(w.DRBD.Connections))
		for peer, c := range w.DRBD.Connections {
			out[peer] = c.Connected
		}
		return out
	}
	for i := range w.Children {
		if out := w.Children[i].connections(); out != nil {
			return out
		}
	}
	return nil
}

func (w *wireResource) resource() Resource {
	r := Resource{Name: w.Name, Node: w.Node, Flags: w.Flags, Diskful: !hasFlag(w.Flags, FlagDiskless), Connected: w.Layer.connections()}
	if w.State != nil {
		r.InUse = w.State.InUse
	}
	for _, v := range w.Volumes {
		state := ""
		if v.State != nil {
			state = v.State.Disk
		}
		r.States, r.Pools = append(r.States, state), append(r.Pools, v.Pool)
	}
	return r
}

// Resources implements Reader.
func (c *Client) Resources(ctx context.Context, q ResourceQuery) ([]Resource, error) {
	o := read("resource_list", "list resources")
	if err := checkNames(o, append(slices.Clone(q.Nodes), q.Names...)...); err != nil {
		return nil, err
	}
	query := url.Values{}
	if len(q.Nodes) > 0 {
		query["nodes"] = q.Nodes
	}
	if len(q.Names) > 0 {
		query["resources"] = q.Names
	}
	out := []Resource{}
	err := c.call(ctx, o, func(ctx context.Context) error {
		return list(ctx, c, path("view", "resources"), query, func(w *wireResource) error {
			if w.Name == "" || w.Node == "" {
				return fmt.Errorf("%w: a resource without a name or node", ErrNotLINSTOR)
			}
			out = append(out, w.resource())
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Snapshots implements Reader.
func (c *Client) Snapshots(ctx context.Context, node string) ([]string, error) {
	o := read("snapshot_list", "list snapshots on node %s", node)
	if err := checkNames(o, node); err != nil {
		return nil, err
	}
	names := []string{}
	err := c.call(ctx, o, func(ctx context.Context) error {
		return list(ctx, c, path("view", "snapshots"), url.Values{"nodes": {node}}, func(w *struct {
			Name     string   `json:"name"`
			Resource string   `json:"resource_name"`
			Nodes    []string `json:"nodes"`
		}) error {
			// The filter is LINSTOR's; a server that does not know it must not make the node look full.
			if slices.ContainsFunc(w.Nodes, func(n string) bool { return strings.EqualFold(n, node) }) {
				names = append(names, w.Resource+"/"+w.Name)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// EvacuateNode implements Writer.
func (c *Client) EvacuateNode(ctx context.Context, node string) error {
	o := write("node_evacuate", "evacuate node %s", node)
	if err := checkNames(o, node); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.Evacuate(ctx, escape(node), lapi.NodeEvacuate{})
	})
}

// EvictNode implements Writer.
func (c *Client) EvictNode(ctx context.Context, node string) error {
	o := write("node_evict", "evict node %s", node)
	if err := checkNames(o, node); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error { return c.lin.Nodes.Evict(ctx, escape(node)) })
}

// RestoreNode implements Writer.
func (c *Client) RestoreNode(ctx context.Context, node string) error {
	o := write("node_restore", "restore node %s", node)
	if err := checkNames(o, node); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.Restore(ctx, escape(node), lapi.NodeRestore{})
	})
}

// LoseNode implements Writer.
func (c *Client) LoseNode(ctx context.Context, node string) error {
	o := write("node_lost", "declare node %s lost", node)
	if err := checkNames(o, node); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error { return c.lin.Nodes.Lost(ctx, escape(node)) })
}
