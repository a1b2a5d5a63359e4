// Package judge makes the plan of an adoption of Piraeus 2 of what was seen: it asks nobody and writes nothing.
package judge

import (
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
)

// Plan is what an adoption would find and do.
type Plan struct {
	// Note says what becomes of the plan.
	Note string `json:"note"`
	// Clear reports whether nothing was found that is in the way. What could not be seen is in the way.
	Clear bool  `json:"clear"`
	Found Found `json:"found"`
	// Blockers are what is in the way.
	Blockers []Blocker `json:"blockers,omitempty"`
	Nodes    []Node    `json:"nodes,omitempty"`
	// StorageCluster would describe what is there.
	StorageCluster map[string]any `json:"storageCluster"`
	// Settings are those of Piraeus that the StorageCluster does not have.
	Settings []Setting `json:"settings,omitempty"`
	Objects  []Object  `json:"objects,omitempty"`
	// Steps are in their order.
	Steps []Step `json:"steps"`
}

// Found is what is there.
type Found struct {
	// Host is the API server's address.
	Host      string `json:"host"`
	Namespace string `json:"namespace"`
	// Piraeus is the version of its operator; "" if that is not known.
	Piraeus string `json:"piraeus,omitempty"`
	// Linstor is LINSTOR's version, Supported whether this version of the operator can run it.
	Linstor   string `json:"linstor,omitempty"`
	Supported bool   `json:"supported"`
	// Database is its kind; DatabaseURL is its address without credentials.
	Database    v1alpha1.DatabaseKind `json:"database,omitempty"`
	DatabaseURL string                `json:"databaseURL,omitempty"`
	// Objects and Tables are the size of a database in Kubernetes.
	Objects int `json:"objects,omitempty"`
	Tables  int `json:"tables,omitempty"`
	// Passphrase is the Secret with LINSTOR's master passphrase, Present whether it is there.
	Passphrase string `json:"passphrase,omitempty"`
	Present    bool   `json:"passphrasePresent,omitempty"`
	// APITLS and InternalTLS say whether LINSTOR's API and its satellites are locked.
	APITLS      bool `json:"apiTLS"`
	InternalTLS bool `json:"internalTLS"`
	// Volumes are the PersistentVolumes of LINSTOR's driver, Resources what LINSTOR has.
	Volumes   int `json:"volumes"`
	Resources int `json:"resources"`
	// Source says who told what LINSTOR has, and Running whether it is known how that is doing.
	Source  string `json:"source,omitempty"`
	Running bool   `json:"running"`
}

// Blocker is what is in the way of an adoption.
type Blocker struct {
	// Reason is a word for programs.
	Reason string `json:"reason"`
	// Message says what is wrong and where, Do what to do about it.
	Message string `json:"message"`
	Do      string `json:"do"`
}

// Node is a node of LINSTOR's, or one on which Piraeus runs a satellite.
type Node struct {
	Name string `json:"name"`
	// Network of the satellite: host, container, or unknown.
	Network string `json:"network"`
	// Status is what LINSTOR says of it; "" if it was not asked.
	Status     string      `json:"status,omitempty"`
	Flags      []string    `json:"flags,omitempty"`
	Interfaces []Interface `json:"interfaces,omitempty"`
	Pools      []Pool      `json:"pools,omitempty"`
	// Copies are resources with data there, Diskless those without.
	Copies   int `json:"copies"`
	Diskless int `json:"diskless"`
	// Risks are what can go wrong while the satellite is replaced.
	Risks []string `json:"risks,omitempty"`
}

// Interface is a network interface in LINSTOR.
type Interface struct {
	Name string `json:"name"`
	Now  string `json:"now"`
	// After is its address once the satellite is on the host's network; "" if it is not known.
	After string `json:"after,omitempty"`
}

// Pool is a storage pool of a node.
type Pool struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Place is its volume group, thin pool, zpool or directory.
	Place string `json:"place,omitempty"`
	// Entry is the entry of spec.storagePools that describes it; "" for none.
	Entry string `json:"entry,omitempty"`
	State string `json:"state"`
}

// States of pools.
const (
	// PoolSame: LINSTOR has the pool as Piraeus' objects describe it.
	PoolSame = "same"
	// PoolExtra: LINSTOR has it, and Piraeus' objects do not.
	PoolExtra = "extra"
	// PoolMissing: Piraeus' objects have it, and LINSTOR does not.
	PoolMissing = "missing"
	// PoolDiffers: both have it, of another kind or in another place.
	PoolDiffers = "differs"
	// PoolUnknown: one of the two could not be read.
	PoolUnknown = "unknown"
)

// Setting is one of Piraeus' settings without an equivalent.
type Setting struct {
	// Where names the object and the field.
	Where   string `json:"where"`
	Message string `json:"message"`
}

// Object is an object, or several alike, and what becomes of it.
type Object struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Fate is scaled, deleted, orphaned, copied, replaced or kept.
	Fate    string `json:"fate"`
	Message string `json:"message"`
}

// Step is a step of an adoption.
type Step struct {
	Title string `json:"title"`
	Does  string `json:"does"`
	// Pauses is what does not work meanwhile.
	Pauses string `json:"pauses"`
	// Back is the way back.
	Back string `json:"back"`
	// Commands do it by hand. A step without any cannot be done with this version.
	Commands []string `json:"commands,omitempty"`
}

const note = "This version only prints the plan and does not perform any steps. " +
	"The steps have not been tested with a real Piraeus installation."

// facts are what was seen, with what follows from it.
type facts struct{ *seen.Seen }

// Make makes the plan of what was seen.
func Make(of *seen.Seen, now time.Time, backupTaken bool) *Plan {
	s := &facts{of}
	g := s.generate()
	p := &Plan{Note: note, Found: s.found(), StorageCluster: g.object(), Nodes: s.judgeNodes(g)}
	p.Blockers = slices.Concat(s.installationBlockers(&p.Found), s.databaseBlockers(&p.Found), s.lockBlockers(),
		s.nodeBlockers(), s.copyBlockers(), g.blockers, s.backupBlockers(now, backupTaken), s.unreadBlockers())
	p.Clear = len(p.Blockers) == 0
	p.Settings = append(s.settings(), g.settings...)
	p.Objects = s.objects()
	p.Steps = s.steps()
	return p
}

// cluster is the LinstorCluster; an empty one if there is none, which is a blocker.
func (s *facts) cluster() *seen.LinstorCluster {
	if len(s.Clusters) == 0 {
		return &seen.LinstorCluster{}
	}
	return &s.Clusters[0]
}
