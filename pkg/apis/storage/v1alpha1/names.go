package v1alpha1

// Names that are part of the API.
const (
	// ClusterName is the only name that a StorageCluster can have: LINSTOR's Kubernetes database is cluster-scoped and
	// has no prefix, so two LINSTOR installations in the same Kubernetes cluster would write to each other's tables.
	ClusterName = "linstor"
	// Prefix is the prefix of every annotation, label and finalizer of the operator.
	Prefix = "storage.linstor.dev/"
	// Finalizer keeps a StorageCluster object until the Deleting phase has completed.
	Finalizer = Prefix + "storagecluster"
	// LabelMember marks the Nodes of the cluster; its value is the name of the StorageCluster. DaemonSets select nodes
	// only by the operator's own labels.
	LabelMember = Prefix + "member"
	// LabelOS names the module loader for the operating system of the Node. Its value is the key in the catalogue,
	// followed by a dot and the platform if that platform has different loaders, or none if no loader runs on the Node.
	LabelOS = Prefix + "os"
	// LabelCluster marks every object that the operator owns; its value is the name of the StorageCluster.
	LabelCluster = Prefix + "cluster"
	// LabelComponent names the component of an owned object; see the Component constants.
	LabelComponent = Prefix + "component"
	// AnnotationResume ends a hold: "<hold id>:<option>" or "<hold id>:<option>@node1,node2".
	AnnotationResume = Prefix + "resume"
	// AnnotationMaintenance on a Node, with any value except "false", announces planned downtime. The node gets no new
	// replicas, is not evicted and raises no alarm, and the operator takes no destructive steps on it. Removing the
	// annotation ends the maintenance.
	AnnotationMaintenance = Prefix + "maintenance"
	// AnnotationCanary on the StorageCluster requests another volume test. Each value is acted on only once.
	AnnotationCanary = Prefix + "canary"
	// AnnotationBackup on the StorageCluster requests a backup of LINSTOR's database with that name.
	AnnotationBackup = Prefix + "backup"
	// AnnotationCompareBackup on the StorageCluster names a backup to compare with the volumes on the nodes.
	AnnotationCompareBackup = Prefix + "compare-backup"
	// AnnotationRestore on the StorageCluster names a backup to restore. The operator stops LINSTOR, and overwrites its
	// database only after approval.
	AnnotationRestore = Prefix + "restore"
	// LabelPlatform names the platform profile of a Node, in lower case. The DaemonSets of the satellites select nodes by
	// it.
	LabelPlatform = Prefix + "platform"
	// OperatorNamespace is the namespace of the operator itself (Pod Security level restricted).
	OperatorNamespace = "linstor-operator"
	// WorkloadNamespace is the namespace of the controller, satellites and module loaders (Pod Security level
	// privileged).
	WorkloadNamespace = "linstor-storage"
)

// Values of LabelComponent.
const (
	ComponentController   = "controller"
	ComponentSatellite    = "satellite"
	ComponentModuleLoader = "module-loader"
	ComponentClaim        = "claim"
	ComponentRevision     = "revision"
	// ComponentDriver is the controller of the CSI driver, and ComponentDriverNode is its node plugin.
	ComponentDriver     = "csi-controller"
	ComponentDriverNode = "csi-node"
	// ComponentStorageClass is a StorageClass of the CSI driver.
	ComponentStorageClass = "storage-class"
	// ComponentSnapshotClass is the VolumeSnapshotClass of the CSI driver.
	ComponentSnapshotClass = "volume-snapshot-class"
	// ComponentCanary is a test claim and its pod.
	ComponentCanary = "canary"
	// ComponentHighAvailability is the high-availability controller, which runs on each node.
	ComponentHighAvailability = "high-availability"
	// ComponentAffinity is the affinity controller.
	ComponentAffinity = "affinity"
	// ComponentDrainGuard is a pod that protects its node from drains, or the PodDisruptionBudget of these pods.
	ComponentDrainGuard = "drain-guard"
	// ComponentBackup is the pod that takes a backup of LINSTOR's database.
	ComponentBackup = "backup"
	// ComponentListing lists the volumes on each node, and ComponentComparison is the pod that compares a backup with
	// them.
	ComponentListing    = "volume-listing"
	ComponentComparison = "backup-comparison"
	// ComponentRestore is the pod that imports a backup into LINSTOR's database.
	ComponentRestore = "database-restore"
)
