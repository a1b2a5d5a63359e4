package kubelet

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
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

// filesFault is the kubelet's message in an Event about the first of the pod's volumes whose ConfigMap or Secret is
// missing; "" if none is.
func (f Files) filesFault(ctx context.Context, run *podRun, pod *corev1.Pod) string {
	if run.mounted {
		return ""
	}
	for i := range pod.Spec.Volumes {
		if _, err := f.volumeFiles(ctx, pod.Namespace, &pod.Spec.Volumes[i]); err != nil {
			return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", pod.Spec.Volumes[i].Name, err)
		}
	}
	run.mounted = true
	return ""
}

// hostPathFault is the kubelet's message in an Event about the first of the host's directories that cannot be mounted
// into the pod; "" if all can.
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
		return selectItems(data, v.ConfigMap.Items, v.ConfigMap.Optional, "config", err)
	case v.Secret != nil:
		data, err := f.secret(ctx, namespace, v.Secret.SecretName, v.Secret.Optional)
		return selectItems(data, v.Secret.Items, v.Secret.Optional, "secret", err)
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
		return selectItems(data, source.ConfigMap.Items, source.ConfigMap.Optional, "config", err)
	case source.Secret != nil:
		data, err := f.secret(ctx, namespace, source.Secret.Name, source.Secret.Optional)
		return selectItems(data, source.Secret.Items, source.Secret.Optional, "secret", err)
	}
	return nil, nil
}

// selectItems maps keys to paths; without items every key is a file. A missing key is an error unless it is optional.
// kind is the kubelet's word for the object.
func selectItems(data map[string]string, items []corev1.KeyToPath, optional *bool, kind string, err error) (
	map[string]string, error) {
	if err != nil || len(items) == 0 {
		return data, err
	}
	files := map[string]string{}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok && !ptr.Deref(optional, false) {
			return nil, fmt.Errorf("references non-existent %s key: %s", kind, item.Key)
		}
		if ok {
			files[item.Path] = content
		}
	}
	return files, nil
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
			return nil, err // without the variable's name, as a kubelet says it
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
		return keyOf(data, ref.Key, "Secret "+pod.Namespace+"/"+ref.Name, ref.Optional, err)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := f.configMap(ctx, pod.Namespace, ref.Name, ref.Optional)
		return keyOf(data, ref.Key, "ConfigMap "+pod.Namespace+"/"+ref.Name, ref.Optional, err)
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
	if !ok && !ptr.Deref(optional, false) {
		return "", false, fmt.Errorf("couldn't find key %s in %s", key, object)
	}
	return value, ok, nil
}

func (f Files) configMap(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	object, err := f.Objects.ConfigMap(ctx, namespace, name)
	if err != nil {
		return nil, missing(err, "configmap", name, optional)
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
		return nil, missing(err, "secret", name, optional)
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
