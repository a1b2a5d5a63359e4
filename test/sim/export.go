package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrNoLinstor means that no LINSTOR has ever written to the database, so that there is nothing to export.
var ErrNoLinstor = errors.New("the database holds no LINSTOR")

// ExportDatabase does what "linstor-database export-db" does. It counts as a process that has the database open,
// although it only reads: what a controller writes meanwhile would be lost in a database that the export is moved to.
// Nothing in an export says that half an import was in the database.
func (w *World) ExportDatabase(ctx context.Context, c ControllerConfig) (exported []byte, err error) {
	s, err := c.parse()
	if err != nil {
		return nil, err
	}
	w.lock()
	defer w.mu.Unlock()
	db, err := s.open(w)
	if err != nil {
		return nil, err
	}
	defer db.open("export " + c.Identity)()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the export was killed: %w", ctx.Err())
	case db.written, db.half:
		return w.exports.make(db, s.version), nil
	case db.kind() == onKubernetes:
		return nil, fmt.Errorf("%w: Failure executing: GET at: https://kubernetes.default.svc/apis/"+
			"internal.linstor.linbit.com/v1-33-1/authtokens. Message: Not Found", ErrNoLinstor)
	default:
		return nil, fmt.Errorf("%w: Schema \"LINSTOR\" not found", ErrNoLinstor)
	}
}

// exportedDatabase is the database as "linstor-database export-db" writes it (linstor-server 1.34,
// DbExportPojoMeta.java).
type exportedDatabase struct {
	LinstorVersion string          `json:"linstor_version"`
	Timestamp      int64           `json:"export_timestamp_ms"`
	From           string          `json:"exported_from"`
	DataVersion    string          `json:"data_version"`
	SQLVersion     string          `json:"sql_version"`
	K8sVersion     int             `json:"k8s_version"`
	Tables         []exportedTable `json:"tables"`
}

type exportedTable struct {
	Name    string           `json:"name"`
	Columns []exportedColumn `json:"column_description"`
	Data    []exportedRow    `json:"data"`
}

type exportedColumn struct {
	Name     string `json:"name"`
	SQLType  int    `json:"sql_type"`
	Key      bool   `json:"is_primary_key"`
	Nullable bool   `json:"is_nullable"`
}

type exportedRow map[string]any

// exportOf has the tables of what the simulator keeps, with the columns by which rows are told apart and what is
// needed to compare two databases. from is their kind, and by the LINSTOR that exports it.
func exportOf(c *content, from string, at time.Time, by version) exportedDatabase {
	e := &exporter{tables: map[string]*exportedTable{}}
	for _, name := range []string{"NODES", "NODE_NET_INTERFACES", "NODE_STOR_POOL", "RESOURCE_DEFINITIONS",
		"VOLUME_DEFINITIONS", "RESOURCES", "VOLUMES", "LAYER_RESOURCE_IDS", "LAYER_DRBD_RESOURCES",
		"LAYER_STORAGE_VOLUMES", "PROPS_CONTAINERS"} {
		e.tables[name] = &exportedTable{Name: name, Columns: []exportedColumn{}, Data: []exportedRow{}}
	}
	e.props("/CTRL", c.props)
	for _, n := range c.sortedNodes() {
		e.node(n)
	}
	for _, d := range c.sortedDfns() {
		e.definition(c, d)
	}
	out := exportedDatabase{LinstorVersion: by.String(), Timestamp: at.UnixMilli(), From: from,
		DataVersion: "v1-33-1", SQLVersion: "2026.04.08.09.00", K8sVersion: 34}
	for _, t := range inOrder(e.tables) {
		out.Tables = append(out.Tables, *t)
	}
	return out
}

// exporter collects rows.
type exporter struct {
	tables map[string]*exportedTable
	// layers counts the layers of resources.
	layers int
}

// add adds a row, in which fields and values take turns.
func (e *exporter) add(table string, fields ...any) {
	t, row := e.tables[table], exportedRow{}
	for i := 0; i < len(fields); i += 2 {
		name := fields[i].(string)
		row[name] = fields[i+1]
		if len(t.Data) == 0 {
			t.Columns = append(t.Columns, exportedColumn{Name: strings.ToUpper(name), SQLType: 12})
		}
	}
	t.Data = append(t.Data, row)
}

func (e *exporter) props(instance string, props map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(props)) {
		e.add("PROPS_CONTAINERS", "props_instance", instance, "prop_key", k, "prop_value", props[k])
	}
}

// nodeTypes are as the database has them (linstor-server 1.34: Node.Type).
var nodeTypes = map[string]int{typeController: 1, typeSatellite: 2, typeCombined: 3, typeAuxiliary: 4}

func (e *exporter) node(n *node) {
	e.add("NODES", "uuid", n.uuid, "node_name", key(n.name), "node_dsp_name", n.name, "node_type", nodeTypes[n.nodeType])
	for _, i := range inOrder(n.nets) {
		e.add("NODE_NET_INTERFACES", "uuid", i.uuid, "node_name", key(n.name), "node_net_name", key(i.name),
			"node_net_dsp_name", i.name, "inet_address", i.address, "stlt_conn_port", i.port, "stlt_conn_encr_type",
			i.encryption)
	}
	e.props("/NODES/"+key(n.name), n.props)
	e.add("NODE_STOR_POOL", "uuid", n.uuid, "node_name", key(n.name), "pool_name", "DFLTDISKLESSSTORPOOL",
		"driver_name", kindDiskless)
	for _, p := range inOrder(n.pools) {
		e.add("NODE_STOR_POOL", "uuid", p.uuid, "node_name", key(n.name), "pool_name", key(p.name), "driver_name", p.kind)
		e.props("/STOR_POOLS/"+key(n.name)+"/"+key(p.name), p.props)
	}
}

// Bits of flags in the database (linstor-server 1.34: Resource.Flags, SnapshotDefinition.Flags and so on).
const (
	flagDelete             = 1 << 1
	flagDiskless           = 1 << 2
	flagDefinitionDelete   = 1 << 0
	flagSnapshotDelete     = 1 << 0
	flagSnapshotSuccessful = 1 << 0
)

// bit is a flag, if it is set.
func bit(set bool, flag int) int {
	if set {
		return flag
	}
	return 0
}

func (e *exporter) definition(c *content, d *rscDfn) {
	e.add("RESOURCE_DEFINITIONS", "uuid", d.uuid, "resource_name", key(d.name), "snapshot_name", "",
		"resource_dsp_name", d.name, "snapshot_dsp_name", "", "resource_flags", bit(d.deleted, flagDefinitionDelete))
	if d.volume != nil {
		e.add("VOLUME_DEFINITIONS", "uuid", d.volume.uuid, "resource_name", key(d.name), "snapshot_name", "", "vlm_nr", 0,
			"vlm_size", d.sizeKiB, "vlm_flags", 0)
		e.props("/VLM_DFNS/"+key(d.name)+"/0", d.volume.props)
	}
	for _, r := range inOrder(d.resources) {
		kind := kindDiskless
		if p := c.poolOf(r.node, r.pool); p != nil && !r.diskless {
			kind = p.kind
		}
		e.resource(d, r.uuid, r.node, "", r.created, bit(r.deleted, flagDelete)|bit(r.diskless, flagDiskless))
		if d.volume != nil {
			e.volume(d, r.volumeUUID, r.node, "", r.pool, kind)
		}
	}
	for _, s := range inOrder(d.snapshots) {
		e.add("RESOURCE_DEFINITIONS", "uuid", s.uuid, "resource_name", key(d.name), "snapshot_name", key(s.name),
			"resource_dsp_name", nil, "snapshot_dsp_name", s.name, "resource_flags", flagSnapshotSuccessful)
		e.add("VOLUME_DEFINITIONS", "uuid", s.uuid, "resource_name", key(d.name), "snapshot_name", key(s.name), "vlm_nr", 0,
			"vlm_size", s.sizeKiB, "vlm_flags", 0)
		for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
			e.resource(d, s.uuid, node, key(s.name), s.created, bit(s.deleting[node], flagSnapshotDelete))
			if p := c.poolOf(node, s.pools[node]); p != nil {
				e.volume(d, s.uuid, node, key(s.name), p.name, p.kind)
			}
		}
	}
}

// resource adds a resource, or the part of a snapshot on a node.
func (e *exporter) resource(d *rscDfn, uuid, node, snapshot string, created time.Time, flags int) {
	e.add("RESOURCES", "uuid", uuid, "node_name", node, "resource_name", key(d.name), "snapshot_name", snapshot,
		"resource_flags", flags, "create_timestamp", unixMillis(created))
}

// volume adds the volume of a resource or of a snapshot on a node, with the layers below it.
func (e *exporter) volume(d *rscDfn, uuid, node, snapshot, pool, kind string) {
	of := []any{"node_name", node, "resource_name", key(d.name), "snapshot_name", snapshot}
	e.add("VOLUMES", slices.Concat([]any{"uuid", uuid, "vlm_nr", 0, "vlm_flags", 0}, of)...)
	for _, layer := range d.layers {
		e.layers++
		e.add("LAYER_RESOURCE_IDS", slices.Concat([]any{"layer_resource_id", e.layers, "layer_resource_kind", layer,
			"layer_resource_suffix", ""}, of)...)
		switch layer {
		case "DRBD":
			e.add("LAYER_DRBD_RESOURCES", "layer_resource_id", e.layers, "peer_slots", 7, "al_stripes", 1, "al_stripe_size", 32)
		case "STORAGE":
			e.add("LAYER_STORAGE_VOLUMES", "layer_resource_id", e.layers, "vlm_nr", 0, "provider_kind", kind,
				"node_name", node, "stor_pool_name", key(pool))
		}
	}
}

// poolOf is a pool of a node, by their names; nil if there is none.
func (c *content) poolOf(nodeName, poolName string) *pool {
	if n := c.nodes[key(nodeName)]; n != nil {
		return n.pools[key(poolName)]
	}
	return nil
}
