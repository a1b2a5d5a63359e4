package seen

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/linstorclient"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// State is what LINSTOR has.
type State struct {
	// From says who told it; "" if nobody did.
	From string
	// Running reports whether it is known how nodes and copies are doing. Why says what was in the way of that.
	Running bool
	Why     string
	// Nodes are by their names in lower case: in LINSTOR's names case means nothing.
	Nodes  map[string]*LinstorNode
	Copies []Copy
}

// LinstorNode is a node of LINSTOR's.
type LinstorNode struct {
	Name string
	// Status is what LINSTOR says of its connection; "" for not known.
	Status     string
	Flags      []string
	Interfaces []NetInterface
	Pools      []Pool
}

// NetInterface is a network interface of a node.
type NetInterface struct {
	Name, Address string
	// Port and Encryption are those of the satellite; 0 where it is not reached there.
	Port       int64
	Encryption string
}

// Pool is a storage pool. Place is its volume group, thin pool, zpool or directory.
type Pool struct{ Name, Kind, Place string }

// Copy is a resource on a node, whose name is in lower case.
type Copy struct {
	Resource, Node string
	Flags          []string
	Diskless       bool
	// Local reports whether none of its layers is DRBD: LINSTOR reports no state for it.
	Local bool
	// InUse is nil for not known.
	InUse *bool
	Disks []string
	// Syncing are the states of DRBD's connections of a copy whose data is not in place.
	Syncing []string
}

// Good reports whether all volumes of the copy are known to be whole, and to stay.
func (v *Copy) Good() bool {
	return !v.Diskless && !copies.Going(v.Flags) && len(v.Disks) > 0 &&
		!slices.ContainsFunc(v.Disks, func(d string) bool { return d != "UpToDate" })
}

func (s *State) node(name string) *LinstorNode {
	key := strings.ToLower(name)
	if s.Nodes[key] == nil {
		s.Nodes[key] = &LinstorNode{Name: name}
	}
	return s.Nodes[key]
}

// Linstor runs LINSTOR's own client in the pod of the controller of a namespace, and returns what it printed.
type Linstor func(ctx context.Context, namespace string, args ...string) ([]byte, error)

// callTime bounds one call of LINSTOR's client: its list of all copies is tens of megabytes in a large cluster.
const callTime = 2 * time.Minute

// InPod runs LINSTOR's client in the controller's pod.
func InPod(flags *genericclioptions.ConfigFlags) Linstor {
	return func(ctx context.Context, namespace string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		return linstorclient.Run(ctx, flags, namespace, args...)
	}
}

// LookIntoLinstor asks LINSTOR, and its tables if it does not answer.
func (s *Seen) LookIntoLinstor(ctx context.Context, c *access.Cluster, linstor Linstor) error {
	st, err := fromClient(ctx, s.Namespace, linstor)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		s.Linstor = *st
		return nil
	}
	why := strings.Join(strings.Fields(err.Error()), " ")
	s.Linstor.Why = text.Head(why, 300)
	if s.DB.Kind != v1alpha1.DatabaseKubernetes {
		return nil
	}
	st, err = s.fromTables(ctx, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.Unread["LINSTOR's tables"], _, _ = strings.Cut(err.Error(), "\n")
	default:
		st.Why = s.Linstor.Why
		s.Linstor = *st
	}
	return nil
}

// What LINSTOR's client prints, which is what its API answers.
type (
	nodeEntry struct {
		Name       string   `json:"name"`
		Type       string   `json:"type"`
		Status     string   `json:"connection_status"`
		Flags      []string `json:"flags"`
		Interfaces []struct {
			Name       string `json:"name"`
			Address    string `json:"address"`
			Port       int64  `json:"satellite_port"`
			Encryption string `json:"satellite_encryption_type"`
		} `json:"net_interfaces"`
	}
	poolEntry struct {
		Name  string            `json:"storage_pool_name"`
		Node  string            `json:"node_name"`
		Kind  string            `json:"provider_kind"`
		Props map[string]string `json:"props"`
	}
	resourceEntry struct {
		Name  string   `json:"name"`
		Node  string   `json:"node_name"`
		Flags []string `json:"flags"`
		State struct {
			InUse *bool `json:"in_use"`
		} `json:"state"`
		Layers  copies.Layer `json:"layer_object"`
		Volumes []struct {
			State struct {
				Disk        string `json:"disk_state"`
				Replication map[string]struct {
					State string `json:"replication_state"`
				} `json:"replication_states"`
			} `json:"state"`
		} `json:"volumes"`
	}
)

// fromClient asks LINSTOR by means of its client.
func fromClient(ctx context.Context, namespace string, linstor Linstor) (*State, error) {
	st := &State{From: "LINSTOR", Running: true, Nodes: map[string]*LinstorNode{}}
	nodes, err := ask(ctx, namespace, linstor, func(n *nodeEntry) bool { return n.Name != "" }, "node", "list")
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		if strings.EqualFold(nodes[i].Type, "CONTROLLER") {
			continue
		}
		n := st.node(nodes[i].Name)
		n.Status, n.Flags = cmp.Or(nodes[i].Status, "UNKNOWN"), nodes[i].Flags
		for _, f := range nodes[i].Interfaces {
			n.Interfaces = append(n.Interfaces, NetInterface{f.Name, f.Address, f.Port, f.Encryption})
		}
	}
	pools, err := ask(ctx, namespace, linstor, func(p *poolEntry) bool { return p.Name != "" }, "storage-pool", "list")
	if err != nil {
		return nil, err
	}
	for i := range pools {
		if n := st.Nodes[strings.ToLower(pools[i].Node)]; n != nil && pools[i].Kind != KindDiskless {
			n.Pools = append(n.Pools, Pool{pools[i].Name, pools[i].Kind, pools[i].Props[placeKey]})
		}
	}
	resources, err := ask(ctx, namespace, linstor,
		func(r *resourceEntry) bool { return r.Name != "" && r.Node != "" }, "resource", "list")
	if err != nil {
		return nil, err
	}
	for i := range resources {
		st.Copies = append(st.Copies, resources[i].copied())
	}
	return st, nil
}

func (r *resourceEntry) copied() Copy {
	v := Copy{Resource: r.Name, Node: strings.ToLower(r.Node), Flags: r.Flags, InUse: r.State.InUse,
		Diskless: copies.Diskless(r.Flags), Local: r.Layers.Local()}
	for _, volume := range r.Volumes {
		v.Disks = append(v.Disks, cmp.Or(volume.State.Disk, "Unknown"))
		for _, peer := range volume.State.Replication {
			if peer.State != "" && peer.State != "Established" && peer.State != "Off" {
				v.Syncing = append(v.Syncing, peer.State)
			}
		}
	}
	slices.Sort(v.Syncing)
	v.Syncing = slices.Compact(v.Syncing)
	return v
}

// ask asks for a list. An entry without a name is an error of LINSTOR's in place of the list.
func ask[T any](ctx context.Context, namespace string, linstor Linstor, named func(*T) bool, args ...string) ([]T,
	error) {
	data, err := linstor(ctx, namespace, linstorclient.JSON(args...)...)
	if err != nil {
		return nil, fmt.Errorf("run the LINSTOR client: %w", err)
	}
	out, err := linstorclient.List[T](data)
	if err != nil {
		return nil, fmt.Errorf("read the output of linstor %s: %w", strings.Join(args, " "), err)
	}
	for i := range out {
		if !named(&out[i]) {
			return nil, errors.New("linstor " + strings.Join(args, " ") + " returned an error instead of a list")
		}
	}
	return out, nil
}

// placeKey is the property of a pool that names its volume group, thin pool, zpool or directory.
const placeKey = "StorDriver/StorPoolName"

// placeOf reads that property of a pool, and no other: the table also holds keys. LINSTOR derives an object's name
// from what the property belongs to and from its key (linstor-server 1.34, GenCrdCurrent.deriveKey).
func (s *Seen) placeOf(ctx context.Context, c *access.Cluster, node, pool string) (string, error) {
	const table = "propscontainers." + access.LinstorTables
	kind, ok := s.DB.versions[table]
	if !ok {
		return "", errors.New("table " + table + " does not exist")
	}
	sum := sha256.Sum256([]byte(strings.ToUpper("/STOR_POOLS/"+node+"/"+pool) + ":" + placeKey))
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := c.Get(ctx, client.ObjectKey{Name: hex.EncodeToString(sum[:])}, object)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", c.Explain(err, "get", table, "")
	}
	place, _, _ := unstructured.NestedString(object.Object, "spec", "prop_value")
	return place, nil
}
