package resources_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

var update = flag.Bool("update", false, "write testdata/*.yaml instead of comparing with it")

// theCluster owns the drain guards.
func theCluster() *v1alpha1.StorageCluster {
	return &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName, UID: "cluster-uid"}}
}

// params are the builders' parameters for a spec, with images that no change of the embedded catalogue touches.
func params(spec v1alpha1.StorageClusterSpec) resources.Params {
	return resources.Params{
		Cluster: v1alpha1.ClusterName,
		Spec:    &spec,
		Release: catalogue.Release{
			Version:    "1.99.0",
			Controller: "piraeus-server:v1.99.0",
			Satellite:  "piraeus-server:v1.99.0",
			Reactor:    "drbd-reactor:v9.9.9",
			Driver: catalogue.DriverImages{Driver: "piraeus-csi:v9.9.9", Provisioner: "csi-provisioner:v9.9.9",
				Attacher: "csi-attacher:v9.9.9", Resizer: "csi-resizer:v9.9.9",
				Snapshotter: "csi-snapshotter:v9.9.9", Registrar: "csi-node-driver-registrar:v9.9.9",
				LivenessProbe: "livenessprobe:v9.9.9"},
			HighAvailability: "piraeus-ha-controller:v9.9.9",
			Affinity:         "linstor-affinity-controller:v9.9.9",
			ShutdownGuard:    "drbd-shutdown-guard:v9.9.9",
		},
	}
}

var (
	noble   = catalogue.Loader{Key: "noble", OSImage: "^Ubuntu", Image: "drbd9-noble:v9.9.9"}
	alma    = catalogue.Loader{Key: "almalinux9", OSImage: "CoreOS", Image: "drbd9-almalinux9:v9.9.9"}
	flatcar = catalogue.Loader{Key: "own", OSImage: "Flatcar", Image: "drbd9-flatcar:v9.9.9"}
	generic = platform.ProfileOf(v1alpha1.PlatformGeneric)
)

// fullSpec sets all that the builders look at.
func fullSpec() v1alpha1.StorageClusterSpec {
	return v1alpha1.StorageClusterSpec{
		Images: v1alpha1.ImagesSpec{Registry: "registry.example.com/mirror/", PullSecrets: []string{"pull-a", "pull-b"}},
		Volumes: volumespec.VolumesSpec{Driver: volumespec.VolumeDriverSpec{
			Mode: volumespec.DriverManaged, KubeletDirectory: "/data/kubelet"}},
		Nodes: v1alpha1.NodesSpec{
			Network:     nodespec.NetworkSpec{Mode: nodespec.NetworkPod},
			Tolerations: []v1alpha1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}},
			Satellite: v1alpha1.SatelliteSpec{Resources: v1alpha1.Resources{
				Limits: v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("1Gi")},
			}},
		},
		KernelModule: v1alpha1.KernelModuleSpec{Mode: v1alpha1.ModuleCompile, SigningKeySecret: "signing-key"},
		Database: v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{
			Host: "db.example.com", CredentialsSecret: "db-credentials", SSLMode: "verify-full",
		}},
		Controller: v1alpha1.ControllerSpec{
			PassphraseSecret: "passphrase",
			Resources: v1alpha1.Resources{
				Requests: v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("1Gi")},
			},
		},
		StoragePools: []v1alpha1.StoragePoolSpec{
			{Name: "files-b", FileThin: &v1alpha1.FilePool{Directory: "/srv/b"}},
			{Name: "ssd", LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: "vg", ThinPool: "thin"}},
			{Name: "files-a", File: &v1alpha1.FilePool{Directory: "/srv/a"}},
			{Name: "files-a-elsewhere", Pool: "files-a", File: &v1alpha1.FilePool{Directory: "/srv/a"}},
		},
	}
}

// fullClass sets all that the builder of StorageClasses looks at.
func fullClass() *volumespec.StorageClassSpec {
	return &volumespec.StorageClassSpec{Name: "encrypted", StoragePools: []string{"ssd", "nvme"}, Replicas: 3,
		RemoteAccess: volumespec.RemoteReplicasOnly, FSType: volumespec.FSXFS, Default: true,
		AllowVolumeExpansion: ptr.To(false), ReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		VolumeBindingMode: volumespec.BindingImmediate, MountOptions: []string{"noatime"},
		Parameters: map[string]volumespec.ParameterValue{"layerList": "drbd luks storage", "qos.linbit.com/riops": "100",
			"property.linstor.csi.linbit.com/DrbdOptions/auto-quorum": "suspend-io"}}
}

// named is a StorageClass of which only the name is given.
func named(name string) *volumespec.StorageClassSpec { return &volumespec.StorageClassSpec{Name: name} }

// backupOrder is one try to take a backup.
func backupOrder() *databasebackup.Order {
	return &databasebackup.Order{Image: "registry.example.com/storagecluster-operator:v1", ID: "manual-before-the-move",
		Config: `{"linstor":"http://linstor"}`, Place: databasebackup.Place{Secret: "linstor-backup-s3"}}
}

// claimOrder is one that goes into a claim, and is restored before that.
func claimOrder() *databasebackup.Order {
	o := backupOrder()
	o.Secret, o.Claim, o.Restore = "", "linstor-backups", true
	return o
}

// etcdSite is a node with a member of etcd, and etcdSeed the first one.
func etcdSite() etcdmember.Site {
	return etcdmember.Site{Image: "registry.example.com/mirror/etcd:v9.9.9",
		Guard:     "registry.example.com/mirror/operator:v1",
		Directory: "/var/lib/linstor-etcd"}
}

func etcdSeed() seats.Configuration {
	c := seats.Configuration{Expectation: datadir.Expectation{Name: "n01-1", Token: "linstor-t", Mode: datadir.Seed},
		Version: "3.6.14", Revision: "0123456789", Peers: "n01-1=http://192.0.2.1:3380"}
	c.PeerURL, c.ClientURL = etcdmember.URLs("192.0.2.1")
	return c
}

func etcdOrders(p resources.Params) client.Object {
	order, err := etcdmember.Order(etcdSeed())
	if err != nil {
		panic(err)
	}
	return etcdmember.ConfigMap(p, etcdmember.Orders, "", map[string]string{"n01": order})
}

// goldens are all objects, by the name of their file.
func goldens() map[string]client.Object {
	plain, full := params(v1alpha1.StorageClusterSpec{}), params(fullSpec())
	loading := func(mode v1alpha1.KernelModuleMode) resources.Params {
		return params(v1alpha1.StorageClusterSpec{KernelModule: v1alpha1.KernelModuleSpec{Mode: mode}})
	}
	prebuilt, compile := loading(v1alpha1.ModulePrebuilt), loading(v1alpha1.ModuleCompile)
	full.SigningKeyVersion = "4711"
	locked := params(v1alpha1.StorageClusterSpec{})
	locked.API = map[apitls.Part]apitls.Access{}
	for _, part := range apitls.Kind.Parts {
		locked.API[part] = apitls.Access{Ref: tlssecret.Ref{Secret: apitls.Kind.Secret(part), Leaf: "leaf", Trust: "trust"}}
	}
	for part, ref := range map[tlssecret.Part]*tlssecret.Ref{netcomtls.Controller: &locked.Netcom.Controller,
		netcomtls.Satellite: &locked.Netcom.Satellite} {
		*ref = tlssecret.Ref{Secret: netcomtls.Kind.Secret(part), Leaf: "leaf", Trust: "trust"}
	}
	access := connection.Settings{URL: connection.URL(&full.Spec.Database), User: "linstor", Password: "example"}
	return map[string]client.Object{
		"module-loader":             resources.ModuleLoader(plain, generic, noble),
		"module-loader-full":        resources.ModuleLoader(full, generic, noble),
		"module-loader-prebuilt":    resources.ModuleLoader(prebuilt, generic, noble),
		"module-loader-openshift":   resources.ModuleLoader(plain, platform.ProfileOf(v1alpha1.PlatformOpenShift), alma),
		"module-loader-flatcar":     resources.ModuleLoader(compile, platform.ProfileOf(v1alpha1.PlatformFlatcar), flatcar),
		"satellite":                 resources.Satellite(plain, generic),
		"satellite-full":            resources.Satellite(full, generic),
		"satellite-talos":           resources.Satellite(plain, platform.ProfileOf(v1alpha1.PlatformTalos)),
		"satellite-openshift":       resources.Satellite(plain, platform.ProfileOf(v1alpha1.PlatformOpenShift)),
		"satellite-config":          resources.SatelliteConfig(plain),
		"controller":                resources.Controller(plain, "0123456789abcdef"),
		"controller-full":           resources.Controller(full, "0123456789abcdef"),
		"controller-config":         resources.ControllerConfig(plain, connection.Settings{URL: "k8s"}),
		"controller-config-full":    resources.ControllerConfig(full, access),
		"controller-service":        resources.ControllerService(plain, false),
		"csi-driver":                resources.CSIDriver(plain),
		"locked-controller":         resources.Controller(locked, "0123456789abcdef"),
		"locked-controller-config":  resources.ControllerConfig(locked, connection.Settings{URL: "k8s"}),
		"locked-controller-service": resources.ControllerService(locked, true),
		"locked-satellite":          resources.Satellite(locked, generic),
		"locked-csi-controller":     resources.DriverController(locked, true, false),
		"locked-csi-node":           resources.DriverNode(locked, generic),
		"locked-affinity":           affinity.Deployment(locked, true),
		"locked-backup":             databasebackup.Pod(locked, theCluster(), backupOrder()),
		"storage-class":             resources.StorageClass(plain, named("replicated"), false),
		"storage-class-full":        resources.StorageClass(full, fullClass(), true),
		"csi-controller":            resources.DriverController(plain, true, false),
		"csi-controller-full":       resources.DriverController(full, false, true),
		"snapshot-class":            resources.SnapshotClass(plain, true),
		"snapshot-class-full":       resources.SnapshotClass(full, false),
		"canary-claim":              canary.Claim(plain, resources.StorageClass(plain, named("fast"), true)),
		"canary-claim-xfs":          canary.Claim(full, resources.StorageClass(full, fullClass(), true)),
		"canary-snapshot":           canary.Snapshot(plain, "fast", "linstor-snapshots"),
		"canary-pod":                canary.Pod(plain, theCluster(), "fast"),
		"canary-pod-full":           canary.Pod(full, theCluster(), "fast"),
		"backup-pod":                databasebackup.Pod(plain, theCluster(), backupOrder()),
		"backup-pod-full":           databasebackup.Pod(full, theCluster(), claimOrder()),
		"volume-listing-full":       databasebackup.Listings(full, "registry.example.com/mirror/operator:v1", "token"),
		"backup-comparison": databasebackup.Comparator(plain, theCluster(), &databasebackup.Comparison{
			Image: backupOrder().Image, Pod: "linstor-compare-backup-0123456789", Config: "{}", Place: claimOrder().Place}),
		"database-restore": databasebackup.Restorer(plain, theCluster(), &databasebackup.Restore{
			Image: backupOrder().Image, Mark: "manual-a@0123", Config: "{}", Place: backupOrder().Place}),
		"database-restore-full": databasebackup.Restorer(full, theCluster(), &databasebackup.Restore{
			Image: claimOrder().Image, Mark: "manual-a@0123", Config: "{}", Place: claimOrder().Place}),
		"database-move": databasebackup.Mover(plain, theCluster(), &databasebackup.Move{Image: backupOrder().Image,
			Mark: "jdbc:postgresql://db.example.com:5432/linstor@1", Config: "{}", From: "k8s",
			To: &full.Spec.Database}),
		"database-move-full": databasebackup.Mover(full, theCluster(), &databasebackup.Move{Image: claimOrder().Image,
			Mark: "k8s@1", Config: "{}", From: "jdbc:postgresql://db.example.com:5432/linstor", To: &plain.Spec.Database}),
		"database-move-target": databasebackup.TargetConfig(plain, &full.Spec.Database, connection.Settings{
			URL: "jdbc:postgresql://db.example.com:5432/linstor", User: "linstor", Password: "s3cret"}),
		"drain-guard":              drainguard.Pod(plain, theCluster(), "n01"),
		"drain-guard-full":         drainguard.Pod(full, theCluster(), strings.Repeat("long-", 20)+"name"),
		"drain-budget":             drainguard.Budget(plain, 3, nil, ""),
		"drain-budget-open":        drainguard.Budget(plain, 3, []string{"n02", "n01"}, "n03: node n01 is down"),
		"csi-node":                 resources.DriverNode(plain, generic),
		"csi-node-full":            resources.DriverNode(full, platform.ProfileOf(v1alpha1.PlatformMicroK8s)),
		"ha-controller":            highavailability.DaemonSet(plain),
		"ha-controller-full":       highavailability.DaemonSet(full),
		"affinity-controller":      affinity.Deployment(plain, true),
		"affinity-controller-full": affinity.Deployment(full, false),
		"etcd-member-full":         etcdmember.DaemonSet(full, etcdSite(), "n01", etcdSeed()),
		"etcd-orders":              etcdOrders(plain),
		"etcd-survey-full":         etcdmember.SurveyOf(full, etcdSite()),
		"etcd-snapshot-full": etcdmember.SnapshotOf(full, etcdSite(), *seats.NewSnapshot("3.6", "3.7", 255,
			seats.Seat{Name: "n01-1", Node: "n01"}, time.Unix(0, 0)), "http://192.0.2.1:3379"),
		"revision": revision.Of(v1alpha1.ClusterName, 3, full.Spec),
		"claim": resources.Claim(v1alpha1.ClusterName, resources.ClaimData{
			Backend: "k8s", LocalID: "11111111-2222-3333-4444-555555555555", Adopted: true, TLS: tlsspec.Managed,
		}),
	}
}

func TestGolden(t *testing.T) {
	objects := goldens()
	for name, object := range objects {
		t.Run(name, func(t *testing.T) {
			got := render(t, object)
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v (go test -update writes it)", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got; go test -update accepts it):\n%s", path, diff)
			}
		})
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) != len(objects) {
		t.Errorf("testdata has %d files for %d objects (%v)", len(files), len(objects), err)
	}
}

// render is the object as YAML, without the status, which no builder sets.
func render(t *testing.T, object client.Object) []byte {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	text, err = yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
