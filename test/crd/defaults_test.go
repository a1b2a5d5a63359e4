package crd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

const defaults = `
database: {}
deletionPolicy: Retain
images: {registry: quay.io/piraeusdatastore}
kernelModule: {mode: Auto}
monitoring: {mode: Auto, interval: 30s}
nodes: {network: {mode: Host}, removalPolicy: Retain, maxConcurrentEvacuations: 1}
platform: Auto
suspend: false
volumes:
  affinityController: None
  canary: Auto
  drainGuard: Auto
  shutdownGuard: Auto
  highAvailability: Auto
  driver: {mode: Managed}
  snapshots: {mode: Auto, className: linstor-snapshots, default: true, deletionPolicy: Delete}
`

func TestDefaults(t *testing.T) {
	cases := map[string]struct{ spec, want string }{
		"no spec":    {"", defaults},
		"empty spec": {"{}", defaults},
		"empty sections": {
			"{images: {}, nodes: {network: {}}, kernelModule: {}, database: {}, monitoring: {}, " +
				"volumes: {driver: {}, snapshots: {}}}", defaults,
		},
		"null sections": {
			"{images: null, nodes: null, suspend: null, deletionPolicy: null, monitoring: null, volumes: null}", defaults,
		},
		"nothing given is touched": {
			"{images: {registry: a.example.com}, volumes: {affinityController: Auto, canary: None, drainGuard: None, " +
				"driver: {mode: Managed, kubeletDirectory: /a}, highAvailability: None, shutdownGuard: None, " +
				"snapshots: {mode: None, className: nightly, default: false, deletionPolicy: Retain}}, platform: " +
				"Talos, nodes: {network: {mode: Pod}, removalPolicy: Evacuate, maxConcurrentEvacuations: 2, " +
				"lostAfter: 24h}, kernelModule: {mode: Compile, signingKeySecret: key}, suspend: true, " +
				"deletionPolicy: Delete, database: {kubernetes: {}}, monitoring: {mode: None, interval: 1m}, " +
				"tls: {mode: Managed}}",
			"{images: {registry: a.example.com}, volumes: {affinityController: Auto, canary: None, drainGuard: None, " +
				"driver: {mode: Managed, kubeletDirectory: /a}, highAvailability: None, shutdownGuard: None, " +
				"snapshots: {mode: None, className: nightly, default: false, deletionPolicy: Retain}}, platform: " +
				"Talos, nodes: {network: {mode: Pod}, removalPolicy: Evacuate, maxConcurrentEvacuations: 2, " +
				"lostAfter: 24h}, kernelModule: {mode: Compile, signingKeySecret: key}, suspend: true, " +
				"deletionPolicy: Delete, database: {kubernetes: {}}, monitoring: {mode: None, interval: 1m}, " +
				"tls: {mode: Managed}}",
		},
		"a section TLS without a mode, which means what the operator remembers": {
			"{tls: {}}", defaults + "tls: {}\n",
		},
		"authorities without a mode of TLS": {
			"{tls: {authorities: {apiSecret: a}}}", defaults + "tls: {authorities: {apiSecret: a}}\n",
		},
		"interface": {
			"nodes: {interfaces: [{name: storage, addressFrom: {addressType: InternalIP}}]}",
			"{nodes: {network: {mode: Host}, removalPolicy: Retain, maxConcurrentEvacuations: 1, interfaces: [{name: " +
				"storage, addressFrom: {addressType: InternalIP}, preferred: false}]}, " + rest("database: {}"),
		},
		"SQL database name, but no port, which depends on the kind": {
			postgres,
			"{nodes: {network: {mode: Host}, removalPolicy: Retain, maxConcurrentEvacuations: 1}, " +
				rest("database: {postgresql: {host: db, credentialsSecret: db, database: linstor}}"),
		},
		"devices, and no LINSTOR name for a pool": {
			devices("{serial: a}"),
			"{nodes: {network: {mode: Host}, removalPolicy: Retain, maxConcurrentEvacuations: 1}, storagePools: [{name: ssd, " +
				"lvm: {volumeGroup: vg}, devices: {optional: false, match: [{serial: a}]}}], " + rest("database: {}"),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tryCreate(t, object(t, c.spec))
			if err != nil {
				t.Fatal(err)
			}
			var want any
			text, err := yaml.YAMLToJSON([]byte(c.want))
			if err != nil {
				t.Fatal(err)
			}
			// Not encoding/json: what the API server returns has whole numbers.
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// rest ends the text of a wanted spec with the defaults of the sections that a case does not look at.
func rest(database string) string {
	return database + ", deletionPolicy: Retain, images: {registry: quay.io/piraeusdatastore}, kernelModule: {mode: " +
		"Auto}, monitoring: {mode: Auto, interval: 30s}, platform: Auto, suspend: false, " +
		"volumes: {affinityController: None, canary: Auto, drainGuard: Auto, driver: {mode: Managed}, " +
		"highAvailability: Auto, shutdownGuard: Auto, snapshots: {mode: Auto, className: linstor-snapshots, " +
		"default: true, deletionPolicy: Delete}}}"
}

// TestGoTypes: what the Go types write for unset fields (empty structs, no empty texts) is as good as an absent field,
// and what the API server returns comes back from the Go types unchanged.
func TestGoTypes(t *testing.T) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.StorageCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "StorageCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName},
		Spec: v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{
			Name: "ssd", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	got, err := tryCreate(t, u)
	if err != nil {
		t.Fatal(err)
	}
	var typed v1alpha1.StorageCluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(got.Object, &typed, true); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.StorageClusterSpec{
		Images: v1alpha1.ImagesSpec{Registry: "quay.io/piraeusdatastore"},
		Nodes: v1alpha1.NodesSpec{Network: nodespec.NetworkSpec{Mode: nodespec.NetworkHost},
			RemovalPolicy: v1alpha1.NodesRetain, MaxConcurrentEvacuations: 1},
		Platform:     v1alpha1.PlatformAuto,
		KernelModule: v1alpha1.KernelModuleSpec{Mode: v1alpha1.ModuleAuto},
		Volumes: volumespec.VolumesSpec{Canary: volumespec.CanaryAuto, DrainGuard: volumespec.DrainGuardAuto,
			HighAvailability: volumespec.HighAvailabilityAuto, ShutdownGuard: volumespec.ShutdownGuardAuto,
			AffinityController: volumespec.AffinityNone,
			Driver:             volumespec.VolumeDriverSpec{Mode: volumespec.DriverManaged},
			Snapshots: volumespec.VolumeSnapshotsSpec{Mode: volumespec.SnapshotsAuto, Default: ptr.To(true),
				ClassName: volumespec.DefaultSnapshotClass, DeletionPolicy: volumespec.SnapshotsDelete}},
		Monitoring: monitoringspec.MonitoringSpec{Mode: monitoringspec.MonitoringAuto,
			Interval: "30s"},
		DeletionPolicy: v1alpha1.DeletionRetain,
		StoragePools:   []v1alpha1.StoragePoolSpec{{Name: "ssd", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}}},
	}
	if diff := cmp.Diff(want, typed.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
