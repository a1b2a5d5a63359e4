package specchange

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// Class says what becomes of a change of a field of the spec.
type Class string

// Classes of spec fields.
const (
	// ClassImmediate holds at once, in every phase: nothing that runs or is stored depends on it.
	ClassImmediate Class = "Immediate"
	// ClassRolling changes pods, which are restarted by their own rules.
	ClassRolling Class = "Rolling"
	// ClassAtNextAssess is taken up when the work in progress is done, at once if there is none.
	ClassAtNextAssess Class = "AtNextAssess"
	// ClassPreempt leaves the phase at once, because it may put right what it works on. See Field.In.
	ClassPreempt Class = "Preempt"
	// ClassRefused cannot be done to a cluster that exists. CEL refuses it where it can see it, a hold otherwise.
	ClassRefused Class = "Refused"
)

// Field is what is known of one field of the spec.
type Field struct {
	// Path is the field's path in the manifest; elements of lists with keys are "[]", other lists are one field.
	Path  string
	Class Class
	// Fixes are the states in which a change leaves the work in progress at once, since the field has a part in it.
	Fixes  []fsm.State
	Effect string
}

// In is the class of a change in a state.
func (f *Field) In(s fsm.State) Class {
	if slices.Contains(f.Fixes, s) {
		return ClassPreempt
	}
	return f.Class
}

func tlsFields() []Field {
	const signed = "all come to trust the other authority, then certificates are signed by it; restarted for each: "
	return []Field{
		{"tls.mode", ClassRolling, states(fsm.Controller, fsm.Satellites, fsm.VolumeDriver),
			"certificates are made, or removed in the end; the controller is restarted, and then LINSTOR's clients and the " +
				"satellites"},
		{"tls.authorities.apiSecret", ClassRolling, states(fsm.Controller, fsm.VolumeDriver),
			signed + "the controller and LINSTOR's clients"},
		{"tls.authorities.satellitesSecret", ClassRolling, states(fsm.Controller, fsm.Satellites),
			signed + "the controller and the satellites"},
	}
}

func states(s ...fsm.State) []fsm.State { return s }

// Fields classifies every field of the spec. It is the only truth: what a ControllerRevision keeps, what interrupts
// the work in progress, and the table in docs/changing-the-spec.md follow from it.
func Fields() []Field {
	const atOnce, rolling, next, refused = ClassImmediate, ClassRolling, ClassAtNextAssess, ClassRefused
	var (
		// Where images are pulled and nodes are picked.
		images  = states(fsm.KernelModule, fsm.Controller, fsm.Satellites, fsm.VolumeDriver)
		members = states(fsm.KernelModule, fsm.Satellites, fsm.NodeRegistration, fsm.StoragePools)
		// LINSTOR shows after the registration only that it can use the module.
		module     = states(fsm.KernelModule, fsm.NodeRegistration)
		nodes      = states(fsm.NodeRegistration)
		satellites = states(fsm.Satellites)
		pools      = states(fsm.StoragePools)
		controller = states(fsm.Controller)
		// The database is reached by the controller as well.
		database = states(fsm.Database, fsm.Controller)
	)
	fields := []Field{
		{"version", rolling, states(fsm.Database, fsm.Controller, fsm.Satellites),
			"LINSTOR is upgraded; a downgrade or an unknown version is refused"},
		{"images.registry", rolling, images,
			"pods are restarted with images from there; members of etcd are not, and take them with their next restart"},
		{"images.pullSecrets[]", rolling, images, "pods are restarted with these Secrets"},
		{"suspend", atOnce, nil, "every change stops, or goes on where it stopped"},
		{"nodes.nodeSelector", next, members, "nodes join, or leave as removalPolicy says"},
		{"nodes.nodeAffinity.nodeSelectorTerms[]", next, members, "nodes join, or leave as removalPolicy says"},
		{"nodes.tolerations[]", rolling, append(slices.Clone(members), fsm.Controller),
			"nodes join, or leave as removalPolicy says; the controller is restarted"},
		{"nodes.network.mode", rolling, states(fsm.Satellites, fsm.NodeRegistration),
			"Pod to Host restarts the satellites; Host to Pod is refused"},
		{"nodes.satellite.resources.limits", rolling, satellites, "the satellites are restarted, a few at a time"},
		{"nodes.satellite.resources.requests", rolling, satellites, "the satellites are restarted, a few at a time"},
		{"nodes.interfaces[].name", next, nodes, "an interface is added to the nodes, or removed from them"},
		{"nodes.interfaces[].addressFrom.nodeAnnotation", next, nodes, "the interface gets other addresses"},
		{"nodes.interfaces[].addressFrom.addressType", next, nodes, "the interface gets other addresses"},
		{"nodes.interfaces[].preferred", next, nodes, "DRBD's connections move to the preferred interface"},
		{"nodes.properties", next, nodes, "properties of all nodes are set or removed in LINSTOR"},
		{"nodes.minReady", atOnce, nil, "fewer or more nodes are enough to go on"},
		{"nodes.removalPolicy", atOnce, nil, "nodes that leave are treated in the new way"},
		{"nodes.maxConcurrentEvacuations", atOnce, nil, "more or fewer evacuations are begun; what has begun goes on"},
		{"nodes.lostAfter", atOnce, nil, "deleted nodes are declared lost sooner, later or never"},
		{"userNamespaces", rolling, states(fsm.Controller, fsm.VolumeDriver),
			"the controller, the CSI driver's controller and the affinity controller are restarted"},
		{"platform", rolling, states(fsm.KernelModule, fsm.Satellites),
			"module loaders and satellites are made for the platform"},
		{"kernelModule.mode", rolling, module,
			"module loaders are replaced; a module that is loaded stays until the node is rebooted"},
		{"kernelModule.signingKeySecret", rolling, module,
			"module loaders are replaced; a module that is loaded stays until the node is rebooted"},
		{"controller.properties", next, controller, "properties of the cluster are set or removed in LINSTOR"},
		{"controller.passphraseSecret", rolling, controller, "the controller is restarted; another passphrase is a hold"},
		{"controller.resources.limits", rolling, controller, "the controller is restarted"},
		{"controller.resources.requests", rolling, controller, "the controller is restarted"},
		{"deletionPolicy", atOnce, nil, "a deletion goes by it, also one that has begun"},
	}
	fields = slices.Concat(fields, databaseFields(database), monitoringFields(), backupFields(), volumeFields(),
		tlsFields(), poolFields(pools))
	for _, kind := range []string{"postgresql", "mariadb"} {
		at := "database." + kind + "."
		fields = append(fields,
			Field{at + "host", refused, database, "the answer `migrate` first, which moves LINSTOR's data there"},
			Field{at + "port", refused, database, "the answer `migrate` first, which moves LINSTOR's data there"},
			Field{at + "database", refused, nil, "CEL refuses it: another database holds another state"},
			Field{at + "credentialsSecret", rolling, database, "the controller is restarted"},
			Field{at + "sslMode", rolling, database, "the controller is restarted"},
		)
	}
	for _, backing := range []string{"lvm.volumeGroup", "lvmThin.volumeGroup", "lvmThin.thinPool", "zfs.zpool",
		"zfsThin.zpool", "file.directory", "fileThin.directory"} {
		fields = append(fields, Field{"storagePools[]." + backing, refused, pools,
			"CEL refuses it, because volumes live there: add an entry with another name"})
	}
	return fields
}

// poolFields are those about storage pools, but for what they are made of.
func poolFields(pools []fsm.State) []Field {
	const atOnce, next, refused = ClassImmediate, ClassAtNextAssess, ClassRefused
	const moves = "nodes get the pool; where it is not wanted any more it is removed from LINSTOR once it is empty"
	return []Field{
		{"storagePools[].name", next, pools, "an entry more is a new pool; the pool of an entry less is removed from " +
			"LINSTOR once it is empty"},
		{"storagePools[].pool", refused, nil, "CEL refuses it: LINSTOR cannot rename a pool"},
		{"storagePools[].nodeSelector", next, pools, moves},
		{"storagePools[].nodeAffinity.nodeSelectorTerms[]", next, pools, moves},
		{"storagePools[].devices.match[]", next, pools,
			"nodes without the pool are searched for other disks; a pool that is there stays as it is"},
		{"storagePools[].devices.optional", next, pools, "nodes without such a disk are fine, or not any more"},
		{"storagePools[].devices.approval", next, pools,
			"Manual asks before disks are used from now on; Auto ends such a question"},
		{"storagePools[].warnUsedPercent", atOnce, nil, "PoolsNearlyFull is evaluated again"},
		{"storagePools[].properties", next, pools, "properties of the pool are set or removed in LINSTOR"},
	}
}

// databaseFields are those about Kubernetes and etcd as LINSTOR's database, on which these phases work.
func databaseFields(database []fsm.State) []Field {
	return []Field{
		{"database.kubernetes", ClassAtNextAssess, database,
			"nothing: it is what is used when no other is given; in place of another database: the answer `migrate` first"},
		{"database.etcd.endpoints[]", ClassRolling, database,
			"the controller is restarted; they must be the same etcd; in place of another database: `migrate` first"},
		{"database.etcd.credentialsSecret", ClassRolling, database, "the controller is restarted"},
		{"database.managedEtcd.replicas", ClassAtNextAssess, database,
			"members are added or removed, one after the other, and the controller is restarted"},
		{"database.managedEtcd.version", ClassRolling, database, "members are restarted, one after the other"},
		{"database.managedEtcd.dataPath", ClassRefused, nil,
			"CEL refuses it, or a hold where managedEtcd was taken out before: the members' data is there"},
	}
}

// monitoringFields are those about Prometheus Operator, for which nothing waits.
func monitoringFields() []Field {
	return []Field{
		{"monitoring.mode", ClassImmediate, nil, "objects for Prometheus Operator are made, or removed"},
		{"monitoring.labels", ClassImmediate, nil, "these objects get other labels"},
		{"monitoring.interval", ClassImmediate, nil, "Prometheus scrapes more or less often"},
	}
}

// backupFields are those about backups of LINSTOR's database, for which nothing waits.
func backupFields() []Field {
	const moves = "backups go there from now on, the one that is being taken included"
	return []Field{
		{"backup.s3.endpoint", ClassImmediate, nil, moves},
		{"backup.s3.region", ClassImmediate, nil, moves},
		{"backup.s3.bucket", ClassImmediate, nil, moves},
		{"backup.s3.prefix", ClassImmediate, nil, moves},
		{"backup.s3.credentialsSecret", ClassImmediate, nil, "backups are taken with these credentials from now on"},
		{"backup.claim.name", ClassImmediate, nil, moves},
		{"backup.claim.prefix", ClassImmediate, nil, moves},
		{"backup.schedule", ClassImmediate, nil, "backups are taken at other times; the next one counts from the last one"},
		{"backup.timeZone", ClassImmediate, nil, "backups are taken at other times; the next one counts from the last one"},
		{"backup.keep", ClassImmediate, nil, "more or fewer backups stay after the next one was taken"},
		{"backup.verify", ClassImmediate, nil, "the next backup must pass it"},
	}
}

// volumeFields are those about the CSI driver and its StorageClasses.
func volumeFields() []Field {
	driver, classes := states(fsm.VolumeDriver), states(fsm.VolumeDriver, fsm.Canary)
	fields := []Field{
		{"volumes.drainGuard", ClassImmediate, nil, "nodes are guarded against being drained at the wrong time, or not " +
			"any more"},
		{"volumes.shutdownGuard", ClassRolling, states(fsm.Satellites),
			"satellites are restarted, with the guard or without it"},
		{"volumes.canary", ClassAtNextAssess, states(fsm.Canary),
			"volumes are tried from now on, or not any more; what is left of a try goes"},
		{"volumes.highAvailability", ClassAtNextAssess, nil,
			"the high-availability controller is started where it helps, or removed"},
		{"volumes.affinityController", ClassAtNextAssess, nil,
			"the affinity controller is started where it helps, or removed"},
		{"volumes.driver.mode", ClassAtNextAssess, classes,
			"the CSI driver is started, or removed once no PersistentVolume needs it"},
		{"volumes.driver.kubeletDirectory", ClassRolling, driver, "the CSI driver's pods on the nodes are restarted"},
		{"volumes.topologyKeys[]", ClassRolling, states(fsm.NodeRegistration, fsm.VolumeDriver),
			"nodes get the labels as properties in LINSTOR; the CSI driver's pods on the nodes are restarted"},
		{"volumes.storageClasses[].name", ClassAtNextAssess, classes, "an entry more is a new StorageClass; that of an " +
			"entry less goes once no PersistentVolume is of it"},
		{"volumes.storageClasses[].default", ClassAtNextAssess, classes, "the StorageClass becomes the default, unless " +
			"another one is, or is it no longer"},
		{"volumes.storageClasses[].allowVolumeExpansion", ClassAtNextAssess, classes, "claims may grow, or not any more"},
		{"volumes.storageClasses[].mountOptions[]", ClassAtNextAssess, classes, "new volumes are mounted with them"},
	}
	fields = append(fields, snapshotFields(driver)...)
	for _, fixed := range []string{"storagePools[]", "replicas", "remoteAccess", "fsType", "reclaimPolicy",
		"volumeBindingMode", "parameters"} {
		fields = append(fields, Field{"volumes.storageClasses[]." + fixed, ClassRefused, driver,
			"CEL refuses it, as Kubernetes does: add an entry with another name"})
	}
	return fields
}

// snapshotFields are those about snapshots. The link waits for none of what they say but the pods.
func snapshotFields(driver []fsm.State) []Field {
	return []Field{
		{"volumes.snapshots.mode", ClassRolling, driver, "the CSI driver's controller is restarted with csi-snapshotter, " +
			"or without it once there are no snapshots"},
		{"volumes.snapshots.className", ClassAtNextAssess, nil, "a VolumeSnapshotClass of that name is made; that of " +
			"before goes once no snapshot is of it"},
		{"volumes.snapshots.default", ClassAtNextAssess, nil, "the VolumeSnapshotClass becomes the driver's default, " +
			"unless another one is, or is it no longer"},
		{"volumes.snapshots.deletionPolicy", ClassAtNextAssess, nil, "snapshots that are taken from now on are kept in " +
			"LINSTOR when they are deleted, or are not"},
	}
}

// Working reports whether the phase is one of the chain's: work has begun that can be finished.
func Working(s *cluster.Facts) bool { return slices.Contains(fsm.Chain(), fsm.State(s.Phase())) }

// Diff lists the paths of the fields that differ, sorted; a path is as in Fields.
func Diff(a, b *v1alpha1.StorageClusterSpec) []string {
	var changed []string
	walkSpec("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), func(at string, a, b reflect.Value) {
		if !equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
			changed = append(changed, classPath(at))
		}
	})
	slices.Sort(changed)
	return slices.Compact(changed)
}

// specTypes is the package whose types, and those of the packages below it, are looked into; types of others are
// single fields.
var specTypes = reflect.TypeFor[v1alpha1.StorageClusterSpec]().PkgPath()

func ofSpec(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && (t.PkgPath() == specTypes || strings.HasPrefix(t.PkgPath(), specTypes+"/"))
}

// walkSpec visits every field of two values of one type side by side. A pointer that is nil is looked at as if it
// pointed to an empty value, and an entry that one list lacks as an empty entry. Entries are named in the path:
// storagePools[ssd].properties.
func walkSpec(path string, a, b reflect.Value, visit func(at string, a, b reflect.Value)) {
	t := a.Type()
	switch {
	case t.Kind() == reflect.Pointer && isSection(t.Elem()):
		walkSpec(path, pointee(a), pointee(b), visit)
	case t.Kind() == reflect.Slice && isKeyed(t.Elem()):
		for _, name := range append(keysOf(a), keysOf(b)...) {
			walkSpec(path+"["+name+"]", entry(a, name), entry(b, name), visit)
		}
	case t.Kind() == reflect.Slice:
		visit(path+"[]", a, b)
	case isSection(t):
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			walkSpec(strings.TrimPrefix(path+"."+name, "."), a.Field(i), b.Field(i), visit)
		}
	default:
		visit(path, a, b)
	}
}

// isSection reports whether a type has fields of its own to be looked at.
func isSection(t reflect.Type) bool {
	return ofSpec(t) && t.NumField() > 0
}

func isKeyed(t reflect.Type) bool {
	f, ok := reflect.StructField{}, false
	if ofSpec(t) {
		f, ok = t.FieldByName("Name")
	}
	return ok && f.Tag.Get("json") == "name"
}

func pointee(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

func keysOf(list reflect.Value) []string {
	var out []string
	for i := range list.Len() {
		out = append(out, list.Index(i).FieldByName("Name").String())
	}
	return out
}

func entry(list reflect.Value, name string) reflect.Value {
	for i := range list.Len() {
		if e := list.Index(i); e.FieldByName("Name").String() == name {
			return e
		}
	}
	return reflect.Zero(list.Type().Elem())
}
