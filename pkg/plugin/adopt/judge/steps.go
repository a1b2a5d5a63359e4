package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Fates of objects.
const (
	fateScaled   = "scaled"
	fateDeleted  = "deleted"
	fateOrphaned = "orphaned"
	fateCopied   = "copied"
	fateReplaced = "replaced"
	fateKept     = "kept"
)

// objects are what becomes of each.
func (s *facts) objects() []Object {
	var out []Object
	add := func(kind, name, fate, message string) { out = append(out, Object{kind, name, fate, message}) }
	for i := range s.Deployments {
		switch d := &s.Deployments[i]; {
		case seen.IsOperator(d):
			add("Deployment", d.Name, fateScaled, "to 0 before anything else: while Piraeus' operator runs, a "+
				"LinstorSatellite that goes can have its node evacuated")
		case d.Name == seen.ControllerName:
			add("Deployment", d.Name, fateScaled, "to 0, since two controllers on one database destroy it; deleted at the end")
		case managed(d.Labels):
			add("Deployment", d.Name, fateOrphaned, "runs on until this operator's takes over; then deleted")
		}
	}
	for _, name := range s.Webhooks {
		add("ValidatingWebhookConfiguration", name, fateDeleted, "nobody answers it without Piraeus' operator, and every "+
			"edit of Piraeus' objects and of StorageClasses would fail")
	}
	for i := range s.Clusters {
		add("LinstorCluster", s.Clusters[i].Name, fateOrphaned, "deleted with --cascade=orphan: a plain deletion takes "+
			"controller, driver and satellites with it")
	}
	if n := len(s.Satellites); n > 0 {
		add("LinstorSatellite", text.ListSome(s.satelliteNames()), fateOrphaned, "their finalizer is removed, and they are "+
			"deleted with --cascade=orphan"+s.evacuates())
	}
	if n := len(s.satelliteSets()); n > 0 {
		add("DaemonSet", fmt.Sprintf("%s* (%d)", seen.SatellitePrefix, n), fateOrphaned, "deleted one at a time, each when "+
			"the satellite of this operator is to take over its node")
	}
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		if managed(d.Labels) && !slices.ContainsFunc(s.Satellites, func(l seen.Satellite) bool {
			return strings.EqualFold(seen.SatellitePrefix+l.Name, d.Name)
		}) {
			add("DaemonSet", d.Name, fateOrphaned, "runs on until this operator's takes over; then deleted")
		}
	}
	add("Service", seen.ControllerName, fateReplaced, "by one that leads to LINSTOR's controller in linstor-storage, "+
		"for Piraeus' CSI driver and other clients")
	if s.Lease != nil {
		add("Lease", seen.ControllerName, fateKept, "it must have no holder before this operator's controller starts: "+
			"Leases of two namespaces do not exclude each other")
	}
	for _, name := range s.Named() {
		add("Secret", name, fateCopied, "to linstor-storage")
	}
	return append(out, s.keptObjects()...)
}

// managed reports whether Piraeus' operator has made an object.
func managed(labels map[string]string) bool {
	return strings.HasPrefix(labels["app.kubernetes.io/managed-by"], "piraeus-operator")
}

func (s *facts) satelliteNames() []string {
	var out []string
	for i := range s.Satellites {
		out = append(out, s.Satellites[i].Name)
	}
	return out
}

// evacuates warns of satellites whose deletion would evacuate their nodes. Before 2.9 that was so for all of them.
func (s *facts) evacuates() string {
	var names []string
	for i := range s.Satellites {
		if s.Satellites[i].Spec.DeletionPolicy != "Retain" {
			names = append(names, s.Satellites[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ". Their deletionPolicy is not Retain on " + text.ListSome(names) + ": while Piraeus' operator runs, their " +
		"deletion evacuates or removes the node"
}

func (s *facts) keptObjects() []Object {
	var out []Object
	add := func(holds bool, kind, name, message string) {
		if holds {
			out = append(out, Object{kind, name, fateKept, message})
		}
	}
	add(s.DB.Kind == v1alpha1.DatabaseKubernetes, "LINSTOR's tables", fmt.Sprintf("%d objects in %d tables", s.DB.Objects,
		s.DB.Tables), "they are the database of this operator's LINSTOR as well")
	add(s.Driver, "CSIDriver", seen.DriverName, "its name is in every PersistentVolume")
	add(len(s.Volumes) > 0, "PersistentVolume", text.Amount(len(s.Volumes), "volume", "volumes"), "LINSTOR's resources "+
		"keep their names")
	add(len(s.Classes) > 0, "StorageClass", text.ListSome(s.Classes),
		"the operator leaves StorageClasses of others alone")
	return out
}

// steps are the order. What has no command cannot be done with this version.
func (s *facts) steps() []Step {
	ns := s.Namespace
	operators := []string{}
	for i := range s.Deployments {
		if seen.IsOperator(&s.Deployments[i]) {
			operators = append(operators, "deployment/"+s.Deployments[i].Name)
		}
	}
	var stop, start []string
	if len(operators) > 0 {
		all := strings.Join(operators, " ")
		stop = append(stop, "kubectl -n "+ns+" scale --replicas=0 "+all)
		start = append(start, "kubectl -n "+ns+" scale --replicas=1 "+all)
	}
	for _, w := range s.Webhooks {
		// With its resourceVersion the API server would not let it be created again.
		stop = append(stop, "kubectl get validatingwebhookconfiguration "+w+" -o yaml | grep -vE "+
			"'^  (resourceVersion|uid): ' > "+w+".yaml",
			"kubectl delete validatingwebhookconfiguration "+w)
		start = append(start, "kubectl create -f "+w+".yaml")
	}
	pausesNode := "replication to and from that node, until its new satellite has connected; the I/O of pods that use " +
		"a volume there without a copy there"
	if len(s.DaemonSets) > 0 && !slices.ContainsFunc(s.judgeNetworks(), func(n string) bool { return n != "host" }) {
		pausesNode = "changes of volumes on that node; DRBD's connections are on the host's network and stay"
	}
	return []Step{
		{Title: "Back up", Does: "LINSTOR's database, Piraeus' objects and its Secrets, kept outside of the cluster",
			Pauses: "nothing", Back: "not needed", Commands: s.backupCommands()},
		{Title: "Stop Piraeus' operator", Does: "so that nothing that goes is taken for a node to evacuate; then delete " +
			"its webhook", Pauses: "what Piraeus' operator does: nodes that join, settings", Commands: stop,
			Back: strings.Join(start, "; ")},
		{Title: "Let go of the workloads", Does: "remove the finalizer of each LinstorSatellite, and delete Piraeus' " +
			"objects with --cascade=orphan, so that what runs is nobody's",
			Pauses: "nothing", Back: "create Piraeus' objects from the first step, without their resourceVersion and uid, " +
				"and start its operator: it makes its workloads anew, with other labels, so that satellites are replaced all at " +
				"once. Better: stay before this step"},
		{Title: "Stop LINSTOR's controller", Does: "scale it to 0, and wait until no pod is left, also no terminating " +
			"one, and the Lease " + seen.ControllerName + " has expired",
			Pauses: "making, growing, attaching and deleting volumes, snapshots; volumes that are in use go on",
			Back:   "kubectl -n " + ns + " scale --replicas=1 deployment/" + seen.ControllerName},
		{Title: "Start this operator's controller", Does: "copy the Secrets, apply the StorageCluster, and answer the " +
			"hold ForeignLinstorFound with adopt: the same version on the same database, with Piraeus' satellites still there",
			Pauses: "the same", Back: "stop it and start Piraeus' again: the database can be read as long as LINSTOR's " +
				"version is the same"},
		{Title: "Lead clients to it",
			Does:   "a Service " + seen.ControllerName + " in " + ns + " that leads to linstor-storage",
			Pauses: "nothing; from here on volumes can be made again", Back: "the Service from the first step"},
		{Title: "Node by node", Does: "delete the node's DaemonSet, start this operator's satellite, set the address of " +
			"the interface to the host's in place (this version would add an interface default beside it), wait until the " +
			"node is ONLINE and all of its copies are UpToDate; then the next one, never two at once", Pauses: pausesNode,
			Back: "from the container's to the host's network there is no way back without restarting the node"},
		{Title: "The CSI driver, and what makes pods move away", Does: "delete Piraeus' CSI driver and high-availability " +
			"controller, and set spec.volumes.driver.mode to Managed",
			Pauses: "mounting, unmounting and growing volumes on a node, until the new driver has registered there",
			Back:   "Piraeus' objects from the first step"},
		{Title: "Clean up", Does: "delete the Service of before, Piraeus' definitions and roles", Pauses: "nothing",
			Back: "none is needed"},
	}
}

// judgeNetworks are the networks of the satellites.
func (s *facts) judgeNetworks() []string {
	var out []string
	for _, d := range s.satelliteSets() {
		out = append(out, map[bool]string{true: "host", false: "container"}[d.Spec.Template.Spec.HostNetwork])
	}
	return out
}

func (s *facts) backupCommands() []string {
	out := []string{"kubectl get " +
		"linstorclusters,linstorsatellites,linstorsatelliteconfigurations,linstornodeconnections -o yaml > piraeus.yaml",
		"kubectl -n " + s.Namespace + " get deployments,daemonsets,services,configmaps,secrets -o yaml > " +
			"piraeus-workloads.yaml"}
	switch s.DB.Kind {
	case v1alpha1.DatabaseKubernetes:
		out = append(out, "kubectl get crd -o name | grep '\\.internal\\.linstor\\.linbit\\.com$' | cut -d/ -f2 | "+
			"xargs -I{} kubectl get {} -o yaml > linstor-backup.yaml")
	case v1alpha1.DatabasePostgreSQL:
		out = append(out, "pg_dump -h "+s.DB.Host+" "+s.DB.Name+" > linstor-backup.sql")
	case v1alpha1.DatabaseMariaDB:
		out = append(out, "mysqldump -h "+s.DB.Host+" "+s.DB.Name+" > linstor-backup.sql")
	default: // of these nobody knows how
	}
	return out
}
