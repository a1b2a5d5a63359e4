package restclient

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	lapi "github.com/LINBIT/golinstor/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/secret"
)

func (c *client) SetProperties(ctx context.Context, set map[string]string, del []string) error {
	o := write("controller_modify", "set the controller properties")
	o.secrets = secret.Values(set)
	err := c.call(ctx, o, func(ctx context.Context) error { return c.now().lin.Controller.Modify(ctx, change(set, del)) })
	return kept(err, o, set, func() (map[string]string, error) { return c.properties(ctx) })
}

func (c *client) CreateNode(ctx context.Context, spec linstor.NodeSpec) error {
	o := write("node_create", "create node %s", spec.Name)
	node := lapi.Node{Name: spec.Name, Type: linstor.TypeSatellite, Props: spec.Properties}
	// LINSTOR ignores is_active here and connects through the first interface that has a port and an encryption type.
	for _, active := range []bool{true, false} {
		for _, i := range spec.Interfaces {
			if i.Active != active {
				continue
			}
			i.Active = false
			nif, err := netInterface(o, i)
			if err != nil {
				return err
			}
			o.objects = append(o.objects, i.Name)
			node.NetInterfaces = append(node.NetInterfaces, nif)
		}
	}
	return c.call(ctx, o, func(ctx context.Context) error { return c.now().lin.Nodes.Create(ctx, node) })
}

func (c *client) SetNodeProperties(ctx context.Context, node string, set map[string]string, del []string) error {
	o := write("node_modify", "set properties of node %s", node)
	o.secrets = secret.Values(set)
	err := c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.Modify(ctx, escape(node), lapi.NodeModify{GenericPropsModify: change(set, del)})
	})
	return kept(err, o, set, func() (map[string]string, error) {
		n, err := c.Node(ctx, node)
		if err != nil {
			return nil, err
		}
		return n.Properties, nil
	})
}

// kept looks whether LINSTOR has the properties that it accepted; see [linstor.NotKeptError].
func kept(err error, o operation, set map[string]string, read func() (map[string]string, error)) error {
	if err == nil && len(set) > 0 {
		var have map[string]string
		if have, err = read(); err == nil {
			err = linstor.NotKept(o.text, secret.Without(set), have)
		}
	}
	return err
}

func change(set map[string]string, del []string) lapi.GenericPropsModify {
	return lapi.GenericPropsModify{OverrideProps: set, DeleteProps: del}
}

func (c *client) CreateInterface(ctx context.Context, node string, i linstor.Interface) error {
	o := write("interface_create", "create interface %s on node %s", i.Name, node)
	nif, err := netInterface(o, i)
	if err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.CreateNetInterface(ctx, escape(node), nif)
	})
}

func (c *client) ModifyInterface(ctx context.Context, node string, i linstor.Interface) error {
	o := write("interface_modify", "change interface %s on node %s", i.Name, node)
	nif, err := netInterface(o, i)
	if err != nil {
		return err
	}
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.ModifyNetInterface(ctx, escape(node), escape(i.Name), nif)
	})
}

// Kinds of a satellite's connection (LINSTOR REST API, NetInterface.satellite_encryption_type).
const (
	plain   = "PLAIN"
	withTLS = "SSL"
)

func netInterface(o operation, i linstor.Interface) (lapi.NetInterface, error) {
	addr, err := netip.ParseAddr(i.Address)
	if err != nil || addr.Zone() != "" {
		return lapi.NetInterface{}, invalid(o, "%q is not an IP address", i.Address)
	}
	nif := lapi.NetInterface{
		Name: i.Name, Address: net.IP(addr.AsSlice()), SatellitePort: i.Port, IsActive: i.Active,
	}
	if i.Port != 0 {
		nif.SatelliteEncryptionType = plain
		if i.TLS {
			nif.SatelliteEncryptionType = withTLS
		}
	}
	return nif, nil
}

func (c *client) DeleteInterface(ctx context.Context, node, name string) error {
	o := write("interface_delete", "delete interface %s on node %s", name, node)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.DeleteNetinterface(ctx, escape(node), escape(name))
	})
}

func (c *client) Reconnect(ctx context.Context, node string) error {
	o := write("node_reconnect", "reconnect node %s", node)
	return c.call(ctx, o, func(ctx context.Context) error { return c.now().lin.Nodes.Reconnect(ctx, escape(node)) })
}

func (c *client) EvacuateNode(ctx context.Context, node string) error {
	o := write("node_evacuate", "evacuate node %s", node)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.Evacuate(ctx, escape(node), lapi.NodeEvacuate{})
	})
}

func (c *client) EvictNode(ctx context.Context, node string) error {
	o := write("node_evict", "evict node %s", node)
	return c.call(ctx, o, func(ctx context.Context) error { return c.now().lin.Nodes.Evict(ctx, escape(node)) })
}

func (c *client) RestoreNode(ctx context.Context, node string) error {
	o := write("node_restore", "restore node %s", node)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.Restore(ctx, escape(node), lapi.NodeRestore{})
	})
}

func (c *client) LoseNode(ctx context.Context, node string) error {
	o := write("node_lost", "declare node %s lost", node)
	return c.call(ctx, o, func(ctx context.Context) error { return c.now().lin.Nodes.Lost(ctx, escape(node)) })
}

func (c *client) DeleteNode(ctx context.Context, node string) error {
	o := write("node_delete", "delete node %s", node)
	return c.call(ctx, o, func(ctx context.Context) error { return c.now().lin.Nodes.Delete(ctx, escape(node)) })
}

func (c *client) CreatePool(ctx context.Context, spec linstor.PoolSpec) error {
	o := write("pool_create", "create storage pool %s on node %s", spec.Name, spec.Node)
	if spec.Backing == "" {
		return invalid(o, "no backing storage is given")
	}
	props := map[string]string{}
	maps.Copy(props, spec.Properties)
	props[backingProperty] = spec.Backing
	o.secrets = secret.Values(props)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.CreateStoragePool(ctx, escape(spec.Node), lapi.StoragePool{
			StoragePoolName: spec.Name, ProviderKind: lapi.ProviderKind(spec.Provider), Props: props,
		})
	})
}

func (c *client) SetPoolProperties(ctx context.Context, node, pool string, set map[string]string, del []string) error {
	o := write("pool_modify", "set properties of storage pool %s on node %s", pool, node)
	// LINSTOR would let a pool's backing storage be exchanged under its volumes.
	if _, ok := set[backingProperty]; ok || slices.Contains(del, backingProperty) {
		return invalid(o, "%s cannot be changed", backingProperty)
	}
	o.secrets = secret.Values(set)
	err := c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.ModifyStoragePool(ctx, escape(node), escape(pool), change(set, del))
	})
	return kept(err, o, set, func() (map[string]string, error) {
		p, err := c.pool(ctx, node, pool, true)
		if err != nil {
			return nil, err
		}
		return p.Properties, nil
	})
}

func (c *client) DeletePool(ctx context.Context, node, pool string) error {
	o := write("pool_delete", "delete storage pool %s on node %s", pool, node)
	return c.call(ctx, o, func(ctx context.Context) error {
		return c.now().lin.Nodes.DeleteStoragePool(ctx, escape(node), escape(pool))
	})
}

// deviceRequest is the body of the device step. It has no field for LINSTOR's with_storage_pool on purpose: when the
// registration of that pool fails, LINSTOR removes the devices' volume group or zpool again. golinstor always sends
// the field.
type deviceRequest struct {
	Provider string   `json:"provider_kind"`
	PoolName string   `json:"pool_name"`
	Paths    []string `json:"device_paths"`
}

func (c *client) CreateDevices(ctx context.Context, spec linstor.DeviceSpec) error {
	o := write("device_create", "create %s on devices on node %s", spec.PoolName, spec.Node)
	if spec.PoolName == "" || spec.Provider == "" || len(spec.Paths) == 0 {
		return invalid(o, "provider, name and devices are required")
	}
	for _, p := range spec.Paths {
		if !strings.HasPrefix(p, "/dev/") {
			return invalid(o, "%q is not a device path", p)
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
