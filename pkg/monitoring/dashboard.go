package monitoring

import (
	"encoding/json"
	"fmt"
)

// Panel is a panel of the dashboard.
type Panel struct {
	Title string
	// Kind is Grafana's: stat shows the present value, timeseries a curve.
	Kind PanelKind
	// Unit is Grafana's name of it; "" for a plain number.
	Unit    string
	Queries []Query
}

// PanelKind is a kind of panel.
type PanelKind string

// Kinds of panels.
const (
	Stat       PanelKind = "stat"
	Timeseries PanelKind = "timeseries"
)

// Query is a curve, or several.
type Query struct {
	// Expr is PromQL; Legend names a series by its labels, in Grafana's templates.
	Expr, Legend string
}

// Row is a line of panels under one title.
type Row struct {
	Title  string
	Panels []Panel
}

// Rows are the whole dashboard. The first row is enough to see whether all is well.
func Rows() []Row { return []Row{overviewRow(), capacityRow(), operatorRow(), linstorRow(), drbdRow()} }

func overviewRow() Row {
	return Row{"StorageCluster", []Panel{
		{"Ready", Stat, "", []Query{{`max(storagecluster_ready)`, "Ready"}}},
		{"Phase", Stat, "", []Query{{`max by (phase) (storagecluster_phase) == 1`, "{{phase}}"}}},
		{"Open holds", Stat, "", []Query{{`sum(max by (reason) (storagecluster_hold_active))`, "holds"}}},
		{"LINSTOR responds", Stat, "", []Query{{`max(storagecluster_linstor_answers)`, "LINSTOR"}}},
		{"Nodes", Timeseries, "", []Query{{`max by (state) (storagecluster_members)`, "{{state}}"}}},
		{"Volumes", Timeseries, "", []Query{
			{`max by (state) (storagecluster_volumes)`, "{{state}}"},
			{`max(storagecluster_volumes_last_copy)`, "only one replica left"},
		}},
	}}
}

func capacityRow() Row {
	return Row{"Pools", []Panel{
		{"Free space", Timeseries, "bytes", []Query{{`max by (pool) (storagecluster_pool_free_bytes)`, "{{pool}}"}}},
		{"Capacity", Timeseries, "bytes", []Query{{`max by (pool) (storagecluster_pool_capacity_bytes)`, "{{pool}}"}}},
		{"Nearly full", Timeseries, "", []Query{{`max by (pool) (storagecluster_pools_nearly_full)`, "{{pool}}"}}},
		{"Satisfiable StorageClasses", Timeseries, "", []Query{
			{`max by (class) (storagecluster_storageclass_satisfiable)`, "{{class}}"}}},
	}}
}

func operatorRow() Row {
	return Row{"Operator", []Panel{
		{"Step outcomes", Timeseries, "ops", []Query{
			{`sum by (outcome) (rate(storagecluster_outcomes_total[5m]))`, "{{outcome}}"}}},
		{"Phase changes", Timeseries, "", []Query{
			{`sum by (from, to) (increase(storagecluster_transitions_total[1h]))`, "{{from}} → {{to}}"}}},
		{"Requests to LINSTOR", Timeseries, "reqps", []Query{
			{`sum by (code) (rate(storagecluster_linstor_requests_total[5m]))`, "{{code}}"}}},
		{"LINSTOR response time (99th percentile)", Timeseries, "s", []Query{
			{`histogram_quantile(0.99, sum by (operation, le) ` +
				`(rate(storagecluster_linstor_request_duration_seconds_bucket[5m])))`, "{{operation}}"}}},
	}}
}

func linstorRow() Row {
	return Row{"LINSTOR", []Panel{
		{"Resource definitions", Stat, "", []Query{{`max(linstor_resource_definition_count)`, "definitions"}}},
		{"Satellite connections (2 = ONLINE)", Timeseries, "", []Query{
			{`max by (node) (linstor_node_state{nodetype="SATELLITE"})`, "{{node}}"}}},
		{"Free space by node", Timeseries, "bytes", []Query{{`max by (node, storage_pool) ` +
			`(linstor_storage_pool_capacity_free_bytes{driver!="DISKLESS"})`, "{{storage_pool}} on {{node}}"}}},
		{"Capacity by node", Timeseries, "bytes", []Query{{`max by (node, storage_pool) ` +
			`(linstor_storage_pool_capacity_total_bytes{driver!="DISKLESS"})`, "{{storage_pool}} on {{node}}"}}},
		{"Pool errors", Timeseries, "", []Query{{`max by (node, storage_pool) (linstor_storage_pool_error_count)`,
			"{{storage_pool}} on {{node}}"}}},
		{"Scrape duration", Timeseries, "s", []Query{{`max(linstor_scrape_duration_seconds)`, "LINSTOR"}}},
	}}
}

func drbdRow() Row {
	return Row{"DRBD", []Panel{
		{"Volumes without quorum", Timeseries, "", []Query{
			{`count by (node) (min by (node, name, volume) (drbd_device_quorum) < 1)`, "{{node}}"}}},
		{"Connections down", Timeseries, "", []Query{{`count by (node) (max by (node, name, conn_name) ` +
			`(drbd_connection_state{drbd_connection_state!="Connected"}) > 0)`, "{{node}}"}}},
		{"Out-of-sync data", Timeseries, "bytes", []Query{
			{`topk(10, max by (node, name, conn_name) (drbd_peerdevice_outofsync_bytes) > 0)`,
				"{{name}} on {{node}} with {{conn_name}}"}}},
		{"Highest write throughput", Timeseries, "Bps", []Query{
			{`topk(10, sum by (node, name) (rate(drbd_device_written_bytes_total[5m])))`, "{{name}} on {{node}}"}}},
		{"Highest read throughput", Timeseries, "Bps", []Query{
			{`topk(10, sum by (node, name) (rate(drbd_device_read_bytes_total[5m])))`, "{{name}} on {{node}}"}}},
	}}
}

// schemaVersion is that of Grafana 11's dashboards. Newer releases convert it.
const schemaVersion = 39

// Sizes of panels, in Grafana's grid of 24 columns.
const (
	columns   = 24
	panelWide = 8
	panelHigh = 7
	statWide  = 6
	statHigh  = 4
)

// Dashboard is the dashboard in Grafana's JSON. It asks for the Prometheus data source to use.
func Dashboard() []byte {
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var panels []any
	id, x, y, high := 0, 0, 0, 0
	line := func() { x, y, high = 0, y+high, 0 }
	for _, row := range Rows() {
		line()
		id++
		panels = append(panels, map[string]any{"id": id, "type": "row", "title": row.Title, "collapsed": false,
			"panels": []any{}, "gridPos": map[string]any{"h": 1, "w": columns, "x": 0, "y": y}})
		y++
		for i := range row.Panels {
			p := &row.Panels[i]
			w, h := panelWide, panelHigh
			if p.Kind == Stat {
				w, h = statWide, statHigh
			}
			if x+w > columns {
				line()
			}
			id++
			panel := p.json(source)
			panel["id"], panel["gridPos"] = id, map[string]any{"h": h, "w": w, "x": x, "y": y}
			panels = append(panels, panel)
			x, high = x+w, max(high, h)
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"uid": "storagecluster-linstor", "title": "LINSTOR StorageCluster", "tags": []string{"linstor", "storage"},
		"schemaVersion": schemaVersion, "refresh": "1m", "editable": true, "panels": panels,
		"time": map[string]any{"from": "now-6h", "to": "now"},
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}}},
	}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("encode the dashboard: %v", err)) // texts and numbers can always be encoded
	}
	return append(text, '\n')
}

func (p *Panel) json(source map[string]any) map[string]any {
	var targets []any
	for i, q := range p.Queries {
		targets = append(targets, map[string]any{"refId": string(rune('A' + i)), "expr": q.Expr,
			"legendFormat": q.Legend, "datasource": source})
	}
	out := map[string]any{"type": string(p.Kind), "title": p.Title, "datasource": source, "targets": targets,
		"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.Unit}, "overrides": []any{}}}
	if p.Kind == Stat && p.Title == "Phase" {
		out["options"] = map[string]any{"textMode": "name"}
	}
	return out
}
