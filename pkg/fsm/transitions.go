package fsm

import (
	"slices"
	"time"
)

// States of a cluster. They are the phases of the API, word for word.
const (
	Pending           State = "Pending"
	Assessing         State = "Assessing"
	KernelModule      State = "KernelModule"
	Database          State = "Database"
	Controller        State = "Controller"
	Satellites        State = "Satellites"
	NodeRegistration  State = "NodeRegistration"
	StoragePools      State = "StoragePools"
	VolumeDriver      State = "VolumeDriver"
	Canary            State = "Canary"
	Upgrading         State = "Upgrading"
	Migrating         State = "Migrating"
	Ready             State = "Ready"
	Degraded          State = "Degraded"
	HumanIntervention State = "HumanIntervention"
	Deleting          State = "Deleting"
)

// Events of a cluster.
const (
	Accepted          Event = "Accepted"
	UpgradePending    Event = "UpgradePending"
	RestorePending    Event = "RestorePending"
	MovePending       Event = "MovePending"
	RestoreRequested  Event = "RestoreRequested"
	ModuleMissing     Event = "ModuleMissing"
	DatabaseMissing   Event = "DatabaseMissing"
	ControllerMissing Event = "ControllerMissing"
	SatellitesMissing Event = "SatellitesMissing"
	NodesMissing      Event = "NodesMissing"
	PoolsMissing      Event = "PoolsMissing"
	DriverMissing     Event = "DriverMissing"
	CanaryMissing     Event = "CanaryMissing"
	Converged         Event = "Converged"
	ConvergedDegraded Event = "ConvergedDegraded"
	Advanced          Event = "Advanced"
	Retreated         Event = "Retreated"
	SpecChanged       Event = "SpecChanged"
	EvidenceLost      Event = "EvidenceLost"
	HealthLost        Event = "HealthLost"
	HealthRegained    Event = "HealthRegained"
	HumanNeeded       Event = "HumanNeeded"
	Resumed           Event = "Resumed"
	Cleared           Event = "Cleared"
	DeleteRequested   Event = "DeleteRequested"
)

// Chain lists the working states in the order in which a new cluster goes through them.
func Chain() []State {
	return []State{KernelModule, Database, Controller, Satellites, NodeRegistration, StoragePools, VolumeDriver,
		Canary}
}

// optional are the states of the chain that not every cluster needs. Only Assessing leads there.
var optional = []State{VolumeDriver, Canary}

// states are those of a cluster, in the order in which a new one goes through them.
func states() []StateInfo {
	return []StateInfo{
		{Pending, 5 * time.Minute, "The spec is validated and saved as a ControllerRevision; nothing is deployed yet."},
		{Assessing, 10 * time.Minute, "The hub: the operator finds the first unsatisfied link in the chain."},
		{KernelModule, 20 * time.Minute, "Module loaders load DRBD on the members."},
		{Database, 10 * time.Minute, "The operator connects to the database, verifies that it belongs to this cluster, " +
			"and claims it."},
		{Controller, 15 * time.Minute, "The LINSTOR controller is started and configured."},
		{Satellites, 15 * time.Minute, "A satellite is started on each member."},
		{NodeRegistration, 15 * time.Minute, "Each member is registered in LINSTOR and becomes ONLINE."},
		{StoragePools, 20 * time.Minute, "The storage pools are created on each member."},
		{VolumeDriver, 15 * time.Minute, "The CSI driver is started on each member if the operator manages the driver."},
		{Canary, 5 * time.Minute, "For each StorageClass, a test volume is provisioned before the cluster becomes Ready " +
			"for the first time."},
		{Upgrading, 30 * time.Minute,
			"LINSTOR is upgraded to another version: prechecks, the controller with its database, the satellites, " +
				"and verification. If a precheck fails, the operator waits until the deadline and then opens a hold. If only an " +
				"administrator can take the required backup, the hold opens at once."},
		{Migrating, time.Hour,
			"LINSTOR is stopped, and its database is overwritten with a backup: the backup is compared with the nodes, an " +
				"administrator resumes the hold to approve the restore, and the imported data is verified. Alternatively, " +
				"LINSTOR's data is moved to another database."},
		{Ready, 0, "Everything that the spec describes exists. New nodes are added automatically."},
		{Degraded, 0, "The cluster is usable, but something is missing; the status shows what."},
		{HumanIntervention, 0, "A hold is open. The operator is waiting for an administrator and keeps observing the " +
			"cause."},
		{Deleting, 0, "Workloads are deleted; nothing is removed while volumes exist."},
	}
}

// Cluster is the state machine of a StorageCluster.
func Cluster() *Table {
	t := &Table{Initial: Pending, States: states()}
	add := func(from State, e Event, to State, evidence string) {
		t.Rows = append(t.Rows, Row{From: from, Event: e, To: to, Evidence: evidence})
	}
	add(Pending, Accepted, Assessing, "the spec is valid, supported and saved as a ControllerRevision")

	add(Assessing, UpgradePending, Upgrading,
		"the accepted version differs from the version that last used the database, or an upgrade is unfinished")
	add(Assessing, RestorePending, Migrating,
		"a restore has been requested, or the claim shows that a backup is being imported")
	add(Assessing, MovePending, Migrating,
		"an administrator has approved moving LINSTOR's data to the database in the spec")
	add(Assessing, ModuleMissing, KernelModule, "first unsatisfied link: DRBD on the nodes")
	add(Assessing, DatabaseMissing, Database, "first unsatisfied link: the database")
	add(Assessing, ControllerMissing, Controller, "first unsatisfied link: the controller")
	add(Assessing, SatellitesMissing, Satellites, "first unsatisfied link: the satellites")
	add(Assessing, NodesMissing, NodeRegistration, "first unsatisfied link: node registration")
	add(Assessing, PoolsMissing, StoragePools, "first unsatisfied link: the storage pools")
	add(Assessing, DriverMissing, VolumeDriver, "first unsatisfied link: the CSI driver")
	add(Assessing, CanaryMissing, Canary, "first unsatisfied link: the test volumes")
	add(Assessing, Converged, Ready, "all links are satisfied on all members")
	add(Assessing, ConvergedDegraded, Degraded, "all links are satisfied on at least minReady members, but not on all")

	chain := Chain()
	for i, s := range chain {
		next, what := Assessing, "its link is satisfied; the whole cluster is assessed again"
		if i+1 < len(chain) && !slices.Contains(optional, chain[i+1]) {
			next, what = chain[i+1], "its link is satisfied"
		}
		add(s, Advanced, next, what)
		add(s, SpecChanged, Assessing, "the spec's generation differs from the accepted one")
		add(s, EvidenceLost, Assessing, "an earlier cluster-wide link is no longer satisfied")
	}
	// Lost evidence is no reason to leave an upgrade half-way: it goes on, or stops for a human.
	add(Upgrading, Advanced, Assessing,
		"all members are ONLINE and running the new version, or affected by a hold; the whole cluster is assessed again")
	add(Upgrading, Retreated, Assessing,
		"spec.version was reverted before the new controller was started against the database")
	add(Upgrading, SpecChanged, Assessing,
		"the spec's generation differs from the accepted one, and no satellite is being restarted")
	add(Migrating, Advanced, Assessing,
		"no restore or move is requested or in progress; the whole cluster is assessed again")
	add(Migrating, SpecChanged, Assessing,
		"the accepted spec is missing, or the generation differs from the accepted one and the spec can be accepted now")
	for _, s := range append(Chain(), Upgrading, Ready, Degraded, HumanIntervention) {
		add(s, RestoreRequested, Assessing,
			"a restore has been requested, or the claim shows that a backup is being imported")
	}
	for _, s := range []State{Ready, Degraded} {
		add(s, SpecChanged, Assessing, "the spec's generation differs from the accepted one")
		add(s, EvidenceLost, Assessing, "a cluster-wide link (DaemonSets, database, controller) is no longer satisfied")
	}
	add(Ready, HealthLost, Degraded, "members or the LINSTOR API have been unhealthy for the hysteresis period")
	add(Degraded, HealthRegained, Ready, "all members have been healthy for the hysteresis period")

	for _, s := range t.States {
		if s.State != Deleting && s.State != HumanIntervention {
			add(s.State, HumanNeeded, HumanIntervention, "a hold opens because continuing is unsafe, impossible or overdue")
		}
	}
	add(HumanIntervention, Resumed, Assessing, "the resume annotation names the current hold and one of its options")
	add(HumanIntervention, SpecChanged, Assessing,
		"the spec has changed, and the resume annotation is not the only way to end the hold")
	add(HumanIntervention, Cleared, Assessing,
		"the cause of the hold has been resolved, and the evidence is present again")
	for _, s := range t.States {
		if s.State != Deleting {
			add(s.State, DeleteRequested, Deleting, "the object has a deletion timestamp (this cannot be undone)")
		}
	}
	return t
}
