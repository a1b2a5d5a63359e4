package kubelet

import (
	"context"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configDir is where LINSTOR looks for linstor.toml.
const (
	configDir  = "/etc/linstor"
	configFile = "linstor.toml"
)

// controllerConfig reads what the container's environment and mounts refer to, now: a container sees later changes only
// when it starts again.
func (d *Driver) controllerConfig(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (ControllerConfig, error) {
	config := ControllerConfig{Version: ImageVersion(c.Image), Identity: pod.Name}
	var err error
	if config.Env, err = d.environment(ctx, pod, c); err != nil {
		return ControllerConfig{}, err
	}
	config.MasterPassphrase = config.Env["MASTER_PASSPHRASE"]
	if config.TOML, err = d.mountedFile(ctx, pod, c, path.Join(configDir, configFile)); err != nil {
		return ControllerConfig{}, err
	}
	return config, nil
}

// mountsSecrets is whether all Secrets of the pod's volumes are there. As long as one is not, no container starts and none says
// why: a kubelet tells only in an Event.
func (d *Driver) mountsSecrets(ctx context.Context, run *podRun, pod *corev1.Pod) bool {
	if run.mounted {
		return true
	}
	for i := range pod.Spec.Volumes {
		v := pod.Spec.Volumes[i].Secret
		if v == nil {
			continue
		}
		files, err := d.secret(ctx, pod.Namespace, v.SecretName, v.Optional)
		if err != nil {
			return false
		}
		for _, item := range v.Items {
			if _, ok := files[item.Key]; !ok && (v.Optional == nil || !*v.Optional) {
				return false
			}
		}
	}
	run.mounted = true
	return true
}

// mountedFile is the content of a file in the container; "" when no volume provides it.
func (d *Driver) mountedFile(ctx context.Context, pod *corev1.Pod, c *corev1.Container, file string) (string, error) {
	for _, mount := range c.VolumeMounts {
		var key string
		switch {
		case mount.SubPath != "" && mount.MountPath == file:
			key = mount.SubPath
		case mount.SubPath == "" && path.Clean(mount.MountPath) == path.Dir(file):
			key = path.Base(file)
		default:
			continue
		}
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].Name == mount.Name {
				files, err := d.volumeFiles(ctx, pod.Namespace, &pod.Spec.Volumes[i])
				return files[key], err
			}
		}
	}
	return "", nil
}

// volumeFiles are the files in a ConfigMap, Secret or projected volume; other kinds of volumes have none.
func (d *Driver) volumeFiles(ctx context.Context, namespace string, v *corev1.Volume) (map[string]string, error) {
	switch {
	case v.ConfigMap != nil:
		data, err := d.configMap(ctx, namespace, v.ConfigMap.Name, v.ConfigMap.Optional)
		return selectItems(data, v.ConfigMap.Items), err
	case v.Secret != nil:
		data, err := d.secret(ctx, namespace, v.Secret.SecretName, v.Secret.Optional)
		return selectItems(data, v.Secret.Items), err
	case v.Projected != nil:
		files := map[string]string{}
		for _, source := range v.Projected.Sources {
			part, err := d.projectedFiles(ctx, namespace, source)
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

func (d *Driver) projectedFiles(ctx context.Context, namespace string, source corev1.VolumeProjection) (map[string]string, error) {
	switch {
	case source.ConfigMap != nil:
		data, err := d.configMap(ctx, namespace, source.ConfigMap.Name, source.ConfigMap.Optional)
		return selectItems(data, source.ConfigMap.Items), err
	case source.Secret != nil:
		data, err := d.secret(ctx, namespace, source.Secret.Name, source.Secret.Optional)
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

// environment resolves the container's variables. Field references are resolved for the fields that LINSTOR's manifests
// use.
func (d *Driver) environment(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (map[string]string, error) {
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		data, err := d.envFrom(ctx, pod.Namespace, from)
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
		value, found, err := d.envSource(ctx, pod, v.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
		}
		if found {
			env[v.Name] = value
		}
	}
	return env, nil
}

func (d *Driver) envFrom(ctx context.Context, namespace string, from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		return d.configMap(ctx, namespace, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return d.secret(ctx, namespace, from.SecretRef.Name, from.SecretRef.Optional)
	}
	return nil, nil
}

func (d *Driver) envSource(ctx context.Context, pod *corev1.Pod, from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := d.secret(ctx, pod.Namespace, ref.Name, ref.Optional)
		return keyOf(data, ref.Key, "secret "+ref.Name, ref.Optional, err)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := d.configMap(ctx, pod.Namespace, ref.Name, ref.Optional)
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

func (d *Driver) configMap(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	object, err := d.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
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

func (d *Driver) secret(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	object, err := d.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing(err, optional)
	}
	data := map[string]string{}
	for key, content := range object.Data {
		data[key] = string(content)
	}
	return data, nil
}
