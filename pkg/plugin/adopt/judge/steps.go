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
			add("Deployment", d.Name, fateScaled, "to 0 before anything else: while the Piraeus operator "+
				"is running, deleting a LinstorSatellite can evacuate its node")
		case d.Name == seen.ControllerName:
			add("Deployment", d.Name, fateScaled, "to 0, because two controllers would corrupt the database; then deleted")
		case managed(d.Labels):
			add("Deployment", d.Name, fateOrphaned, "keeps running until its replacement takes over, and is then deleted")
		}
	}
	for _, name := range s.Webhooks {
		add("ValidatingWebhookConfiguration", name, fateDeleted, "it does not respond without the Piraeus operator, "+
			"so every change to Piraeus' objects and to StorageClasses would fail")
	}
	for i := range s.Clusters {
		add("LinstorCluster", s.Clusters[i].Name, fateOrphaned, "deleted with --cascade=orphan: a normal deletion would "+
			"also delete the controller, the driver and the satellites")
	}
	if n := len(s.Satellites); n > 0 {
		add("LinstorSatellite", text.ListSome(s.satelliteNames()), fateOrphaned, "their finalizer is removed, and they are "+
			"deleted with --cascade=orphan"+s.evacuates())
	}
	if n := len(s.satelliteSets()); n > 0 {
		add("DaemonSet", fmt.Sprintf("%s* (%d)", seen.SatellitePrefix, n), fateOrphaned, "deleted one at a time, each when "+
			"this operator's satellite takes over the node")
	}
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		if managed(d.Labels) && !slices.ContainsFunc(s.Satellites, func(l seen.Satellite) bool {
			return strings.EqualFold(seen.SatellitePrefix+l.Name, d.Name)
		}) {
			add("DaemonSet", d.Name, fateOrphaned, "keeps running until its replacement takes over, and is then deleted")
		}
	}
	add("Service", seen.ControllerName, fateReplaced, "by a Service that points to the LINSTOR controller in "+
		"linstor-storage, for Piraeus' CSI driver and other clients")
	if s.Lease != nil {
		add("Lease", seen.ControllerName, fateKept, "it must have no holder before this operator's controller starts: "+
			"Leases in different namespaces do not exclude each other")
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
	return ". deletionPolicy is not Retain on " + text.ListSome(names) + ": while the Piraeus operator is running, " +
		"deleting them evacuates or removes their nodes"
}

func (s *facts) keptObjects() []Object {
	var out []Object
	add := func(holds bool, kind, name, message string) {
		if holds {
			out = append(out, Object{kind, name, fateKept, message})
		}
	}
	add(s.DB.Kind == v1alpha1.DatabaseKubernetes, "LINSTOR's tables", fmt.Sprintf("%d objects in %d tables", s.DB.Objects,
		s.DB.Tables), "they remain LINSTOR's database")
	add(s.Driver, "CSIDriver", seen.DriverName, "every PersistentVolume refers to it by name")
	add(len(s.Volumes) > 0, "PersistentVolume", text.Amount(len(s.Volumes), "volume", "volumes"), "LINSTOR's resources "+
		"keep their names")
	add(len(s.Classes) > 0, "StorageClass", text.ListSome(s.Classes),
		"the operator does not change StorageClasses that it did not create")
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
	pausesNode := "replication to and from that node, until its new satellite has connected; also I/O of pods on the " +
		"node that use volumes without a local replica"
	if len(s.DaemonSets) > 0 && !slices.ContainsFunc(s.judgeNetworks(), func(n string) bool { return n != "host" }) {
		pausesNode = "changes to volumes on that node; DRBD connections use the host network and remain established"
	}
	return []Step{
		{Title: "Back up", Does: "back up LINSTOR's database, Piraeus' objects and Secrets, and store the backup outside " +
			"the cluster", Pauses: "nothing", Back: "not needed", Commands: s.backupCommands()},
		{Title: "Stop the Piraeus operator", Does: "scale it to 0, so that deleting its objects does not evacuate nodes; " +
			"then delete its webhook", Pauses: "tasks of the Piraeus operator, such as adding nodes and applying settings",
			Commands: stop, Back: strings.Join(start, "; ")},
		{Title: "Release the workloads", Does: "remove each LinstorSatellite's finalizer, and delete Piraeus' objects " +
			"with --cascade=orphan, so that the workloads keep running without an owner", Pauses: "nothing", Back: "recreate " +
			"Piraeus' objects from the backup, without resourceVersion and uid, and start the Piraeus operator: it recreates " +
			"its workloads with different labels, which replaces all satellites at once. Decide before this step whether to " +
			"continue"},
		{Title: "Stop the LINSTOR controller", Does: "scale it to 0, and wait until all of its pods are gone, including " +
			"terminating pods, and the Lease " + seen.ControllerName + " has expired",
			Pauses: "creating, expanding, attaching and deleting volumes, and snapshots; volumes in use keep working",
			Back:   "kubectl -n " + ns + " scale --replicas=1 deployment/" + seen.ControllerName},
		{Title: "Start this operator's controller", Does: "copy the Secrets, apply the StorageCluster, and resume " +
			"from ForeignLinstorFound with adopt: the version and the database are the same, and Piraeus' satellites are " +
			"still running", Pauses: "the same as in the previous step", Back: "stop it, and start Piraeus' LINSTOR " +
			"controller again: it can read the database as long as the LINSTOR version is the same"},
		{Title: "Redirect the clients", Does: "create a Service " + seen.ControllerName + " in " + ns + " that points to " +
			"linstor-storage", Pauses: "nothing; volumes can be created again", Back: "restore the Service from the backup"},
		{Title: "Replace the satellites, one node at a time", Does: "delete the node's DaemonSet, start this operator's " +
			"satellite, change the address of the existing network interface to the host's address (this version would add " +
			"a second interface named default), and wait until the node is ONLINE and all of its replicas are UpToDate. " +
			"Then continue with the next node; never process two nodes at once", Pauses: pausesNode,
			Back: "switching back from the host network to the container network requires rebooting the node"},
		{Title: "Replace the CSI driver and high-availability controller", Does: "delete Piraeus' CSI driver and " +
			"high-availability controller, and set spec.volumes.driver.mode to Managed", Pauses: "mounting, unmounting and " +
			"expanding volumes on a node, until its new driver registers", Back: "recreate Piraeus' objects from the backup"},
		{Title: "Clean up", Does: "delete the old Service, Piraeus' CRDs and roles", Pauses: "nothing", Back: "not needed"},
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
