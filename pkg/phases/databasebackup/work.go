package databasebackup

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/take"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Work makes the pod of the backup that is noted in the status, and removes those of others. It does the same for a
// comparison. An error is for the condition alone.
func Work(ctx context.Context, in *step.Input) {
	in.FailedAside(conditions.BackupReady, errors.Join(ensure(ctx, in), compares(ctx, in)))
}

func ensure(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Target == nil || s.Cluster.Spec.Suspend {
		return nil
	}
	c := current(s)
	if c == nil {
		return RemovePods(ctx, in, s.Kube.Backups)
	}
	if c.Attempted == nil {
		return nil // the pod that failed stays for a look
	}
	p := podOf(s, order(s, c))
	if err := removeBut(ctx, in, s.Kube.Backups, p.Name); err != nil {
		return err
	}
	if s.Kube.Backups[p.Name] != nil || invalid(&s.Facts) != "" || putOff(s) != "" ||
		s.Certificates.Missing(&s.Target.Spec.TLS, apitls.Backup) != "" {
		return nil
	}
	if err := in.Stands(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	return in.Writer.Apply(ctx, p)
}

// current is the backup that is being taken; nil if none is, or nobody wants it any more.
func current(s *cluster.Snapshot) *backupspec.CurrentBackup {
	st := s.Cluster.Status.Backup
	if s.Cluster.Spec.Backup == nil || st == nil || st.Current == nil || !wanted(s, st) {
		return nil
	}
	return st.Current
}

// order is the next attempt, or the one that goes on.
func order(s *cluster.Snapshot, c *backupspec.CurrentBackup) *databasebackup.Order {
	spec := s.Cluster.Spec.Backup
	claim, _ := s.Claim()
	api := s.SatelliteParams().API[apitls.Backup]
	config := take.Config{
		Linstor: api.URL(resources.ControllerHost, resources.ControllerPort), Certificates: api.Directory(),
		Cluster: claim.LocalID, ID: store.ID(c.ID), Begun: begunOf(c),
	}
	o := &databasebackup.Order{Image: s.OperatorImage, ID: c.ID, Attempt: c.Attempts}
	config.Store, config.Credentials, o.Place = PlaceOf(spec)
	if secret := s.Kube.Secrets[o.Secret]; secret != nil {
		o.SecretVersion = text.Digest(secret.Data)
	}
	if o.Restore = spec.Verify == backupspec.VerifyRestoreTest && restores(&s.Facts); o.Restore {
		config.Export, config.Restored = databasebackup.Export, databasebackup.Restored
	}
	switch config.ID.Trigger() {
	case store.Manual:
		config.Version = s.AcceptedVersion()
	case store.Upgrade:
		config.Version, config.Keep = s.AcceptedVersion(), int(spec.Keep)
	default: // whatever LINSTOR it is of
		config.Keep = int(spec.Keep)
	}
	told, _ := json.Marshal(config) //nolint:errchkjson // texts and numbers
	o.Config = string(told)
	return o
}

// PlaceOf is the store that the spec names, as a pod finds it.
func PlaceOf(spec *backupspec.BackupSpec) (at store.Location, credentials string, place databasebackup.Place) {
	if to := spec.S3; to != nil {
		at = store.Location{Endpoint: to.Endpoint, Region: to.Region, Bucket: to.Bucket, Prefix: to.Prefix}
		credentials, place.Secret = databasebackup.Credentials, to.CredentialsSecret
	}
	if to := spec.Claim; to != nil {
		at, place.Claim = store.Location{Directory: databasebackup.Directory, Prefix: to.Prefix}, to.Name
	}
	return at, credentials, place
}

// restores reports whether LINSTOR's own program can restore any export. Before 1.35.1 it refuses one into the restore
// test's kind of database in which a snapshot comes before what it is of, and the order is left to chance (LINSTOR's
// CHANGELOG, 1.35.1).
func restores(f *cluster.Facts) bool { return !catalogue.Newer("1.35.1", f.AcceptedVersion()) }

// podOf is the pod of an attempt.
func podOf(s *cluster.Snapshot, o *databasebackup.Order) *corev1.Pod {
	return databasebackup.Pod(s.SatelliteParams(), s.Cluster, o)
}

// removeBut removes the pods that are not on their way already, but the one of that name.
func removeBut(ctx context.Context, in *step.Input, pods map[string]*corev1.Pod, name string) error {
	var errs []error
	for _, p := range others(pods, name) {
		errs = append(errs, in.Writer.DeleteOwnPod(ctx, p))
	}
	return errors.Join(errs...)
}

// RemovePods removes the pods that are not on their way already.
func RemovePods(ctx context.Context, in *step.Input, pods map[string]*corev1.Pod) error {
	return removeBut(ctx, in, pods, "")
}

// others are the pods that are there, not on their way already, and have another name.
func others(pods map[string]*corev1.Pod, name string) (out []*corev1.Pod) {
	for other, p := range pods {
		if other != name && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}
