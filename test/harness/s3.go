package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/test/s3server"
)

// OperatorImage is what the tests' operators take for their own image.
const OperatorImage = "example.com/storagecluster-operator:test"

// s3 is the S3 service of the process. It is started for the first test that wants it.
var s3 struct {
	sync.Mutex
	server *s3server.Server
}

// S3 is a real S3 service for all tests of the process. Main stops it.
func S3(ctx context.Context) (*s3server.Server, error) {
	s3.Lock()
	defer s3.Unlock()
	if s3.server != nil {
		return s3.server, nil
	}
	var err error
	s3.server, err = s3server.Start(ctx)
	return s3.server, err
}

// stopS3 stops the service, if there is one.
func stopS3() {
	s3.Lock()
	defer s3.Unlock()
	if s3.server != nil {
		s3.server.Stop()
	}
}

// BackupSecret is the Secret with the credentials of the S3 service, which BackupStore makes.
const BackupSecret = "linstor-backup-s3"

// BackupStore makes a bucket of the cluster's own, and a Secret with the credentials for it. It returns the line of
// spec.backup for them.
func BackupStore(a *Administrator) string {
	a.T.Helper()
	server, err := S3(a.Ctx)
	if err != nil {
		a.T.Fatal(err)
	}
	bucket := "b-" + strings.ToLower(rand.Text())
	if err := server.MakeBucket(bucket); err != nil {
		a.T.Fatal(err)
	}
	secret := &corev1.Secret{StringData: map[string]string{store.AccessKeyID: server.AccessKey,
		store.SecretAccessKey: server.SecretKey}}
	secret.Namespace, secret.Name = v1alpha1.WorkloadNamespace, BackupSecret
	if err := a.Client().Create(a.Ctx, secret); err != nil {
		a.T.Fatal(err)
	}
	return fmt.Sprintf("    s3: {endpoint: %q, region: %s, bucket: %s, prefix: tests, credentialsSecret: %s}\n",
		server.Endpoint, server.Region, bucket, BackupSecret)
}

// Backups lists the backups in the bucket of spec.backup, the newest first.
func Backups(a *Administrator) ([]store.Backup, error) {
	a.T.Helper()
	bucket, err := backupStore(a)
	if err != nil {
		return nil, err
	}
	return bucket.List(a.Ctx, 1000)
}

// BackupLayout reads the newest backup in the bucket of spec.backup.
func BackupLayout(a *Administrator) (*export.Layout, error) {
	a.T.Helper()
	bucket, err := backupStore(a)
	if err != nil {
		return nil, err
	}
	all, err := bucket.List(a.Ctx, 1)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("there is no backup")
	}
	content, err := bucket.Open(a.Ctx, &all[0])
	if err != nil {
		return nil, err
	}
	layout, err := export.ReadLayout(content)
	return layout, errors.Join(err, content.Close())
}

// backupStore is the bucket of spec.backup, which BackupStore has made.
func backupStore(a *Administrator) (*store.Store, error) {
	server, err := S3(a.Ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "credentials-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := server.WriteCredentials(dir); err != nil {
		return nil, err
	}
	spec := a.Get().Spec.Backup.S3
	return store.Connect(store.Location{Endpoint: spec.Endpoint, Region: spec.Region, Bucket: spec.Bucket,
		Prefix: spec.Prefix}, a.Sim.World().Database("k8s").LocalID(), dir)
}
