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
		{"Properties of a LINSTOR node", "They are in LINSTOR's database beside what they are about, and go with the node.",
			nodeItems()},
		{"Properties of a LINSTOR storage pool", "They say what the operator answers for.", []Item{
			{Entry, "the entry of `spec.storagePools` that the pool is made for", "pools", "with the pool"},
			{Worked, "that LINSTOR could use the pool once", "pools", "with the pool, or when its registration fails"},
		}},
		{"The claim, ConfigMap `linstor-claim`", "It says whose database this is, and outlives the StorageCluster.",
			claimItems()},
		{"ControllerRevisions", "Work in progress is finished on the spec that it began with.", []Item{
			{"linstor-…", "a spec that was accepted", "specchange", "with the policy Delete, or when ten newer ones are there"},
		}},
		{"Annotations that people write", "The operator only takes one away that it has followed.", []Item{
			{v1alpha1.AnnotationResume, "the answer to a hold, on the StorageCluster", "people", "when it is carried out"},
			{v1alpha1.AnnotationCanary, "that volumes are to be tried anew, on the StorageCluster; each value counts once",
				"people", "when people take it away"},
			{v1alpha1.AnnotationBackup, "that a backup of that name is to be taken, on the StorageCluster; each counts once",
				"people", "when people take it away"},
			{v1alpha1.AnnotationRestore,
				"that this backup is to be restored, on the StorageCluster; it counts once",
				"people", "when people take it away"},
			{v1alpha1.AnnotationCompareBackup,
				"that this backup is to be compared with the nodes, on the StorageCluster",
				"people", "when people take it away"},
			{v1alpha1.AnnotationMaintenance, "that a node will be down, on the Node", "people",
				"when people take it away"},
		}},
		{"Marks on the operator's own objects", "They say what an object is, and what it was made from.", objectItems()},
		{"Labels on Nodes", "DaemonSets select by them, so that they decide where pods run.", []Item{
			{v1alpha1.LabelMember, "that the node takes part, and in which cluster", "nodelabels, leaving, deletion",
				"when the node has left, must have no satellite, or with the cluster"},
			{v1alpha1.LabelOS, "which module loader serves the node", "nodelabels, leaving, deletion",
				"with the label `member`"},
			{v1alpha1.LabelPlatform, "with which platform's settings its satellite runs", "nodelabels, leaving, deletion",
				"with the label `member`"},
			{pods.Label, "which member of etcd runs on the node", "managedetcd", "when the member has been removed"},
			{pods.Used, "which member of etcd has run on the node last: its data may be there", "managedetcd", "never"},
		}},
		{"The ConfigMap `" + resources.ListsName + "`", "What only LINSTOR knew when its state was put back.", []Item{
			{"takenAt", "what LINSTOR had in its memory, and when it was looked at; LINSTOR is stopped after that", "restored",
				"with the next such restore, or with the policy Delete"},
		}},
		{"The ConfigMaps about members of etcd", "They outlive the StorageCluster, as the members' data does.", []Item{
			{etcdmember.Notes + " " + etcdmember.KeyNotes, "the members that are planned, what was begun for them, and the " +
				"last snapshot", "managedetcd, before each step", "never"},
			{etcdmember.Notes + " " + etcdmember.KeyAnswers, "what a human has answered about members", "managedetcd",
				"never"},
			{etcdmember.Notes + " " + etcdmember.KeyPath, "the directory of the nodes with the members' data", "managedetcd",
				"when no member is planned"},
			{etcdmember.Orders, "what each member is to run with, by its node", "managedetcd",
				"when the member has been removed"},
		}},
		{"The status of the StorageCluster", "It is written for people, once in a reconcile; these fields are read back " +
			"as well.", statusItems()},
		{"The operator's process", "All of it begins anew with the process.", processItems()},
	}
}

func nodeItems() []Item {
	const node = "with the node"
	return []Item{
		{linstor.PropNodeUID, "the UID of the Node that was registered", "registration; `adopt` for MachineReplaced", node},
		{SystemUUID, "the machine that was registered", "registration; `adopt` for MachineReplaced", node},
		{linstor.PropKeys, "the properties that the operator manages there; on pools and the controller too",
			"registration, pools, controller", "with the last of them"},
		{linstor.PropUnkept, "what LINSTOR accepted and did not keep; on pools and the controller too",
			"registration, pools, controller", "when none of them is wanted any more"},
		{Interfaces, "the interfaces that the operator made", "registration", "with the last of them"},
		{PreferredSince, "when the interface that DRBD replicates over changed", "registration", node},
		{Before, "what a property was before the operator set it to false", "registration", "when the property is put back"},
		{Restored, "when the node was last restored after an eviction", "registration", node},
		{Fresh, "when the node was registered beside a CSI driver that does not know it yet", "registration",
			"after a minute and a half"},
		{MachineReplaced, "for which machine the first one's data and snapshots are given up",
			"`replace` for MachineReplaced", node},
		{Leaving, "since when the node leaves", "leaving", "when the node comes back"},
		{LeavingAdmitted, "that it may go, or which hold said so", "leaving; `continue` for TooManyNodesLeaving",
			"when the node comes back"},
		{EvacuateAsked, "when LINSTOR was asked to evacuate it", "leaving", "when the node comes back, or with `retry`"},
		{EvacuateSeen, "when LINSTOR's flag was seen", "leaving", "when the node comes back, or with `retry`"},
		{EvacuateStuck, "since when the evacuation has not gone on", "leaving",
			"when it goes on, when the node comes back, or with `retry`"},
		{GoneSince, "since when it is OFFLINE without a Node object", "leaving", "when the node is back"},
		{DeclareLost, "that it may be given up, by which hold, and with which snapshots", "`declare-lost` for NodeGone",
			"when the node is back"},
		{PoolIntent, "the disks that the pool is being made from", "pools, before a disk is touched",
			"with the node; `removed.…` marks it once the pool is removed"},
		{PoolBacking, "the volume group or zpool of that intent", "pools", "with the node, or when the pool is made anew"},
		{PoolRemoved, "the intent of a pool that was removed", "pools",
			"with the node, or when the pool is registered again on those disks"},
		{PoolDisks, "the disks as people look for them", "pools", "with the node, or when the pool is made anew"},
		{PoolSkip, "that the node goes on without the pool, for this entry and these disks", "`skip`",
			"when the entry changes or goes, another disk matches, or the pool is there"},
		{PoolUseExisting, "that what is on the disks is registered as it is, likewise", "`use-existing`",
			"when the entry changes or goes, another disk matches, or the pool is there"},
		{PoolApprove, "the disks that may be overwritten: serial, WWN, or path and size of each", "`approve`",
			"when the pool works, the entry is removed, or with `retry` for PoolBackendLost"},
		{PoolRecreate, "the disks that a lost pool may be made anew from, likewise", "`recreate`",
			"when the pool works, the entry is removed, or with `retry` for PoolBackendLost"},
	}
}

func claimItems() []Item {
	return []Item{
		{"backend", "the database's URL without credentials", "database", "never"},
		{"localID", "LINSTOR's `Cluster/LocalID`", "database, once LINSTOR has answered; `adopt`",
			"with the policy Delete"},
		{"version", "the LINSTOR version that the database was last started with", "database, upgrade; deletion", "never"},
		{"upgradeTo", "the version that the database is being moved to", "upgrade, before the new controller is started",
			"when all satellites have followed"},
		{"upgradeSince", "when that was", "upgrade", "with the upgrade"},
		{"backupRead", "the backup that was read back", "upgrade", "with the upgrade"},
		{"backupConfirmed", "the upgrade before which somebody has made a backup, and when that was said",
			"`backup-confirmed`", "after a day, or with the upgrade"},
		{"upgradeBackup", "the backup of `spec.backup` from before the database was moved", "upgrade, with upgradeTo",
			"with the upgrade"},
		{"rolledBack", "that the upgrade is taken back by a restore, and then, that it was", "`roll-back`",
			"when the spec asks for another version, or with `abandon`"},
		{"skippedChecks", "the step in which the upgrade goes on in spite of what is listed: nodes, copies, a backup",
			"`skip-checks`", "with the step"},
		{"restoreConfirmed", "which backup may be restored, at which differences from the nodes",
			"`restore`, `restore-with-differences`",
			"when the import starts, or is no longer requested"},
		{"restoring", "the backup that is being imported: no controller may be started", "restore, before the import",
			"when the database holds what the backup does"},
		{"restored", "the last backup that was restored, or abandoned",
			"restore; `abandon`",
			"when the annotation that asked for it is taken away"},
		{"moveTo", "the database that LINSTOR's data may be moved into", "`migrate` for UnsupportedChange",
			"when it is there, with `abandon`, or with another spec"},
		{"moving", "that data is being written there, or compared with what is there: no controller may be started",
			"move, before the export", "with moveTo, or when a backup is imported"},
		{"movedSpec", "the accepted spec with the database that the data was moved to", "move, at its end",
			"once that is the accepted spec"},
		{"epoch", "a number that LINSTOR has as well: a claim from a backup has a lower one",
			"database, `continue` for KubernetesRestored", "with the policy Delete, `adopt`, or an import"},
		{"adopted", "that data which was there already may be taken over", "`adopt` for ForeignLinstorFound",
			"with the policy Delete"},
		{"passphraseCheck", "which passphrase it is, without holding it", "controller, once LINSTOR has unlocked with it",
			"with the policy Delete"},
		{"removeUnverified", "that a deletion may go on although volumes may exist", "`continue` for VolumesUnknown",
			"when LINSTOR has volumes, with the policy Delete, or a new cluster"},
		{"tlsMode", "the mode of `spec.tls` in force, which stays where the spec names none", "whoever writes the claim",
			"with the policy Delete"},
		{"releasedBy", "the StorageCluster that was deleted with the policy Delete", "deletion",
			"when the database is claimed anew"},
	}
}

func objectItems() []Item {
	const object = "with the object"
	return []Item{
		{v1alpha1.Finalizer, "that a deletion has to take the cluster down first, on the StorageCluster", "reconciler",
			"when nothing is left of the cluster"},
		{v1alpha1.LabelCluster, "whose an object is", "builders", object},
		{v1alpha1.LabelComponent, "which component an object is part of", "builders", object},
		{resources.AnnotationSpecHash, "what the builder made, so that it shows what is not set any more", "builders",
			object},
		{resources.AnnotationTemplateHash, "what a pod was made from: one with another value is outdated", "builders",
			"with the pod"},
		{resources.AnnotationConfigHash, "the configuration that the controller's pod was started with", "controller",
			"with the pod"},
		{resources.AnnotationCredentialsVersion, "which version of the database's credentials is in the configuration",
			"controller", "when a credential changes"},
		{resources.AnnotationSigningKeyVersion, "the key that a module loader signs with", "module", "with the pod"},
		{resources.AnnotationTopologyKeys, "the keys that a node's CSI driver was started with", "volumedriver",
			"with the pod"},
		{apitls.Kind.Annotation, "which certificate of LINSTOR's API and which authorities a pod was made with", "builders",
			"with the pod"},
		{netcomtls.Kind.Annotation, "the same for connections between LINSTOR's controller and satellites", "builders",
			"with the pod"},
		{netcomtls.AnnotationRestarts, "restarts of LINSTOR's controller in vain, and which pod the last ended",
			"satellites, before each", "when it reaches a satellite for a while"},
		{drainguard.LabelNode, "which node a drain guard is for; the budget leaves out who may go", "drainguard", object},
		{drainguard.AnnotationRefused, "which drains were said to be refused, so that nobody is told twice", "drainguard",
			"when the node may be drained, or is uncordoned"},
		{databasebackup.AnnotationID, "which backup a pod takes, for whoever looks at it", "databasebackup", "with the pod"},
		{drift.AnnotationAdmitted, "what a policy of the Kubernetes cluster made of a workload or Service",
			"the writer of objects", "when it is applied again"},
	}
}

func processItems() []Item {
	const process = "with the process"
	return []Item{
		{"Facts.States", "since when members are in their states", "observe", process},
		{"Facts.Tainted", "since when Nodes have taints for which members leave", "observe", "with the taint"},
		{"Facts.TakenPods", "addresses of satellites' pods that LINSTOR has for another node", "observe",
			"when LINSTOR has them for nobody else; the next process tries the nodes once more"},
		{"Linstor.Down", "since when nodes are not ONLINE", "observe", "when they are"},
		{"Facts.TaskStates", "which background writes failed, and how often", "work", "when they succeed"},
	}
}

func statusItems() []Item {
	const whole = "the projection, once in a reconcile"
	return []Item{
		{"phase, phaseSince, progressSince, progress", "the state of the machine, and since when nothing went on", whole,
			"never"},
		{"target, acceptedGeneration, version, database", "the accepted spec, a ControllerRevision, and what it is for",
			whole, "never"},
		{"observedGeneration", "the spec that was looked at, so that a refused one is refused once", whole, "never"},
		{"hold, nodeHolds", "what a human is asked", whole, "with the answer or the cause"},
		{"conditions", "since when the cluster is Degraded, Available, Suspended or in a mass failure, or pools fill up",
			whole, "never"},
		{"nodes.states, nodes.online, nodes.members",
			"how far nodes were, so that a look is not taken too early or too late", whole, "never"},
		{"nodes.total", "how many nodes there are while LINSTOR is silent", whole, "never"},
		{"nodes.leaving, nodes.leavingCount", "which nodes were leaving, and that copies of volumes matter", whole,
			"when they have left"},
		{"pools.ready, pools.wanted", "whether disks are worth a look", whole, "never"},
		{"volumes", "that LINSTOR may have volumes, although it does not answer", whole, "never"},
		{"canary", "which volumes were tried, and how far a try is: it is noted before its claim is made, and before that " +
			"goes", whole, "with the StorageClass, or with spec.volumes.canary: None"},
		{"backup", "which backup is being taken, before its pod is made; when the schedule's last one was begun; a request",
			whole, "with spec.backup"},
		{"etcd", "the members of etcd, as long as they cannot be looked at", whole, "with spec.database.managedEtcd"},
		{"upgrade", "how far an upgrade was", whole, "with the upgrade"},
		{"firstReady", "that the cluster was Ready once", whole, "never"},
	}
}

// Markdown is the page about all of it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# What is remembered where\n\n" +
		"This page is made from the tables of pkg/remembered. The operator keeps nothing of importance in its own\n" +
		"process: it can be killed between any two writes, and goes on from what is here. What it does keep there, such\n" +
		"as since when a node has been down, is listed last: it begins anew with the process, which makes it wait longer\n" +
		"or try once more.\n")
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
