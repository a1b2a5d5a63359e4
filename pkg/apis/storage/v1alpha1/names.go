package v1alpha1

// Names that are part of the user's contract.
const (
	// ClusterName is the only name that a StorageCluster can have: LINSTOR's Kubernetes database is cluster-scoped and
	// has no prefix, so that two LINSTOR installations in one Kubernetes cluster would write into each other's tables.
	ClusterName = "linstor"
	// Prefix begins every annotation, label and finalizer of the operator.
	Prefix = "storage.linstor.dev/"
	// Finalizer keeps a StorageCluster until the Deleting phase is through.
	Finalizer = Prefix + "storagecluster"
	// LabelMember marks the Nodes that take part; its value is the StorageCluster's name. DaemonSets select on the
	// operator's own labels alone.
	LabelMember = Prefix + "member"
	// LabelOS names the module loader that fits the Node's operating system; its value is the catalogue's key, followed
	// by a dot and the platform where that platform's loaders differ from others', or none where no loader runs.
	LabelOS = Prefix + "os"
	// LabelCluster marks every object that the operator owns; its value is the StorageCluster's name.
	LabelCluster = Prefix + "cluster"
	// LabelComponent names the component of an owned object: see the Component constants.
	LabelComponent = Prefix + "component"
	// AnnotationResume ends a hold: "<hold id>:<option>" or "<hold id>:<option>@node1,node2".
	AnnotationResume = Prefix + "resume"
	// AnnotationMaintenance on a Node, with any value but "false", announces that the node will be down on purpose: it
	// gets no new copies, is not evicted, raises no alarm, and nothing destructive is done about it. Removing it ends the
	// maintenance.
	AnnotationMaintenance = Prefix + "maintenance"
	// AnnotationCanary on the StorageCluster asks for volumes to be tried anew, once for each value that it is given.
	AnnotationCanary = Prefix + "canary"
	// AnnotationBackup on the StorageCluster asks for a backup of LINSTOR's database with that name, once.
	AnnotationBackup = Prefix + "backup"
	// AnnotationCompareBackup on the StorageCluster names a backup that is to be compared with what lies on the nodes.
	AnnotationCompareBackup = Prefix + "compare-backup"
	// AnnotationRestore on the StorageCluster names a backup that LINSTOR's database is to be replaced by. LINSTOR is
	// stopped for it, and a human is asked before anything is replaced.
	AnnotationRestore = Prefix + "restore"
	// LabelPlatform names the platform profile of a Node, in lower case; its satellite's DaemonSet selects on it.
	LabelPlatform = Prefix + "platform"
	// OperatorNamespace is where the operator itself runs (Pod Security level restricted).
	OperatorNamespace = "linstor-operator"
	// WorkloadNamespace is where controller, satellites and module loaders run (Pod Security level privileged).
	WorkloadNamespace = "linstor-storage"
)

// Values of LabelComponent.
const (
	ComponentController   = "controller"
	ComponentSatellite    = "satellite"
	ComponentModuleLoader = "module-loader"
	ComponentClaim        = "claim"
	ComponentRevision     = "revision"
	// ComponentDriver is the CSI driver's controller, ComponentDriverNode its part on each node.
	ComponentDriver     = "csi-controller"
	ComponentDriverNode = "csi-node"
	// ComponentStorageClass is a StorageClass of the driver.
	ComponentStorageClass = "storage-class"
	// ComponentSnapshotClass is the VolumeSnapshotClass of the driver.
	ComponentSnapshotClass = "volume-snapshot-class"
	// ComponentCanary is a claim that is tried, and its pod.
	ComponentCanary = "canary"
	// ComponentHighAvailability is the high-availability controller's part on each node.
	ComponentHighAvailability = "high-availability"
	// ComponentAffinity is the affinity controller.
	ComponentAffinity = "affinity"
	// ComponentDrainGuard is a pod that keeps a node from being drained, and the PodDisruptionBudget of all of them.
	ComponentDrainGuard = "drain-guard"
	// ComponentBackup is the pod that takes a backup of LINSTOR's database.
	ComponentBackup = "backup"
	// ComponentListing lists what lies on each node, and ComponentComparison is the pod that compares a backup with it.
	ComponentListing    = "volume-listing"
	ComponentComparison = "backup-comparison"
	// ComponentRestore is the pod that imports a backup into LINSTOR's database.
	ComponentRestore = "database-restore"
)
