// Package export reads exports of LINSTOR's database, to find out whether one is whole and whose data it holds. An
// export is what "linstor-database export-db" and POST /v1/controller/database/export write (LINSTOR 1.33 and 1.34 or
// newer): one JSON object with all tables. It holds the encrypted master key and keys of volumes, so that none of its
// values may be shown.
//
// Nothing here says that LINSTOR would start on an export: rows can be missing in it that LINSTOR expects, as after a
// crash in the middle of a write. It says what is in it, for a comparison with what LINSTOR had.
package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// Summary is what an export holds.
type Summary struct {
	// Linstor is the version of LINSTOR that wrote the export. An older LINSTOR does not read it.
	Linstor string `json:"linstor"`
	// Taken is when it was written.
	Taken time.Time `json:"taken"`
	// From is the kind of the database: k8s, etcd, or sql/ and the kind of the server.
	From string `json:"from"`
	// LocalID is the identity of the cluster whose data it is; "" if the export has none.
	LocalID string `json:"localID"`
	// Tables is how many tables the export has, and Rows how many rows there are in all.
	Tables int `json:"tables"`
	Rows   int `json:"rows"`
	// Nodes and so on are LINSTOR's objects. Snapshots lie in the tables of resources and volumes as well, and are
	// counted apart: Snapshots are definitions, however many nodes have a copy.
	Nodes               int `json:"nodes"`
	StoragePools        int `json:"storagePools"`
	ResourceDefinitions int `json:"resourceDefinitions"`
	Resources           int `json:"resources"`
	Volumes             int `json:"volumes"`
	Snapshots           int `json:"snapshots"`
}

// SameVersion reports whether an export by that LINSTOR is of that version: a build may have more behind it.
func SameVersion(linstor, version string) bool {
	return linstor == version || strings.HasPrefix(linstor, version+"-")
}

// Equal reports whether two exports, by what was found in them, can be the same.
func (s *Summary) Equal(o *Summary) bool {
	x, y := *s, *o
	x.Taken, y.Taken = time.Time{}, time.Time{} // a time knows its zone, which makes equal ones differ
	return s.Taken.Equal(o.Taken) && x == y
}

// String is the summary in one line.
func (s *Summary) String() string {
	taken := s.Taken.UTC().Format(time.RFC3339)
	return fmt.Sprintf("LINSTOR %s export from %s, taken %s: %d nodes, %d storage pools, %d resource definitions, "+
		"%d resources, %d volumes, %d snapshots; %d rows in %d tables", s.Linstor, s.From, taken, s.Nodes,
		s.StoragePools, s.ResourceDefinitions, s.Resources, s.Volumes, s.Snapshots, s.Rows, s.Tables)
}

// Read reads an export to its end, a row at a time. An error says what is wrong and where, and repeats no value.
func Read(r io.Reader) (*Summary, error) { return read(r, required, nil) }

// keeper gets each row of a table. A nil one gets none.
type keeper func(row json.RawMessage) error

// read reads an export that must have these tables. keep says who gets the rows of a table; nil: nobody gets any.
func read[T any](r io.Reader, tables map[string]T, keep func(table string) keeper) (*Summary, error) {
	b := &bounded{Reader: r}
	d := &reader{Decoder: json.NewDecoder(b), seen: map[string]bool{}, keep: keep, unnamed: limit.New(
		"the row data before a table name in the export", mostValue)}
	b.decoded = d.InputOffset
	if err := d.object(d.field); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file contains more data after the export")
	}
	for _, field := range []string{"linstor_version", "export_timestamp_ms", "exported_from", "tables"} {
		if !d.seen[field] {
			return nil, fmt.Errorf("this is not an export of LINSTOR's database: field %s is missing", field)
		}
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if !d.seen["table "+table] {
			return nil, fmt.Errorf("the export has no %s table", table)
		}
	}
	summary := d.Summary // a part of the reader would keep all of it in memory, and what was kept of the rows
	return &summary, nil
}

// reader walks through an export.
type reader struct {
	*json.Decoder
	Summary
	// seen are the fields, and the tables as "table NAME".
	seen map[string]bool
	keep func(table string) keeper
	// unnamed is how much may come before the names of tables.
	unnamed *limit.Budget
}

// field reads a field of the export.
func (d *reader) field(name string) error {
	if d.seen[name] {
		return fmt.Errorf("%s appears twice", name)
	}
	d.seen[name] = true
	switch name {
	case "linstor_version":
		return d.value(name, &d.Linstor)
	case "exported_from":
		return d.value(name, &d.From)
	case "export_timestamp_ms":
		var ms int64
		err := d.value(name, &ms)
		d.Taken = time.UnixMilli(ms)
		return err
	case "tables":
		return d.array(name, func(i int) error {
			t := table{reader: d}
			err := t.read()
			switch {
			case err != nil && t.name != "":
				return fmt.Errorf("table %d (%s): %w", i+1, t.name, err)
			case err != nil:
				return fmt.Errorf("table %d: %w", i+1, err)
			default:
				return nil
			}
		})
	default:
		return d.skip(name)
	}
}

// value reads the value of a field. What the decoder says of it could repeat it, and is left out.
func (d *reader) value(field string, into any) error {
	return wrong(field, d.Decode(into))
}

// wrong is an error of the decoder without what it read.
func wrong(field string, err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%s has the wrong type: %s", field, kind.Value)
	}
	return broken(err)
}

func (d *reader) skip(field string) error {
	var skipped json.RawMessage
	return d.value(field, &skipped)
}

// object reads an object, field by field.
func (d *reader) object(field func(name string) error) error {
	if err := d.delim('{'); err != nil {
		return err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return broken(err)
		}
		name, _ := t.(string) // a decoder lets nothing else be the name of a field
		if err := field(name); err != nil {
			return err
		}
	}
	return d.delim('}')
}

// array reads an array, element by element.
func (d *reader) array(name string, element func(i int) error) error {
	if err := d.delim('['); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i := 0; d.More(); i++ {
		if err := element(i); err != nil {
			return err
		}
	}
	return d.delim(']')
}

func (d *reader) delim(want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return broken(err)
	}
	if t != want {
		return fmt.Errorf("expected %s, but found something else", want)
	}
	return nil
}

// broken is an error of the decoder without what it read.
func broken(err error) error {
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the export ends unexpectedly")
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
	default:
		return err
	}
}
