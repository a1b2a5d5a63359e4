// Package take takes one backup of LINSTOR's database: it has LINSTOR export the database, checks the export, and
// keeps it in a store. It runs in a pod of its own, so that neither LINSTOR's controller nor the operator needs the
// store's credentials, and no trouble with the store keeps either of them from running.
package take

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Config says which backup is taken, and where it goes.
type Config struct {
	// Linstor is the URL of LINSTOR's API.
	Linstor string `json:"linstor"`
	// Certificates is the directory with a client certificate for LINSTOR's API, its key, and the CA certificates
	// (tls.crt, tls.key, ca.crt). "": the API needs none.
	Certificates string `json:"certificates,omitempty"`
	// Cluster is the Cluster/LocalID that the database must have. "": whichever it has.
	Cluster string `json:"cluster,omitempty"`
	// Version is that of the LINSTOR whose database it must be: another one may have been started since the backup was
	// asked for. "": whichever it is.
	Version string `json:"version,omitempty"`
	// ID names the backup. "": scheduled- and the time.
	ID store.ID `json:"id,omitempty"`
	// Begun is when the backup was begun. One of this ID that was begun then is not taken again.
	Begun time.Time `json:"begun,omitzero"`
	// Keep is how many backups of its trigger are kept, this one included; older ones are removed afterwards. 0: all.
	Keep int `json:"keep,omitempty"`
	// Store is where the backup is kept, and Credentials the directory with the credentials of an S3 service.
	Store       store.Location `json:"store"`
	Credentials string         `json:"credentials,omitempty"`
	// Export is a file that Download has put LINSTOR's export into, and Restored one that LINSTOR's own program has
	// written after it had read that export into an empty database: nothing is kept unless both hold the same. "":
	// LINSTOR is asked for an export, and none is restored.
	Export   string `json:"export,omitempty"`
	Restored string `json:"restored,omitempty"`
}

// ParseConfig reads a Config from YAML or JSON. An error names the field.
func ParseConfig(text string, now time.Time) (*Config, error) {
	c := &Config{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		return nil, fmt.Errorf("parse the backup configuration: %w", err)
	}
	c.ID = cmp.Or(c.ID, store.ScheduledAt(now))
	_, errID := store.ParseID(string(c.ID))
	missing := func(name, value string) error {
		if value == "" {
			return fmt.Errorf("the backup configuration lacks %s", name)
		}
		return nil
	}
	var negative error
	if c.Keep < 0 {
		negative = fmt.Errorf("keep is %d: it must not be negative", c.Keep)
	}
	var place error
	switch l := &c.Store; {
	case l.Directory == "":
		place = errors.Join(missing("store.endpoint", l.Endpoint), missing("store.bucket", l.Bucket),
			missing("credentials", c.Credentials))
	case l.Endpoint != "" || l.Bucket != "" || l.Region != "" || c.Credentials != "":
		place = errors.New("store.directory cannot be combined with S3 fields: remove those fields")
	}
	var alone error
	if (c.Export == "") != (c.Restored == "") {
		alone = errors.New("export and restored must be set together or not at all")
	}
	return c, errors.Join(missing("linstor", c.Linstor), place, errID, negative, alone)
}

// Result is a backup that was taken.
type Result struct {
	store.Backup
	// Found reports whether the store had it already.
	Found bool `json:"found,omitempty"`
	// Removed are the older backups that were removed, and Problem says why some were not.
	Removed []string `json:"removed,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// longestProblem bounds a note: a container's termination log holds 4096 bytes.
const longestProblem = 512

// Note is the result in a few words of JSON, for the termination log of a container. It leaves out what was removed.
func (r *Result) Note() ([]byte, error) {
	return json.Marshal(Result{Backup: r.Backup, Found: r.Found, Problem: text.Head(r.Problem, longestProblem)})
}

// ParseNote reads a note. One that does not say what was taken is an error.
func ParseNote(text string) (*Result, error) {
	r := &Result{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("parse the backup result: %w", err)
	}
	if _, err := store.ParseID(string(r.ID)); err != nil {
		return nil, fmt.Errorf("parse the backup result: %w", err)
	}
	if r.Bytes <= 0 || r.SHA256 == "" || r.Export.Taken.IsZero() {
		return nil, errors.New("the backup result lacks the backup's size, checksum or time")
	}
	return r, nil
}

// Run takes a backup, unless the store has it: then that is the result. It can be repeated after any failure: nothing
// is overwritten in the store, and what was begun is finished or left for a later run to remove. Its error holds
// neither credentials nor values of the database.
func Run(ctx context.Context, c *Config) (*Result, error) {
	if there, err := ready(ctx, c); there != nil || err != nil {
		return there, err
	}
	dir, err := os.MkdirTemp("", "backup-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	exported, packed := filepath.Join(dir, "export.json"), filepath.Join(dir, "export.json.gz")
	if c.Export != "" {
		exported = c.Export
		defer func() { _ = errors.Join(os.Remove(c.Export), os.Remove(c.Restored)) }() // they hold keys, and a pod may stay
		if _, err := export.SameRows(c.Export, c.Restored); err != nil {
			return nil, err
		}
	} else if err := get(ctx, c, exported); err != nil {
		return nil, err
	}
	backup, err := store.Pack(c.ID, exported, packed)
	if err != nil {
		return nil, fmt.Errorf("check LINSTOR's database export: %w", err)
	}
	if v := backup.Export.Linstor; c.Version != "" && !export.SameVersion(v, c.Version) {
		return nil, fmt.Errorf("expected an export from LINSTOR %s, but this one is from %s: it was not stored",
			c.Version, v)
	}
	backup.Begun, backup.Restored = c.Begun, c.Restored != ""
	to, err := store.Connect(c.Store, cmp.Or(c.Cluster, backup.Export.LocalID), c.Credentials)
	if err != nil {
		return nil, err
	}
	if c.Cluster == "" {
		if there, err := find(ctx, to, c); there != nil || err != nil {
			return there, err
		}
	}
	if err := to.Put(ctx, backup, packed); err != nil {
		return nil, fmt.Errorf("store the backup: %w", err)
	}
	return prune(ctx, to, c, backup), nil
}

// Download puts LINSTOR's export into the file Export, for LINSTOR's own program to restore it before Run keeps it. It
// leaves no file where the store has the backup already.
func Download(ctx context.Context, c *Config) error {
	if c.Export == "" {
		return errors.New("the backup configuration lacks export")
	}
	if there, err := ready(ctx, c); there != nil || err != nil {
		return err
	}
	return get(ctx, c, c.Export)
}

// ready finds the backup in the store, or else tries the store before LINSTOR is asked for anything: it keeps each
// report, and trouble with the store must not fill its disk.
func ready(ctx context.Context, c *Config) (*Result, error) {
	if c.Cluster == "" {
		return nil, nil
	}
	to, err := store.Connect(c.Store, c.Cluster, c.Credentials)
	if err != nil {
		return nil, err
	}
	if there, err := find(ctx, to, c); there != nil || err != nil {
		return there, err
	}
	if err := to.Probe(ctx); err != nil {
		return nil, fmt.Errorf("test the store: %w", err)
	}
	return nil, nil
}

// get has LINSTOR export its database into a file, which it makes.
func get(ctx context.Context, c *Config, file string) error {
	if err := write(file, func(w io.Writer) error { return download(ctx, c, w) }); err != nil {
		return fmt.Errorf("get a database export from LINSTOR: %w", err)
	}
	return nil
}

// find is the result if the store has the backup already: whoever was killed before he could say that he took it
// would store it twice. One that is damaged there does not count.
func find(ctx context.Context, from *store.Store, c *Config) (*Result, error) {
	there, err := from.Find(ctx, c.ID, c.Begun)
	if err != nil {
		return nil, fmt.Errorf("check whether the store contains backup %s: %w", c.ID, err)
	}
	if there != nil && from.Verify(ctx, there) == nil {
		result := prune(ctx, from, c, there)
		result.Found = true
		return result, nil
	}
	return nil, nil
}

// prune removes older backups. One was taken, whatever is left of them.
func prune(ctx context.Context, in *store.Store, c *Config, taken *store.Backup) *Result {
	r := &Result{Backup: *taken}
	var err error
	if r.Removed, err = in.Prune(ctx, taken, c.Keep); err != nil {
		r.Problem = "older backups could not be removed: " + err.Error()
	}
	return r
}

// write makes a file with what content writes.
func write(path string, content func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(content(file), file.Close())
}
