package linstor

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// Version implements Reader.
func (c *Client) Version(ctx context.Context) (string, error) {
	var version string
	o := read("version", "read the controller's version")
	err := c.call(ctx, o, func(ctx context.Context) error {
		v, err := c.lin.Controller.GetVersion(ctx)
		if err == nil && v.Version == "" {
			err = ErrNotLINSTOR
		}
		version = v.Version
		return err
	})
	return version, err
}

// Health implements Reader.
func (c *Client) Health(ctx context.Context) error {
	return c.call(ctx, read("health", "check the controller's health"), func(ctx context.Context) error {
		resp, err := c.do(ctx, http.MethodGet, "/health", nil, nil)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// Node implements Reader.
func (c *Client) Node(ctx context.Context, name string) (*Node, error) {
	o := read("node_get", "read node %s", name)
	if err := checkNames(o, name); err != nil {
		return nil, err
	}
	var w wireNode
	err := c.call(ctx, o, func(ctx context.Context) error {
		if err := c.get(ctx, path("nodes", name), nil, &w); err != nil || w.Name != "" {
			return err
		}
		return fmt.Errorf("%w: a node without a name", ErrNotLINSTOR)
	})
	if err != nil {
		return nil, err
	}
	return w.node(), nil
}

// Pool implements Reader.
func (c *Client) Pool(ctx context.Context, node, pool string) (*Pool, error) {
	o := read("pool_get", "read storage pool %s on node %s", pool, node)
	if err := checkNames(o, node, pool); err != nil {
		return nil, err
	}
	var w wirePool
	err := c.call(ctx, o, func(ctx context.Context) error {
		query := url.Values{"cached": {"false"}}
		if err := c.get(ctx, path("nodes", node, "storage-pools", pool), query, &w); err != nil || w.Name != "" {
			return err
		}
		return fmt.Errorf("%w: a storage pool without a name", ErrNotLINSTOR)
	})
	if err != nil {
		return nil, err
	}
	return w.pool(), nil
}

// Devices implements Reader.
func (c *Client) Devices(ctx context.Context, node string) ([]Device, error) {
	o := read("device_get", "list empty devices of node %s", node)
	if err := checkNames(o, node); err != nil {
		return nil, err
	}
	devices := []Device{}
	err := c.call(ctx, o, func(ctx context.Context) error {
		return list(ctx, c, path("physical-storage", node), nil, func(w *wireDevice) error {
			devices = append(devices, w.device())
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if len(devices) > 0 {
		sortDevices(devices)
		return devices, nil
	}
	// LINSTOR skips satellites that are not connected: an empty list counts only from an ONLINE node.
	n, err := c.Node(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.text, err)
	}
	if !n.Online() {
		return nil, &Error{Op: o.text, Status: http.StatusOK, Err: fmt.Errorf("the node is %s", n.Status)}
	}
	return devices, nil
}

// Passphrase implements Reader.
func (c *Client) Passphrase(ctx context.Context) (string, error) {
	var state struct {
		Status string `json:"status"`
	}
	err := c.call(ctx, read("passphrase_status", "read the master passphrase's state"), func(ctx context.Context) error {
		if err := c.get(ctx, path("encryption", "passphrase"), nil, &state); err != nil || state.Status != "" {
			return err
		}
		return fmt.Errorf("%w: no state", ErrNotLINSTOR)
	})
	return state.Status, err
}
