package kubelet

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupResult is what the migration container leaves behind before it migrates a database in Kubernetes objects.
type BackupResult string

// Results of a backup.
const (
	BackupWhole   BackupResult = ""        // one Secret
	BackupParts   BackupResult = "parts"   // an empty Secret and numbered parts, as of a large database
	BackupDamaged BackupResult = "damaged" // the last of the parts is lost
	BackupMissing BackupResult = "missing" // none at all, as if somebody had removed it
	// NothingToMigrate is a release with the schema of the one before, for which the image makes no backup.
	NothingToMigrate BackupResult = "nothing"
)

// saveBackup does what the image's entry point does before a migration (piraeus-server, entry.sh): it packs LINSTOR's
// custom resources into Secrets, with the rights of the pod's ServiceAccount. One that is there already is left alone.
func (d *Driver) saveBackup(ctx context.Context, pod *corev1.Pod, version string) error {
	client, err := d.clientOf(pod)
	if err != nil {
		return fmt.Errorf("make a client for the backup: %w", err)
	}
	secrets, err := BackupSecrets(pod.Namespace, pod.Name, version, d.faults.backupResult())
	if err != nil {
		return err
	}
	for _, s := range secrets {
		if _, err := client.CoreV1().Secrets(pod.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("save the backup: %w", err)
		}
	}
	return nil
}

// BackupSecrets are the Secrets that a pod's migration to a version leaves behind.
func BackupSecrets(namespace, pod, version string, result BackupResult) ([]*corev1.Secret, error) {
	if result == BackupMissing || result == NothingToMigrate {
		return nil, nil
	}
	archive, err := backupArchive()
	if err != nil {
		return nil, err
	}
	name := "linstor-backup-for-" + pod
	main := backupSecret(namespace, name, "piraeus.io/linstor-backup")
	main.Annotations = map[string]string{"piraeus.io/linstor-version": "LINSTOR Controller " + version,
		"piraeus.io/backup-version": "2"}
	if result == BackupWhole {
		main.Labels = map[string]string{"piraeus.io/backup": name}
		main.Data = map[string][]byte{"backup.tar.gz": archive}
		return []*corev1.Secret{main}, nil
	}
	secrets := []*corev1.Secret{main}
	half := len(archive) / 2
	for i, data := range [][]byte{archive[:half], archive[half:]} {
		part := backupSecret(namespace, fmt.Sprintf("%s-%02d", name, i), "piraeus.io/linstor-backup-part")
		part.Labels = map[string]string{"piraeus.io/backup": name}
		part.Data = map[string][]byte{"backup.tar.gz": data}
		secrets = append(secrets, part)
	}
	if result == BackupDamaged {
		secrets = secrets[:2]
	}
	return secrets, nil
}

func backupSecret(namespace, name string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind}
}

func backupArchive() ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range []string{"crds.yaml", "nodes.internal.linstor.linbit.com.yaml"} {
		content := []byte("apiVersion: v1\nkind: List\nitems: [] # " + f + "\n")
		if err := w.WriteHeader(&tar.Header{Name: f, Mode: 0o600, Size: int64(len(content))}); err != nil {
			return nil, fmt.Errorf("pack the backup: %w", err)
		}
		if _, err := w.Write(content); err != nil {
			return nil, fmt.Errorf("pack the backup: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the backup: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack the backup: %w", err)
	}
	return b.Bytes(), nil
}
