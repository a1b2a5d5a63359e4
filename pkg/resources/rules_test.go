package resources_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	etcdpods "github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/shutdownguard"
)

// TestEveryObject checks what the package promises of all objects.
func TestEveryObject(t *testing.T) {
	for name, o := range goldens() {
		t.Run(name, func(t *testing.T) {
			if o.GetObjectKind().GroupVersionKind().Empty() {
				t.Error("no TypeMeta: it cannot be applied server-side")
			}
			everywhere := false
			switch o.(type) {
			case *storagev1.CSIDriver, *storagev1.StorageClass, *snapshotv1.VolumeSnapshotClass:
				everywhere = true
			}
			if o.GetNamespace() != v1alpha1.WorkloadNamespace && !everywhere {
				t.Errorf("namespace is %q", o.GetNamespace())
			}
			component := o.GetLabels()[v1alpha1.LabelComponent]
			// "kubectl drain" refuses pods that nobody controls, and nothing is lost with these.
			if _, pod := o.(*corev1.Pod); (len(o.GetOwnerReferences()) != 0) != pod {
				t.Error("has an ownerReference: a foreground deletion would take it down past the finalizer; or is a pod " +
					"without one")
			}
			want := map[string]string{
				"app.kubernetes.io/name": "linstor", "app.kubernetes.io/instance": "linstor",
				"app.kubernetes.io/component": component, "app.kubernetes.io/managed-by": "storagecluster-operator",
				v1alpha1.LabelCluster: "linstor", v1alpha1.LabelComponent: component,
			}
			got := o.GetLabels()
			delete(got, v1alpha1.LabelOS)
			delete(got, v1alpha1.LabelPlatform)
			delete(got, drainguard.LabelNode)
			delete(got, etcdpods.Member)
			if diff := cmp.Diff(want, got); component == "" || diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// pods are the pod templates of all workloads with their selectors.
func pods(t *testing.T) map[string]struct {
	template corev1.PodTemplateSpec
	selector *metav1.LabelSelector
} {
	t.Helper()
	out := map[string]struct {
		template corev1.PodTemplateSpec
		selector *metav1.LabelSelector
	}{}
	for name, o := range goldens() {
		entry := out[name]
		switch o := o.(type) {
		case *appsv1.DaemonSet:
			entry.template, entry.selector = o.Spec.Template, o.Spec.Selector
		case *appsv1.Deployment:
			entry.template, entry.selector = o.Spec.Template, o.Spec.Selector
		default:
			continue
		}
		out[name] = entry
	}
	if len(out) != 28 {
		t.Fatalf("found %d workloads", len(out))
	}
	return out
}

func containers(p corev1.PodSpec) []corev1.Container {
	return slices.Concat(p.InitContainers, p.Containers)
}

// checkContainer wants an image with a version from the registry, a root file system that is read-only, and one volume
// at each path.
func checkContainer(t *testing.T, c *corev1.Container, registry, sidecars string) {
	t.Helper()
	rest, ok := strings.CutPrefix(c.Image, registry+"/")
	if strings.HasPrefix(c.Name, "csi-") {
		rest, ok = strings.CutPrefix(c.Image, sidecars+"/")
	}
	if !ok || strings.Contains(rest, "//") || !strings.Contains(rest, ":v") {
		t.Errorf("container %s has image %s", c.Name, c.Image)
	}
	if sc := c.SecurityContext; sc == nil || sc.ReadOnlyRootFilesystem == nil || !*sc.ReadOnlyRootFilesystem {
		t.Errorf("container %s can write to its root file system", c.Name)
	}
	paths := map[string]bool{}
	for _, m := range c.VolumeMounts {
		if paths[m.MountPath] {
			t.Errorf("container %s mounts two volumes at %s", c.Name, m.MountPath)
		}
		paths[m.MountPath] = true
	}
}

func TestEveryPod(t *testing.T) {
	for name, w := range pods(t) {
		t.Run(name, func(t *testing.T) {
			s, err := metav1.LabelSelectorAsSelector(w.selector)
			if err != nil || !s.Matches(k8slabels.Set(w.template.Labels)) {
				t.Errorf("selector %v does not match the pods' labels %v (%v)", w.selector, w.template.Labels, err)
			}
			spec := w.template.Spec
			registry, sidecars, secrets := resources.DefaultRegistry, resources.SidecarRegistry, 0
			if strings.HasSuffix(name, "-full") {
				registry, sidecars, secrets = "registry.example.com/mirror", "registry.example.com/mirror", 2
			}
			if len(spec.ImagePullSecrets) != secrets {
				t.Errorf("pull secrets are %v", spec.ImagePullSecrets)
			}
			if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
				t.Error("service links fill the environment with every Service of the namespace")
			}
			volumes := map[string]bool{}
			for _, v := range spec.Volumes {
				volumes[v.Name] = true
			}
			used := map[string]bool{}
			for _, c := range containers(spec) {
				checkContainer(t, &c, registry, sidecars)
				for _, m := range c.VolumeMounts {
					used[m.Name] = true
				}
			}
			if diff := cmp.Diff(volumes, used); diff != "" {
				t.Errorf("volumes that no container mounts, or mounts of no volume (-volumes +mounted):\n%s", diff)
			}
		})
	}
}

// TestPrivilege lists the containers that may harm their node. All others drop every capability.
func TestPrivilege(t *testing.T) {
	mayHarm := []string{resources.SatelliteContainer, resources.DeviceInventoryContainer, resources.ModuleLoaderContainer,
		highavailability.Container, shutdownguard.Name, databasebackup.ListVolumes}
	for name, w := range pods(t) {
		for _, c := range containers(w.template.Spec) {
			sc := c.SecurityContext
			harmless := (sc.Privileged == nil || !*sc.Privileged) && sc.Capabilities != nil && len(sc.Capabilities.Add) == 0 &&
				slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) &&
				sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation
			mounts := c.Name == resources.DriverContainer && strings.Contains(name, "csi-node")
			if harmless == (mounts || slices.Contains(mayHarm, c.Name)) {
				t.Errorf("%s: container %s is harmless: %t, security context %v", name, c.Name, harmless, sc)
			}
		}
	}
}

// TestOneController checks that nothing opens the database without the one Lease. So the strategy need not see to
// that, and must not: Recreate waits for the end of a pod on a node that is dead.
func TestOneController(t *testing.T) {
	for _, spec := range []v1alpha1.StorageClusterSpec{{}, fullSpec()} {
		d := resources.Controller(params(spec), "x")
		if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
			t.Errorf("replicas %d, strategy %s", *d.Spec.Replicas, d.Spec.Strategy.Type)
		}
		all := containers(d.Spec.Template.Spec)
		if len(all) != 2 {
			t.Fatalf("%d containers", len(all))
		}
		for _, c := range all {
			env := map[string]string{}
			for _, e := range c.Env {
				env[e.Name] = e.Value
				if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
					env[e.Name] = e.ValueFrom.FieldRef.FieldPath
				}
			}
			for name, want := range map[string]string{
				"K8S_AWAIT_ELECTION_ENABLED": "1", "K8S_AWAIT_ELECTION_NAME": "linstor-controller",
				"K8S_AWAIT_ELECTION_LOCK_NAME": "linstor-controller", "K8S_AWAIT_ELECTION_LOCK_NAMESPACE": "linstor-storage",
				"K8S_AWAIT_ELECTION_IDENTITY": "metadata.name",
			} {
				if env[name] != want {
					t.Errorf("container %s: %s is %q, want %q", c.Name, name, env[name], want)
				}
			}
			if len(c.Command) != 0 {
				t.Errorf("container %s has a command, which replaces the entry point that takes the Lease", c.Name)
			}
		}
	}
}

// TestCredentialsStayInSecrets looks for the password and its user everywhere but in the Secret.
func TestCredentialsStayInSecrets(t *testing.T) {
	p := params(fullSpec())
	access := connection.Settings{URL: connection.URL(&p.Spec.Database), User: "tracer-user", Password: "tracer-password"}
	if _, ok := resources.ControllerConfig(p, access).(*corev1.Secret); !ok {
		t.Fatal("configuration with credentials is not a Secret")
	}
	for name, o := range goldens() {
		if _, ok := o.(*corev1.Secret); ok {
			continue
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("tracer")) || strings.Contains(string(text), "password: example") {
			t.Errorf("%s holds credentials", name)
		}
	}
	volumes := resources.Controller(p, "x").Spec.Template.Spec.Volumes
	if i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == "linstor-config" }); i < 0 ||
		volumes[i].Secret == nil || volumes[i].ConfigMap != nil {
		t.Errorf("the controller does not mount the Secret: %v", volumes)
	}
}

// TestLoadersDoNotOverlap checks that no DaemonSet of one operating system claims pods or nodes of another.
func TestLoadersDoNotOverlap(t *testing.T) {
	p := params(v1alpha1.StorageClusterSpec{})
	a := resources.ModuleLoader(p, generic, noble)
	b := resources.ModuleLoader(p, generic, catalogue.Loader{Key: "jammy", Image: "drbd9-jammy:v9.9.9"})
	s, err := metav1.LabelSelectorAsSelector(a.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name == b.Name || s.Matches(k8slabels.Set(b.Spec.Template.Labels)) {
		t.Errorf("loaders %s and %s share pods", a.Name, b.Name)
	}
	node := k8slabels.Set(b.Spec.Template.Spec.NodeSelector)
	if k8slabels.SelectorFromSet(a.Spec.Template.Spec.NodeSelector).Matches(node) {
		t.Errorf("loaders %s and %s share nodes", a.Name, b.Name)
	}
	s, err = metav1.LabelSelectorAsSelector(resources.Satellite(p, generic).Spec.Selector)
	if err != nil || s.Matches(k8slabels.Set(a.Spec.Template.Labels)) {
		t.Errorf("satellites claim loaders (%v)", err)
	}
}

func TestWithoutReactor(t *testing.T) {
	p := params(v1alpha1.StorageClusterSpec{})
	p.Release.Reactor = ""
	spec := resources.Satellite(p, generic).Spec.Template.Spec
	if len(spec.Containers) != 1 || strings.Contains(fmt.Sprint(spec.Volumes), "reactor") {
		t.Errorf("a release without drbd-reactor runs it: %v", spec)
	}
}

// TestBuildersKeepTheSpec checks that changing what a builder made does not change the spec that it was made from.
func TestBuildersKeepTheSpec(t *testing.T) {
	p := params(fullSpec())
	d := resources.Controller(p, "x")
	requests := d.Spec.Template.Spec.Containers[0].Resources.Requests
	requests[corev1.ResourceCPU] = requests[corev1.ResourceMemory]
	d.Spec.Template.Spec.Tolerations[2].Key = "changed"
	if diff := cmp.Diff(fullSpec(), *p.Spec); diff != "" {
		t.Errorf("the spec was changed (-want +got):\n%s", diff)
	}
}

// TestHostDevices checks that no container that mounts the host's /dev has its termination message below it, and that
// those which run LVM's programs can make the directory of their locks.
func TestHostDevices(t *testing.T) {
	checked := 0
	for name, w := range pods(t) {
		for _, c := range containers(w.template.Spec) {
			if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/dev" }) {
				continue
			}
			checked++
			if c.TerminationMessagePath == "" || strings.HasPrefix(c.TerminationMessagePath, "/dev/") {
				t.Errorf("%s: container %s leaves its message in the host's /dev", name, c.Name)
			}
			lvm := []string{resources.SatelliteContainer, resources.DeviceInventoryContainer, databasebackup.ListVolumes}
			locks := func(m corev1.VolumeMount) bool { return m.MountPath == "/run/lock" && !m.ReadOnly }
			if slices.Contains(lvm, c.Name) && !slices.ContainsFunc(c.VolumeMounts, locks) {
				t.Errorf("%s: container %s has no place for LVM's locks", name, c.Name)
			}
		}
	}
	if checked != 14 {
		t.Errorf("%d containers mount /dev", checked)
	}
}

// TestSpecHash checks that the hash shows a setting that was taken away, which no comparison of the fields that are
// set can.
func TestSpecHash(t *testing.T) {
	full := fullSpec()
	less := fullSpec()
	less.Images.PullSecrets = less.Images.PullSecrets[:1]
	for name, build := range map[string]func(resources.Params) metav1.Object{
		"loader":          func(p resources.Params) metav1.Object { return resources.ModuleLoader(p, generic, noble) },
		"satellite":       func(p resources.Params) metav1.Object { return resources.Satellite(p, generic) },
		"controller":      func(p resources.Params) metav1.Object { return resources.Controller(p, "x") },
		"driver":          func(p resources.Params) metav1.Object { return resources.DriverController(p, true, true) },
		"driver on nodes": func(p resources.Params) metav1.Object { return resources.DriverNode(p, generic) },
	} {
		a, b, c := build(params(full)), build(params(full)), build(params(less))
		hash := func(o metav1.Object) string { return o.GetAnnotations()[resources.AnnotationSpecHash] }
		if hash(a) == "" || hash(a) != hash(b) || hash(a) == hash(c) {
			t.Errorf("%s: hashes are %q and %q, with less %q", name, hash(a), hash(b), hash(c))
		}
	}
	if resources.ControllerService(params(full), false).Annotations[resources.AnnotationSpecHash] == "" {
		t.Error("the Service has no hash")
	}
}
