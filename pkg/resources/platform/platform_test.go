package platform_test

import (
	"cmp"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

func kubeNode(osImage, kubelet string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OSImage: osImage, KubeletVersion: kubelet}}}
}

func TestPlatformOf(t *testing.T) {
	microk8s := map[string]string{"microk8s.io/cluster": "true"}
	for _, tc := range []struct {
		spec             v1alpha1.Platform
		osImage, kubelet string
		labels           map[string]string
		want             v1alpha1.Platform
	}{
		{"", "Ubuntu 24.04.2 LTS", "v1.36.3", nil, v1alpha1.PlatformGeneric},
		{"Auto", "Ubuntu 24.04.2 LTS", "v1.36.3", nil, v1alpha1.PlatformGeneric},
		{"Auto", "Talos (v1.11.2)", "v1.34.1", nil, v1alpha1.PlatformTalos},
		{"Auto", "Talos (40ae00d-dirty)", "v1.15.0", nil, v1alpha1.PlatformTalos},
		{"Auto", "Flatcar Container Linux by Kinvolk 4230.2.1 (Oklo)", "v1.33.1", nil, v1alpha1.PlatformFlatcar},
		{"Auto", "Red Hat Enterprise Linux CoreOS 47.84.202102161611-0 (Ootpa)", "v1.20.0+bd9e442", nil,
			v1alpha1.PlatformOpenShift},
		{"Auto", "Red Hat Enterprise Linux CoreOS 417.94.202411261220-0", "v1.30.6", nil, v1alpha1.PlatformOpenShift},
		{"Auto", "CentOS Stream CoreOS 412.9.202211241749-0", "v1.25.4", nil, v1alpha1.PlatformOpenShift},
		{"Auto", "Red Hat Enterprise Linux 9.4 (Plow)", "v1.30.6", nil, v1alpha1.PlatformGeneric},
		{"Auto", "Debian GNU/Linux 12 (bookworm)", "v1.33.1+k0s", nil, v1alpha1.PlatformK0s},
		{"Auto", "Debian GNU/Linux 12 (bookworm)", "v1.33.1+k3s1", nil, v1alpha1.PlatformGeneric},
		{"Auto", "Flatcar Container Linux by Kinvolk 4230.2.1 (Oklo)", "v1.33.1+k0s", nil, v1alpha1.PlatformFlatcar},
		{"Auto", "Ubuntu 22.04.5 LTS", "v1.27.2", microk8s, v1alpha1.PlatformMicroK8s},
		{"MicroK8s", "Talos (v1.11.2)", "v1.34.1", nil, v1alpha1.PlatformMicroK8s},
		{"Generic", "Talos (v1.11.2)", "v1.34.1", nil, v1alpha1.PlatformGeneric},
		{"Auto", "", "", nil, v1alpha1.PlatformGeneric},
	} {
		if got := platform.Of(tc.spec, kubeNode(tc.osImage, tc.kubelet, tc.labels)); got != tc.want {
			t.Errorf("spec %q, %q, kubelet %q, labels %v: %s, want %s", tc.spec, tc.osImage, tc.kubelet, tc.labels, got,
				tc.want)
		}
	}
}

func TestModeOfProfiles(t *testing.T) {
	noble := catalogue.Loader{Key: "noble", OSImage: "^Ubuntu", Image: "drbd9-noble:v9.9.9"}
	alma := catalogue.Loader{Key: "almalinux9", OSImage: "CoreOS", Image: "drbd9-almalinux9:v9.9.9"}
	flatcar := catalogue.Loader{Key: "own", OSImage: "Flatcar", Image: "drbd9-flatcar:v9.9.9"}
	fallback := catalogue.Loader{Key: catalogue.GenericKey, Image: "drbd9-resolute:v9.9.9"}
	const auto, compile, prebuilt, preinstalled = v1alpha1.ModuleAuto, v1alpha1.ModuleCompile, v1alpha1.ModulePrebuilt,
		v1alpha1.ModulePreinstalled
	modes := []v1alpha1.KernelModuleMode{auto, compile, prebuilt, preinstalled}
	all := [4]v1alpha1.KernelModuleMode{auto, compile, prebuilt, preinstalled}
	for _, tc := range []struct {
		platform v1alpha1.Platform
		loader   catalogue.Loader
		key      string // where a loader runs
		// want for Auto, Compile, Prebuilt and Preinstalled
		want [4]v1alpha1.KernelModuleMode
	}{
		{v1alpha1.PlatformGeneric, noble, "noble", all},
		{v1alpha1.PlatformGeneric, fallback, "generic", all},
		{v1alpha1.PlatformK0s, noble, "noble", all},
		{v1alpha1.PlatformMicroK8s, noble, "noble", all},
		{v1alpha1.PlatformOpenShift, alma, "almalinux9.openshift", all},
		{v1alpha1.PlatformTalos, fallback, "",
			[4]v1alpha1.KernelModuleMode{preinstalled, preinstalled, preinstalled, preinstalled}},
		{v1alpha1.PlatformFlatcar, fallback, "generic.flatcar",
			[4]v1alpha1.KernelModuleMode{preinstalled, compile, prebuilt, preinstalled}},
		{v1alpha1.PlatformFlatcar, flatcar, "own.flatcar", all},
	} {
		q := platform.ProfileOf(tc.platform)
		for i, mode := range modes {
			if got := q.Mode(mode, tc.loader); got != tc.want[i] {
				t.Errorf("%s with loader %s, mode %s: %s, want %s", tc.platform, tc.loader.Key, mode, got, tc.want[i])
			}
			key := tc.key
			if tc.want[i] == preinstalled {
				key = "none"
			}
			if got := q.OSKey(mode, tc.loader); got != key {
				t.Errorf("%s with loader %s, mode %s has the label %s, want %s", tc.platform, tc.loader.Key, mode, got, key)
			}
		}
	}
}

// TestPlatformsAreDocumented checks the page that names each platform's label and the kubelet's directory, which
// whoever installs a volume driver needs.
func TestPlatformsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := map[v1alpha1.Platform]string{
		v1alpha1.PlatformK0s:      "/var/lib/k0s/kubelet",
		v1alpha1.PlatformMicroK8s: "/var/snap/microk8s/common/var/lib/kubelet",
	}
	for _, q := range platform.Profiles() {
		directory := cmp.Or(kubelet[q.Platform], "/var/lib/kubelet")
		for _, word := range []string{"`" + string(q.Platform) + "`", "`" + directory + "`", "`" + q.LVMDir + "`"} {
			if !strings.Contains(string(page), word) {
				t.Errorf("docs/how-to/platforms.md does not have %s of %s", word, q.Platform)
			}
		}
		if q.Hint == "" {
			t.Errorf("%s does not say what to do", q.Platform)
		}
	}
}
