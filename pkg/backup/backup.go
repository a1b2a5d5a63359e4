// Package backup reads back what LINSTOR's image saves of the Kubernetes database before it migrates it: Secrets with
// a compressed archive of LINSTOR's custom resources (piraeus-server, entry.sh, run_migration). A backup that nobody
// has read is a hope; one that is read to its end, checksum included, can be restored.
package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// What the image writes: one Secret that has the whole archive, or an empty one beside numbered parts.
const (
	TypeBackup         = "piraeus.io/linstor-backup"
	typePart           = "piraeus.io/linstor-backup-part"
	labelBackup        = "piraeus.io/backup"
	annotationVersion  = "piraeus.io/linstor-version"
	keyArchive         = "backup.tar.gz"
	definitions        = "crds.yaml"
	maxDefinitionsSize = 64 << 20
)

// How large a backup may be, in bytes. A large cluster, of 10,000 resources with three copies and three snapshots of
// each, has a million rows; each is some 700 bytes of YAML, of which 40 are left once they are compressed.
const (
	maxUncompressed = 4 << 30
	maxCompressed   = 96 << 20 // it is in memory
	// pageOfParts is how many parts are got at a time, each of 512 KiB (piraeus-server, entry.sh).
	pageOfParts = 16
)

// Is reports whether a Secret holds a backup or a part of one.
func Is(s *corev1.Secret) bool { return s.Type == TypeBackup || s.Type == typePart }

// Reader reads backups. Client must not be a cache: a cache that holds backups holds megabytes for nothing.
type Reader struct {
	Client client.Reader
}

// Read finds the newest backup that a LINSTOR version made at a time or later, reads the whole of it and returns its
// name; "" if there is none.
func (r Reader) Read(ctx context.Context, version string, since time.Time) (string, error) {
	name, err := r.find(ctx, version, since)
	if err != nil || name == "" {
		return "", err
	}
	archive, err := r.archive(ctx, name)
	if err != nil {
		return "", err
	}
	if err := check(archive); err != nil {
		return "", fmt.Errorf("read backup %s: %w", name, err)
	}
	return name, nil
}

// schemaKind is the kind of the only object that LINSTOR does not version with its tables: in it, LINSTOR keeps the
// version of the schema of its Kubernetes database, which every migration increases (linstor-server 1.33, DbK8sCrd).
var schemaKind = schema.GroupVersionKind{Group: "internal.linstor.linbit.com", Version: "v1", Kind: "LinstorVersion"}

// SchemaVersion is the version of the schema of LINSTOR's database in Kubernetes; "" if LINSTOR keeps none there.
func (r Reader) SchemaVersion(ctx context.Context) (string, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schemaKind)
	err := r.Client.Get(ctx, client.ObjectKey{Name: "version"}, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the version of the schema of LINSTOR's database: %w", err)
	}
	version, found, err := unstructured.NestedInt64(o.Object, "spec", "version")
	if err != nil || !found {
		return "", err
	}
	return strconv.FormatInt(version, 10), nil
}

// find looks at names and annotations only. The annotation is what LINSTOR prints as its version.
func (r Reader) find(ctx context.Context, version string, since time.Time) (string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	ofType := client.MatchingFields{"type": TypeBackup}
	if err := r.Client.List(ctx, list, client.InNamespace(v1alpha1.WorkloadNamespace), ofType); err != nil {
		return "", fmt.Errorf("list backups: %w", err)
	}
	found := slices.DeleteFunc(list.Items, func(o metav1.PartialObjectMetadata) bool {
		return o.CreationTimestamp.Time.Before(since.Truncate(time.Second)) ||
			!names(o.Annotations[annotationVersion], version)
	})
	if len(found) == 0 {
		return "", nil
	}
	newest := slices.MaxFunc(found, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return newest.Name, nil
}

// names reports whether a text names a version as one of its words.
func names(text, version string) bool {
	between := func(r rune) bool { return r != '.' && (r < '0' || r > '9') }
	return slices.Contains(strings.FieldsFunc(text, between), version)
}

// archive is the archive of a backup, joined from its parts in their order.
func (r Reader) archive(ctx context.Context, name string) ([]byte, error) {
	var whole corev1.SecretList
	in := client.InNamespace(v1alpha1.WorkloadNamespace)
	if err := r.Client.List(ctx, &whole, in, client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, fmt.Errorf("read backup %s: %w", name, err)
	}
	for _, s := range whole.Items {
		if data := s.Data[keyArchive]; len(data) > 0 {
			return data, nil
		}
	}
	var out []byte
	room, page := limit.New("the backup", maxCompressed), "" // pages are in the order of names
	for {
		var parts corev1.SecretList
		if err := r.Client.List(ctx, &parts, in, client.MatchingLabels{labelBackup: name}, client.Limit(pageOfParts),
			client.Continue(page)); err != nil {
			return nil, fmt.Errorf("read the parts of backup %s: %w", name, err)
		}
		slices.SortFunc(parts.Items, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
		for i := range parts.Items {
			if data := parts.Items[i].Data[keyArchive]; parts.Items[i].Type == typePart {
				if err := room.Take(len(data)); err != nil {
					return nil, fmt.Errorf("read the parts of backup %s: %w", name, err)
				}
				out = append(out, data...)
			}
		}
		if page = parts.Continue; page == "" {
			return out, nil
		}
	}
}

// check reads an archive to its end. gzip's checksum shows a part that is missing or damaged.
func check(archive []byte) error {
	if len(archive) == 0 {
		return errors.New("the archive is empty")
	}
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	limited := limit.Reader(z, limit.New("the decompressed archive", maxUncompressed))
	files, complete := tar.NewReader(limited), false
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if h.Size > maxUncompressed { // a sparse file may be nothing but a size
			return fmt.Errorf("%.100q in the archive is %d bytes, over the limit of %d", h.Name, h.Size, maxUncompressed)
		}
		size, err := io.Copy(io.Discard, files) //nolint:gosec // its size was looked at, and nothing is kept
		if err != nil {
			return fmt.Errorf("read %.100q in the archive: %w", h.Name, err)
		}
		complete = complete || h.Name == definitions && size > 0 && size < maxDefinitionsSize
	}
	// What follows the last file is padding, and then the checksum.
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return fmt.Errorf("read the end of the archive: %w", err)
	}
	if !complete {
		return errors.New("the archive does not contain LINSTOR's CRDs (" + definitions + ")")
	}
	return nil
}
