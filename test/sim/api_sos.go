package sim

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// downloadReport answers LINSTOR's report for support, from 1.34 on with an export of the database (linstor-server
// 1.34, CtrlSosReportApiCallHandler). Of what else it holds there is only what should not be taken for the export, or
// shown: linstor.toml with the database's password. What satellites add is not simulated.
func downloadReport(c *call) reply {
	wanted := c.filter("nodes")
	if slices.ContainsFunc(c.db.sortedNodes(), func(n *node) bool { return wanted(n.name) }) {
		return notSimulated(c)
	}
	name := "sos_" + c.world.now.UTC().Format("2006-01-02_15-04-05")
	files := [][2]string{{name + "/query-params", c.req.URL.RawQuery}}
	if c.query.Get("include-ctrl") != "false" {
		dir := name + "/_Controller/"
		files = append(files, [2]string{dir, ""}, exportFile(c, dir),
			[2]string{dir + "linstor.toml", fmt.Sprintf("[db]\nuser = %q\npassword = %q\n", c.db.user, c.db.password)})
	}
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), ModTime: c.world.now}
		if strings.HasSuffix(f[0], "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		}
		_ = archive.WriteHeader(header) // a buffer takes everything
		_, _ = archive.Write([]byte(f[1]))
	}
	_, _ = archive.Close(), zip.Close()
	return reply{status: http.StatusOK, contentType: "application/octet-stream", body: body.Bytes(),
		header: http.Header{"Content-Disposition": {"attachment; filename = " + name + ".tar.gz"}}}
}

// exportFile is the export's file, or that of a failed one.
func exportFile(c *call, dir string) [2]string {
	switch {
	case !c.ctl.version.atLeast(1, 34):
		return [2]string{dir + "dbDump", "{}"} // another format
	case c.db.unreachable:
		return [2]string{dir + "dbexport.json.failed", "ErrorReport-" + c.ctl.report("the database does not answer")}
	}
	text, err := json.Marshal(exportOf(c))
	if err != nil {
		panic(err) // texts and numbers can always be encoded
	}
	return [2]string{dir + "dbexport.json", string(text)}
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
// needed to compare two databases.
func exportOf(c *call) exportedDatabase {
	from := "k8s"
	if kind, _, sql := strings.Cut(strings.TrimPrefix(c.db.url, "jdbc:"), ":"); sql {
		from = "sql/" + kind
	}
	e := &exporter{tables: map[string]*exportedTable{}}
	for _, name := range []string{"NODES", "NODE_STOR_POOL", "RESOURCE_DEFINITIONS", "RESOURCES", "VOLUMES",
		"PROPS_CONTAINERS"} {
		e.tables[name] = &exportedTable{Name: name, Columns: []exportedColumn{}, Data: []exportedRow{}}
	}
	e.props("/CTRL", c.db.props)
	for _, n := range c.db.sortedNodes() {
		e.node(n)
	}
	for _, d := range c.db.sortedDfns() {
		e.definition(d)
	}
	out := exportedDatabase{LinstorVersion: c.ctl.version.String(), Timestamp: c.world.now.UnixMilli(), From: from,
		DataVersion: "v1-33-1", SQLVersion: "2026.04.08.09.00", K8sVersion: 34}
	for _, t := range inOrder(e.tables) {
		out.Tables = append(out.Tables, *t)
	}
	return out
}

// exporter collects rows.
type exporter struct{ tables map[string]*exportedTable }

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

func (e *exporter) node(n *node) {
	e.add("NODES", "uuid", n.uuid, "node_name", key(n.name), "node_dsp_name", n.name)
	e.props("/NODES/"+key(n.name), n.props)
	e.add("NODE_STOR_POOL", "uuid", n.uuid, "node_name", key(n.name), "pool_name", "DFLTDISKLESSSTORPOOL",
		"driver_name", "DISKLESS")
	for _, p := range inOrder(n.pools) {
		e.add("NODE_STOR_POOL", "uuid", p.uuid, "node_name", key(n.name), "pool_name", key(p.name), "driver_name", p.kind)
	}
}

func (e *exporter) definition(d *rscDfn) {
	e.add("RESOURCE_DEFINITIONS", "uuid", d.uuid, "resource_name", key(d.name), "snapshot_name", "",
		"resource_dsp_name", d.name)
	place := func(table, uuid, node, snapshot string, more ...any) {
		e.add(table, append([]any{"uuid", uuid, "node_name", node, "resource_name", key(d.name), "snapshot_name", snapshot},
			more...)...)
	}
	for _, r := range inOrder(d.resources) {
		place("RESOURCES", r.uuid, r.node, "")
		if d.volume != nil {
			place("VOLUMES", r.volumeUUID, r.node, "", "vlm_nr", 0)
		}
	}
	for _, s := range inOrder(d.snapshots) {
		e.add("RESOURCE_DEFINITIONS", "uuid", s.uuid, "resource_name", key(d.name), "snapshot_name", key(s.name),
			"resource_dsp_name", d.name)
		for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
			place("RESOURCES", s.uuid, node, key(s.name))
			place("VOLUMES", s.uuid, node, key(s.name), "vlm_nr", 0)
		}
	}
}
