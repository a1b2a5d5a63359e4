package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/test/s3server"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

// backup loses LINSTOR's database as a whole, and gets it back from a bucket.
var backup = scenario{
	nodes: func() []simcluster.NodeSpec { return specs(empty, true) },
	run: func(ctx context.Context, d *demo) error {
		if _, err := s3server.Ensure(ctx, gobin.Options{Log: d.out}); err != nil {
			return err
		}
		server, err := s3server.Start(ctx)
		if err != nil {
			return err
		}
		defer server.Stop()
		for _, act := range []func(context.Context) error{
			d.install, d.startApplication,
			func(ctx context.Context) error { return d.backUp(ctx, server) },
			d.loseDatabase, d.restoreDatabase,
		} {
			if err := act(ctx); err != nil {
				return err
			}
		}
		return nil
	},
}

// backUp has the first backup of a schedule taken.
func (d *demo) backUp(ctx context.Context, to *s3server.Server) error {
	const bucket, secret = "backups", "linstor-backup-s3"
	if err := to.MakeBucket(bucket); err != nil {
		return err
	}
	if err := d.cluster.Client().Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: secret},
		StringData: map[string]string{store.AccessKeyID: to.AccessKey, store.SecretAccessKey: to.SecretKey},
	}); err != nil {
		return err
	}
	d.say("\nAn S3 service is listening at %s, and the Secret %s/%s contains its credentials. LINSTOR's database will "+
		"be backed up there every six hours:", to.Endpoint, v1alpha1.WorkloadNamespace, secret)
	if err := d.kubectl(ctx, "patch", "storagecluster", v1alpha1.ClusterName, "--type=merge", "-p", fmt.Sprintf(
		`{"spec":{"backup":{"schedule":"0 */6 * * *","s3":{"endpoint":%q,"region":%q,"bucket":%q,"credentialsSecret":%q}}}}`,
		to.Endpoint, to.Region, bucket, secret)); err != nil {
		return err
	}
	c, err := d.wait(ctx, "the first backup", func(c *v1alpha1.StorageCluster) (bool, error) {
		return c.Status.Backup != nil && c.Status.Backup.Last != nil, nil
	})
	if err != nil {
		return err
	}
	d.backup = c.Status.Backup.Last.ID
	return d.kubectl(ctx, "get", "storagecluster", v1alpha1.ClusterName, "-o",
		`jsonpath={.status.conditions[?(@.type=="BackupReady")].message}{"\n"}`)
}

// loseDatabase empties the database under LINSTOR, as somebody does who deletes its custom resources.
func (d *demo) loseDatabase(ctx context.Context) error {
	d.say("\nAll of LINSTOR's custom resources are deleted by mistake, and LINSTOR starts with an empty database:")
	d.cluster.World().CrashController()
	d.cluster.World().Database("k8s").Wipe()
	_, err := d.waitPhase(ctx, v1alpha1.PhaseHumanIntervention)
	return err
}

func (d *demo) restoreDatabase(ctx context.Context) error {
	d.say("\nThe volumes still exist on the nodes, and the application is still using its volume. An administrator " +
		"requests a restore:")
	annotate := []string{"annotate", "storagecluster", v1alpha1.ClusterName, "--overwrite"}
	if err := d.kubectl(ctx, append(annotate, v1alpha1.AnnotationRestore+"="+d.backup)...); err != nil {
		return err
	}
	c, err := d.wait(ctx, "the RestoreRequested hold", func(c *v1alpha1.StorageCluster) (bool, error) {
		h := c.Status.Hold
		if h != nil && h.Reason == v1alpha1.HoldRestoreFailed {
			return false, fmt.Errorf("%s: %s", h.Reason, h.Message)
		}
		return h != nil && h.Reason == v1alpha1.HoldRestoreRequested, nil
	})
	if err != nil {
		return err
	}
	d.say("\nThe backup matches the nodes, so the administrator approves the restore:")
	if err := d.kubectl(ctx, append(annotate, v1alpha1.AnnotationResume+"="+c.Status.Hold.ID+":"+
		v1alpha1.OptionRestore)...); err != nil {
		return err
	}
	if _, err := d.wait(ctx, "Ready", func(c *v1alpha1.StorageCluster) (bool, error) {
		if h := c.Status.Hold; h != nil && h.Reason != v1alpha1.HoldRestoreRequested {
			return false, fmt.Errorf("%s: %s", h.Reason, h.Message)
		}
		return c.Status.Phase == v1alpha1.PhaseReady && c.Status.Volumes != nil && c.Status.Volumes.Total == 1, nil
	}); err != nil {
		return err
	}
	d.say("\nLINSTOR manages the volume again, so it can be expanded:")
	if err := d.grow(ctx, "2Gi"); err != nil {
		return err
	}
	return d.kubectl(ctx, "get", "storagecluster")
}
