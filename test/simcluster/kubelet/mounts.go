package kubelet

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// configDir is where LINSTOR looks for linstor.toml.
const (
	configDir  = "/etc/linstor"
	configFile = "linstor.toml"
)

// Objects reads what pods refer to.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Files reads what containers mount and what their environment refers to.
type Files struct{ Objects Objects }

// ControllerConfig reads what the container's environment and mounts refer to, now: a container sees later changes
// only when it starts again.
func (f Files) ControllerConfig(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (ControllerConfig, error) {
	config := ControllerConfig{Version: ImageVersion(c.Image), Identity: pod.Name}
	var err error
	if config.Env, err = f.environment(ctx, pod, c); err != nil {
		return ControllerConfig{}, err
	}
	config.MasterPassphrase = config.Env["MASTER_PASSPHRASE"]
	if config.TOML, err = f.mountedFile(ctx, pod, c, path.Join(configDir, configFile)); err != nil {
		return ControllerConfig{}, err
	}
	config.Files = f.mounted(ctx, pod, c)
	return config, nil
}

// mounted reads what a container mounts, at any time: LINSTOR's controller reads its stores whenever somebody
// connects.
func (f Files) mounted(ctx context.Context, pod *corev1.Pod, c *corev1.Container) func(file string) ([]byte, error) {
	later := context.WithoutCancel(ctx)
	return func(file string) ([]byte, error) {
		content, err := f.mountedFile(later, pod, c, file)
		if err == nil && content == "" {
			err = os.ErrNotExist
		}
		return []byte(content), err
	}
}

// SatelliteConfig is what a pod's container on that node, with that IP, starts its satellite with.
func (f Files) SatelliteConfig(ctx context.Context, pod *corev1.Pod, c *corev1.Container, node,
	podIP string) SatelliteConfig {
	config := SatelliteConfig{Version: ImageVersion(c.Image), NodeName: node, Address: podIP, Port: satellitePort,
		Files: f.mounted(ctx, pod, c)}
	for _, p := range c.Ports {
		if p.Name == portName {
			config.Port = int(p.ContainerPort)
		}
	}
	return config
}

// secretsFault says which Secret of the pod's volumes is not there, as a kubelet does in an Event; "" if all are.
func (f Files) secretsFault(ctx context.Context, run *podRun, pod *corev1.Pod) string {
	if run.mounted {
		return ""
	}
	fault := func(volume, format string, args ...any) string {
		return fmt.Sprintf("MountVolume.SetUp failed for volume %q : ", volume) + fmt.Sprintf(format, args...)
	}
	for i := range pod.Spec.Volumes {
		volume := pod.Spec.Volumes[i].Name
		for _, v := range secretsOf(&pod.Spec.Volumes[i]) {
			files, err := f.secret(ctx, pod.Namespace, v.SecretName, v.Optional)
			if apierrors.IsNotFound(err) {
				return fault(volume, "secret %q not found", v.SecretName)
			}
			if err != nil {
				return fault(volume, "%v", err)
			}
			for _, item := range v.Items {
				if _, ok := files[item.Key]; !ok && (v.Optional == nil || !*v.Optional) {
					return fault(volume, "references non-existent secret key: %s", item.Key)
				}
			}
		}
	}
	run.mounted = true
	return ""
}

// hostPathFault says which of the pod's directories of the host cannot be mounted, as a kubelet does in an Event; ""
// if they all can.
func (f *Faults) hostPathFault(node string, pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.HostPath == nil {
			continue
		}
		if why := f.mountMessage(node, v.HostPath.Path); why != "" {
			return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", v.Name, why)
		}
	}
	return ""
}

// secretsOf are the Secrets that a volume shows.
func secretsOf(v *corev1.Volume) (out []*corev1.SecretVolumeSource) {
	if v.Secret != nil {
		out = append(out, v.Secret)
	}
	if v.Projected == nil {
		return out
	}
	for _, s := range v.Projected.Sources {
		if s.Secret != nil {
			out = append(out, &corev1.SecretVolumeSource{SecretName: s.Secret.Name, Items: s.Secret.Items,
				Optional: s.Secret.Optional})
		}
	}
	return out
}

// mountedFile is the content of a file in the container; "" when no volume provides it.
func (f Files) mountedFile(ctx context.Context, pod *corev1.Pod, c *corev1.Container, file string) (string, error) {
	for _, mount := range c.VolumeMounts {
		var key string
		switch {
		case mount.SubPath != "" && mount.MountPath == file:
			key = mount.SubPath
		case mount.SubPath == "" && strings.HasPrefix(file, path.Clean(mount.MountPath)+"/"):
			key = strings.TrimPrefix(file, path.Clean(mount.MountPath)+"/")
		default:
			continue
		}
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].Name == mount.Name {
				files, err := f.volumeFiles(ctx, pod.Namespace, &pod.Spec.Volumes[i])
				return files[key], err
			}
		}
	}
	return "", nil
}

// volumeFiles are the files in a ConfigMap, Secret or projected volume; other kinds of volumes have none.
func (f Files) volumeFiles(ctx context.Context, namespace string, v *corev1.Volume) (map[string]string, error) {
	switch {
	case v.ConfigMap != nil:
		data, err := f.configMap(ctx, namespace, v.ConfigMap.Name, v.ConfigMap.Optional)
		return selectItems(data, v.ConfigMap.Items), err
	case v.Secret != nil:
		data, err := f.secret(ctx, namespace, v.Secret.SecretName, v.Secret.Optional)
		return selectItems(data, v.Secret.Items), err
	case v.Projected != nil:
		files := map[string]string{}
		for _, source := range v.Projected.Sources {
			part, err := f.projectedFiles(ctx, namespace, source)
			if err != nil {
				return nil, err
			}
			for name, content := range part {
				files[name] = content
			}
		}
		return files, nil
	}
	return nil, nil
}

func (f Files) projectedFiles(ctx context.Context, namespace string,
	source corev1.VolumeProjection) (map[string]string, error) {
	switch {
	case source.ConfigMap != nil:
		data, err := f.configMap(ctx, namespace, source.ConfigMap.Name, source.ConfigMap.Optional)
		return selectItems(data, source.ConfigMap.Items), err
	case source.Secret != nil:
		data, err := f.secret(ctx, namespace, source.Secret.Name, source.Secret.Optional)
		return selectItems(data, source.Secret.Items), err
	}
	return nil, nil
}

// selectItems maps keys to paths; without items every key is a file.
func selectItems(data map[string]string, items []corev1.KeyToPath) map[string]string {
	if len(items) == 0 {
		return data
	}
	files := map[string]string{}
	for _, item := range items {
		if content, ok := data[item.Key]; ok {
			files[item.Path] = content
		}
	}
	return files
}

// environment resolves the container's variables. Field references are resolved for the fields that LINSTOR's
// manifests use.
func (f Files) environment(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (map[string]string, error) {
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		data, err := f.envFrom(ctx, pod.Namespace, from)
		if err != nil {
			return nil, err
		}
		for name, value := range data {
			env[from.Prefix+name] = value
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			env[v.Name] = v.Value
			continue
		}
		value, found, err := f.envSource(ctx, pod, v.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
		}
		if found {
			env[v.Name] = value
		}
	}
	return env, nil
}

func (f Files) envFrom(ctx context.Context, namespace string, from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		return f.configMap(ctx, namespace, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return f.secret(ctx, namespace, from.SecretRef.Name, from.SecretRef.Optional)
	}
	return nil, nil
}

func (f Files) envSource(ctx context.Context, pod *corev1.Pod, from *corev1.EnvVarSource) (value string, found bool,
	err error) {
	switch {
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := f.secret(ctx, pod.Namespace, ref.Name, ref.Optional)
		return keyOf(data, ref.Key, "secret "+ref.Name, ref.Optional, err)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := f.configMap(ctx, pod.Namespace, ref.Name, ref.Optional)
		return keyOf(data, ref.Key, "configmap "+ref.Name, ref.Optional, err)
	case from.FieldRef != nil:
		value, ok := map[string]string{
			"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
			"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		}[from.FieldRef.FieldPath]
		return value, ok, nil
	}
	return "", false, nil
}

func keyOf(data map[string]string, key, object string, optional *bool, err error) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	value, ok := data[key]
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s", key, object)
	}
	return value, ok, nil
}

func (f Files) configMap(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	object, err := f.Objects.ConfigMap(ctx, namespace, name)
	if err != nil {
		return nil, missing(err, optional)
	}
	data := map[string]string{}
	for key, content := range object.Data {
		data[key] = content
	}
	for key, content := range object.BinaryData {
		data[key] = string(content)
	}
	return data, nil
}

func (f Files) secret(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	object, err := f.Objects.Secret(ctx, namespace, name)
	if err != nil {
		return nil, missing(err, optional)
	}
	data := map[string]string{}
	for key, content := range object.Data {
		data[key] = string(content)
	}
	return data, nil
}

// fromServer reads them from the API server.
type fromServer struct{ client kubernetes.Interface }

// ConfigMap implements Objects.
func (s fromServer) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return s.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Secret implements Objects.
func (s fromServer) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return s.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}
