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
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/linstorclient"
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
		when(s.Ours, Blocker{"StorageClusterPresent", "there is a StorageCluster already: this operator has, or has had, " +
			"a LINSTOR in this cluster",
			"find out which LINSTOR the volumes are in; there can be one in a Kubernetes cluster"}),
		when(len(s.Clusters) == 0 && s.Unread["linstorclusters.piraeus.io"] == "", Blocker{"NoLinstorCluster",
			"there is no LinstorCluster: nothing says what Piraeus was asked for",
			"put it back from your manifests while Piraeus' operator has no replicas, and look again"}),
		when(len(s.Clusters) > 1, Blocker{"SeveralLinstorClusters", fmt.Sprintf("there are %d LinstorClusters, which fight "+
			"for the same objects", len(s.Clusters)), "find out which one is meant before anything is deleted: deleting one " +
			"removes LINSTOR's controller"}),
		when(external != nil, Blocker{"ExternalController", "spec.externalController: LINSTOR's controller runs outside " +
			"of this cluster",
			"this operator runs LINSTOR's controller itself and cannot take one over that it does not start"}),
		when(f.Linstor == "", Blocker{"LinstorVersionUnknown", "LINSTOR's version is not known: neither the " +
			"LinstorCluster says it nor the tag of the controller's image", "find it out: a controller of another version " +
			"changes the database, and there is no way back"}),
		when(f.Linstor != "" && !f.Supported, Blocker{"LinstorVersionUnsupported", fmt.Sprintf("LINSTOR runs in version "+
			"%s, and this version of the operator knows %s", f.Linstor, strings.Join(newest, ", ")), "let Piraeus bring " +
			"LINSTOR to one of these, or add the release to the operator's catalogue: the version must not change while " +
			"the operator does"}),
	)
	if others := s.otherVersions(f.Linstor); f.Linstor != "" && len(others) > 0 {
		out = append(out, Blocker{"VersionsDiffer", fmt.Sprintf("LINSTOR runs in version %s, and these are made with "+
			"another one: %s", f.Linstor, text.ListSome(others)), "an upgrade is under way, or stuck: let Piraeus finish it"})
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
		when(s.DB.Kind == "" && s.DB.Said == "", Blocker{"DatabaseNotSeen", "it was not found out where LINSTOR keeps its " +
			"data: the ConfigMap linstor-controller-config could not be read, or has no connection_url",
			"look into the ConfigMap in " + s.Namespace}),
		when(s.DB.Kind == "" && s.DB.Said != "", Blocker{"DatabaseUnsupported", fmt.Sprintf("LINSTOR keeps its data in %s, "+
			"which this operator does not know", s.DB.Said), "move it into one that it knows first, with LINSTOR's program " +
			"linstor-database"}),
		when(unfit, Blocker{"DatabaseUnsupported", fmt.Sprintf("LINSTOR keeps its data in %s, which this operator does not "+
			"run LINSTOR %s with", s.DB.Kind, f.Linstor), "move it into another kind of database first"}),
		when(s.DB.Kind == v1alpha1.DatabaseEtcd, Blocker{"DatabaseNotSeen", "the endpoints of etcd are not read by this " +
			"version, so that the StorageCluster does not name them", "write spec.database.etcd yourself"}),
		when(sql, Blocker{"DatabaseCredentials", "user and password of the database are in Piraeus' configuration, which " +
			"is not read for them", "make a Secret linstor-db in linstor-storage with username and password, which the " +
			"StorageCluster names"}),
		when(s.DB.Kind == v1alpha1.DatabaseKubernetes && s.DB.Tables == 0, Blocker{"DatabaseNotSeen", "LINSTOR's tables " +
			"in Kubernetes were not seen", "look whether there are definitions of internal.linstor.linbit.com"}),
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
		when(spec.PassphraseSecret != "" && looked && !present, Blocker{"PassphraseMissing", fmt.Sprintf("the Secret %s "+
			"with LINSTOR's master passphrase is not in %s: the next start of LINSTOR leaves encrypted volumes locked",
			spec.PassphraseSecret, s.Namespace), "put it back; no new passphrase opens what the old one has locked"}),
		when(spec.PassphraseSecret != "" && !looked, Blocker{"PassphraseNotSeen", fmt.Sprintf("whether the Secret %s with "+
			"LINSTOR's master passphrase is in %s was not seen", spec.PassphraseSecret, s.Namespace), "ask somebody who may " +
			"see Secrets there"}),
		when(len(differ) > 0, Blocker{"TLSDiffers", "the LinstorCluster and these satellites do not agree on internalTLS: " +
			text.ListSome(differ), "set internalTLS on both sides, or on neither"}),
		when(locked, Blocker{"TLSCarriedByNone", "LINSTOR is locked with certificates of Piraeus (" + s.lockedParts() +
			"), and this operator signs its own: its controller would not reach the satellites that still run", "take TLS " +
			"off with Piraeus first, or wait for a version that carries certificates over"}),
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
		if linstorclient.Leaves(n.Flags) {
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
		when(s.Linstor.From == "", Blocker{"LinstorNotSeen", "what LINSTOR has was not seen: " + s.Linstor.Why,
			"look for the pod of deploy/linstor-controller in " + s.Namespace + ", and for your right to run commands in it"}),
		when(s.Linstor.From != "" && !s.Linstor.Running, Blocker{"NodesNotSeen", "whether nodes are ONLINE and copies " +
			"UpToDate was not seen: " + s.Linstor.Why, "get the right to run commands in pods of " + s.Namespace + ", or ask " +
			"LINSTOR yourself: linstor node list, linstor resource list"}),
		when(len(offline) > 0, Blocker{"NodeNotOnline", "LINSTOR does not reach " + text.ListSome(offline),
			"bring them back, or let Piraeus take them out, before anything else changes"}),
		when(len(leaving) > 0, Blocker{"NodeLeaving", "nodes leave LINSTOR: " + text.ListSome(leaving),
			"wait until they have left, or call it off: linstor node restore"}),
		when(len(strangers) > 0 && readNodes, Blocker{"NodeMissing", "LINSTOR has nodes of which Kubernetes has none by " +
			"that name: " + text.ListSome(strangers), "take them out of LINSTOR, or bring the machines back: this operator " +
			"runs a satellite on Nodes only"}),
		when(len(addressless) > 0, Blocker{"NodeWithoutAddress", "these Nodes have no InternalIP, at which their " +
			"satellite would be reached: " + text.ListSome(addressless), "see why their kubelets report none"}),
	)
}

// copyBlockers are about resources.
func (s *facts) copyBlockers() []Blocker {
	var stale, syncing, leaving []string
	for i := range s.Linstor.Copies {
		v := &s.Linstor.Copies[i]
		where := v.Resource + " on " + v.Node
		if linstorclient.Leaves(v.Flags) {
			leaving = append(leaving, where+" ("+strings.Join(v.Flags, ", ")+")")
			continue
		}
		if len(v.Syncing) > 0 {
			syncing = append(syncing, where+" ("+strings.Join(v.Syncing, ", ")+")")
		}
		if s.Linstor.Running && !v.Diskless && !v.Good() {
			stale = append(stale, where+" ("+cmp.Or(strings.Join(v.Disks, ", "), "not known")+")")
		}
	}
	return slices.Concat(
		when(len(stale) > 0, Blocker{"CopyNotUpToDate", "copies are not UpToDate: " + text.ListSome(stale),
			"mend them first: each node's connections break once in an adoption"}),
		when(len(syncing) > 0, Blocker{"SyncRunning", "copies are being synchronised: " + text.ListSome(syncing),
			"wait until it is over"}),
		when(len(leaving) > 0, Blocker{"CopyLeaving", "LINSTOR takes copies away, or has switched them off: " +
			text.ListSome(leaving), "wait until it is over, or call it off"}),
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
	message := "no backup of LINSTOR's database is seen"
	if !last.IsZero() {
		message = "the last backup of LINSTOR's database that is seen is of " + last.UTC().Format(time.RFC3339)
	}
	return when(!taken && now.Sub(last) > recent, Blocker{"NoBackup", message, "take one and keep it outside of this " +
		"cluster, as the first step says, and say --backup-taken"})
}

func (s *facts) unreadBlockers() []Blocker {
	var out []Blocker
	for _, what := range slices.Sorted(maps.Keys(s.Unread)) {
		if what != "secrets of type "+seen.BackupType { // NoBackup says so
			out = append(out, Blocker{"NotSeen", what + " could not be read: " + s.Unread[what], "what is there may be in " +
				"the way: look with more rights"})
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
