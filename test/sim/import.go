package sim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// Why an import ends without the content of the export in the database. Errors that are returned wrap one of these, or
// have the message of a test.
var (
	// ErrImportKilled: half of it is in the database.
	ErrImportKilled = errors.New("the import was killed")
	// ErrBadExport: the file is none that this LINSTOR takes. Nothing was touched.
	ErrBadExport = errors.New("the file was not imported")
	// ErrUnknownExport: this world has not made the export, or too long ago. Nothing was touched.
	ErrUnknownExport = errors.New("an export that was not made in this world")
)

// keptExports is how many exports can be imported: those that were made last.
const keptExports = 64

// digest tells exports apart by the time at which they were made, and their tables.
type digest [sha256.Size]byte

// exports are what the databases held when they were exported: an export does not have all that the simulator keeps.
type exports struct {
	contents map[digest]*content
	order    []digest // the oldest first
}

func (e *exportedDatabase) digest() digest {
	return sha256.Sum256(encoded([]any{e.Timestamp, e.Tables}))
}

// encoded is JSON of texts and numbers, which can always be encoded.
func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// make exports a database, and keeps what was in it.
func (e *exports) make(db *Database, by version) []byte {
	kept := db.content.clone()
	if db.kind() == onMariaDB {
		kept.inSeconds()
	}
	made := exportOf(kept, db.kind(), db.world.now, by)
	id := made.digest()
	if e.contents[id] == nil {
		e.order = append(e.order, id)
	}
	e.contents[id] = kept
	if len(e.order) > keptExports {
		delete(e.contents, e.order[0])
		e.order = e.order[1:]
	}
	return encoded(made)
}

// ImportDatabase does what "linstor-database import-db" does with an export, and then "linstor-database export-db"; it
// returns the second one's export. All that is in the database is replaced by what the export was made of, and its
// schema by that of the LINSTOR that made it. A database of a newer LINSTOR than the one that imports has to be
// emptied before: LINSTOR 1.34 does not lower the number of its schema. The export may be of another database, so that
// LINSTOR's data can be moved. What lies on machines stays as it is until satellites connect. While it runs
// ([Options.MigrationTime]) it counts as a process that has the database open; if the context ends before, it is
// killed half-way.
func (w *World) ImportDatabase(ctx context.Context, c ControllerConfig, export []byte) (exported []byte, err error) {
	s, err := c.parse()
	if err != nil {
		return nil, err
	}
	w.lock()
	defer w.mu.Unlock()
	db, err := s.openToMigrate(w)
	if err != nil {
		return nil, err
	}
	defer db.open("import " + c.Identity)()
	loaded, err := w.exports.load(export, s.version)
	switch {
	case err != nil:
		return nil, err
	case db.importError != "":
		return nil, errors.New(db.importError)
	}
	db.half = true
	killed := w.sleep(ctx, w.opts.MigrationTime)
	if db.interrupted > 0 {
		db.interrupted--
		killed = true
	}
	if killed {
		return nil, ErrImportKilled
	}
	loaded.settle(w)
	db.content = *loaded
	return w.exports.make(db, s.version), nil
}

// EmptyDatabase does what "kubectl delete" does with the definitions of LINSTOR's tables in Kubernetes. Until an
// import has run to its end, LINSTOR would start as a new one.
func EmptyDatabase(w *World, c ControllerConfig) error {
	s, err := c.parse()
	if err != nil {
		return err
	}
	w.lock()
	defer w.mu.Unlock()
	db := w.database(s.url)
	if db.kind() != onKubernetes {
		return errors.New("only LINSTOR's tables in Kubernetes can be deleted with kubectl")
	}
	defer db.open("kubectl " + c.Identity)()
	destroyed := db.corrupted
	db.wipe()
	db.corrupted, db.half = destroyed, true
	return nil
}

// load finds the content that an export was made of, after the checks that LINSTOR makes (linstor-server 1.34,
// DbExportImportHelper.importDb).
func (e *exports) load(export []byte, by version) (*content, error) {
	var read exportedDatabase
	if err := json.Unmarshal(export, &read); err != nil {
		return nil, fmt.Errorf("%w: Failed to read database backup: %w", ErrBadExport, err)
	}
	made, err := parseVersion(read.LinstorVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: Could not parse linstor version: %s", ErrBadExport, read.LinstorVersion)
	}
	if made.newerThan(by) {
		return nil, fmt.Errorf("%w: The given database export was created with a newer version of Linstor than currently "+
			"installed! Current version: %s version from DB export: %s", ErrBadExport, by, read.LinstorVersion)
	}
	kept := e.contents[read.digest()]
	if kept == nil {
		return nil, ErrUnknownExport
	}
	loaded := kept.clone()
	loaded.schema, loaded.half = made, false
	return loaded, nil
}

// startedOn records that a process was started on half an import. A real one ends in most cases, with one of several
// errors; after some imports it starts and is empty, or lacks a few things.
func (d *Database) startedOn(who string) {
	if d.half {
		d.world.violate("half-import database=%s: %s was started on half an import", d.url, who)
	}
}

// InterruptImports has the next n imports killed half-way. Until one runs to its end, a controller or a migration that
// is started on the database is a violation.
func (d *Database) InterruptImports(n int) {
	d.world.lock()
	defer d.world.mu.Unlock()
	d.interrupted = n
}

// HalfImported reports whether an import was killed, or runs, and none has run to its end since.
func (d *Database) HalfImported() bool {
	d.world.lock()
	defer d.world.mu.Unlock()
	return d.half
}

// SetImportError makes every import fail with that message, and touch nothing; "" ends it.
func (d *Database) SetImportError(message string) {
	d.world.lock()
	defer d.world.mu.Unlock()
	d.importError = message
}
