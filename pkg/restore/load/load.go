// Package load brings a backup of LINSTOR's database to where LINSTOR's own program imports it, and finds out
// afterwards whether the database holds what the backup does. It runs in the same pod before and after that program,
// whose word does not count: one that was called wrongly, or filled another database, says "Import finished" as well
// (linstor-server 1.34, LinstorDatabaseTool).
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
)

// Config says which backup is loaded, and through which files.
type Config struct {
	// Cluster is the Cluster/LocalID of the database that was backed up, ID the backup's, and SHA256 the checksum that
	// tells it from others of that ID.
	Cluster string   `json:"cluster"`
	ID      store.ID `json:"id"`
	SHA256  string   `json:"sha256"`
	// Store is where the backup is, and Credentials the directory with the credentials of an S3 service.
	Store       store.Location `json:"store"`
	Credentials string         `json:"credentials,omitempty"`
	// Export is the file with the backup's export, and Restored the one that LINSTOR's own program writes after it has
	// imported that.
	Export   string `json:"export"`
	Restored string `json:"restored"`
}

// ParseConfig reads a Config from JSON. An error names the field.
func ParseConfig(text string) (*Config, error) {
	c := &Config{}
	if err := decode(text, c); err != nil {
		return nil, fmt.Errorf("parse the restore configuration: %w", err)
	}
	_, err := store.ParseID(string(c.ID))
	return c, errors.Join(err, lacks("the restore configuration", map[string]string{"cluster": c.Cluster,
		"sha256": c.SHA256, "export": c.Export, "restored": c.Restored}))
}

// Fetch gets the backup from the store, decompresses it into the file Export, and leaves none if that fails: what is
// not whole must never be imported.
func Fetch(ctx context.Context, c *Config) error {
	from, err := store.Connect(c.Store, c.Cluster, c.Credentials)
	if err != nil {
		return err
	}
	backup, err := from.WithSum(ctx, c.ID, c.SHA256)
	if err != nil {
		return fmt.Errorf("find backup %s in the store: %w", c.ID, err)
	}
	if backup == nil {
		return fmt.Errorf("the store no longer has backup %s with the checksum that was compared", c.ID)
	}
	if err := fetch(ctx, from, backup, c.Export); err != nil {
		return errors.Join(fmt.Errorf("read backup %s: %w", c.ID, err), remove(c.Export))
	}
	return nil
}

func fetch(ctx context.Context, from *store.Store, backup *store.Backup, path string) error {
	r, err := from.Open(ctx, backup)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r) // its checksum is compared at the end
	return errors.Join(err, file.Close())
}

// Result is a backup that was restored.
type Result struct {
	ID     store.ID `json:"id"`
	SHA256 string   `json:"sha256"`
	// Taken is when LINSTOR had exported it, and Rows how many rows it has.
	Taken time.Time `json:"taken"`
	Rows  int       `json:"rows"`
}

// Check fails unless LINSTOR's database holds the rows of the backup and no others, and removes both files: they hold
// keys, and the pod may stay. Where the check fails the database may hold anything.
func Check(c *Config) (r *Result, err error) {
	defer func() { err = errors.Join(err, remove(c.Export), remove(c.Restored)) }()
	s, err := export.SameRows(c.Export, c.Restored)
	if err != nil {
		return nil, err
	}
	return &Result{ID: c.ID, SHA256: c.SHA256, Taken: s.Taken, Rows: s.Rows}, nil
}

// remove removes a file, if there is one.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Note is the result as JSON, for the termination log of a container.
func (r *Result) Note() ([]byte, error) { return json.Marshal(r) }

// ParseNote reads a note. One that does not say what was restored is an error.
func ParseNote(text string) (*Result, error) {
	r := &Result{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("parse the restore result: %w", err)
	}
	if _, err := store.ParseID(string(r.ID)); err != nil || r.SHA256 == "" {
		return nil, errors.New("the restore result lacks the restored backup's ID or checksum")
	}
	return r, nil
}
