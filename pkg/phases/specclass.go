package phases

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// SpecClass says what becomes of a change of a field of the spec.
type SpecClass string

// Classes of spec fields.
const (
	// ClassImmediate holds at once, in every phase: nothing that runs or is stored depends on it.
	ClassImmediate SpecClass = "Immediate"
	// ClassRolling changes pods, which are restarted by their own rules.
	ClassRolling SpecClass = "Rolling"
	// ClassAtNextAssess is taken up when the work in progress is done, at once if there is none.
	ClassAtNextAssess SpecClass = "AtNextAssess"
	// ClassPreempt leaves the phase at once, because it may put right what the phase works on. No field is of this class
	// alone: see SpecField.In.
	ClassPreempt SpecClass = "Preempt"
	// ClassRefused cannot be done to a cluster that exists. CEL refuses it where it can see it, a hold otherwise.
	ClassRefused SpecClass = "Refused"
)

// SpecField is what is known of one field of the spec.
type SpecField struct {
	// Path is the field's path in the manifest; elements of lists with keys are "[]", other lists are one field.
	Path  string
	Class SpecClass
	// Fixes are the states in which a change leaves the work in progress at once, since the field has a part in it.
	Fixes []fsm.State
	// Effect says in a few words what a change does.
	Effect string
}

// In is the class of a change in a state.
func (f *SpecField) In(s fsm.State) SpecClass {
	if slices.Contains(f.Fixes, s) {
		return ClassPreempt
	}
	return f.Class
}

func states(s ...fsm.State) []fsm.State { return s }

// SpecFields classifies every field of the spec. It is the only truth: what a ControllerRevision keeps, what interrupts the
// work in progress, and the table in docs/changing-the-spec.md follow from it.
func SpecFields() []SpecField {
	var (
		// Where images are pulled and nodes are picked.
		images  = states(fsm.KernelModule, fsm.Controller, fsm.Satellites)
		members = states(fsm.KernelModule, fsm.Satellites, fsm.NodeRegistration, fsm.StoragePools)
		// LINSTOR tells after the registration only whether it can use the module.
		module     = states(fsm.KernelModule, fsm.NodeRegistration)
		nodes      = states(fsm.NodeRegistration)
		pools      = states(fsm.StoragePools)
		controller = states(fsm.Controller)
		// The database is reached by the controller as well.
		database = states(fsm.Database, fsm.Controller)
	)
	fields := []SpecField{
		{"version", ClassRolling, states(fsm.Database, fsm.Controller, fsm.Satellites), "LINSTOR is upgraded; a downgrade or an unknown version is refused"},
		{"images.registry", ClassRolling, images, "pods are restarted with images from there"},
		{"images.pullSecrets[]", ClassRolling, images, "pods are restarted with these Secrets"},
		{"suspend", ClassImmediate, nil, "every change stops, or goes on where it stopped"},
		{"nodes.nodeSelector", ClassAtNextAssess, members, "nodes join, or leave as removalPolicy says"},
		{"nodes.tolerations[]", ClassRolling, append(slices.Clone(members), fsm.Controller), "nodes join, or leave as removalPolicy says; the controller is restarted"},
		{"nodes.network.mode", ClassRolling, states(fsm.Satellites, fsm.NodeRegistration), "Pod to Host restarts the satellites; Host to Pod is refused"},
		{"nodes.interfaces[].name", ClassAtNextAssess, nodes, "an interface is added to the nodes, or removed from them"},
		{"nodes.interfaces[].addressFrom.nodeAnnotation", ClassAtNextAssess, nodes, "the interface gets other addresses"},
		{"nodes.interfaces[].addressFrom.addressType", ClassAtNextAssess, nodes, "the interface gets other addresses"},
		{"nodes.interfaces[].preferred", ClassAtNextAssess, nodes, "DRBD's connections move to the preferred interface"},
		{"nodes.properties", ClassAtNextAssess, nodes, "properties of all nodes are set or removed in LINSTOR"},
		{"nodes.minReady", ClassImmediate, nil, "fewer or more nodes are enough to go on"},
		{"nodes.removalPolicy", ClassImmediate, nil, "nodes that leave are treated in the new way"},
		{"nodes.maxConcurrentEvacuations", ClassImmediate, nil, "more or fewer evacuations are begun; what has begun goes on"},
		{"nodes.lostAfter", ClassImmediate, nil, "deleted nodes are declared lost sooner, later or never"},
		{"platform", ClassRolling, states(fsm.KernelModule, fsm.Satellites), "module loaders and satellites are made for the platform"},
		{"kernelModule.mode", ClassRolling, module, "module loaders are replaced; a module that is loaded stays until the node is rebooted"},
		{"kernelModule.signingKeySecret", ClassRolling, module, "module loaders are replaced; a module that is loaded stays until the node is rebooted"},
		{"controller.properties", ClassAtNextAssess, controller, "properties of the cluster are set or removed in LINSTOR"},
		{"controller.passphraseSecret", ClassRolling, controller, "the controller is restarted; another passphrase is a hold"},
		{"controller.resources.limits", ClassRolling, controller, "the controller is restarted"},
		{"controller.resources.requests", ClassRolling, controller, "the controller is restarted"},
		{"storagePools[].name", ClassAtNextAssess, pools, "an entry more is a new pool; the pool of an entry less is removed from LINSTOR once it is empty"},
		{"storagePools[].pool", ClassRefused, nil, "CEL refuses it: LINSTOR cannot rename a pool"},
		{"storagePools[].nodeSelector", ClassAtNextAssess, pools, "nodes get the pool; where it is not wanted any more it is removed from LINSTOR once it is empty"},
		{"storagePools[].devices.match[]", ClassAtNextAssess, pools, "nodes without the pool are searched for other disks; a pool that is there stays as it is"},
		{"storagePools[].devices.optional", ClassAtNextAssess, pools, "nodes without such a disk are fine, or not any more"},
		{"storagePools[].devices.approval", ClassAtNextAssess, pools, "Manual asks before disks are used from now on; Auto ends such a question"},
		{"storagePools[].warnUsedPercent", ClassImmediate, nil, "PoolsNearlyFull is judged anew"},
		{"storagePools[].properties", ClassAtNextAssess, pools, "properties of the pool are set or removed in LINSTOR"},
		{"deletionPolicy", ClassImmediate, nil, "a deletion goes by it, also one that has begun"},

		{"database.kubernetes", ClassAtNextAssess, database, "nothing: it is what is used when no other is given"},
		{"database.etcd.endpoints[]", ClassRolling, database, "the controller is restarted; they must be the same etcd"},
		{"database.etcd.credentialsSecret", ClassRolling, database, "the controller is restarted"},
	}
	for _, kind := range []string{"postgresql", "mariadb"} {
		at := "database." + kind + "."
		fields = append(fields,
			SpecField{at + "host", ClassRefused, database, "only before the database is claimed: another server may hold other data"},
			SpecField{at + "port", ClassRefused, database, "only before the database is claimed: another server may hold other data"},
			SpecField{at + "database", ClassRefused, nil, "CEL refuses it: another database holds another state"},
			SpecField{at + "credentialsSecret", ClassRolling, database, "the controller is restarted"},
			SpecField{at + "sslMode", ClassRolling, database, "the controller is restarted"},
		)
	}
	for _, backing := range []string{"lvm.volumeGroup", "lvmThin.volumeGroup", "lvmThin.thinPool", "zfs.zpool", "zfsThin.zpool", "file.directory", "fileThin.directory"} {
		fields = append(fields, SpecField{"storagePools[]." + backing, ClassRefused, pools,
			"CEL refuses it, because volumes live there: add an entry with another name"})
	}
	return fields
}

// holdAtOnce gives a spec the fields of class Immediate that another one has. A pool that the other one lacks gets the
// default.
func holdAtOnce(to, from *v1alpha1.StorageClusterSpec) {
	to.Suspend, to.DeletionPolicy = from.Suspend, from.DeletionPolicy
	to.Nodes.MinReady, to.Nodes.LostAfter = from.Nodes.MinReady, from.Nodes.LostAfter
	to.Nodes.RemovalPolicy, to.Nodes.MaxConcurrentEvacuations = from.Nodes.RemovalPolicy, from.Nodes.MaxConcurrentEvacuations
	for i := range to.StoragePools {
		p := &to.StoragePools[i]
		p.WarnUsedPercent = 0
		if j := slices.IndexFunc(from.StoragePools, func(o v1alpha1.StoragePoolSpec) bool { return o.Name == p.Name }); j >= 0 {
			p.WarnUsedPercent = from.StoragePools[j].WarnUsedPercent
		}
	}
}
