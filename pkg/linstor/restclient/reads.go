package restclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/secret"
)

const (
	// maxVolumeNames bounds View.VolumeNames.
	maxVolumeNames = 10
	// maxAskedNodes bounds how many nodes are queried for pools of unknown capacity in one view. The rest has its turn
	// when these are well; a status has room for fewer examples.
	maxAskedNodes = 50
)

// version is the controller's: "1.34.0".
func (c *client) version(ctx context.Context) (string, error) {
	var version string
	o := read("version", "read the controller version")
	err := c.call(ctx, o, func(ctx context.Context) error {
		v, err := c.now().lin.Controller.GetVersion(ctx)
		if err == nil && v.Version == "" {
			err = linstor.ErrNotLINSTOR
		}
		version = v.Version
		return err
	})
	return version, err
}

func (c *client) Node(ctx context.Context, name string) (*linstor.Node, error) {
	return get(ctx, c, read("node_get", "read node %s", name), path("nodes", name), (*wireNode).node)
}

func (c *client) Pool(ctx context.Context, node, pool string) (*linstor.Pool, error) {
	return c.pool(ctx, node, pool, false)
}

// pool is cached without the capacity as the satellite knows it now.
func (c *client) pool(ctx context.Context, node, pool string, cached bool) (*linstor.Pool, error) {
	o := read("pool_get", "read storage pool %s on node %s", pool, node)
	o.query = url.Values{"cached": {strconv.FormatBool(cached)}}
	return get(ctx, c, o, path("nodes", node, "storage-pools", pool), func(w *wirePool) (*linstor.Pool, error) {
		return w.pool(), named("a storage pool without a name", w.Name)
	})
}

func (c *client) Devices(ctx context.Context, node string) ([]linstor.Device, error) {
	o := read("device_get", "list empty devices on node %s", node)
	devices, err := list(ctx, c, o, path("physical-storage", node), func(w *wireDevice) (linstor.Device, error) {
		return w.device(), nil
	})
	if err != nil {
		return nil, err
	}
	if len(devices) > 0 {
		linstor.SortDevices(devices)
		return devices, nil
	}
	// LINSTOR skips satellites that are not connected: an empty list counts only from an ONLINE node.
	n, err := c.Node(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.text, err)
	}
	if !n.Online() {
		return nil, &linstor.Error{Op: o.text, Status: http.StatusOK, Err: fmt.Errorf("the node is %s", n.Status)}
	}
	return devices, nil
}

func (c *client) Resources(ctx context.Context, q linstor.ResourceQuery) ([]linstor.Resource, error) {
	o := read("resource_list", "list resources")
	o.objects = slices.Concat(q.Nodes, q.Names)
	o.query = url.Values{"nodes": q.Nodes, "resources": q.Names}
	return list(ctx, c, o, path("view", "resources"), func(w *copies.Wire) (linstor.Resource, error) {
		return w.Resource(), named("a resource without a name or node", w.Name, w.Node)
	})
}

func (c *client) Snapshots(ctx context.Context, nodes ...string) ([]linstor.Snapshot, error) {
	o := read("snapshot_list", "list snapshots on node %s", strings.Join(nodes, ", "))
	o.query = url.Values{"nodes": nodes}
	all, err := list(ctx, c, o, path("view", "snapshots"), (*wireSnapshot).snapshot)
	// The filter is LINSTOR's; a server that does not know it must not make the nodes look full.
	return slices.DeleteFunc(all, func(s linstor.Snapshot) bool { return !slices.ContainsFunc(nodes, s.On) }), err
}

func (c *client) Passphrase(ctx context.Context) (string, error) {
	o := read("passphrase_status", "read the state of the master passphrase")
	return get(ctx, c, o, path("encryption", "passphrase"), func(w *struct {
		Status string `json:"status"`
	}) (string, error) {
		return w.Status, named("no state", w.Status)
	})
}

func (c *client) View(ctx context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	v := &linstor.View{TakenAt: c.o.Clock.Now()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	required := []func() error{
		func() (err error) { v.Version, err = c.version(ctx); return },
		func() (err error) { v.Properties, err = c.properties(ctx); return },
		func() error { return c.stock(ctx, v, want.Devices) },
		func() (err error) { v.Volumes, v.VolumeNames, err = c.volumes(ctx); return },
	}
	if want.Resources {
		required = append(required, func() (err error) {
			v.Resources, err = c.Resources(ctx, linstor.ResourceQuery{})
			return
		}, func() (err error) { v.PlaceCounts, err = c.placeCounts(ctx); return })
	}
	if v.Sought = want.Volumes; len(v.Sought) > 0 {
		required = append(required, func() (err error) { v.Found, err = c.definitions(ctx, v.Sought); return })
	}
	if len(want.Groups) > 0 {
		required = append(required, func() (err error) { v.Groups, err = c.groups(ctx, want.Groups); return })
	}
	errs := make([]error, len(required))
	var wg sync.WaitGroup
	for i, look := range required {
		wg.Go(func() {
			if errs[i] = look(); errs[i] != nil {
				cancel() // the view has failed: the other answers are of no use
			}
		})
	}
	wg.Wait()
	// The end of a cancelled request was made by another error.
	causes := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, context.Canceled) })
	if err := cmp.Or(append(causes, errs...)...); err != nil {
		return nil, fmt.Errorf("read LINSTOR's state: %w", err)
	}
	v.LocalID = v.Properties[linstor.PropLocalID]
	if want.Resources {
		v.SetResources(v.Resources)
	}
	c.askAboutPools(ctx, v)
	v.BelievePools()
	return v, nil
}

// stock reads disks, nodes and pools one after the other, against the order in which a pool comes into being: a
// node's properties say which disks it will take, then the disks are no longer empty, then the pool is there. A disk
// that is missing from the first answer is explained by the second or the third, even if all of it happened during the
// look. Read side by side, they showed a node whose disk had vanished, and a human was called.
//
// A pool or device of a node that is not in the list came or went during the look, and is left out.
func (c *client) stock(ctx context.Context, v *linstor.View, wantDevices bool) (err error) {
	var devices map[string][]linstor.Device
	if wantDevices {
		devices, v.DevicesErr = c.devices(ctx)
	}
	if v.Nodes, err = c.nodes(ctx); err != nil {
		return err
	}
	for key, n := range v.Nodes {
		n.Pools = map[string]*linstor.Pool{}
		// LINSTOR leaves nodes out that are not ONLINE: no devices listed means nothing there.
		if devices != nil && n.Online() {
			n.Devices, n.DevicesKnown = devices[key], true
		}
	}
	pools, err := c.pools(ctx, url.Values{"cached": {"true"}})
	for _, pool := range pools {
		if n := v.Node(pool.Node); n != nil {
			n.Pools[strings.ToLower(pool.Name)] = pool
		}
	}
	return err
}

// askAboutPools looks again, past LINSTOR's cache, at pools whose capacity is unknown although their node is ONLINE:
// the list never says why. It is one request, and only in trouble. If it fails, the capacity stays unknown, which is
// the truth.
func (c *client) askAboutPools(ctx context.Context, v *linstor.View) {
	nodes := v.Unmeasured()
	if len(nodes) == 0 {
		return
	}
	nodes = nodes[:min(len(nodes), maxAskedNodes)]
	pools, err := c.pools(ctx, url.Values{"cached": {"false"}, "nodes": nodes})
	if err != nil {
		return
	}
	for _, p := range pools {
		if old := v.Pool(p.Node, p.Name); old != nil {
			*old = *p
		}
	}
}

func (c *client) properties(ctx context.Context) (map[string]string, error) {
	o := read("controller_properties", "read the controller properties")
	return get(ctx, c, o, path("controller", "properties"), func(props *map[string]string) (map[string]string, error) {
		return secret.Without(*props), nil
	})
}

func (c *client) nodes(ctx context.Context) (map[string]*linstor.Node, error) {
	all, err := list(ctx, c, read("node_list", "list nodes"), path("nodes"), (*wireNode).node)
	nodes := make(map[string]*linstor.Node, len(all))
	for _, n := range all {
		nodes[strings.ToLower(n.Name)] = n
	}
	return nodes, err
}

func (c *client) pools(ctx context.Context, query url.Values) ([]*linstor.Pool, error) {
	o := read("pool_list", "list storage pools")
	o.query = query
	pools, err := list(ctx, c, o, path("view", "storage-pools"), func(w *wirePool) (*linstor.Pool, error) {
		return w.pool(), named("a storage pool without a name or node", w.Name, w.Node)
	})
	return slices.DeleteFunc(pools, func(p *linstor.Pool) bool { return strings.EqualFold(p.Name, disklessPool) }), err
}

func (c *client) devices(ctx context.Context) (map[string][]linstor.Device, error) {
	o := read("device_list", "list empty devices")
	groups, err := list(ctx, c, o, path("physical-storage"), func(g *wireDeviceGroup) (*wireDeviceGroup, error) {
		return g, nil
	})
	if err != nil {
		return nil, err
	}
	devices := map[string][]linstor.Device{}
	for _, g := range groups {
		for node, members := range g.Nodes {
			key := strings.ToLower(node)
			for _, w := range members {
				w.SizeBytes, w.Rotational = g.SizeBytes, g.Rotational
				devices[key] = append(devices[key], w.device())
			}
		}
	}
	for _, d := range devices {
		linstor.SortDevices(d)
	}
	return devices, nil
}

// definitions are those of the resource definitions that are there.
func (c *client) definitions(ctx context.Context, names []string) ([]string, error) {
	o := read("volume_find", "search for volumes")
	o.objects, o.query = names, url.Values{"resource_definitions": names}
	found, err := list(ctx, c, o, path("resource-definitions"), definitionName)
	// The filter is LINSTOR's; a server that does not know it answers with all.
	return slices.DeleteFunc(found, func(name string) bool { return !slices.Contains(names, name) }), err
}

// groups are those of the named resource groups that there are.
func (c *client) groups(ctx context.Context, names []string) (map[string]*linstor.ResourceGroup, error) {
	o := read("resource_group_list", "list resource groups")
	o.objects, o.query = names, url.Values{"resource_groups": names}
	all, err := list(ctx, c, o, path("resource-groups"), func(w *struct {
		Name  string            `json:"name"`
		Props map[string]string `json:"props"`
	}) (*linstor.ResourceGroup, error) {
		return &linstor.ResourceGroup{Name: w.Name, Properties: secret.Without(w.Props)},
			named("a resource group without a name", w.Name)
	})
	out := make(map[string]*linstor.ResourceGroup, len(names))
	for _, g := range all {
		if slices.Contains(names, g.Name) { // the filter is LINSTOR's; a server that does not know it answers with all
			out[g.Name] = g
		}
	}
	return out, err
}

// placeCounts are what the resource groups of all volumes say, but for LINSTOR's default group: its number is no wish
// of somebody who made a volume in it by hand.
func (c *client) placeCounts(ctx context.Context) (map[string]int, error) {
	groups, counts := map[string]int{}, map[string]int{}
	_, err := list(ctx, c, read("resource_group_list", "list resource groups"), path("resource-groups"), func(w *struct {
		Name   string `json:"name"`
		Select struct {
			Count int `json:"place_count"`
		} `json:"select_filter"`
	}) (string, error) {
		if !strings.EqualFold(w.Name, "DfltRscGrp") {
			groups[strings.ToLower(w.Name)] = w.Select.Count
		}
		return w.Name, nil
	})
	if err != nil {
		return nil, err
	}
	_, err = list(ctx, c, read("volume_list", "list volumes"), path("resource-definitions"),
		func(w *wireDefinition) (string, error) {
			if n := groups[strings.ToLower(w.Group)]; n > 0 {
				counts[strings.ToLower(w.Name)] = n
			}
			return w.Name, nil
		})
	return counts, err
}

// wireDefinition is what is read of a resource definition.
type wireDefinition struct {
	Name  string `json:"name"`
	Group string `json:"resource_group_name"`
}

func definitionName(w *wireDefinition) (string, error) { return w.Name, nil }

// volumes counts the resource definitions and names the first. A cluster with few needs one short request; with many,
// a second one counts them without listing them.
func (c *client) volumes(ctx context.Context) (int, []string, error) {
	o := read("volume_list", "list volumes")
	o.query = url.Values{"limit": {strconv.Itoa(maxVolumeNames + 1)}, "offset": {"0"}}
	names, err := list(ctx, c, o, path("resource-definitions"), definitionName)
	if err != nil || len(names) <= maxVolumeNames {
		return len(names), names, err
	}
	o = read("volume_count", "count volumes")
	count, err := get(ctx, c, o, path("stats", "resource-definitions"), func(w *struct {
		Count *int `json:"count"`
	}) (int, error) {
		if w.Count == nil {
			return 0, linstor.ErrNotLINSTOR
		}
		return *w.Count, nil
	})
	if err != nil {
		return 0, nil, err
	}
	return max(count, len(names)), names[:maxVolumeNames], nil
}
