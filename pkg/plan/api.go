package plan

import (
	"context"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// write is one call that would change LINSTOR.
type write struct {
	// what it does, and to which node; "" for none.
	what, node string
	set        map[string]string
	del        []string
}

// api is LINSTOR while something is planned: it answers nothing, and takes down what it is asked to change.
type api struct{ *record }

func (a api) note(what, node string, set map[string]string, del []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = append(a.writes, write{what, node, set, del})
	return nil
}

func (api) View(context.Context, linstor.ViewOptions) (*linstor.View, error) { return nil, errNotAsked }
func (api) Node(context.Context, string) (*linstor.Node, error)              { return nil, errNotAsked }
func (api) Pool(context.Context, string, string) (*linstor.Pool, error)      { return nil, errNotAsked }
func (api) Devices(context.Context, string) ([]linstor.Device, error)        { return nil, errNotAsked }
func (api) Snapshots(context.Context, ...string) ([]linstor.Snapshot, error) { return nil, errNotAsked }
func (api) Passphrase(context.Context) (string, error)                       { return "", errNotAsked }
func (api) Resources(context.Context, linstor.ResourceQuery) ([]linstor.Resource, error) {
	return nil, errNotAsked
}

// ofController are the properties that LINSTOR has for the whole cluster.
const ofController = "controller properties"

func (a api) SetProperties(_ context.Context, set map[string]string, del []string) error {
	return a.note(ofController, "", set, del)
}

func (a api) CreateNode(_ context.Context, spec linstor.NodeSpec) error {
	return a.note("registration", spec.Name, spec.Properties, nil)
}

func (a api) SetNodeProperties(_ context.Context, node string, set map[string]string, del []string) error {
	return a.note("node properties", node, set, del)
}

func (a api) CreateInterface(_ context.Context, node string, i linstor.Interface) error {
	return a.note("new interface "+i.Name, node, nil, nil)
}

func (a api) ModifyInterface(_ context.Context, node string, i linstor.Interface) error {
	return a.note("change to interface "+i.Name, node, nil, nil)
}

func (a api) DeleteInterface(_ context.Context, node, name string) error {
	return a.note("removal of interface "+name, node, nil, nil)
}

func (a api) Reconnect(_ context.Context, node string) error {
	return a.note("new connection to the satellite", node, nil, nil)
}

func (a api) EvacuateNode(_ context.Context, node string) error {
	return a.note("evacuation", node, nil, nil)
}
func (a api) EvictNode(_ context.Context, node string) error {
	return a.note("eviction", node, nil, nil)
}
func (a api) RestoreNode(_ context.Context, node string) error {
	return a.note("end of the evacuation", node, nil, nil)
}
func (a api) LoseNode(_ context.Context, node string) error {
	return a.note("declaring the node lost", node, nil, nil)
}
func (a api) DeleteNode(_ context.Context, node string) error {
	return a.note("removal", node, nil, nil)
}

func (a api) CreatePool(_ context.Context, spec linstor.PoolSpec) error {
	return a.note("registration of pool "+spec.Name, spec.Node, nil, nil)
}

func (a api) SetPoolProperties(_ context.Context, node, pool string, set map[string]string, del []string) error {
	return a.note("properties of pool "+pool, node, set, del)
}

func (a api) DeletePool(_ context.Context, node, pool string) error {
	return a.note("removal of pool "+pool, node, nil, nil)
}

func (a api) CreateDevices(_ context.Context, spec linstor.DeviceSpec) error {
	return a.note("disks for "+spec.PoolName, spec.Node, nil, nil)
}
