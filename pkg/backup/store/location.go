package store

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
)

// Keys of the Secret with the credentials, which are the names of its files.
const (
	AccessKeyID     = "AWS_ACCESS_KEY_ID"
	SecretAccessKey = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // the name of a key, not a key
	// SessionToken and CA need not be there. CA is the certificate, in PEM, of who signed that of the S3 service.
	SessionToken = "AWS_SESSION_TOKEN" //nolint:gosec // the name of a key, not a key
	CA           = "ca.crt"
)

// DefaultRegion is the region of a service that names none.
const DefaultRegion = "us-east-1"

// Location is a directory in a bucket of an S3 service, or in a file system.
type Location struct {
	// Directory is one that is there, with a file system behind it that outlives LINSTOR. With it, only Prefix counts of
	// the other fields.
	Directory string `json:"directory,omitempty"`
	// Endpoint is the URL of the service, without a path: https://s3.eu-central-1.amazonaws.com.
	Endpoint string `json:"endpoint,omitempty"`
	// Region is signed with each request. Default: DefaultRegion.
	Region string `json:"region,omitempty"`
	Bucket string `json:"bucket,omitempty"`
	// Prefix is the directory in which clusters have theirs. "": the bucket or Directory itself.
	Prefix string `json:"prefix,omitempty"`
}

// Connect returns the store at a location for the backups of the cluster with this Cluster/LocalID. The credentials of
// an S3 service are read from the files of a directory, as a Secret is mounted. Nothing is sent yet.
func Connect(l Location, cluster, credentialsDir string) (*Store, error) {
	if cluster == "" || strings.ContainsAny(cluster, "/\\") || strings.Trim(cluster, ".") == "" {
		return nil, fmt.Errorf("%q is not a valid Cluster/LocalID", cluster)
	}
	l.Prefix = strings.Trim(l.Prefix, "/")
	if l.Directory != "" {
		return &Store{&directory{path.Join(l.Directory, l.Prefix, cluster)}, cluster, export.Most}, nil
	}
	b, err := connect(l, cluster, credentialsDir)
	if err != nil {
		return nil, err
	}
	return &Store{b, cluster, export.Most}, nil
}

// secretFiles is a directory with the files of a Secret.
type secretFiles string

// read is the value of a key; "" if it is not there.
func (dir secretFiles) read(key string) (string, error) {
	value, err := os.ReadFile(filepath.Join(string(dir), key))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read key %s of the S3 credentials Secret: %w", key, err)
	}
	return strings.TrimSpace(string(value)), nil
}

func (dir secretFiles) required(key string) (string, error) {
	value, err := dir.read(key)
	if err == nil && value == "" {
		err = fmt.Errorf("the S3 credentials Secret has no %s key", key)
	}
	return value, err
}
