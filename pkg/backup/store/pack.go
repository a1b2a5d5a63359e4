package store

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
)

// Pack reads the export in the file source to its end, and writes it, compressed, to the file target, which it makes.
// The result describes it. The same export always becomes the same bytes, so that a backup which was cut short can be
// told from another one of its name.
func Pack(id ID, source, target string) (*Backup, error) {
	in, err := os.Open(source)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	sum := &counted{Hash: sha256.New()}
	zip := gzip.NewWriter(io.MultiWriter(out, sum))
	// What is read is what is compressed, even if somebody writes to the file meanwhile.
	summary, err := export.Read(bufio.NewReader(io.TeeReader(in, zip)))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(zip.Close(), out.Close()); err != nil {
		return nil, fmt.Errorf("write the compressed export: %w", err)
	}
	if summary.LocalID == "" {
		return nil, errors.New("the export does not identify its cluster: it has no Cluster/LocalID property")
	}
	return &Backup{ID: id, Export: *summary, Bytes: sum.bytes, SHA256: sum.String()}, nil
}

// counted is a checksum that knows of how many bytes it is.
type counted struct {
	hash.Hash
	bytes int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return c.Hash.Write(p)
}

func (c *counted) String() string { return hex.EncodeToString(c.Sum(nil)) }
