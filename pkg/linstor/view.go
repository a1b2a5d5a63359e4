package linstor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// maxVolumeNames bounds View.VolumeNames.
	maxVolumeNames = 10
	// maxAskedNodes bounds how many nodes are asked about pools of unknown capacity in one view. The rest has its turn
	// when these are well; a status has room for fewer examples.
	maxAskedNodes = 50
	// localIDProperty identifies LINSTOR's database.
	localIDProperty = "Cluster/LocalID"
)

// parts are the answers from which a view is made.
type parts struct {
	version    string
	properties map[string]string
	nodes      map[string]*Node
	pools      []*Pool
	volumes    int
	names      []string
	devices    map[string][]Device // by lower-case node name
	devicesErr error
	resources  []Resource
}

// View implements Reader.
func (c *Client) View(ctx context.Context, want ViewOptions) (*View, error) {
	takenAt := c.o.Clock.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var p parts
	required := []func() error{
		func() (err error) { p.version, err = c.Version(ctx); return },
		func() (err error) { p.properties, err = c.properties(ctx); return },
		func() error { return c.stock(ctx, &p, want.Devices) },
		func() (err error) { p.volumes, p.names, err = c.volumes(ctx); return },
	}
	if want.Resources {
		required = append(required, func() (err error) { p.resources, err = c.Resources(ctx, ResourceQuery{}); return })
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
	if err := firstCause(errs); err != nil {
		return nil, fmt.Errorf("look at LINSTOR: %w", err)
	}
	v := p.view()
	v.TakenAt = takenAt
	v.Resources, v.ResourcesKnown = p.resources, want.Resources
	c.askAboutPools(ctx, v)
	return v, nil
}

// stock asks for disks, nodes and pools one after the other, against the order in which a pool comes into being: a node's
// properties say which disks it will take, then the disks are no longer empty, then the pool is there. A disk that is missing
// from the first answer is explained by the second or the third, even if all of it happened during the look. Asked for side
// by side, they told of a node whose disk had vanished, and a human was called.
func (c *Client) stock(ctx context.Context, p *parts, devices bool) (err error) {
	if devices {
		p.devices, p.devicesErr = c.devices(ctx)
	}
	if p.nodes, err = c.nodes(ctx); err != nil {
		return err
	}
	p.pools, err = c.pools(ctx, url.Values{"cached": {"true"}})
	return err
}

// firstCause returns the error that made the others: an error that is not merely the end of a cancelled request.
func firstCause(errs []error) error {
	var cancelled error
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if cancelled == nil {
			cancelled = err
		}
	}
	return cancelled
}

// view joins the parts. A pool or device of a node that is not in the list came or went during the look, and is left out.
func (p *parts) view() *View {
	v := &View{
		Version: p.version, LocalID: p.properties[localIDProperty], Properties: p.properties,
		Nodes: p.nodes, Volumes: p.volumes, VolumeNames: p.names, DevicesErr: p.devicesErr,
	}
	for _, n := range v.Nodes {
		n.Pools = map[string]*Pool{}
	}
	for _, pool := range p.pools {
		if n := v.Node(pool.Node); n != nil {
			n.Pools[strings.ToLower(pool.Name)] = pool
		}
	}
	if p.devices == nil {
		return v
	}
	for key, n := range v.Nodes {
		// LINSTOR leaves nodes out that are not ONLINE: no devices listed means nothing there.
		if n.Online() {
			n.Devices, n.DevicesKnown = p.devices[key], true
		}
	}
	return v
}

// askAboutPools looks again, past LINSTOR's cache, at pools whose capacity is unknown although their node is ONLINE:
// the list never says why. It is one request, and only in trouble. If it fails, the capacity stays unknown, which is
// the truth.
func (c *Client) askAboutPools(ctx context.Context, v *View) {
	var nodes []string
	for _, key := range slices.Sorted(maps.Keys(v.Nodes)) {
		n := v.Nodes[key]
		if n.Online() && slices.ContainsFunc(slices.Collect(maps.Values(n.Pools)), func(p *Pool) bool { return p.TotalKiB == nil }) {
			nodes = append(nodes, n.Name)
		}
	}
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

func (c *Client) properties(ctx context.Context) (map[string]string, error) {
	var props map[string]string
	err := c.call(ctx, read("controller_properties", "read the controller's properties"), func(ctx context.Context) error {
		return c.get(ctx, path("controller", "properties"), nil, &props)
	})
	if err != nil {
		return nil, err
	}
	return withoutSecrets(props), nil
}

func (c *Client) nodes(ctx context.Context) (map[string]*Node, error) {
	nodes := map[string]*Node{}
	err := c.call(ctx, read("node_list", "list nodes"), func(ctx context.Context) error {
		return list(ctx, c, path("nodes"), nil, func(w *wireNode) error {
			if w.Name == "" {
				return fmt.Errorf("%w: a node without a name", ErrNotLINSTOR)
			}
			nodes[strings.ToLower(w.Name)] = w.node()
			return nil
		})
	})
	return nodes, err
}

func (c *Client) pools(ctx context.Context, query url.Values) ([]*Pool, error) {
	var pools []*Pool
	err := c.call(ctx, read("pool_list", "list storage pools"), func(ctx context.Context) error {
		return list(ctx, c, path("view", "storage-pools"), query, func(w *wirePool) error {
			if w.Name == "" || w.Node == "" {
				return fmt.Errorf("%w: a storage pool without a name or node", ErrNotLINSTOR)
			}
			if !strings.EqualFold(w.Name, disklessPool) {
				pools = append(pools, w.pool())
			}
			return nil
		})
	})
	return pools, err
}

func (c *Client) devices(ctx context.Context) (map[string][]Device, error) {
	devices := map[string][]Device{}
	err := c.call(ctx, read("device_list", "list empty devices"), func(ctx context.Context) error {
		return list(ctx, c, path("physical-storage"), nil, func(g *wireDeviceGroup) error {
			for node, members := range g.Nodes {
				key := strings.ToLower(node)
				for _, w := range members {
					w.SizeBytes, w.Rotational = g.SizeBytes, g.Rotational
					devices[key] = append(devices[key], w.device())
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		sortDevices(d)
	}
	return devices, nil
}

// volumes counts the resource definitions and names the first. A cluster with few needs one short request; with many, a
// second one counts them without listing them.
func (c *Client) volumes(ctx context.Context) (int, []string, error) {
	names, err := c.volumeNames(ctx, maxVolumeNames+1)
	if err != nil || len(names) <= maxVolumeNames {
		return len(names), names, err
	}
	count := struct {
		Count *int `json:"count"`
	}{}
	err = c.call(ctx, read("volume_count", "count volumes"), func(ctx context.Context) error {
		return c.get(ctx, path("stats", "resource-definitions"), nil, &count)
	})
	if err != nil {
		return 0, nil, err
	}
	if count.Count == nil {
		return 0, nil, &Error{Op: "count volumes", Status: 200, Err: ErrNotLINSTOR}
	}
	return max(*count.Count, len(names)), names[:maxVolumeNames], nil
}

func (c *Client) volumeNames(ctx context.Context, limit int) ([]string, error) {
	names := []string{}
	query := url.Values{"limit": {strconv.Itoa(limit)}, "offset": {"0"}}
	err := c.call(ctx, read("volume_list", "list volumes"), func(ctx context.Context) error {
		return list(ctx, c, path("resource-definitions"), query, func(w *struct {
			Name string `json:"name"`
		}) error {
			names = append(names, w.Name)
			return nil
		})
	})
	return names, err
}
