package export

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// Contents is what is in an export, in a form in which two can be compared.
type Contents struct {
	// Summary says what the export holds in all.
	Summary *Summary
	tables  map[string]*contents
}

// contents is what is in a table. LINSTOR's programs write rows in no order, so that their sum does not depend on one.
// No two rows of a table are equal, since each has a key; two equal ones would cancel each other out.
type contents struct {
	rows int
	sum  [sha256.Size]byte
	// seconds and rounded are the same sum, with times in whole seconds: cut, or the nearest ones.
	seconds, rounded [sha256.Size]byte
}

// timestamps are the columns with times, in milliseconds since 1970 (linstor-server 1.34, GeneratedDatabaseTables:
// Types.TIMESTAMP). MariaDB keeps whole seconds of them (seen with MariaDB 10.11), which MySQL rounds.
var timestamps = []string{"create_timestamp", "created_at", "deleted_at", "expires_at", "entry_date"}

// ReadContents reads an export to its end as Read does.
func ReadContents(r io.Reader) (*Contents, error) {
	c := &Contents{tables: map[string]*contents{}}
	summary, err := read(r, required, func(table string) keeper {
		if c.tables[table] == nil {
			c.tables[table] = &contents{}
		}
		return c.tables[table].add
	})
	c.Summary = summary
	return c, err
}

// add adds a row. What is null counts as absent.
func (c *contents) add(row json.RawMessage) error {
	var columns map[string]any
	d := json.NewDecoder(bytes.NewReader(row))
	d.UseNumber() // a float64 would not tell large numbers apart
	if err := d.Decode(&columns); err != nil {
		return err
	}
	maps.DeleteFunc(columns, func(_ string, value any) bool { return value == nil })
	sum, err := sumOf(columns)
	cut, rounded := sum, sum // most rows have no times
	if slices.ContainsFunc(timestamps, func(name string) bool { return columns[name] != nil }) {
		var errs [2]error
		cut, errs[0] = sumOf(inSeconds(columns, 0))
		rounded, errs[1] = sumOf(inSeconds(columns, 500))
		err = errors.Join(err, errs[0], errs[1])
	}
	if err != nil {
		return err
	}
	for i := range sum {
		c.sum[i] ^= sum[i]
		c.seconds[i] ^= cut[i]
		c.rounded[i] ^= rounded[i]
	}
	c.rows++
	return nil
}

// inSeconds is the row with times in whole seconds, after so many milliseconds were added.
func inSeconds(columns map[string]any, add int64) map[string]any {
	out := maps.Clone(columns)
	for _, name := range timestamps {
		if at, isNumber := columns[name].(json.Number); isNumber {
			if ms, err := at.Int64(); err == nil {
				out[name] = (ms + add) / 1000
			}
		}
	}
	return out
}

func sumOf(columns map[string]any) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal(columns)
	return sha256.Sum256(text), err
}

// Differ says in what the other export differs from this one: in which table first. "" if both have the same rows.
// When, from where and by which LINSTOR they were written does not count, nor do fractions of seconds if one is from
// MariaDB, which has none.
func (c *Contents) Differ(o *Contents) string {
	whole := c.Summary.From == fromMariaDB || o.Summary.From == fromMariaDB
	names := maps.Clone(c.tables)
	maps.Copy(names, o.tables)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, y := c.tables[name], o.tables[name]
		if x == nil {
			x = &contents{} // a table without rows may be left out
		}
		if y == nil {
			y = &contents{}
		}
		switch {
		case x.rows != y.rows:
			return fmt.Sprintf("table %s has %d rows in one export, but %d in the other", name, x.rows, y.rows)
		case whole && (x.seconds == y.seconds || x.rounded == y.seconds || x.seconds == y.rounded):
		case x.sum != y.sum:
			return fmt.Sprintf("rows in table %s differ", name)
		}
	}
	return ""
}

// fromMariaDB is what an export from MariaDB says of its origin.
const fromMariaDB = "sql/mariadb"

// SameRows compares the file with LINSTOR's export with what LINSTOR's own program has written of the database that it
// had restored it into: one that it cannot read, or of which rows are lost, is no backup, however well it lies in a
// store, and a database with other rows was not restored. It returns what the export holds.
func SameRows(exported, restored string) (*Summary, error) {
	before, err := readFile(exported)
	if err != nil {
		return nil, fmt.Errorf("check LINSTOR's database export: %w", err)
	}
	after, err := readFile(restored)
	if err != nil {
		return nil, fmt.Errorf("check the export of the restored database: %w", err)
	}
	if differs := before.Differ(after); differs != "" {
		return nil, fmt.Errorf("the restored data differs from LINSTOR's database export: %s", differs)
	}
	return before.Summary, nil
}

func readFile(path string) (*Contents, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return ReadContents(bufio.NewReader(file))
}
