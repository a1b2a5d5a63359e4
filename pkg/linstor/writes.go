package linstor

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	lapi "github.com/LINBIT/golinstor/client"
)

// SetProperties implements Writer.
func (c *Client) SetProperties(ctx context.Context, set map[string]string, del []string) error {
	o := write("controller_modify", "set the controller's properties")
	o.secrets = secretValues(set)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Controller.Modify(ctx, lapi.GenericPropsModify{OverrideProps: set, DeleteProps: del})
	})
}

// CreateNode implements Writer.
func (c *Client) CreateNode(ctx context.Context, spec NodeSpec) error {
	o := write("node_create", "create node %s", spec.Name)
	if err := checkNames(o, spec.Name); err != nil {
		return err
	}
	// LINSTOR ignores is_active here and connects through the first interface that has a port and an encryption type.
	ordered := slices.Clone(spec.Interfaces)
	slices.SortStableFunc(ordered, func(a, b Interface) int {
		switch {
		case a.Active == b.Active:
			return 0
		case a.Active:
			return -1
		}
		return 1
	})
	node := lapi.Node{Name: spec.Name, Type: TypeSatellite, Props: spec.Properties}
	for _, i := range ordered {
		i.Active = false
		nif, err := netInterface(o, i)
		if err != nil {
			return err
		}
		node.NetInterfaces = append(node.NetInterfaces, nif)
	}
	return c.call(ctx, o, func(ctx context.Context) error { return c.lin.Nodes.Create(ctx, node) })
}

// SetNodeProperties implements Writer.
func (c *Client) SetNodeProperties(ctx context.Context, node string, set map[string]string, del []string) error {
	o := write("node_modify", "set properties of node %s", node)
	if err := checkNames(o, node); err != nil {
		return err
	}
	o.secrets = secretValues(set)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.Modify(ctx, escape(node), lapi.NodeModify{
			GenericPropsModify: lapi.GenericPropsModify{OverrideProps: set, DeleteProps: del},
		})
	})
}

// CreateInterface implements Writer.
func (c *Client) CreateInterface(ctx context.Context, node string, i Interface) error {
	o := write("interface_create", "create interface %s of node %s", i.Name, node)
	nif, err := netInterface(o, i, node)
	if err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.CreateNetInterface(ctx, escape(node), nif)
	})
}

// ModifyInterface implements Writer.
func (c *Client) ModifyInterface(ctx context.Context, node string, i Interface) error {
	o := write("interface_modify", "change interface %s of node %s", i.Name, node)
	nif, err := netInterface(o, i, node)
	if err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.ModifyNetInterface(ctx, escape(node), escape(i.Name), nif)
	})
}

// DeleteInterface implements Writer.
func (c *Client) DeleteInterface(ctx context.Context, node, name string) error {
	o := write("interface_delete", "delete interface %s of node %s", name, node)
	if err := checkNames(o, node, name); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.DeleteNetinterface(ctx, escape(node), escape(name))
	})
}

// Reconnect implements Writer.
func (c *Client) Reconnect(ctx context.Context, node string) error {
	o := write("node_reconnect", "reconnect node %s", node)
	if err := checkNames(o, node); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error { return c.lin.Nodes.Reconnect(ctx, escape(node)) })
}

// DeleteNode implements Writer.
func (c *Client) DeleteNode(ctx context.Context, node string) error {
	o := write("node_delete", "delete node %s", node)
	if err := checkNames(o, node); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error { return c.lin.Nodes.Delete(ctx, escape(node)) })
}

// CreatePool implements Writer.
func (c *Client) CreatePool(ctx context.Context, spec PoolSpec) error {
	o := write("pool_create", "create storage pool %s on node %s", spec.Name, spec.Node)
	if err := checkNames(o, spec.Node, spec.Name); err != nil {
		return err
	}
	if spec.Backing == "" {
		return invalid(o, "no backing storage is named")
	}
	props := map[string]string{}
	maps.Copy(props, spec.Properties)
	props[backingProperty] = spec.Backing
	o.secrets = secretValues(props)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.CreateStoragePool(ctx, escape(spec.Node), lapi.StoragePool{
			StoragePoolName: spec.Name, ProviderKind: lapi.ProviderKind(spec.Provider), Props: props,
		})
	})
}

// SetPoolProperties implements Writer.
func (c *Client) SetPoolProperties(ctx context.Context, node, pool string, set map[string]string, del []string) error {
	o := write("pool_modify", "set properties of storage pool %s on node %s", pool, node)
	if err := checkNames(o, node, pool); err != nil {
		return err
	}
	// LINSTOR would let a pool's backing storage be exchanged under its volumes.
	if _, ok := set[backingProperty]; ok || slices.Contains(del, backingProperty) {
		return invalid(o, "%s cannot change", backingProperty)
	}
	o.secrets = secretValues(set)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.ModifyStoragePool(ctx, escape(node), escape(pool),
			lapi.GenericPropsModify{OverrideProps: set, DeleteProps: del})
	})
}

// DeletePool implements Writer.
func (c *Client) DeletePool(ctx context.Context, node, pool string) error {
	o := write("pool_delete", "delete storage pool %s on node %s", pool, node)
	if err := checkNames(o, node, pool); err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.lin.Nodes.DeleteStoragePool(ctx, escape(node), escape(pool))
	})
}

// deviceRequest is the body of the device step. It has no field for LINSTOR's with_storage_pool on purpose: when the
// registration of that pool fails, LINSTOR removes the devices' volume group or zpool again, whether this request made
// it or not. golinstor always sends the field.
type deviceRequest struct {
	Provider string   `json:"provider_kind"`
	PoolName string   `json:"pool_name"`
	Paths    []string `json:"device_paths"`
}

// CreateDevices implements Writer.
func (c *Client) CreateDevices(ctx context.Context, spec DeviceSpec) error {
	o := write("device_create", "create %s on devices of node %s", spec.PoolName, spec.Node)
	if err := checkNames(o, spec.Node); err != nil {
		return err
	}
	if spec.PoolName == "" || spec.Provider == "" || len(spec.Paths) == 0 {
		return invalid(o, "provider, name and devices are needed")
	}
	for _, p := range spec.Paths {
		if !strings.HasPrefix(p, "/dev/") {
			return invalid(o, "%q is no device", p)
		}
	}
	o.mustAnswer = true // for a node that is not connected, LINSTOR answers 201 with an empty list
	return c.call(ctx, o, func(ctx context.Context) error {
		resp, err := c.do(ctx, http.MethodPost, path("physical-storage", spec.Node), nil, deviceRequest{
			Provider: spec.Provider, PoolName: spec.PoolName, Paths: spec.Paths,
		})
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// netInterface turns i into golinstor's form, after a look at all names of the call.
func netInterface(o operation, i Interface, names ...string) (lapi.NetInterface, error) {
	if err := checkNames(o, append(names, i.Name)...); err != nil {
		return lapi.NetInterface{}, err
	}
	addr, err := netip.ParseAddr(i.Address)
	if err != nil || addr.Zone() != "" {
		return lapi.NetInterface{}, invalid(o, "%q is no IP address", i.Address)
	}
	nif := lapi.NetInterface{
		Name: i.Name, Address: net.IP(addr.AsSlice()), SatellitePort: i.Port, IsActive: i.Active,
	}
	if i.Port != 0 {
		if nif.SatelliteEncryptionType = i.Encryption; i.Encryption == "" {
			nif.SatelliteEncryptionType = EncryptionPlain
		}
	}
	return nif, nil
}
