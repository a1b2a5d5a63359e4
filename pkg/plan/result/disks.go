package result

// Disks are those of each node, and what becomes of them by the rules of a spec: the entries of
// spec.storagePools with devices.
type Disks struct {
	// Operator is the version of the operator that has judged the disks.
	Operator string `json:"operator,omitempty"`
	// Of says whose rules these are: those of an edit, of a new object, or of the object as it is stored.
	Of Subject `json:"of"`
	// Refusals are why the edit would be refused.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Notes are worth knowing of the whole cluster.
	Notes []string `json:"notes,omitempty"`
	// Nodes are the members of the cluster, by name.
	Nodes []NodeDisks `json:"nodes,omitempty"`
}

// NodeDisks is what a node has.
type NodeDisks struct {
	Name string `json:"name"`
	// Unknown says what could not be looked at on the node.
	Unknown []string `json:"unknown,omitempty"`
	// Notes are why nothing is made there now, and what pools lack that no disk is said of.
	Notes []string `json:"notes,omitempty"`
	// Disks are by path.
	Disks []NodeDisk `json:"disks,omitempty"`
}

// NodeDisk is one disk.
type NodeDisk struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"sizeBytes"`
	// Type is "SSD", "HDD" or "NVMe"; "" if it is not known.
	Type   string `json:"type,omitempty"`
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Fate   Fate   `json:"fate"`
	// Pool is LINSTOR's pool that the disk is in, or the entry of spec.storagePools that matches it; "" for none.
	Pool string `json:"pool,omitempty"`
	// Text says in one sentence, which begins with the disk, what becomes of it, or why nothing does.
	Text string `json:"text"`
}

// Fate says in one word what becomes of a disk.
type Fate string

// Fates.
const (
	// InPool: it is part of a pool.
	InPool Fate = "InPool"
	// BecomesPool: a pool is made from it at the next step.
	BecomesPool Fate = "BecomesPool"
	// NeedsAnswer: a pool is made from it once a human has agreed.
	NeedsAnswer Fate = "NeedsAnswer"
	// NotUsed: an entry matches it, and no pool is made from it all the same.
	NotUsed Fate = "NotUsed"
	// NoMatch: it is empty, and no entry matches it.
	NoMatch Fate = "NoMatch"
	// InUse: it is not empty, or no disk that LINSTOR could use, and no entry matches it.
	InUse Fate = "InUse"
	// Unknown: it could not be found out whether it is empty.
	Unknown Fate = "Unknown"
)
