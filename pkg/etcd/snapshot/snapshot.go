// Package snapshot takes a snapshot of a member's database into a directory of the member's node. It runs there, in a
// pod of its own: the bytes pass neither through the operator nor over the network.
//
// The file is what etcd's own programs write and read: a copy of the database with its SHA-256 hash behind it (etcd
// 3.5 to 3.7, maintenanceServer.Snapshot), which etcdutl snapshot restore checks. It has its name once it is whole,
// and was read back from the disk.
package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// Config says which snapshot is taken.
type Config struct {
	// ID is its name, see seats.NewSnapshot. One of this name that is there is not taken again.
	ID string `json:"id"`
	// Endpoint is the member's client URL, and ClusterID that of its cluster, in hexadecimal.
	Endpoint  string `json:"endpoint"`
	ClusterID string `json:"clusterID"`
}

const (
	// Keep is how many snapshots stay, the new one included. Older ones are removed once the new one is whole.
	Keep = 3
	// Reserve is how many bytes stay free for etcd, which needs space at each write, besides as much again as the
	// database has.
	Reserve = 64 << 20

	ending      = ".db"
	description = ".json"
	partial     = ".part"
	// answers bounds what a member is asked besides the snapshot, which takes no longer than long.
	answers = 10 * time.Second
	long    = 15 * time.Minute
)

// names are those of snapshots that the operator has asked for. Other files are left alone.
var names = regexp.MustCompile(`^before-\d+\.\d+-(\d{8}T\d{6}Z)$`)

// File is the name of a snapshot's file.
func File(id string) string { return id + ending }

// Take takes a snapshot into a directory, which it makes, and returns what is there of it then. It may be interrupted
// anywhere and repeated: then it goes on from nothing, or finds a whole snapshot and reports it. It overwrites none.
func Take(ctx context.Context, dir string, c Config) (seats.Taken, error) {
	failed := seats.Taken{ID: c.ID}
	if !names.MatchString(c.ID) {
		return failed, fmt.Errorf("%q is not a valid snapshot name", c.ID)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return failed, err
	}
	if err := clean(dir); err != nil {
		return failed, err
	}
	path := filepath.Join(dir, File(c.ID))
	switch _, err := os.Lstat(path); {
	case err == nil:
		return there(path, c)
	case !errors.Is(err, fs.ErrNotExist):
		return failed, err
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Endpoint}, Context: ctx, Logger: zap.NewNop(),
		DialTimeout: answers, MaxUnaryRetries: 1})
	if err != nil {
		return failed, fmt.Errorf("connect to %s: %w", c.Endpoint, err)
	}
	defer func() { _ = client.Close() }()
	taken, size, err := ask(ctx, client, c)
	if err != nil {
		return failed, err
	}
	limit, err := space(dir, size)
	if err != nil {
		return failed, err
	}
	if err := download(ctx, client, path+partial, limit); err != nil {
		return failed, errors.Join(fmt.Errorf("take a snapshot from %s: %w", c.Endpoint, err), remove(path+partial))
	}
	if taken.Bytes, taken.SHA256, err = Verify(path + partial); err != nil {
		return failed, errors.Join(err, remove(path+partial))
	}
	if err := keep(path, taken); err != nil {
		return failed, err
	}
	return taken, prune(dir, c.ID)
}

// ask asks a member for its cluster, and for what it agrees on with a quorum: what it has then is in the snapshot.
func ask(ctx context.Context, client *clientv3.Client, c Config) (t seats.Taken, size int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	status, err := client.Status(ctx, c.Endpoint)
	if err != nil {
		return t, 0, fmt.Errorf("read the status of %s: %w", c.Endpoint, err)
	}
	if id := fmt.Sprintf("%x", status.Header.GetClusterId()); id != c.ClusterID {
		return t, 0, fmt.Errorf("%s belongs to cluster %s, not to cluster %s", c.Endpoint, id, c.ClusterID)
	}
	read, err := client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return t, 0, fmt.Errorf("linearizable read from %s: %w", c.Endpoint, err)
	}
	return seats.Taken{ID: c.ID, ClusterID: c.ClusterID, At: time.Now().UTC().Truncate(time.Second),
		Revision: read.Header.GetRevision()}, status.DbSize, nil
}

// space is how large a snapshot of a database may become. It may grow a little while it is sent.
func space(dir string, size int64) (limit int64, err error) {
	var system syscall.Statfs_t
	if err := syscall.Statfs(dir, &system); err != nil {
		return 0, fmt.Errorf("read the free space in %s: %w", dir, err)
	}
	free := int64(system.Bavail) * system.Bsize
	if need := 2*size + Reserve; free < need {
		return 0, fmt.Errorf("%d MiB are free in the snapshot directory, but %d MiB are needed: the database size is %d "+
			"MiB, and etcd also needs free space", free>>20, need>>20, size>>20)
	}
	return size + size/4 + Reserve/2, nil
}

// download writes a snapshot to a new file, and to the disk.
func download(ctx context.Context, client *clientv3.Client, path string, limit int64) error {
	stream, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Snapshot.Close() }()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, io.LimitReader(stream.Snapshot, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("the snapshot exceeds the limit of %d bytes", limit)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// Verify reads a snapshot to its end. It returns its size, and the hash at its end in hexadecimal if that is the hash
// of what comes before.
func Verify(path string) (size int64, hash string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, "", err
	}
	// A database is whole pages, which the hash follows: etcdutl looks for one in the same way.
	if size = info.Size(); size <= sha256.Size || size%512 != sha256.Size {
		return 0, "", fmt.Errorf("snapshot %s is truncated: it is %d bytes long and does not end with a hash", path, size)
	}
	sum, end := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.CopyN(sum, file, size-sha256.Size); err != nil {
		return 0, "", err
	}
	if _, err := io.ReadFull(file, end); err != nil {
		return 0, "", err
	}
	if !bytes.Equal(end, sum.Sum(nil)) {
		return 0, "", fmt.Errorf("snapshot %s is corrupt: the hash at its end does not match", path)
	}
	return size, hex.EncodeToString(end), nil
}

// keep gives a whole snapshot its name, and its description beside it. The description comes first: one without its
// snapshot is written again.
func keep(path string, taken seats.Taken) error {
	text, err := json.Marshal(taken)
	if err != nil {
		return err
	}
	if err := datadir.Write(path+description, text); err != nil {
		return err
	}
	if err := os.Link(path+partial, path); err != nil { // unlike a rename, it replaces nothing
		return err
	}
	return errors.Join(os.Remove(path+partial), datadir.Sync(filepath.Dir(path)))
}

// there is what is known of a snapshot that was taken before, if it still is whole, and of this cluster: its name says
// only before which release and when it was taken, and the disk may have been that of another cluster's node.
func there(path string, c Config) (seats.Taken, error) {
	failed := seats.Taken{ID: c.ID}
	size, hash, err := Verify(path)
	if err != nil {
		return failed, err
	}
	var taken seats.Taken
	text, err := os.ReadFile(path + description)
	if err == nil {
		err = json.Unmarshal(text, &taken)
	}
	if err != nil {
		return failed, fmt.Errorf("read the description of a snapshot: %w", err)
	}
	if taken.ID != c.ID || taken.Bytes != size || taken.SHA256 != hash {
		return failed, fmt.Errorf("snapshot %s does not match its description: move both files to another directory", path)
	}
	if taken.ClusterID != c.ClusterID {
		return failed, fmt.Errorf("snapshot %s belongs to cluster %q, not to cluster %s: move it and its description to "+
			"another directory", path, taken.ClusterID, c.ClusterID)
	}
	return taken, nil
}

// clean removes what attempts have left that were interrupted: each may have the size of a whole database.
func clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ending+partial); ok && names.MatchString(id) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// prune removes the oldest snapshots beyond Keep. The new one stays, whatever its time says: clocks are set back.
func prune(dir, id string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ending); ok && name != id && names.MatchString(name) {
			old = append(old, name)
		}
	}
	slices.SortFunc(old, func(a, b string) int { return cmp.Compare(begun(b), begun(a)) })
	for _, name := range old[min(len(old), Keep-1):] {
		path := filepath.Join(dir, name+ending)
		err = errors.Join(err, remove(path), remove(path+description))
	}
	return err
}

// begun is the time in the name of a snapshot, as a text that sorts.
func begun(id string) string { return names.FindStringSubmatch(id)[1] }

// remove removes a file that may not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
