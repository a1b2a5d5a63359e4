package remembered

import (
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

// Item is one thing that is remembered.
type Item struct {
	// Key is its name where it is kept. One that ends in a dot is followed by a pool's entry or a property.
	Key string
	// Keeps says what is remembered, Writer which part of the operator may write it, and Ends when it goes.
	Keeps, Writer, Ends string
}

// Place is where things are remembered.
type Place struct {
	Name, Why string
	Items     []Item
}

// Places lists all that outlives the operator's process and that a decision reads, and what the process keeps itself.
func Places() []Place {
	return []Place{
		{"Properties of a LINSTOR node",
			"They are stored in LINSTOR's database together with the node, and are deleted with it.", nodeItems()},
		{"Properties of a LINSTOR storage pool", "They record which pools the operator is responsible for.", []Item{
			{Entry, "the entry in `spec.storagePools` that the pool belongs to", "pools", "when the pool is deleted"},
			{Worked, "that LINSTOR has been able to use the pool at least once", "pools",
				"when the pool is deleted, or when its registration fails"},
		}},
		{"The claim, ConfigMap `linstor-claim`", "It identifies the owner of the database, and outlives the StorageCluster.",
			claimItems()},
		{"ControllerRevisions", "Work in progress is finished with the spec that it was started with.", []Item{
			{"linstor-…", "an accepted spec", "specchange",
				"when the cluster is deleted with the Delete policy, or when ten newer ones exist"},
		}},
		{"Annotations that users set", "The operator removes an annotation only after it has acted on it.", []Item{
			{v1alpha1.AnnotationResume, "the option chosen for a hold, on the StorageCluster", "users",
				"when it has been carried out"},
			{v1alpha1.AnnotationCanary,
				"a request to test volumes again, on the StorageCluster; each value is acted on once",
				"users", "when a user removes it"},
			{v1alpha1.AnnotationBackup,
				"a request for a backup with this name, on the StorageCluster; each is acted on once",
				"users", "when a user removes it"},
			{v1alpha1.AnnotationRestore,
				"a request to restore this backup, on the StorageCluster; it is acted on once",
				"users", "when a user removes it"},
			{v1alpha1.AnnotationCompareBackup,
				"a request to compare this backup with the nodes, on the StorageCluster",
				"users", "when a user removes it"},
			{v1alpha1.AnnotationMaintenance, "that the node will be down for maintenance, on the Node", "users",
				"when a user removes it"},
		}},
		{"Marks on the operator's own objects", "They record what an object is for, and what it was created from.",
			objectItems()},
		{"Labels on Nodes", "DaemonSets select nodes by these labels, so they determine where pods run.", []Item{
			{v1alpha1.LabelMember, "that the node is a member, with the name of its cluster", "nodelabels, leaving, deletion",
				"when the node or the cluster is removed, or no satellite may run"},
			{v1alpha1.LabelOS, "which module loader runs on the node", "nodelabels, leaving, deletion",
				"when the `member` label is removed"},
			{v1alpha1.LabelPlatform, "which platform's settings its satellite uses", "nodelabels, leaving, deletion",
				"when the `member` label is removed"},
			{pods.Label, "which etcd member runs on the node", "managedetcd", "when the member has been removed"},
			{pods.Used, "which etcd member last ran on the node, where its data may still exist", "managedetcd", "never"},
		}},
		{"The ConfigMap `" + resources.ListsName + "`", "It contains state that existed only in LINSTOR's memory.", []Item{
			{"takenAt", "the state that LINSTOR had in memory, and when it was read; LINSTOR is then stopped",
				"restored", "when the next such restore replaces it, or with the Delete policy"},
		}},
		{"The ConfigMaps about etcd members", "Like the members' data, they outlive the StorageCluster.", []Item{
			{etcdmember.Notes + " " + etcdmember.KeyNotes, "the planned members, the steps in progress for them, and the " +
				"last snapshot", "managedetcd, before each step", "never"},
			{etcdmember.Notes + " " + etcdmember.KeyAnswers, "the options that administrators chose for members",
				"managedetcd", "never"},
			{etcdmember.Notes + " " + etcdmember.KeyPath, "the directory on the nodes that contains the members' data",
				"managedetcd", "when no members are planned"},
			{etcdmember.Orders, "the required configuration of each member, by node", "managedetcd",
				"when the member has been removed"},
		}},
		{"The status of the StorageCluster", "It is written for users, once per reconcile. The operator also reads these " +
			"fields back.", statusItems()},
		{"The operator's process", "Each new process starts without this state.", processItems()},
	}
}

func nodeItems() []Item {
	const node = "when the node is deleted from LINSTOR"
	return []Item{
		{linstor.PropNodeUID, "the UID of the Node object that was registered",
			"registration; `adopt` for MachineReplaced", node},
		{SystemUUID, "the machine that was registered", "registration; `adopt` for MachineReplaced", node},
		{linstor.PropKeys, "which properties the operator manages; also stored on pools and on the controller",
			"registration, pools, controller", "when the operator no longer manages any of them"},
		{linstor.PropUnkept, "what LINSTOR accepted but did not keep; also stored on pools and the controller",
			"registration, pools, controller", "when none of them is still required"},
		{Interfaces, "the network interfaces that the operator created", "registration", "when the last of them is deleted"},
		{PreferredSince, "when the interface that DRBD replicates over was last changed", "registration", node},
		{Before, "the value that a property had before the operator set it to false", "registration",
			"when the property is set back to that value"},
		{Restored, "when the node was last restored after an eviction", "registration", node},
		{Fresh, "when the node was registered, if the CSI driver was already running at that time", "registration",
			"after 90 seconds"},
		{MachineReplaced, "the new machine; the data and snapshots of the previous one are lost",
			"`replace` for MachineReplaced", node},
		{Leaving, "when the removal of the node started", "leaving", "when the removal is canceled"},
		{LeavingAdmitted, "that the node may be removed, or which hold approved its removal",
			"leaving; `continue` for TooManyNodesLeaving", "when the removal is canceled"},
		{EvacuateAsked, "when the operator requested that LINSTOR evacuate the node", "leaving",
			"when the removal is canceled, or on `retry`"},
		{EvacuateSeen, "when LINSTOR first reported the node as being evacuated", "leaving",
			"when the removal is canceled, or on `retry`"},
		{EvacuateStuck, "when the evacuation stopped making progress", "leaving",
			"when the evacuation makes progress again, when the removal is canceled, or on `retry`"},
		{GoneSince, "when the node was first seen OFFLINE without a Node object", "leaving", "when the node has returned"},
		{DeclareLost, "that the node may be declared lost, by which hold, and with which snapshots",
			"`declare-lost` for NodeGone", "when the node has returned"},
		{PoolIntent, "the disks that the pool is created from; see `removed.…` for removed pools",
			"pools, before any disk is modified", node},
		{PoolBacking, "the volume group or zpool that is being created from these disks", "pools",
			"when the node is deleted from LINSTOR, or when the pool is recreated"},
		{PoolRemoved, "the disks of a pool that has been removed", "pools",
			"when the node is deleted from LINSTOR, or when the pool is registered again on these disks"},
		{PoolDisks, "the disks that the pool was created from, in readable form", "pools",
			"when the node is deleted from LINSTOR, or when the pool is recreated"},
		{PoolSkip, "that the node continues without the pool, for this entry and these disks", "`skip`",
			"when the entry is changed or removed, another disk matches, or the pool exists"},
		{PoolUseExisting, "that existing storage is registered, for this entry and these disks",
			"`use-existing`", "when the entry is changed or removed, another disk matches, or the pool exists"},
		{PoolApprove, "the disks that may be overwritten: serial number, WWN, or path and size", "`approve`",
			"once the pool is working, when the entry is removed, or on `retry` for PoolBackendLost"},
		{PoolRecreate, "the disks that a lost pool may be recreated from, in the same form", "`recreate`",
			"once the pool is working, when the entry is removed, or on `retry` for PoolBackendLost"},
	}
}

func claimItems() []Item {
	const deleted, upgraded = "when the cluster is deleted with the Delete policy", "when the upgrade is complete"
	return []Item{
		{"backend", "the URL of the database, without credentials", "database", "never"},
		{"localID", "LINSTOR's `Cluster/LocalID`", "database, once LINSTOR has responded; `adopt`", deleted},
		{"version", "the LINSTOR version that last used the database", "database, upgrade; deletion", "never"},
		{"upgradeTo", "the version that the database is being upgraded to", "upgrade, before the new controller is started",
			"when all satellites run this version"},
		{"upgradeSince", "when this upgrade started", "upgrade", upgraded},
		{"upgradeSchema", "the schema version that the database had before this upgrade", "upgrade, with upgradeTo",
			upgraded},
		{"backupRead", "the backup that was verified by reading it back", "upgrade", upgraded},
		{"backupConfirmed", "the upgrade for which a backup was confirmed, and the time of the confirmation",
			"`backup-confirmed`", "after a day, or when the upgrade is complete"},
		{"upgradeBackup", "the backup (see `spec.backup`) that was taken before the database was upgraded",
			"upgrade, with upgradeTo", upgraded},
		{"rolledBack", "that the upgrade is being rolled back by a restore, or has been rolled back", "`roll-back`",
			"when the spec requests a different version, or on `abandon`"},
		{"skippedChecks", "the step in which the upgrade continues despite the listed nodes, replicas or backup",
			"`skip-checks`", "when the step is complete"},
		{"restoreConfirmed", "which backup may be restored, with which differences from the nodes",
			"`restore`, `restore-with-differences`",
			"when the import starts or is no longer requested"},
		{"restoring", "the backup that is being imported; during the import, no LINSTOR controller may be started",
			"restore, before the import", "when the database contains the data of the backup"},
		{"restored", "the last backup that was restored or abandoned",
			"restore; `abandon`",
			"when the annotation that requested it is removed"},
		{"moveTo", "the database that LINSTOR's data may be moved to", "`migrate` for UnsupportedChange",
			"when the data has been moved, on `abandon`, or with a new spec"},
		{"moving", "that data is being written to that database or compared with it; no controller may be started",
			"move, before the export", "when moveTo is removed, or when a backup is imported"},
		{"movedSpec", "the accepted spec with the database that the data was moved to", "move, at its end",
			"once this is the accepted spec"},
		{"epoch", "a number that LINSTOR also stores; a claim that was restored from a backup has a lower number",
			"database, `continue` for KubernetesRestored",
			"with the Delete policy, on `adopt`, or on an import"},
		{"adopted", "that existing data may be taken over", "`adopt` for ForeignLinstorFound", deleted},
		{"passphraseCheck", "a check value that identifies the passphrase without containing it",
			"controller, once LINSTOR is unlocked with it", deleted},
		{"removeUnverified", "that a deletion may continue even though volumes may exist", "`continue` for VolumesUnknown",
			"when volumes exist, with the Delete policy, or for a new cluster"},
		{"tlsMode", "the effective mode of `spec.tls`, which remains in effect if the spec does not set a mode",
			"every writer of the claim", deleted},
		{"releasedBy", "the StorageCluster that was deleted with the Delete policy", "deletion",
			"when the database is claimed again"},
	}
}

func objectItems() []Item {
	const object, pod = "when the object is deleted", "when the pod is deleted"
	return []Item{
		{v1alpha1.Finalizer, "that a deletion must remove the cluster first, on the StorageCluster", "reconciler",
			"when nothing of the cluster remains"},
		{v1alpha1.LabelCluster, "which cluster an object belongs to", "builders", object},
		{v1alpha1.LabelComponent, "which component an object is part of", "builders", object},
		{resources.AnnotationSpecHash, "what the builder created, to detect fields that are no longer set", "builders",
			object},
		{resources.AnnotationTemplateHash, "what a pod was created from; a pod with a different value is outdated",
			"builders", pod},
		{resources.AnnotationConfigHash, "the configuration that the LINSTOR controller's pod was started with",
			"controller", pod},
		{resources.AnnotationCredentialsVersion, "which version of the database credentials is in the configuration",
			"controller", "when the credentials change"},
		{resources.AnnotationSigningKeyVersion, "the key that a module loader uses for signing", "module", pod},
		{resources.AnnotationTopologyKeys, "the topology keys that the CSI driver on a node was started with",
			"volumedriver", pod},
		{apitls.Kind.Annotation, "the API certificate and the CAs that a pod was created with",
			"builders", pod},
		{netcomtls.Kind.Annotation, "the certificate and CAs for controller-satellite connections",
			"builders", pod},
		{netcomtls.AnnotationRestarts, "ineffective restarts of the LINSTOR controller, and the last deleted pod",
			"satellites, before each restart", "when the controller has been connected to a satellite for a while"},
		{drainguard.LabelNode, "the node of a drain guard; the PodDisruptionBudget excludes evictable guards", "drainguard",
			object},
		{drainguard.AnnotationRefused, "which refused drains have been reported, so that each is reported only once",
			"drainguard", "when the node may be drained or is uncordoned"},
		{databasebackup.AnnotationID, "which backup a pod takes, for information", "databasebackup", pod},
		{drift.AnnotationAdmitted, "what a policy in the Kubernetes cluster changed in a workload or Service",
			"the writer of objects", "when the object is applied again"},
	}
}

func processItems() []Item {
	const process = "when the process ends"
	return []Item{
		{"Facts.States", "when members entered their current states", "observe", process},
		{"Facts.Tainted", "when Nodes received a taint that causes members to leave", "observe",
			"when the taint is removed"},
		{"Facts.TakenPods", "addresses of satellite pods that LINSTOR has recorded for a different node", "observe",
			"when no other node in LINSTOR has them; the next process tries the nodes again"},
		{"Linstor.Down", "when nodes stopped being ONLINE", "observe", "when the nodes are ONLINE again"},
		{"Facts.TaskStates", "which background writes have failed, and how often", "work", "when they succeed"},
	}
}

func statusItems() []Item {
	const whole = "the status projection, once per reconcile"
	return []Item{
		{"phase, phaseSince, progressSince, progress", "the current phase, and when it last made progress", whole,
			"never"},
		{"target, acceptedGeneration, version, database",
			"the accepted spec (a ControllerRevision), its version and database", whole, "never"},
		{"observedGeneration", "which spec has been checked, so that a rejection is reported only once", whole, "never"},
		{"hold, nodeHolds", "the open holds", whole, "when they are resumed, or when their cause is gone"},
		{"conditions",
			"when Degraded, Available and Suspended last changed, when a mass failure started, when pools filled up",
			whole, "never"},
		{"nodes.states, nodes.online, nodes.members",
			"the progress of the nodes, to time the next check correctly", whole, "never"},
		{"nodes.total", "the number of nodes, for times when LINSTOR does not respond", whole, "never"},
		{"nodes.leaving, nodes.leavingCount", "which nodes are being removed, so that volume replicas are checked",
			whole, "when the nodes have been removed"},
		{"pools.ready, pools.wanted", "whether disks must be inspected", whole, "never"},
		{"volumes", "that LINSTOR may have volumes, for times when it does not respond", whole, "never"},
		{"canary", "which volumes have been tested, and a test's progress, recorded before its claim is created or " +
			"deleted", whole, "if the StorageClass is deleted, or with `canary: None`"},
		{"backup", "the backup being taken, recorded before its pod is created; the last scheduled start; a requested " +
			"backup", whole, "when spec.backup is removed"},
		{"etcd", "the etcd members, for times when they cannot be observed", whole,
			"when spec.database.managedEtcd is removed"},
		{"upgrade", "the progress of an upgrade", whole, "when the upgrade is complete"},
		{"firstReady", "that the cluster has been Ready at least once", whole, "never"},
	}
}

// Markdown is the page about all of it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# What is stored where\n\nThis page is generated from the tables in pkg/remembered. The operator " +
		"keeps nothing important in its own\nprocess: it can be killed between any two writes, and continues from the " +
		"state that is listed here. State that\nexists only in the process, such as when a node went down, is listed " +
		"last. If it is lost, the operator at most\nwaits longer or tries again.\n")
	for _, p := range Places() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.Name, p.Why)
		for _, i := range p.Items {
			key := i.Key
			if strings.HasSuffix(key, ".") {
				key += "…"
			}
			fmt.Fprintf(&b, "\n- `%s`: %s.\n  Written by: %s. Ends: %s.\n", key, i.Keeps, i.Writer, i.Ends)
		}
	}
	return b.String()
}
