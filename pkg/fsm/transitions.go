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
		{Pending, 5 * time.Minute, "The spec is checked and kept as a ControllerRevision; nothing is deployed."},
		{Assessing, 10 * time.Minute, "The hub: looks for the first link of the chain that is not satisfied."},
		{KernelModule, 20 * time.Minute, "Module loaders bring DRBD onto the members."},
		{Database, 10 * time.Minute, "The database is reached, checked to be ours and claimed."},
		{Controller, 15 * time.Minute, "The LINSTOR controller is started and gets its properties."},
		{Satellites, 15 * time.Minute, "A satellite runs on each member."},
		{NodeRegistration, 15 * time.Minute, "Each member is registered in LINSTOR and ONLINE."},
		{StoragePools, 20 * time.Minute, "Each member gets its storage pools."},
		{VolumeDriver, 15 * time.Minute, "The CSI driver is started on each member, where the operator runs it."},
		{Canary, 5 * time.Minute, "A volume of each StorageClass is tried, before the cluster is Ready for the first time."},
		{Upgrading, 30 * time.Minute,
			"Another LINSTOR version: prechecks, controller with its database, satellites, verification. A precheck that " +
				"fails is waited for until the deadline, and then a human is asked; about a backup that only a human can " +
				"make, at once."},
		{Migrating, time.Hour,
			"LINSTOR is stopped, and its database replaced by a backup: it is compared with the nodes, a human is asked, " +
				"it is imported and compared with what the database holds then. Or its data is moved into another database."},
		{Ready, 0, "All that the spec asks for is there. Nodes that join are taken in."},
		{Degraded, 0, "Usable, with something missing that is named in the status."},
		{HumanIntervention, 0, "A hold waits for a human; its evidence is watched on."},
		{Deleting, 0, "Workloads go; nothing is removed while volumes exist."},
	}
}

// Cluster is the state machine of a StorageCluster.
func Cluster() *Table {
	t := &Table{Initial: Pending, States: states()}
	add := func(from State, e Event, to State, evidence string) {
		t.Rows = append(t.Rows, Row{From: from, Event: e, To: to, Evidence: evidence})
	}
	add(Pending, Accepted, Assessing, "the spec is valid, supported and kept as a ControllerRevision")

	add(Assessing, UpgradePending, Upgrading,
		"the accepted version is not the one that the database was last used with, or an upgrade is not finished")
	add(Assessing, RestorePending, Migrating,
		"a backup is to be restored, or the claim says that one is being imported")
	add(Assessing, MovePending, Migrating, "somebody has consented to move LINSTOR's data into the database of the spec")
	add(Assessing, ModuleMissing, KernelModule, "first link that is not satisfied: DRBD on the nodes")
	add(Assessing, DatabaseMissing, Database, "first link that is not satisfied: the database")
	add(Assessing, ControllerMissing, Controller, "first link that is not satisfied: the controller")
	add(Assessing, SatellitesMissing, Satellites, "first link that is not satisfied: the satellites")
	add(Assessing, NodesMissing, NodeRegistration, "first link that is not satisfied: registered nodes")
	add(Assessing, PoolsMissing, StoragePools, "first link that is not satisfied: the storage pools")
	add(Assessing, DriverMissing, VolumeDriver, "first link that is not satisfied: the CSI driver")
	add(Assessing, CanaryMissing, Canary, "first link that is not satisfied: a volume that was written and read back")
	add(Assessing, Converged, Ready, "all links are satisfied on all members")
	add(Assessing, ConvergedDegraded, Degraded, "all links are satisfied on minReady members at least, not on all")

	chain := Chain()
	for i, s := range chain {
		next, what := Assessing, "its link is satisfied; look at the whole once more"
		if i+1 < len(chain) && !slices.Contains(optional, chain[i+1]) {
			next, what = chain[i+1], "its link is satisfied"
		}
		add(s, Advanced, next, what)
		add(s, SpecChanged, Assessing, "the spec's generation is not the accepted one")
		add(s, EvidenceLost, Assessing, "an earlier cluster-wide link is missing again")
	}
	// Lost evidence is no reason to leave an upgrade half-way: it goes on, or stops for a human.
	add(Upgrading, Advanced, Assessing,
		"all members are ONLINE with the new version, or held; look at the whole once more")
	add(Upgrading, Retreated, Assessing,
		"spec.version was taken back before the new controller was started on the database")
	add(Upgrading, SpecChanged, Assessing,
		"the spec's generation is not the accepted one, and no satellite is being restarted")
	add(Migrating, Advanced, Assessing, "no restore and no move is asked for or under way any more; look at the whole")
	add(Migrating, SpecChanged, Assessing,
		"the accepted spec is missing, or the spec's generation is not the accepted one and can be taken up")
	for _, s := range append(Chain(), Upgrading, Ready, Degraded, HumanIntervention) {
		add(s, RestoreRequested, Assessing, "a backup is to be restored, or the claim says that one is being imported")
	}
	for _, s := range []State{Ready, Degraded} {
		add(s, SpecChanged, Assessing, "the spec's generation is not the accepted one")
		add(s, EvidenceLost, Assessing, "a cluster-wide link (DaemonSets, database, controller) is missing")
	}
	add(Ready, HealthLost, Degraded, "members or the LINSTOR API have been unhealthy for the hysteresis period")
	add(Degraded, HealthRegained, Ready, "all members have been healthy for the hysteresis period")

	for _, s := range t.States {
		if s.State != Deleting && s.State != HumanIntervention {
			add(s.State, HumanNeeded, HumanIntervention, "a hold: going on is not safe, not possible, or not in time")
		}
	}
	add(HumanIntervention, Resumed, Assessing, "the resume annotation names the current hold and one of its options")
	add(HumanIntervention, SpecChanged, Assessing, "the spec changed and the hold is not one that only the token ends")
	add(HumanIntervention, Cleared, Assessing, "the hold clears by itself and its evidence is back")
	for _, s := range t.States {
		if s.State != Deleting {
			add(s.State, DeleteRequested, Deleting, "the object has a deletion timestamp (one way)")
		}
	}
	return t
}
