package databasebackup

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/owner"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// fetches is the container with the operator's program that gets the backup, imports the one with LINSTOR's own, and
	// checks compares the database with the backup afterwards.
	fetches = "fetch-backup"
	imports = "import-database"
	checks  = "check-import"
	// LongestImport is how many seconds the pod may run: LINSTOR's program writes one row after the other into
	// Kubernetes, a hundred in a second at best (linstor-server 1.34, K8sCrdEngine). What is cut short begins anew.
	LongestImport = 4 * 3600
	// anew makes the script that imports empty the database first.
	anew = "anew"
	// claimed is where the claim is mounted.
	claimed = "/claim"
	// account is where programs look for the token of their ServiceAccount.
	account = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// Restore is the import of a backup into LINSTOR's database.
type Restore struct {
	// Image is the operator's own.
	Image string
	// Mark is what the claim says is being restored.
	Mark string
	// Config is what the operator's program is told.
	Config string
	// Anew is true if the database is emptied first: it may be one of a newer LINSTOR than the one that imports.
	Anew bool
	Place
}

//go:embed import.sh
var importScript string

// Restorer is the pod that imports a backup, once. Only the container with LINSTOR's own program has the rights of the
// controller, and the configuration that names the database; only the others have what the store is reached with. It
// holds the controller's Lease while it works: as long as a controller runs, wherever, it waits.
func Restorer(p resources.Params, by *v1alpha1.StorageCluster, r *Restore) *corev1.Pod {
	pod := once(p, fetches, r.Image, LongestImport, "--fetch-backup", r.Config)
	pod.ServiceAccountName = resources.ControllerName
	pod.Containers[0].Resources = sized("32Mi", "256Mi")
	r.mount(&pod, true)
	fetch := pod.Containers[0]
	fetch.VolumeMounts = append(fetch.VolumeMounts, corev1.VolumeMount{Name: "export", MountPath: work})
	check := pod.Containers[0]
	check.Name, check.Args = checks, []string{"--check-import", r.Config}
	check.VolumeMounts = []corev1.VolumeMount{{Name: "export", MountPath: work}}
	words := []string{r.Mark}
	if r.Anew {
		words = append(words, anew)
	}
	pod.InitContainers = []corev1.Container{fetch, elected(p, imports, importScript, words...)}
	pod.Containers = []corev1.Container{check}
	pod.Volumes = append(pod.Volumes, emptyDir("export"), resources.ConfigVolume(p),
		claimVolume(resources.RestoringKey), token())
	return marked(p, by, "linstor-restore-", r.Mark, r, pod)
}

// marked is a pod that writes to a database, with the mark that the claim has of it. Its name is another one for
// whatever else it is told.
func marked(p resources.Params, by *v1alpha1.StorageCluster, prefix, mark string, told any,
	pod corev1.PodSpec) *corev1.Pod {
	name := prefix + text.Digest([]any{by.UID, told, pod})[:10]
	out := owner.Pod(by, resources.ObjectMeta(p, name, v1alpha1.ComponentRestore), pod)
	out.Annotations = map[string]string{AnnotationID: mark}
	return out
}

// elected is a container with LINSTOR's own program for its database, which a script runs once no controller does. The
// script gets the arguments, of which the first is the mark that the claim must have.
func elected(p resources.Params, name, script string, args ...string) corev1.Container {
	c := resources.DatabaseContainer(p, name, "")
	c.Args = nil
	for i := range c.Env {
		if c.Env[i].Name == "K8S_AWAIT_ELECTION_IDENTITY" {
			// Another pod of this name is another holder: one that was deleted may run on a node that was cut off.
			c.Env[i] = resources.EnvFromField(c.Env[i].Name, "metadata.uid")
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "-XX:MaxRAMPercentage=75"})
	// The entry point of LINSTOR's image, which waits for the Lease, does not know this program.
	c.Command = append([]string{"k8s-await-election", "/bin/sh", "-c", runScript + script, name}, args...)
	c.Resources = sized("256Mi", "2Gi") // it takes 180 MiB for a small database (1.34)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "linstor-config", MountPath: "/etc/linstor", ReadOnly: true},
		{Name: "claim", MountPath: claimed, ReadOnly: true}, {Name: "token", MountPath: account, ReadOnly: true},
		{Name: "export", MountPath: work}}
	return c
}

// claimVolume is what the claim has under the key.
func claimVolume(key string) corev1.Volume {
	return corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: resources.ClaimName},
		Items:                []corev1.KeyToPath{{Key: key, Path: key}}}}}
}

// token is what Kubernetes mounts by itself into all containers of a pod, or into none: the token of the pod's
// ServiceAccount, with what is needed to use it.
func token() corev1.Volume {
	return corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3607)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		}}}}
}
