// Package databasebackup builds the pod that takes a backup of LINSTOR's database.
package databasebackup

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/owner"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tools"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// Container is the one of the pod.
	Container = "backup"
	// Credentials is where the Secret with the store's credentials is mounted.
	Credentials = "/credentials"
	// Directory is where the claim for backups is mounted.
	Directory = "/backups"
	// AnnotationID on the pod says which backup it takes.
	AnnotationID = v1alpha1.Prefix + "backup-id"
	// Flag is the argument of the operator's program that makes it take a backup. The next one says of what and whereto.
	Flag = "--take-backup"
	// Download is the container with the operator's program that comes first if the export is to be restored.
	Download = "download"
	// RestoreTest is the one with LINSTOR's own program that comes then.
	RestoreTest = "restore-test"
	// FlagDownload is the argument that makes the operator's program get LINSTOR's export, for the same configuration.
	FlagDownload = "--download-export"
	// Export is the file in the pod with LINSTOR's export.
	Export = work + "/export.json"
	// Restored is the one with what LINSTOR's own program has made of it.
	Restored = work + "/restored.json"
	// work is the directory that the containers share.
	work = "/tmp"
	// longest is how many seconds the pod may run: an export takes seconds, and what is left is the store's.
	longest = 1800
)

// Order is one try to take a backup.
type Order struct {
	// Image is the operator's own.
	Image string
	// ID names the backup, and Attempt is how often it was tried before.
	ID      string
	Attempt int32
	// Config is what the operator's program is told.
	Config string
	Place
	// Restore says that LINSTOR's own program shall restore the export before it is kept.
	Restore bool
	// SecretVersion is a fingerprint of what is in that Secret: what was mended there is tried by another pod. Only the
	// pod's name depends on it, by a fingerprint of this one and all else.
	SecretVersion string
}

// Pod carries out the order, once. It needs nobody's rights. Its name is another one for each attempt, and for one
// that is told something else or runs in another way: the pod of an earlier one may hang on a node that is gone.
func Pod(p resources.Params, by *v1alpha1.StorageCluster, o *Order) *corev1.Pod {
	pod := once(p, Container, o.Image, longest, Flag, o.Config)
	c := &pod.Containers[0]
	c.Resources = sized("32Mi", "256Mi")
	o.mount(&pod, false)
	p.API[apitls.Backup].Mount(&pod, c)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "export", MountPath: work})
	pod.Volumes = append(pod.Volumes, emptyDir("export"))
	if o.Restore {
		pod.InitContainers = []corev1.Container{downloads(c, o), restores(p)}
	}
	name := "linstor-backup-" + text.Digest([]any{o, pod})[:10]
	out := owner.Pod(by, resources.ObjectMeta(p, name, v1alpha1.ComponentBackup), pod)
	out.Annotations = map[string]string{AnnotationID: o.ID}
	return out
}

// downloads is the container that comes first. But for what it does it is like the one that takes the backup.
func downloads(as *corev1.Container, o *Order) corev1.Container {
	c := as.DeepCopy()
	c.Name, c.Args = Download, []string{FlagDownload, o.Config}
	return *c
}

//go:embed linstor-database.sh
var runScript string

//go:embed restore-test.sh
var restoreTest string

// restores is the container with LINSTOR's own program, of the version that has exported the database. It gets nothing
// of the store.
func restores(p resources.Params) corev1.Container {
	p.Release.Satellite = p.Release.Controller // whose image has the programs for the database
	image := tools.Pod(p, RestoreTest).Containers[0]
	image.Command = []string{"/bin/sh", "-c", runScript + restoreTest}
	image.Env = []corev1.EnvVar{{Name: "HOME", Value: work}, {Name: "JAVA_OPTS", Value: "-XX:MaxRAMPercentage=75"}}
	image.Resources = sized("256Mi", "2Gi") // it takes 180 MiB for a small database (1.34)
	image.VolumeMounts = []corev1.VolumeMount{{Name: "export", MountPath: work}}
	return image
}
