package export

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// TestOneValueIsBounded: what must be in memory as a whole is not read for ever, whatever stands where.
func TestOneValueIsBounded(t *testing.T) {
	const says = "is larger than 8 MiB, which is the limit"
	much := strings.Repeat("a", mostValue+mostValue/2)
	few := strings.Repeat("a", mostValue-1<<20)
	whole := small(nil)
	large := func(e values) { rowsOf(e["tables"].([]values), "NODES")[0]["comment"] = much }
	space := strings.Repeat(" ", len(much))
	for name, tc := range map[string]struct {
		text string
		fits bool
	}{
		"a field that is skipped":       {small(func(e values) { e["comment"] = much }), false},
		"one that is nearly as large":   {small(func(e values) { e["comment"] = few }), true},
		"many that are nearly as large": {small(func(e values) { e["a"], e["b"], e["c"] = few, few, few }), true},
		"a row":                         {small(large), false},
		"the name of a field":           {small(func(e values) { e[much] = 1 }), false},
		"the space between two":         {strings.Replace(whole, `"tables"`, space+`"tables"`, 1), false},
		"text that is no JSON":          {`{"a":"` + much, false},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, read := range map[string]func(io.Reader) error{
				"summary":  func(r io.Reader) error { _, err := Read(r); return err },
				"contents": func(r io.Reader) error { _, err := ReadContents(r); return err },
			} {
				if err := read(strings.NewReader(tc.text)); (err == nil) != tc.fits ||
					err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v", kind, err)
				}
			}
		})
	}
}

// TestUnnamedRowsAreBounded: rows are kept until the name of their table comes, which may be never.
func TestUnnamedRowsAreBounded(t *testing.T) {
	row := fmt.Sprintf(`{"comment":%q},`, strings.Repeat("a", 1<<20))
	text := `{"tables":[{"column_description":[],"data":[` + strings.Repeat(row, 10)
	if _, err := ReadContents(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(),
		"the row data before a table name in the export is larger than 8 MiB") {
		t.Error(err)
	}
}

// TestKeptRowsAreBounded: what is kept counts with what maps take for it, since rows may be small and many.
func TestKeptRowsAreBounded(t *testing.T) {
	text := small(func(e values) { e["tables"] = laidOut() })
	rows := 0
	for _, table := range laidOut() {
		rows += len(table["data"].([]values))
	}
	for most, fits := range map[int64]bool{int64(len(text)): false, int64(len(text) + rows*overhead): true} {
		_, err := readLayout(strings.NewReader(text), limit.New("it", most))
		if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "which is the limit") {
			t.Errorf("room for %d bytes: %v", most, err)
		}
	}
}
