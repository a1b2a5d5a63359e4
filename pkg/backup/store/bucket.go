package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// bucket is the directory of one cluster in a bucket of an S3 service.
type bucket struct {
	client *minio.Client
	Location
	cluster string
}

// connect returns the bucket at a location.
func connect(l Location, cluster, credentialsDir string) (*bucket, error) {
	endpoint, err := url.Parse(l.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" ||
		strings.Trim(endpoint.Path, "/") != "" || endpoint.User != nil {
		return nil, errors.New("the S3 endpoint must be a URL of the form https://host[:port]")
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
			return nil, fmt.Errorf("key %s of the S3 credentials Secret contains no certificate", CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(id, key, token),
		Secure: secure, Transport: bounded{transport}, Region: cmp.Or(l.Region, DefaultRegion),
		MaxRetries: 3, // whoever puts backups tries again, and says meanwhile what is wrong
	})
	if err != nil {
		return nil, fmt.Errorf("the S3 service %s: %w", l.Endpoint, err)
	}
	return &bucket{client: client, Location: l, cluster: cluster}, nil
}

// mostListed is how large a list of a thousand objects may be, in bytes; a name has at most 1024.
const mostListed = 16 << 20

// bounded bounds lists of objects. The client bounds what else it reads as a whole.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Has("list-type") {
		limit.Answer(answer, "the object list from the S3 service", mostListed)
	}
	return answer, err
}

// create makes an object in one request, so that the service decides at once whether the name is free.
func (b *bucket) create(ctx context.Context, name string, content io.Reader, size int64) error {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, SendContentMd5: true}
	o.SetMatchETagExcept("*")
	_, err := b.client.PutObject(ctx, b.Bucket, b.path(name), content, size, o)
	err = b.explain(err, "PutObject", name)
	if refusedWith(err, minio.PreconditionFailed, "ConditionalRequestConflict") {
		return errTaken
	}
	return err
}

func (b *bucket) open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.client.GetObject(ctx, b.Bucket, b.path(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.unread(name, err)
	}
	return object, nil
}

func (b *bucket) unread(name string, err error) error { return b.explain(err, "GetObject", name) }

func (b *bucket) list(ctx context.Context) (out []entry, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for info := range b.client.ListObjects(ctx, b.Bucket, minio.ListObjectsOptions{Prefix: b.path("") + "/"}) {
		if info.Err != nil {
			return nil, b.explain(info.Err, "ListBucket", "")
		}
		if len(out) == mostObjects {
			return nil, errCrowded(b.path(""))
		}
		out = append(out, entry{name: path.Base(info.Key), modified: info.LastModified})
	}
	return out, nil
}

func (b *bucket) remove(ctx context.Context, name string) error {
	err := b.client.RemoveObject(ctx, b.Bucket, b.path(name), minio.RemoveObjectOptions{})
	return b.explain(err, "DeleteObject", name)
}

func (b *bucket) path(name string) string { return path.Join(b.Prefix, b.cluster, name) }

// explain says what the store refused, in words that hold no credential. What the store itself says is left out but
// for its code: a store may repeat what it was sent.
func (b *bucket) explain(err error, action, name string) error {
	if err == nil {
		return nil
	}
	what := action + " of " + b.path(name)
	if errors.As(err, new(*limit.Error)) {
		return fmt.Errorf("%s: %w", what, err)
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("%s could not be sent to %s: %w", what, b.Endpoint, err)
	}
	code := answer.Code
	if !shapeOfCode.MatchString(code) {
		code = ""
	}
	return &refusal{what: what, location: b.Location, code: code, status: answer.StatusCode}
}

// shapeOfCode is that of S3's error codes. A store may say anything in place of one.
var shapeOfCode = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.]{0,63}$`)

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
		"AccessDenied":                 "the credentials lack this permission on the bucket or the prefix",
		"InvalidAccessKeyId":           "the access key in " + AccessKeyID + " is unknown to the service",
		"XAdminUserNotFound":           "the access key in " + AccessKeyID + " is unknown to the service", // versitygw's
		"SignatureDoesNotMatch":        SecretAccessKey + " does not match the access key, or the region is wrong",
		"AuthorizationHeaderMalformed": "the bucket is probably not in region " + region,
		"ExpiredToken":                 SessionToken + " has expired",
		"NoSuchBucket":                 "bucket " + r.location.Bucket + " does not exist: create it",
		"NoSuchKey":                    "the object does not exist",
		"RequestTimeTooSkewed":         "the service's clock and this node's clock differ too much",
		"PermanentRedirect":            "the bucket has a different endpoint",
		"QuotaExceeded":                "the quota is exceeded",
		"XMinioStorageFull":            "the storage is full",
	}[r.code]
	text := fmt.Sprintf("the S3 service %s rejected %s: %s", r.location.Endpoint, r.what,
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
