package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// controller is Piraeus' Deployment of LINSTOR's controller; nil if there is none.
func (s *facts) controller() *appsv1.Deployment {
	i := slices.IndexFunc(s.Deployments, func(d appsv1.Deployment) bool { return d.Name == seen.ControllerName })
	if i < 0 {
		return nil
	}
	return &s.Deployments[i]
}

// satelliteSets are the DaemonSets of satellites, by the names of their nodes in lower case. Their own names vary with
// Piraeus' version, so it goes by their owners first.
func (s *facts) satelliteSets() map[string]*appsv1.DaemonSet {
	out := map[string]*appsv1.DaemonSet{}
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		for _, o := range d.OwnerReferences {
			if o.Kind == "LinstorSatellite" {
				out[strings.ToLower(o.Name)] = d
			}
		}
		if node, ok := strings.CutPrefix(d.Name, seen.SatellitePrefix); ok && out[node] == nil {
			out[node] = d
		}
	}
	return out
}

// piraeusVersion is the version of Piraeus' operator.
func (s *facts) piraeusVersion() string {
	for i := range s.Deployments {
		d := &s.Deployments[i]
		if !seen.IsOperator(d) {
			continue
		}
		label := strings.TrimPrefix(d.Labels["app.kubernetes.io/version"], "v")
		v := seen.TagOf(seen.Container(&d.Spec.Template, "manager").Image)
		if v != "" || seen.VersionPattern.MatchString(label) {
			return cmp.Or(v, label)
		}
	}
	return ""
}

// linstorVersion is the version of LINSTOR's controller: what it has told Piraeus' operator, or its image.
func (s *facts) linstorVersion() string {
	if v := s.cluster().Status.Version; seen.VersionPattern.MatchString(v) {
		return v
	}
	if d := s.controller(); d != nil {
		return seen.TagOf(seen.Container(&d.Spec.Template, seen.ControllerName).Image)
	}
	return ""
}

func (s *facts) found() Found {
	spec := &s.cluster().Spec
	f := Found{Host: s.Host, Namespace: s.Namespace, Piraeus: s.piraeusVersion(), Linstor: s.linstorVersion(),
		Database: s.DB.Kind, DatabaseURL: s.DB.Said, Objects: s.DB.Objects, Tables: s.DB.Tables,
		Passphrase: spec.PassphraseSecret, Present: s.Secrets[spec.PassphraseSecret], APITLS: spec.APITLS != nil,
		InternalTLS: spec.InternalTLS != nil, Volumes: len(s.Volumes), Source: s.Linstor.From, Running: s.Linstor.Running}
	_, f.Supported = catalogue.Embedded().Release(f.Linstor)
	names := map[string]bool{}
	for i := range s.Linstor.Copies {
		names[strings.ToLower(s.Linstor.Copies[i].Resource)] = true
	}
	f.Resources = len(names)
	return f
}

// when is a blocker, unless the condition does not hold.
func when(holds bool, b Blocker) []Blocker {
	if !holds {
		return nil
	}
	return []Blocker{b}
}

// installationBlockers are about what Piraeus is asked for, and the versions that run.
func (s *facts) installationBlockers(f *Found) []Blocker {
	external := s.cluster().Spec.ExternalController
	newest := catalogue.Embedded().Versions()
	out := slices.Concat(
		when(s.Ours, Blocker{"StorageClusterPresent", "a StorageCluster already exists: this operator runs LINSTOR in " +
			"this cluster, or has done so before", "determine which LINSTOR manages the volumes: a Kubernetes cluster can " +
			"have only one"}),
		when(len(s.Clusters) == 0 && s.Unread["linstorclusters.piraeus.io"] == "", Blocker{"NoLinstorCluster",
			"no LinstorCluster exists, so the Piraeus settings are unknown",
			"scale the Piraeus operator to 0, restore the LinstorCluster from your manifests, and run this command again"}),
		when(len(s.Clusters) > 1, Blocker{"SeveralLinstorClusters", fmt.Sprintf("%d LinstorClusters exist and "+
			"compete for the same objects", len(s.Clusters)), "determine which one is in use before you delete anything: " +
			"deleting a LinstorCluster removes the LINSTOR controller"}),
		when(external != nil, Blocker{"ExternalController", "spec.externalController is set: the LINSTOR controller runs " +
			"outside this cluster", "none: this operator runs the LINSTOR controller and cannot adopt an external one"}),
		when(f.Linstor == "", Blocker{"LinstorVersionUnknown", "the LINSTOR version is unknown: neither the " +
			"LinstorCluster nor the tag of the controller image contains it", "determine the version: a controller of " +
			"a different version would change the database irreversibly"}),
		when(f.Linstor != "" && !f.Supported, Blocker{"LinstorVersionUnsupported", fmt.Sprintf("the LINSTOR version is %s, "+
			"but this version of the operator supports only %s", f.Linstor, strings.Join(newest, ", ")), "use Piraeus to " +
			"change LINSTOR to one of these versions, or add the release to the operator's catalogue: the version must not " +
			"change during the adoption"}),
	)
	if others := s.otherVersions(f.Linstor); f.Linstor != "" && len(others) > 0 {
		out = append(out, Blocker{"VersionsDiffer", fmt.Sprintf("the LINSTOR version is %s, but these workloads use "+
			"a different version: %s", f.Linstor, text.ListSome(others)),
			"an upgrade is in progress or stuck: let Piraeus finish it"})
	}
	return out
}

// otherVersions are the workloads with an image of another LINSTOR.
func (s *facts) otherVersions(of string) []string {
	var out []string
	note := func(name, image string) {
		if v := seen.TagOf(image); v != "" && v != of {
			out = append(out, name+" ("+v+")")
		}
	}
	if d := s.controller(); d != nil {
		note(d.Name, seen.Container(&d.Spec.Template, seen.ControllerName).Image)
	}
	sets := s.satelliteSets()
	for _, node := range slices.Sorted(maps.Keys(sets)) {
		note(sets[node].Name, seen.Container(&sets[node].Spec.Template, "linstor-satellite").Image)
	}
	return out
}

func (s *facts) databaseBlockers(f *Found) []Blocker {
	release, known := catalogue.Embedded().Release(f.Linstor)
	unfit := s.DB.Kind != "" && known && !slices.Contains(release.Databases, s.DB.Kind)
	sql := s.DB.Kind == v1alpha1.DatabasePostgreSQL || s.DB.Kind == v1alpha1.DatabaseMariaDB
	return slices.Concat(
		when(s.DB.Kind == "" && s.DB.Said == "", Blocker{"DatabaseNotSeen", "could not determine LINSTOR's database: the " +
			"linstor-controller-config ConfigMap could not be read or has no connection_url",
			"check the ConfigMap in namespace " + s.Namespace}),
		when(s.DB.Kind == "" && s.DB.Said != "", Blocker{"DatabaseUnsupported", fmt.Sprintf("LINSTOR's database is %s, "+
			"which this operator does not support", s.DB.Said), "first use LINSTOR's linstor-database tool to move the data " +
			"to a supported database"}),
		when(unfit, Blocker{"DatabaseUnsupported", fmt.Sprintf("LINSTOR's database is %s, which this operator does not "+
			"support with LINSTOR %s", s.DB.Kind, f.Linstor), "first move the data to a different kind of database"}),
		when(s.DB.Kind == v1alpha1.DatabaseEtcd, Blocker{"DatabaseNotSeen", "this version does not read the etcd " +
			"endpoints, so they are missing from the StorageCluster", "add spec.database.etcd yourself"}),
		when(sql, Blocker{"DatabaseCredentials", "the database user and password are in Piraeus' configuration and are " +
			"not copied", "create a Secret named linstor-db with username and password keys in linstor-storage; the " +
			"StorageCluster refers to it"}),
		when(s.DB.Kind == v1alpha1.DatabaseKubernetes && s.DB.Tables == 0, Blocker{"DatabaseNotSeen", "LINSTOR's tables " +
			"in Kubernetes were not found", "check whether the internal.linstor.linbit.com CRDs exist"}),
	)
}

// lockBlockers are about the passphrase and TLS.
func (s *facts) lockBlockers() []Blocker {
	spec := &s.cluster().Spec
	present, looked := s.Secrets[spec.PassphraseSecret]
	var differ []string
	for i := range s.Satellites {
		if (s.Satellites[i].Spec.InternalTLS != nil) != (spec.InternalTLS != nil) {
			differ = append(differ, s.Satellites[i].Name)
		}
	}
	locked := spec.APITLS != nil || spec.InternalTLS != nil
	return slices.Concat(
		when(spec.PassphraseSecret != "" && looked && !present, Blocker{"PassphraseMissing", fmt.Sprintf("Secret %s with "+
			"LINSTOR's master passphrase is missing from %s: after its next restart, LINSTOR cannot unlock encrypted volumes",
			spec.PassphraseSecret, s.Namespace), "restore it; a new passphrase cannot unlock existing volumes"}),
		when(spec.PassphraseSecret != "" && !looked, Blocker{"PassphraseNotSeen", fmt.Sprintf("unknown whether Secret %s "+
			"with LINSTOR's master passphrase exists in %s", spec.PassphraseSecret, s.Namespace), "run this command with " +
			"permission to read Secrets in this namespace"}),
		when(len(differ) > 0, Blocker{"TLSDiffers", "internalTLS differs between the LinstorCluster and these satellites: " +
			text.ListSome(differ), "set internalTLS on all of them, or on none"}),
		when(locked, Blocker{"TLSCarriedByNone", "LINSTOR uses TLS with certificates from Piraeus (" + s.lockedParts() +
			"), but this operator signs its own, so its controller could not connect to the running satellites", "first " +
			"disable TLS in Piraeus, or wait for a version that can reuse existing certificates"}),
	)
}

func (s *facts) lockedParts() string {
	var parts []string
	if s.cluster().Spec.APITLS != nil {
		parts = append(parts, "apiTLS")
	}
	if s.cluster().Spec.InternalTLS != nil {
		parts = append(parts, "internalTLS")
	}
	return strings.Join(parts, ", ")
}

// nodeBlockers are about LINSTOR's nodes.
func (s *facts) nodeBlockers() []Blocker {
	var offline, leaving, strangers, addressless []string
	for _, key := range slices.Sorted(maps.Keys(s.Linstor.Nodes)) {
		n := s.Linstor.Nodes[key]
		if s.Linstor.Running && n.Status != "ONLINE" {
			offline = append(offline, n.Name+" ("+n.Status+")")
		}
		if copies.Going(n.Flags) {
			leaving = append(leaving, n.Name+" ("+strings.Join(n.Flags, ", ")+")")
		}
		switch k := s.kubernetesNode(n.Name); {
		case k == nil:
			strangers = append(strangers, n.Name)
		case addressOf(k, "") == "":
			addressless = append(addressless, n.Name)
		}
	}
	for i := range s.Satellites {
		if s.Satellites[i].DeletionTimestamp != nil {
			leaving = append(leaving, s.Satellites[i].Name+" (its LinstorSatellite is being deleted)")
		}
	}
	readNodes := s.Unread["nodes"] == ""
	return slices.Concat(
		when(s.Linstor.From == "", Blocker{"LinstorNotSeen", "LINSTOR's state could not be read: " + s.Linstor.Why,
			"check the pod of deploy/linstor-controller in " + s.Namespace + ", and your permission to run commands in it"}),
		when(s.Linstor.From != "" && !s.Linstor.Running, Blocker{"NodesNotSeen", "unknown whether nodes are ONLINE and " +
			"replicas UpToDate: " + s.Linstor.Why, "get permission to run commands in pods in " + s.Namespace + ", or check " +
			"manually: linstor node list, linstor resource list"}),
		when(len(offline) > 0, Blocker{"NodeNotOnline", "LINSTOR cannot reach " + text.ListSome(offline),
			"bring these nodes back online, or remove them with Piraeus, before you change anything else"}),
		when(len(leaving) > 0, Blocker{"NodeLeaving", "nodes are being removed from LINSTOR: " + text.ListSome(leaving),
			"wait until they have been removed, or cancel the removal with linstor node restore"}),
		when(len(strangers) > 0 && readNodes, Blocker{"NodeMissing", "LINSTOR has nodes that do not exist in " +
			"Kubernetes: " + text.ListSome(strangers), "remove them from LINSTOR, or bring the machines back: this operator " +
			"runs satellites only on Kubernetes nodes"}),
		when(len(addressless) > 0, Blocker{"NodeWithoutAddress", "these Nodes have no InternalIP, which is required " +
			"to reach the satellite: " + text.ListSome(addressless), "check why the kubelet is not reporting one"}),
	)
}

// copyBlockers are about resources.
func (s *facts) copyBlockers() []Blocker {
	var stale, syncing, leaving []string
	for i := range s.Linstor.Copies {
		v := &s.Linstor.Copies[i]
		where := v.Resource + " on " + v.Node
		if copies.Going(v.Flags) {
			leaving = append(leaving, where+" ("+strings.Join(v.Flags, ", ")+")")
			continue
		}
		if len(v.Syncing) > 0 {
			syncing = append(syncing, where+" ("+strings.Join(v.Syncing, ", ")+")")
		}
		if s.Linstor.Running && !v.Diskless && !v.Local && !v.Good() {
			stale = append(stale, where+" ("+cmp.Or(strings.Join(v.Disks, ", "), "unknown")+")")
		}
	}
	return slices.Concat(
		when(len(stale) > 0, Blocker{"CopyNotUpToDate", "replicas are not UpToDate: " + text.ListSome(stale),
			"repair them first: an adoption interrupts each node's connections once"}),
		when(len(syncing) > 0, Blocker{"SyncRunning", "replicas are resyncing: " + text.ListSome(syncing),
			"wait until the resync is complete"}),
		when(len(leaving) > 0, Blocker{"CopyLeaving", "LINSTOR is removing replicas, or has deactivated them: " +
			text.ListSome(leaving), "wait until this is complete, or cancel it"}),
	)
}

// recent is how old a backup may be. Of what LINSTOR has made since nobody would know.
const recent = 24 * time.Hour

func (s *facts) backupBlockers(now time.Time, taken bool) []Blocker {
	last := time.Time{}
	for i := range s.Backups {
		if t := s.Backups[i].CreationTimestamp.Time; t.After(last) {
			last = t
		}
	}
	message := "no backup of LINSTOR's database was found"
	if !last.IsZero() {
		message = "the latest backup of LINSTOR's database that was found is from " + last.UTC().Format(time.RFC3339)
	}
	return when(!taken && now.Sub(last) > recent, Blocker{"NoBackup", message, "take a backup as described in the " +
		"first step, store it outside this cluster, and use --backup-taken"})
}

func (s *facts) unreadBlockers() []Blocker {
	var out []Blocker
	for _, what := range slices.Sorted(maps.Keys(s.Unread)) {
		if what != "secrets of type "+seen.BackupType { // NoBackup says so
			out = append(out, Blocker{"NotSeen", what + " could not be read: " + s.Unread[what], "run this command " +
				"with more permissions: these objects may block the adoption"})
		}
	}
	return out
}

// kubernetesNode is the Node of a name, which LINSTOR may write in another case; nil if there is none.
func (s *facts) kubernetesNode(name string) *corev1.Node {
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return strings.EqualFold(n.Name, name) })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}
