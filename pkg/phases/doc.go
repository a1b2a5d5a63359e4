// Package phases is the machine: it decides which transition fires, and holds one handler for each state.
//
// What facts mean is judged here, each thing in the room of its subject: whether a pool is lost, in pools/lost.go.
// Package observe only reads, and package linstor only speaks to LINSTOR. A reconcile observes into cluster.Facts, and
// room judge makes a cluster.Snapshot of them. Interrupts and handlers read it here. They act through step.Input
// alone, repeat themselves safely, and never block: writes to LINSTOR run as keyed tasks in the background. What a
// handler did shows in the next observation; nothing is remembered as done.
//
// The rooms below, from lower to higher ones; those of links never import each other:
//
//	poddiagnosis      why a pod does not run
//	hold              what is asked of a human, and an answer to it
//	step              what links and handlers are given, and how a handler ends
//	advice            what of a spec is accepted and has no effect
//	disks             which disks of a node are empty, and may become a pool
//	address           nodes whose address answers for another machine
//	massfailure       whether so many nodes fail together that nothing should be repaired
//	replica           copies of volumes: which one is the last
//	restored          a LINSTOR whose state in Kubernetes was restored
//	nodelabels        the labels that bring a node its pods
//	noderemoval       how LINSTOR forgets a node that is gone or was replaced
//	storageclass      the StorageClasses, and what they ask for
//	snapshotclass     the VolumeSnapshotClass, and whether volumes can be snapshotted
//	netcom            how LINSTOR's controller and satellites connect: plain, or with TLS
//	certificates      the certificates for that, and their renewal
//	monitoring        what Prometheus Operator is given
//	drainguard        which nodes may be drained
//	highavailability  LINSTOR's high-availability controller
//	affinity          LINSTOR's affinity controller
//	databasebackup    backups of LINSTOR's database
//	managedetcd       the etcd that the operator runs for LINSTOR
//	module            link of the chain: DRBD's kernel module
//	database          link: the claim on LINSTOR's database
//	controller        link: LINSTOR's controller
//	satellites        link: LINSTOR's satellites, and the order in which they restart
//	registration      link: nodes in LINSTOR
//	pools             link: storage pools, and when one is lost
//	volumedriver      link: the CSI driver
//	canary            link: a volume that is tried
//	leaving           nodes that leave
//	upgrade           another version of LINSTOR
//	migrating         a backup, or another server, that becomes LINSTOR's database
//	judge             makes a cluster.Snapshot of what all these say, in one order
//	specchange        changes of the spec, and which are refused
//	deleting          the end of a cluster
//
// Depguard enforces the order. A source that failed is unknown: never absent, never fine.
package phases
