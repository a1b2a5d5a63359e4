package export

import (
	"encoding/json"
	"errors"
	"fmt"
)

// row is what is looked at of rows. Columns have the names of the fields of LINSTOR's custom resources (linstor-server
// 1.34, DbExportPojoMeta.java).
type row struct {
	Snapshot string `json:"snapshot_name"`
	Driver   string `json:"driver_name"`
	Instance string `json:"props_instance"`
	Key      string `json:"prop_key"`
	Value    string `json:"prop_value"`
}

// table is one that is being read.
type table struct {
	*reader
	name string
	// described and filled: columns and rows were there.
	described, filled bool
	// rows are all of them; snapshots those that belong to a snapshot; diskless the pools that every node has for volumes
	// without a copy there.
	rows, snapshots, diskless int
	localID                   string
	// unnamed are rows that came before the table's name, which LINSTOR writes first.
	unnamed []json.RawMessage
}

// required are the tables that every export has, with what they count.
var required = map[string]func(*Summary, *table){
	"NODES":          func(s *Summary, t *table) { s.Nodes = t.rows },
	"NODE_STOR_POOL": func(s *Summary, t *table) { s.StoragePools = t.rows - t.diskless },
	"RESOURCE_DEFINITIONS": func(s *Summary, t *table) {
		s.ResourceDefinitions, s.Snapshots = t.rows-t.snapshots, t.snapshots
	},
	"RESOURCES":        func(s *Summary, t *table) { s.Resources = t.rows - t.snapshots },
	"VOLUMES":          func(s *Summary, t *table) { s.Volumes = t.rows - t.snapshots },
	"PROPS_CONTAINERS": func(s *Summary, t *table) { s.LocalID = t.localID },
}

// field reads a field of the table.
func (t *table) field(name string) error {
	switch name {
	case "name":
		return t.value("its name", &t.name)
	case "column_description":
		t.described = true
		return t.skip(name)
	case "data":
		t.filled = true
		return t.array("its data", t.row)
	default:
		return t.skip(name)
	}
}

func (t *table) row(i int) error {
	var text json.RawMessage
	if err := t.value(rowName(i), &text); err != nil {
		return err
	}
	var r row
	if err := errors.Join(json.Unmarshal(text, &r), t.kept(text)); err != nil {
		return wrong(rowName(i), err)
	}
	t.rows++
	if r.Snapshot != "" {
		t.snapshots++
	}
	if r.Driver == "DISKLESS" {
		t.diskless++
	}
	if r.Instance == "/CTRL" && r.Key == "Cluster/LocalID" {
		t.localID = r.Value
	}
	return nil
}

func rowName(i int) string { return fmt.Sprintf("row %d or one of its columns", i+1) }

// kept hands a row to whoever wants those of its table.
func (t *table) kept(row json.RawMessage) error {
	switch {
	case t.keep == nil:
		return nil
	case t.name == "":
		t.unnamed = append(t.unnamed, row)
		return t.reader.unnamed.Take(len(row) + overhead)
	}
	if keep := t.keep(t.name); keep != nil {
		return keep(row)
	}
	return nil
}

// read reads the table that comes next, and counts what is in it.
func (t *table) read() error {
	if err := t.object(t.field); err != nil {
		return err
	}
	switch {
	case t.name == "":
		return errors.New("the table has no name")
	case t.seen["table "+t.name]:
		return fmt.Errorf("%s appears twice", t.name)
	case !t.described:
		return fmt.Errorf("%s has no column_description", t.name)
	case !t.filled:
		return fmt.Errorf("%s has no data", t.name)
	}
	for i, row := range t.unnamed {
		if err := t.kept(row); err != nil {
			return wrong(rowName(i), err)
		}
	}
	t.seen["table "+t.name] = true
	t.Tables++
	t.Rows += t.rows
	if count := required[t.name]; count != nil {
		count(&t.Summary, t)
	}
	return nil
}
