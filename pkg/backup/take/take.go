// Package take takes one backup of LINSTOR's database: it has LINSTOR export the database, checks the export, and
// keeps it in a store. It runs in a pod of its own, so that neither LINSTOR's controller nor the operator needs the
// store's credentials, and no trouble with the store keeps either of them from running.
package take

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
)

// Config says which backup is taken, and where it goes.
type Config struct {
	// Linstor is the URL of LINSTOR's API.
	Linstor string `json:"linstor"`
	// Cluster is the Cluster/LocalID that the database must have. "": whichever it has.
	Cluster string `json:"cluster,omitempty"`
	// ID names the backup. "": scheduled- and the time.
	ID store.ID `json:"id,omitempty"`
	// Keep is how many backups of its trigger are kept, this one included; older ones are removed afterwards. 0: all.
	Keep int `json:"keep,omitempty"`
	// Store is where the backup is kept, and Credentials the directory with the store's credentials.
	Store       store.Location `json:"store"`
	Credentials string         `json:"credentials"`
}

// ParseConfig reads a Config from YAML or JSON. An error names the field.
func ParseConfig(text string, now time.Time) (*Config, error) {
	c := &Config{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		return nil, fmt.Errorf("the configuration of the backup: %w", err)
	}
	c.ID = cmp.Or(c.ID, store.ScheduledAt(now))
	_, errID := store.ParseID(string(c.ID))
	missing := func(name, value string) error {
		if value == "" {
			return fmt.Errorf("the configuration of the backup lacks %s", name)
		}
		return nil
	}
	var negative error
	if c.Keep < 0 {
		negative = fmt.Errorf("keep is %d: it must not be negative", c.Keep)
	}
	return c, errors.Join(missing("linstor", c.Linstor), missing("store.endpoint", c.Store.Endpoint),
		missing("store.bucket", c.Store.Bucket), missing("credentials", c.Credentials), errID, negative)
}

// Result is a backup that was taken.
type Result struct {
	store.Backup
	// Removed are the older backups that were removed, and Problem says why some were not.
	Removed []string `json:"removed,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// Run takes a backup. It can be repeated after any failure: nothing is overwritten in the store, and what was begun
// is finished or left for a later run to remove. Its error holds neither credentials nor values of the database.
func Run(ctx context.Context, c *Config) (*Result, error) {
	dir, err := os.MkdirTemp("", "backup-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	exported, packed := filepath.Join(dir, "export.json"), filepath.Join(dir, "export.json.gz")
	if err := write(exported, func(w io.Writer) error { return download(ctx, c.Linstor, w) }); err != nil {
		return nil, fmt.Errorf("get an export of the database from LINSTOR: %w", err)
	}
	backup, err := store.Pack(c.ID, exported, packed)
	if err != nil {
		return nil, fmt.Errorf("check LINSTOR's export of its database: %w", err)
	}
	bucket, err := store.Connect(c.Store, cmp.Or(c.Cluster, backup.Export.LocalID), c.Credentials)
	if err != nil {
		return nil, err
	}
	if err := bucket.Put(ctx, backup, packed); err != nil {
		return nil, fmt.Errorf("store the backup: %w", err)
	}
	result := &Result{Backup: *backup}
	if c.Keep > 0 {
		// A backup was taken, whatever is left of older ones.
		if result.Removed, err = bucket.Prune(ctx, c.Keep); err != nil {
			result.Problem = "older backups are left: " + err.Error()
		}
	}
	return result, nil
}

// write makes a file with what content writes.
func write(path string, content func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(content(file), file.Close())
}
