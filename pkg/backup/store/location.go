package store

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
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

// Location is a directory in a bucket of an S3 service.
type Location struct {
	// Endpoint is the URL of the service, without a path: https://s3.eu-central-1.amazonaws.com.
	Endpoint string `json:"endpoint"`
	// Region is signed with each request. Default: DefaultRegion.
	Region string `json:"region,omitempty"`
	Bucket string `json:"bucket"`
	// Prefix is the directory in which clusters have theirs. "": the bucket itself.
	Prefix string `json:"prefix,omitempty"`
}

// Connect returns the bucket at a location for the backups of the cluster with this Cluster/LocalID. The credentials
// are read from the files of a directory, as a Secret is mounted. Nothing is sent yet.
func Connect(l Location, cluster, credentialsDir string) (*Bucket, error) {
	endpoint, err := url.Parse(l.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" ||
		strings.Trim(endpoint.Path, "/") != "" || endpoint.User != nil {
		return nil, errors.New("the endpoint of the S3 service is no URL of the form https://host[:port]")
	}
	if cluster == "" || strings.ContainsAny(cluster, "/\\") || strings.Trim(cluster, ".") == "" {
		return nil, fmt.Errorf("%q cannot be the Cluster/LocalID of a cluster", cluster)
	}
	secret := secretFiles(credentialsDir)
	id, errID := secret.required(AccessKeyID)
	key, errKey := secret.required(SecretAccessKey)
	token, errToken := secret.read(SessionToken)
	ca, errCA := secret.read(CA)
	if err := cmp.Or(errID, errKey, errToken, errCA); err != nil {
		return nil, err
	}
	secure := endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	if ca != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, fmt.Errorf("the key %s of the Secret with the S3 credentials holds no certificate", CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(id, key, token),
		Secure: secure, Transport: transport, Region: cmp.Or(l.Region, DefaultRegion),
		MaxRetries: 3, // whoever puts backups tries again, and says meanwhile what is wrong
	})
	if err != nil {
		return nil, fmt.Errorf("the S3 service %s: %w", l.Endpoint, err)
	}
	l.Prefix = strings.Trim(l.Prefix, "/")
	return &Bucket{client: client, Location: l, cluster: cluster}, nil
}

// secretFiles is a directory with the files of a Secret.
type secretFiles string

// read is the value of a key; "" if it is not there.
func (dir secretFiles) read(key string) (string, error) {
	value, err := os.ReadFile(filepath.Join(string(dir), key))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the key %s of the Secret with the S3 credentials: %w", key, err)
	}
	return strings.TrimSpace(string(value)), nil
}

func (dir secretFiles) required(key string) (string, error) {
	value, err := dir.read(key)
	if err == nil && value == "" {
		err = fmt.Errorf("the Secret with the S3 credentials has no key %s", key)
	}
	return value, err
}

// explain says what the store refused, in words that hold no credential. What the store itself says is left out but
// for its code: a store may repeat what it was sent.
func (b *Bucket) explain(err error, action, name string) error {
	if err == nil {
		return nil
	}
	what := action + " of " + b.key(name)
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("%s did not reach %s: %w", what, b.Endpoint, err)
	}
	return &refusal{what: what, location: b.Location, code: answer.Code, status: answer.StatusCode}
}

// refusal is the answer of a store that does not do what it was asked for.
type refusal struct {
	what     string
	location Location
	code     string
	status   int
}

func (r *refusal) Error() string {
	region := cmp.Or(r.location.Region, DefaultRegion)
	hint := map[string]string{
		"AccessDenied":                 "the credentials lack that right, on the bucket or on the prefix",
		"InvalidAccessKeyId":           "it does not know the access key " + AccessKeyID,
		"XAdminUserNotFound":           "it does not know the access key " + AccessKeyID, // versitygw's word
		"SignatureDoesNotMatch":        SecretAccessKey + " is not that of the access key, or the region is another one",
		"AuthorizationHeaderMalformed": "the bucket is probably in another region than " + region,
		"ExpiredToken":                 SessionToken + " has expired",
		"NoSuchBucket":                 "there is no bucket " + r.location.Bucket + ", and none is made",
		"NoSuchKey":                    "it is not there",
		"RequestTimeTooSkewed":         "the clocks of the service and of this node differ too much",
		"PermanentRedirect":            "the bucket is at another endpoint",
		"QuotaExceeded":                "its quota is used up",
		"XMinioStorageFull":            "it is full",
	}[r.code]
	text := fmt.Sprintf("the S3 service %s refused %s: %s", r.location.Endpoint, r.what,
		cmp.Or(r.code, fmt.Sprintf("HTTP %d", r.status)))
	if hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// refusedWith reports whether err is an answer of the store with one of these codes.
func refusedWith(err error, codes ...string) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(codes, r.code)
}
