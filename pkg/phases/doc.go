// Package phases is the machine: it decides which transition fires, and holds one handler for each state.
//
// A reconcile observes (package observe) into cluster.Facts, and package judge makes a cluster.Snapshot of them.
// Interrupts and handlers read it here. They act through step.Input alone, repeat themselves safely, and never block:
// writes to LINSTOR run as keyed tasks in the background. What a handler did shows in the next observation; nothing is
// remembered as done.
//
// The rooms below, from the lowest to the highest; each imports lower ones only:
//
//	pods, hold                       containers that fail; holds and their answers
//	step                             what links and handlers are given, and how a handler ends
//	disks, address, massfailure,     rules of disks, of addresses, of nodes that fail together, of copies,
//	replica, nodelabels, lose,       of the labels that bring a node its pods, of nodes that are declared lost, of
//	storageclass, snapshotclass      what StorageClasses ask for, and whether volumes can be snapshotted
//	managedetcd                      the etcd that the operator runs for LINSTOR
//	netcom                           how LINSTOR's controller and satellites connect
//	module, database, controller,    the links of the chain: they never import each other
//	satellites, registration, pools,
//	volumedriver, canary
//	leaving, upgrade, migrating      nodes that leave, LINSTOR's upgrade, a backup that becomes its database
//	judge                            what the facts mean, in one order
//	specchange, deleting             changes of the spec, the end of a cluster
//
// Depguard enforces this order. A source that failed is unknown: never absent, never fine.
package phases
