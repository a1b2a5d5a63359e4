package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
)

const (
	// longestMeta is the longest description that is read, in bytes.
	longestMeta = 64 << 10
	// abandonedAfter is how old an export without a description is that nobody finishes any more.
	abandonedAfter = 24 * time.Hour
)

// Bucket keeps the backups of one cluster.
type Bucket struct {
	client *minio.Client
	Location
	// cluster is the directory, LINSTOR's Cluster/LocalID.
	cluster string
}

// Put stores the backup whose compressed export is in the file packed, and reads it back. A backup that was put
// before, whole or in part, is finished. Errors say which right is missing at the store, and repeat no credential.
func (b *Bucket) Put(ctx context.Context, backup *Backup, packed string) error {
	if backup.Export.LocalID != b.cluster {
		return fmt.Errorf("the export is of another cluster: its Cluster/LocalID is %s, and not %s",
			backup.Export.LocalID, b.cluster)
	}
	file, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := b.create(ctx, backup.name()+exportSuffix, file, backup.Bytes); err != nil && !errors.Is(err, errTaken) {
		return err
	}
	if err := b.Verify(ctx, backup); err != nil {
		return err
	}
	meta, err := json.Marshal(backup)
	if err != nil {
		return err
	}
	err = b.create(ctx, backup.name()+metaSuffix, bytes.NewReader(meta), int64(len(meta)))
	if errors.Is(err, errTaken) {
		return nil // it describes the same export, since that is what is there
	}
	return err
}

// create makes an object, unless one of that name is there: errTaken.
func (b *Bucket) create(ctx context.Context, name string, content io.Reader, size int64) error {
	// One request, so that the store decides at once whether the name is free.
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, SendContentMd5: true}
	o.SetMatchETagExcept("*")
	_, err := b.client.PutObject(ctx, b.Bucket, b.key(name), content, size, o)
	err = b.explain(err, "PutObject", name)
	if refusedWith(err, minio.PreconditionFailed, "ConditionalRequestConflict") {
		return errTaken
	}
	return err
}

// Verify reads a backup from the store to its end, and compares it with its description.
func (b *Bucket) Verify(ctx context.Context, backup *Backup) error {
	r, err := b.open(ctx, backup)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	summary, err := export.Read(bufio.NewReader(r))
	switch {
	case r.failed != nil: // what was read up to there may look broken in many ways
		return r.failed
	case err != nil:
		return fmt.Errorf("the backup as the store returns it: %w", err)
	case !summary.Equal(&backup.Export):
		return ErrDiffers
	}
	return nil
}

// Open reads a backup's export. ErrDiffers comes in place of io.EOF, so that whoever uses what he reads must first
// have read it to its end.
func (b *Bucket) Open(ctx context.Context, backup *Backup) (io.ReadCloser, error) {
	return b.open(ctx, backup)
}

func (b *Bucket) open(ctx context.Context, backup *Backup) (*checked, error) {
	name := backup.name() + exportSuffix
	object, err := b.client.GetObject(ctx, b.Bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(err, "GetObject", name)
	}
	c := &checked{bucket: b, backup: backup, object: object, sum: &counted{Hash: sha256.New()}}
	if c.zip, err = gzip.NewReader(io.TeeReader(object, c.sum)); err != nil {
		_ = object.Close()
		return nil, c.explain(err)
	}
	return c, nil
}

// checked is an export that is decompressed and compared with its checksum.
type checked struct {
	bucket *Bucket
	backup *Backup
	object io.ReadCloser
	zip    *gzip.Reader
	sum    *counted
	// failed is why it could not be read to its end.
	failed error
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.zip.Read(p)
	switch {
	case err == nil:
		return n, nil
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
	return c.bucket.explain(err, "GetObject", c.backup.name()+exportSuffix)
}

func (c *checked) Close() error { return c.object.Close() }

// List is the cluster's backups, the newest first; at most the newest ones of each trigger.
func (b *Bucket) List(ctx context.Context, newest int) ([]Backup, error) {
	objects, err := b.objects(ctx)
	if err != nil {
		return nil, err
	}
	var out []Backup
	count := map[Trigger]int{}
	for _, o := range objects {
		if !o.described || count[o.id.Trigger()] == newest {
			continue
		}
		backup, err := b.describe(ctx, o.name)
		if err != nil {
			return nil, err
		}
		count[o.id.Trigger()]++
		out = append(out, *backup)
	}
	return out, nil
}

// Find is the newest backup of that ID; nil if there is none.
func (b *Bucket) Find(ctx context.Context, id ID) (*Backup, error) {
	objects, err := b.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.described && o.id == id {
			return b.describe(ctx, o.name)
		}
	}
	return nil, nil
}

// Prune removes backups until at most the newest ones of each trigger are there, at least one, and exports that
// nobody finished for a day. It returns the names of what it removed.
func (b *Bucket) Prune(ctx context.Context, newest int) ([]string, error) {
	objects, err := b.objects(ctx)
	if err != nil {
		return nil, err
	}
	var removed []string
	count := map[Trigger]int{}
	for _, o := range objects {
		switch {
		case o.described:
			count[o.id.Trigger()]++
			if count[o.id.Trigger()] <= max(newest, 1) {
				continue
			}
			// First the description: what lacks one is no backup, while one without its export would still be listed.
			if err = b.remove(ctx, o.name+metaSuffix); err == nil {
				err = b.remove(ctx, o.name+exportSuffix)
			}
		case time.Since(o.modified) > abandonedAfter:
			err = b.remove(ctx, o.name+exportSuffix)
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
	modified  time.Time
}

// objects lists the cluster's directory, the newest first.
func (b *Bucket) objects(ctx context.Context) ([]object, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	byName := map[string]object{}
	for info := range b.client.ListObjects(ctx, b.Bucket, minio.ListObjectsOptions{Prefix: b.key("") + "/"}) {
		if info.Err != nil {
			return nil, b.explain(info.Err, "ListBucket", "")
		}
		file := path.Base(info.Key)
		name, described := strings.CutSuffix(file, metaSuffix)
		name, exported := strings.CutSuffix(name, exportSuffix)
		id, ok := parseName(name)
		if !ok || !described && !exported {
			continue
		}
		o := byName[name]
		byName[name] = object{name: name, id: id, described: o.described || described, modified: info.LastModified}
	}
	var out []object
	for _, o := range byName {
		out = append(out, o)
	}
	slices.SortFunc(out, func(x, y object) int { return strings.Compare(y.name, x.name) })
	return out, nil
}

// describe reads a backup's description.
func (b *Bucket) describe(ctx context.Context, name string) (*Backup, error) {
	object, err := b.client.GetObject(ctx, b.Bucket, b.key(name+metaSuffix), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(err, "GetObject", name+metaSuffix)
	}
	defer func() { _ = object.Close() }()
	text, err := io.ReadAll(io.LimitReader(object, longestMeta))
	if err != nil {
		return nil, b.explain(err, "GetObject", name+metaSuffix)
	}
	backup := &Backup{}
	if err := json.Unmarshal(text, backup); err != nil || backup.name() != name {
		return nil, fmt.Errorf("%s does not describe the backup of its name", b.key(name+metaSuffix))
	}
	return backup, nil
}

func (b *Bucket) remove(ctx context.Context, name string) error {
	err := b.client.RemoveObject(ctx, b.Bucket, b.key(name), minio.RemoveObjectOptions{})
	return b.explain(err, "DeleteObject", name)
}

// key is where an object of that name lies.
func (b *Bucket) key(name string) string { return path.Join(b.Prefix, b.cluster, name) }
