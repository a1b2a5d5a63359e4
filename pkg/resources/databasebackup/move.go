package databasebackup

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	// TargetConfigName is the ConfigMap, or the Secret if there are credentials in it, with the linstor.toml of the
	// database that LINSTOR's data is moved into.
	TargetConfigName = "linstor-move-target"
	// moves is the container with LINSTOR's own program, and checksMove the one that compares both databases afterwards.
	moves      = "move-database"
	checksMove = "check-move"
	// target is where that linstor.toml is mounted.
	target = "/target"
)

// Move is the move of LINSTOR's data into another database.
type Move struct {
	// Image is the operator's own.
	Image string
	// Mark is what the claim says of the move.
	Mark string
	// Config is what the operator's program is told.
	Config string
	// From is the URL of the database with the data, and To the database that it goes to, whose URL begins the mark.
	From string
	To   *v1alpha1.DatabaseSpec
}

// TargetConfig is the object with the linstor.toml of that database.
func TargetConfig(p resources.Params, to *v1alpha1.DatabaseSpec, db connection.Settings) client.Object {
	o := resources.ControllerConfig(inTarget(p, to), db)
	o.SetName(TargetConfigName)
	return o
}

// inTarget are the parameters of a LINSTOR that has its data there.
func inTarget(p resources.Params, to *v1alpha1.DatabaseSpec) resources.Params {
	spec := *p.Spec
	spec.Database = *to
	p.Spec = &spec
	return p
}

//go:embed move.sh
var moveScript string

// Mover is the pod that moves LINSTOR's data, once. It holds the controller's Lease while LINSTOR's own program works,
// which alone has the rights of the controller and both configurations. In the database that has the data it does
// nothing but take back what a controller has left half-written.
func Mover(p resources.Params, by *v1alpha1.StorageCluster, m *Move) *corev1.Pod {
	// Members of an etcd may have changed since, and the pod that runs must be found by its name all the same.
	named := *m
	named.From = ""
	out := marked(p, by, "linstor-move-", m.Mark, m, moverPod(p, m))
	out.Name = marked(p, by, "linstor-move-", m.Mark, &named, moverPod(p, &named)).Name
	return out
}

func moverPod(p resources.Params, m *Move) corev1.PodSpec {
	pod := once(p, checksMove, m.Image, LongestImport, "--check-move", m.Config)
	pod.ServiceAccountName = resources.ControllerName
	check := &pod.Containers[0]
	check.Resources = sized("32Mi", "256Mi")
	check.VolumeMounts = append(check.VolumeMounts, corev1.VolumeMount{Name: "export", MountPath: work})
	to := resources.ConfigVolume(inTarget(p, m.To))
	to.Name = "target-config"
	if to.Secret != nil {
		to.Secret.SecretName = TargetConfigName
	} else {
		to.ConfigMap.Name = TargetConfigName
	}
	c := elected(p, moves, moveScript, m.Mark, m.From)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: to.Name, MountPath: target, ReadOnly: true})
	pod.InitContainers = []corev1.Container{c}
	pod.Volumes = append(pod.Volumes, emptyDir("export"), resources.ConfigVolume(p), to,
		claimVolume(resources.MovingKey), token())
	return pod
}
