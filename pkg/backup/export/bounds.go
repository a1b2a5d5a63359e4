package export

import (
	"io"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// How large an export may be. A large cluster, of 10,000 resources with three copies and three snapshots of each, has
// 120,000 copies, each of which has about ten rows of 300 bytes: 360 MB in all.
const (
	// Most is how many bytes an export may have, decompressed: ten times as many.
	Most = 4 << 30
	// mostValue is how many bytes of it may be one value, such as a row, which is in memory as a whole. Kubernetes and
	// etcd take none of more than 1.5 MiB.
	mostValue = 8 << 20
	// mostKept is how many bytes of rows may be kept in memory to compare an export with the nodes, each with overhead
	// for what the maps of rows take at most: seven rows of 250 bytes for each copy and a few more are 600 MB.
	mostKept = 1 << 30
	overhead = 384
	// mostAhead is how many bytes are read at once: what is read ahead belongs to other values.
	mostAhead = 64 << 10
)

// bounded reads an export for a decoder, until that has more than one value may have and has not come to its end.
type bounded struct {
	io.Reader
	read int64
	// decoded is how much of it the decoder has dealt with.
	decoded func() int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.read-b.decoded() > mostValue {
		return 0, &limit.Error{What: "a single value in the export", Most: mostValue}
	}
	n, err := b.Reader.Read(p[:min(len(p), mostAhead)])
	b.read += int64(n)
	return n, err
}
