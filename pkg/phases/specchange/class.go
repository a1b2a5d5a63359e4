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
	const signed = "the new CA is first trusted everywhere, then used to sign the certificates; each step restarts "
	return []Field{
		{"tls.mode", ClassRolling, states(fsm.Controller, fsm.Satellites, fsm.VolumeDriver),
			"certificates are issued, or removed at the end; the controller restarts, followed by LINSTOR clients and " +
				"the satellites"},
		{"tls.authorities.apiSecret", ClassRolling, states(fsm.Controller, fsm.VolumeDriver),
			signed + "the controller and LINSTOR clients"},
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
			"LINSTOR is upgraded; downgrades and unknown versions are rejected"},
		{"images.registry", rolling, images,
			"pods restart with images from the new registry; etcd members do not restart, but use the new images after " +
				"their next restart"},
		{"images.pullSecrets[]", rolling, images, "pods restart and use the new Secrets"},
		{"suspend", atOnce, nil, "all changes stop, or resume where they stopped"},
		{"nodes.nodeSelector", next, members, "nodes join, or leave according to removalPolicy"},
		{"nodes.nodeAffinity.nodeSelectorTerms[]", next, members, "nodes join, or leave according to removalPolicy"},
		{"nodes.tolerations[]", rolling, append(slices.Clone(members), fsm.Controller),
			"nodes join, or leave according to removalPolicy; the controller restarts"},
		{"nodes.network.mode", rolling, states(fsm.Satellites, fsm.NodeRegistration),
			"a change from Pod to Host restarts the satellites; a change from Host to Pod is rejected"},
		{"nodes.satellite.resources.limits", rolling, satellites, "the satellites restart, a few at a time"},
		{"nodes.satellite.resources.requests", rolling, satellites, "the satellites restart, a few at a time"},
		{"nodes.interfaces[].name", next, nodes, "an interface is added to the nodes or removed from them"},
		{"nodes.interfaces[].addressFrom.nodeAnnotation", next, nodes, "the interface's addresses change"},
		{"nodes.interfaces[].addressFrom.addressType", next, nodes, "the interface's addresses change"},
		{"nodes.interfaces[].preferred", next, nodes, "DRBD connections move to the preferred interface"},
		{"nodes.properties", next, nodes, "node properties are set or removed in LINSTOR"},
		{"nodes.minReady", atOnce, nil, "the operator requires more or fewer ready nodes to continue"},
		{"nodes.removalPolicy", atOnce, nil, "the new policy applies to nodes that are being removed"},
		{"nodes.maxConcurrentEvacuations", atOnce, nil,
			"more or fewer evacuations run at the same time; evacuations in progress continue"},
		{"nodes.lostAfter", atOnce, nil, "deleted nodes are declared lost sooner, later or never"},
		{"userNamespaces", rolling, states(fsm.Controller, fsm.VolumeDriver),
			"the controller, the CSI driver's controller and the affinity controller restart"},
		{"platform", rolling, states(fsm.KernelModule, fsm.Satellites),
			"module loaders and satellites restart with the platform's settings"},
		{"kernelModule.mode", rolling, module,
			"module loaders are replaced; a loaded module stays loaded until the node reboots"},
		{"kernelModule.signingKeySecret", rolling, module,
			"module loaders are replaced; a loaded module stays loaded until the node reboots"},
		{"controller.properties", next, controller, "cluster properties are set or removed in LINSTOR"},
		{"controller.passphraseSecret", rolling, controller,
			"the controller restarts; a different passphrase opens a hold"},
		{"controller.resources.limits", rolling, controller, "the controller restarts"},
		{"controller.resources.requests", rolling, controller, "the controller restarts"},
		{"deletionPolicy", atOnce, nil, "applies to every deletion, including one in progress"},
	}
	fields = slices.Concat(fields, databaseFields(database), monitoringFields(), backupFields(), volumeFields(),
		tlsFields(), poolFields(pools))
	for _, kind := range []string{"postgresql", "mariadb"} {
		at := "database." + kind + "."
		fields = append(fields,
			Field{at + "host", refused, database, "requires the `migrate` option first, which moves LINSTOR's data there"},
			Field{at + "port", refused, database, "requires the `migrate` option first, which moves LINSTOR's data there"},
			Field{at + "database", refused, nil, "rejected by CEL: another database contains different data"},
			Field{at + "credentialsSecret", rolling, database, "the controller restarts"},
			Field{at + "sslMode", rolling, database, "the controller restarts"},
		)
	}
	for _, backing := range []string{"lvm.volumeGroup", "lvmThin.volumeGroup", "lvmThin.thinPool", "zfs.zpool",
		"zfsThin.zpool", "file.directory", "fileThin.directory"} {
		fields = append(fields, Field{"storagePools[]." + backing, refused, pools,
			"rejected by CEL, because volumes are stored there: add an entry with a different name"})
	}
	return fields
}

// poolFields are those about storage pools, but for what they are made of.
func poolFields(pools []fsm.State) []Field {
	const atOnce, next, refused = ClassImmediate, ClassAtNextAssess, ClassRefused
	const moves = "selected nodes get the pool; on nodes that are no longer selected, it is removed from LINSTOR once " +
		"it is empty"
	return []Field{
		{"storagePools[].name", next, pools,
			"a new entry creates a pool; the pool of a removed entry is removed from LINSTOR once it is empty"},
		{"storagePools[].pool", refused, nil, "rejected by CEL: LINSTOR cannot rename a pool"},
		{"storagePools[].nodeSelector", next, pools, moves},
		{"storagePools[].nodeAffinity.nodeSelectorTerms[]", next, pools, moves},
		{"storagePools[].devices.match[]", next, pools,
			"the new rules select the disks on nodes without the pool; existing pools do not change"},
		{"storagePools[].devices.optional", next, pools, "nodes without such a disk are accepted, or no longer accepted"},
		{"storagePools[].devices.approval", next, pools,
			"Manual requires approval before additional disks are used; Auto resolves such a hold"},
		{"storagePools[].warnUsedPercent", atOnce, nil, "PoolsNearlyFull is evaluated again"},
		{"storagePools[].properties", next, pools, "pool properties are set or removed in LINSTOR"},
	}
}

// databaseFields are those about Kubernetes and etcd as LINSTOR's database, on which these phases work.
func databaseFields(database []fsm.State) []Field {
	return []Field{
		{"database.kubernetes", ClassAtNextAssess, database,
			"none: this is the default database; moving from another database requires the `migrate` option first"},
		{"database.etcd.endpoints[]", ClassRolling, database,
			"the controller restarts; the new endpoints must belong to the same etcd cluster, because LINSTOR's data " +
				"cannot be moved to etcd"},
		{"database.etcd.credentialsSecret", ClassRolling, database, "the controller restarts"},
		{"database.managedEtcd.replicas", ClassAtNextAssess, database,
			"members are added or removed one at a time, and the controller restarts"},
		{"database.managedEtcd.version", ClassRolling, database, "members restart one at a time"},
		{"database.managedEtcd.dataPath", ClassRefused, nil,
			"rejected by CEL, or by a hold if managedEtcd was removed before: the members' data is in the old directory"},
	}
}

// monitoringFields are those about Prometheus Operator, for which nothing waits.
func monitoringFields() []Field {
	return []Field{
		{"monitoring.mode", ClassImmediate, nil, "objects for Prometheus Operator are created or removed"},
		{"monitoring.labels", ClassImmediate, nil, "the objects for Prometheus Operator get the new labels"},
		{"monitoring.interval", ClassImmediate, nil, "Prometheus scrapes more or less often"},
	}
}

// backupFields are those about backups of LINSTOR's database, for which nothing waits.
func backupFields() []Field {
	const moves = "backups are stored in the new location from now on, including one in progress"
	return []Field{
		{"backup.s3.endpoint", ClassImmediate, nil, moves},
		{"backup.s3.region", ClassImmediate, nil, moves},
		{"backup.s3.bucket", ClassImmediate, nil, moves},
		{"backup.s3.prefix", ClassImmediate, nil, moves},
		{"backup.s3.credentialsSecret", ClassImmediate, nil, "backups use these credentials from now on"},
		{"backup.claim.name", ClassImmediate, nil, moves},
		{"backup.claim.prefix", ClassImmediate, nil, moves},
		{"backup.schedule", ClassImmediate, nil,
			"backups are taken at different times; the next time is computed from the last backup"},
		{"backup.timeZone", ClassImmediate, nil,
			"backups are taken at different times; the next time is computed from the last backup"},
		{"backup.keep", ClassImmediate, nil, "more or fewer old backups are kept once the next backup has been taken"},
		{"backup.verify", ClassImmediate, nil, "the next backup must pass this check"},
	}
}

// volumeFields are those about the CSI driver and its StorageClasses.
func volumeFields() []Field {
	driver, classes := states(fsm.VolumeDriver), states(fsm.VolumeDriver, fsm.Canary)
	fields := []Field{
		{"volumes.drainGuard", ClassImmediate, nil, "nodes are protected against unsafe drains, or no longer protected"},
		{"volumes.shutdownGuard", ClassRolling, states(fsm.Satellites),
			"the satellites restart with or without the guard"},
		{"volumes.canary", ClassAtNextAssess, states(fsm.Canary),
			"test volumes are provisioned from now on, or no longer provisioned; the remains of earlier tests are removed"},
		{"volumes.highAvailability", ClassAtNextAssess, nil,
			"the high-availability controller is started if it is needed, or removed"},
		{"volumes.affinityController", ClassAtNextAssess, nil,
			"the affinity controller is started if it is needed, or removed"},
		{"volumes.driver.mode", ClassAtNextAssess, classes,
			"the CSI driver is started, or removed once no PersistentVolume needs it"},
		{"volumes.driver.kubeletDirectory", ClassRolling, driver, "the CSI driver's pods on the nodes restart"},
		{"volumes.topologyKeys[]", ClassRolling, states(fsm.NodeRegistration, fsm.VolumeDriver),
			"the labels are set as node properties in LINSTOR; the CSI driver's pods on the nodes restart"},
		{"volumes.storageClasses[].name", ClassAtNextAssess, classes,
			"a new entry creates a StorageClass; the StorageClass of a removed entry is removed once no PersistentVolume " +
				"uses it"},
		{"volumes.storageClasses[].default", ClassAtNextAssess, classes,
			"the StorageClass becomes the default unless another one is, or stops being the default"},
		{"volumes.storageClasses[].allowVolumeExpansion", ClassAtNextAssess, classes,
			"claims can be expanded, or can no longer be expanded"},
		{"volumes.storageClasses[].mountOptions[]", ClassAtNextAssess, classes,
			"new volumes are mounted with these options"},
	}
	fields = append(fields, snapshotFields(driver)...)
	for _, fixed := range []string{"storagePools[]", "replicas", "remoteAccess", "fsType", "reclaimPolicy",
		"volumeBindingMode", "parameters"} {
		fields = append(fields, Field{"volumes.storageClasses[]." + fixed, ClassRefused, driver,
			"rejected by CEL, because Kubernetes does not allow it either: add an entry with a different name"})
	}
	return fields
}

// snapshotFields are those about snapshots. The link waits for none of what they say but the pods.
func snapshotFields(driver []fsm.State) []Field {
	return []Field{
		{"volumes.snapshots.mode", ClassRolling, driver,
			"the CSI driver's controller restarts with csi-snapshotter, or without it once no snapshots exist"},
		{"volumes.snapshots.className", ClassAtNextAssess, nil,
			"a VolumeSnapshotClass with the new name is created; the previous one is removed once no snapshot uses it"},
		{"volumes.snapshots.default", ClassAtNextAssess, nil,
			"the VolumeSnapshotClass becomes the driver's default unless another one is, or stops being the default"},
		{"volumes.snapshots.deletionPolicy", ClassAtNextAssess, nil,
			"new snapshots are kept in LINSTOR, or deleted there, when their VolumeSnapshot is deleted"},
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
