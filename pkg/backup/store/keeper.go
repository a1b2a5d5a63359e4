package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

const (
	// longestMeta is the longest description that is read, in bytes.
	longestMeta = 64 << 10
	// abandonedAfter is how old an export without a description is that nobody finishes any more.
	abandonedAfter = 24 * time.Hour
	// removeWithin bounds the removal of what could not be finished.
	removeWithin = 20 * time.Second
	// mostObjects is how many objects there may be in a cluster's directory: two of each hour of five years. A list of
	// them takes some 50 MB.
	mostObjects = 100_000
)

// errCrowded is the error about a directory with more objects than that.
func errCrowded(path string) error {
	return fmt.Errorf("the number of files in %s exceeds the limit of %d: move files that are no longer needed to "+
		"another location", path, mostObjects)
}

// Store keeps the backups of one cluster.
type Store struct {
	objects objects
	// cluster is LINSTOR's Cluster/LocalID, which names the cluster's directory.
	cluster string
	// most is how many bytes a backup may have, decompressed.
	most int64
}

// objects are those in the directory of one cluster. Errors say what was refused, and where, and repeat no
// credential.
type objects interface {
	// create makes an object, unless one of that name is there: errTaken.
	create(ctx context.Context, name string, content io.Reader, size int64) error
	// open returns an object's content. An error of reading it on is explained by unread.
	open(ctx context.Context, name string) (io.ReadCloser, error)
	unread(name string, err error) error
	// list lists all objects; more than mostObjects are an error.
	list(ctx context.Context) ([]entry, error)
	remove(ctx context.Context, name string) error
	// path is where an object of that name lies.
	path(name string) string
}

// entry is an object as a list has it.
type entry struct {
	name     string
	modified time.Time
}

// Put stores the backup whose compressed export is in the file packed, and reads it back. A backup that was put
// before, whole or in part, is finished. Errors say which right is missing at the store, and repeat no credential.
func (s *Store) Put(ctx context.Context, backup *Backup, packed string) error {
	if backup.Export.LocalID != s.cluster {
		return fmt.Errorf("the export belongs to another cluster: its Cluster/LocalID is %s, not %s",
			backup.Export.LocalID, s.cluster)
	}
	file, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	err = s.objects.create(ctx, backup.name()+exportSuffix, file, backup.Bytes)
	if err != nil && !errors.Is(err, errTaken) {
		return err
	}
	created := err == nil
	if err = s.finish(ctx, backup); err != nil && created {
		// The next attempt has another time in its name: it would leave one more. Whoever stops this one waits so long.
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer stop()
		err = errors.Join(err, s.objects.remove(ctx, backup.name()+exportSuffix))
	}
	return err
}

// finish reads back an export that is there, and describes it.
func (s *Store) finish(ctx context.Context, backup *Backup) error {
	if err := s.Verify(ctx, backup); err != nil {
		return err
	}
	meta, err := json.Marshal(backup)
	if err != nil {
		return err
	}
	err = s.objects.create(ctx, backup.name()+metaSuffix, bytes.NewReader(meta), int64(len(meta)))
	if errors.Is(err, errTaken) {
		return nil // it describes the same export, since that is what is there
	}
	return err
}

// Probe makes an object, reads it back and removes it: a store that lacks a right or is full says so before LINSTOR is
// asked for anything.
func (s *Store) Probe(ctx context.Context) error {
	name := "probe-" + strings.ToLower(rand.Text())
	if err := s.objects.create(ctx, name, strings.NewReader(name), int64(len(name))); err != nil {
		return err
	}
	return errors.Join(s.same(ctx, name), s.objects.remove(ctx, name))
}

// same reports, as an error, that an object cannot be read or is not what it is named.
func (s *Store) same(ctx context.Context, name string) error {
	r, err := s.objects.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(io.LimitReader(r, longestMeta))
	switch {
	case err != nil:
		return s.objects.unread(name, err)
	case string(text) != name:
		return ErrDiffers
	default:
		return nil
	}
}

// Verify reads a backup from the store to its end, and compares it with its description.
func (s *Store) Verify(ctx context.Context, backup *Backup) error {
	r, err := s.open(ctx, backup)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	summary, err := export.Read(bufio.NewReader(r))
	switch {
	case r.failed != nil: // what was read up to there may look broken in many ways
		return r.failed
	case err != nil:
		return fmt.Errorf("check the backup read back from the store: %w", err)
	case !summary.Equal(&backup.Export):
		return ErrDiffers
	}
	return nil
}

// Open reads a backup's export. ErrDiffers comes in place of io.EOF, so that whoever uses what he reads must first
// have read it to its end.
func (s *Store) Open(ctx context.Context, backup *Backup) (io.ReadCloser, error) {
	return s.open(ctx, backup)
}

func (s *Store) open(ctx context.Context, backup *Backup) (*checked, error) {
	object, err := s.objects.open(ctx, backup.name()+exportSuffix)
	if err != nil {
		return nil, err
	}
	c := &checked{from: s.objects, backup: backup, object: object, sum: &counted{Hash: sha256.New()}}
	zip, err := gzip.NewReader(io.TeeReader(object, c.sum))
	if err != nil {
		_ = object.Close()
		return nil, c.explain(err)
	}
	c.text = limit.Reader(zip, limit.New("the decompressed backup", s.most))
	return c, nil
}

// checked is an export that is decompressed and compared with its checksum.
type checked struct {
	from   objects
	backup *Backup
	object io.ReadCloser
	// text is what is in it, decompressed.
	text io.Reader
	sum  *counted
	// failed is why it could not be read to its end.
	failed error
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.text.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.As(err, new(*limit.Error)): // which is no trouble of the store's
		c.failed = err
	case !errors.Is(err, io.EOF):
		c.failed = c.explain(err)
	case c.sum.bytes != c.backup.Bytes || c.sum.String() != c.backup.SHA256:
		c.failed = ErrDiffers
	default:
		return n, io.EOF
	}
	return n, c.failed
}

// explain says of an error of the decompression whether it comes from the store or from what is in it.
func (c *checked) explain(err error) error {
	for _, broken := range []error{gzip.ErrChecksum, gzip.ErrHeader, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, broken) {
			return ErrDiffers
		}
	}
	return c.from.unread(c.backup.name()+exportSuffix, err)
}

func (c *checked) Close() error { return c.object.Close() }

// List is the cluster's backups, the newest first; at most the newest ones of each trigger.
func (s *Store) List(ctx context.Context, newest int) ([]Backup, error) {
	objects, err := s.backups(ctx)
	if err != nil {
		return nil, err
	}
	var out []Backup
	count := map[Trigger]int{}
	for _, o := range objects {
		if !o.described || count[o.id.Trigger()] == newest {
			continue
		}
		backup, err := s.describe(ctx, o.name)
		if err != nil {
			return nil, err
		}
		count[o.id.Trigger()]++
		out = append(out, *backup)
	}
	return out, nil
}

// Find is the backup of that ID that was begun then; nil if there is none.
func (s *Store) Find(ctx context.Context, id ID, begun time.Time) (*Backup, error) {
	return s.find(ctx, id, func(b *Backup) bool { return b.Begun.Equal(begun) })
}

// Newest is the newest backup of that ID; nil if there is none.
func (s *Store) Newest(ctx context.Context, id ID) (*Backup, error) {
	return s.find(ctx, id, func(*Backup) bool { return true })
}

// WithSum is the backup of that ID with that checksum; nil if there is none.
func (s *Store) WithSum(ctx context.Context, id ID, sha256 string) (*Backup, error) {
	return s.find(ctx, id, func(b *Backup) bool { return b.SHA256 == sha256 })
}

func (s *Store) find(ctx context.Context, id ID, fits func(*Backup) bool) (*Backup, error) {
	objects, err := s.backups(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if !o.described || o.id != id {
			continue
		}
		if found, err := s.describe(ctx, o.name); err != nil || fits(found) {
			return found, err
		}
	}
	return nil, nil
}

// Prune removes the oldest backups of the trigger of one that was just taken, until as many are there as are kept,
// and that one in any case; 0 keeps all. Exports that nobody finished for a day go as well. It returns the names of
// what it removed.
// How old they are is what the time in the name says or the store, whichever is earlier: LINSTOR's clock may have been
// ahead once, or that of the node that wrote a file, and a store that was copied is as young as the copy.
func (s *Store) Prune(ctx context.Context, taken *Backup, keep int) ([]string, error) {
	objects, err := s.backups(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(objects, func(x, y object) int { return y.made().Compare(x.made()) })
	var removed []string
	kept := 1 // the one that was taken
	for _, o := range objects {
		switch {
		case o.name == taken.name():
			continue
		case o.described:
			if o.id.Trigger() != taken.ID.Trigger() || keep <= 0 {
				continue
			}
			if kept++; kept <= keep {
				continue
			}
			// First the description: what lacks one is no backup, while one without its export would still be listed.
			if err = s.objects.remove(ctx, o.name+metaSuffix); err == nil {
				err = s.objects.remove(ctx, o.name+exportSuffix)
			}
		case time.Since(o.modified) > abandonedAfter:
			err = s.objects.remove(ctx, o.name+exportSuffix)
		default:
			continue
		}
		if err != nil {
			return removed, err
		}
		removed = append(removed, o.name)
	}
	return removed, nil
}

// object is a backup as its objects' names say.
type object struct {
	name      string
	id        ID
	described bool
	// taken is the time in the name, by LINSTOR's clock, and modified is by the store's.
	taken, modified time.Time
}

// made is when a backup was made, if one of two clocks was right.
func (o *object) made() time.Time {
	if o.taken.Before(o.modified) {
		return o.taken
	}
	return o.modified
}

// backups lists the cluster's directory, the newest first.
func (s *Store) backups(ctx context.Context) ([]object, error) {
	entries, err := s.objects.list(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]object{}
	for _, e := range entries {
		name, described := strings.CutSuffix(e.name, metaSuffix)
		name, exported := strings.CutSuffix(name, exportSuffix)
		taken, id, ok := parseName(name)
		if !ok || !described && !exported {
			continue
		}
		o, seen := byName[name]
		if !seen || described { // a backup is as old as its description
			o.modified = e.modified
		}
		o.name, o.taken, o.id, o.described = name, taken, id, o.described || described
		byName[name] = o
	}
	var out []object
	for _, o := range byName {
		out = append(out, o)
	}
	slices.SortFunc(out, func(x, y object) int { return strings.Compare(y.name, x.name) })
	return out, nil
}

// describe reads a backup's description.
func (s *Store) describe(ctx context.Context, name string) (*Backup, error) {
	object, err := s.objects.open(ctx, name+metaSuffix)
	if err != nil {
		return nil, err
	}
	defer func() { _ = object.Close() }()
	text, err := io.ReadAll(io.LimitReader(object, longestMeta))
	if err != nil {
		return nil, s.objects.unread(name+metaSuffix, err)
	}
	backup := &Backup{}
	if err := json.Unmarshal(text, backup); err != nil || backup.name() != name {
		return nil, fmt.Errorf("%s is not a valid description of the backup in its file name",
			s.objects.path(name+metaSuffix))
	}
	return backup, nil
}
