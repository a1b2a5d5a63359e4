// Package result is what a plan says: what an edit of the StorageCluster would do; and what is said of the nodes'
// disks. The operator prints it as JSON, and the kubectl plugin shows it. It knows nothing of either.
package result

// Outcome says in one word what an edit would do.
type Outcome string

// Outcomes.
const (
	// Nothing: the cluster is as the edited spec says.
	Nothing Outcome = "Nothing"
	// Changes: the operator would do something.
	Changes Outcome = "Changes"
	// Refused: the API server or the operator would not take the spec. Nothing would be done for it.
	Refused Outcome = "Refused"
)

// Plan is what an edit of the StorageCluster would do.
type Plan struct {
	Outcome Outcome `json:"outcome"`
	// Operator is the version of the operator that has judged the edit; "" where the API server refused it before.
	Operator string `json:"operator,omitempty"`
	// Phase is the one that the cluster is in.
	Phase string `json:"phase,omitempty"`
	// Of says what was planned.
	Of Subject `json:"of"`
	// Suspended is true if spec.suspend keeps the operator from taking the edit up.
	Suspended bool `json:"suspended,omitempty"`
	// Refusals are why the edit would be refused.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Fields are what the edit changes.
	Fields []Field `json:"fields,omitempty"`
	// Phases are those that the cluster would go through, one after the other.
	Phases []Phase `json:"phases,omitempty"`
	// Nodes are those that would join or leave.
	Nodes []NodeChange `json:"nodes,omitempty"`
	// Objects are those of Kubernetes that would be made, changed or removed.
	Objects []Object `json:"objects,omitempty"`
	// Restarts are the pods that would be restarted.
	Restarts []Restart `json:"restarts,omitempty"`
	// Members are those of the etcd that the operator runs, as far as they would come or go.
	Members []Members `json:"members,omitempty"`
	// Pools are storage pools that would be made or removed, and from which disks.
	Pools []Pool `json:"pools,omitempty"`
	// Linstor is what would be written to LINSTOR.
	Linstor []Write `json:"linstor,omitempty"`
	// Holds are questions to a human in which the edit would end.
	Holds []Hold `json:"holds,omitempty"`
	// Unknown is what could not be found out.
	Unknown []string `json:"unknown,omitempty"`
	// Notes are worth knowing besides.
	Notes []string `json:"notes,omitempty"`
}

// Subject says what was planned.
type Subject string

// Subjects.
const (
	// Edit: a change of the object as it is stored.
	Edit Subject = "Edit"
	// Creation: there is no StorageCluster yet.
	Creation Subject = "Creation"
	// Present: the object as it is stored, whose spec may wait to be taken up.
	Present Subject = "Present"
)

// Refusal is why an edit would not be taken.
type Refusal struct {
	// By is who refuses: "API server" or "operator".
	By string `json:"by"`
	// Reason is the API server's, or that of the hold that would begin.
	Reason string `json:"reason,omitempty"`
	// Message says why. The operator's names the field.
	Message string `json:"message"`
	// Fields are the fields that the API server names.
	Fields []string `json:"fields,omitempty"`
	// Options are the answers that the hold would take.
	Options []Option `json:"options,omitempty"`
}

// Option is an answer that a hold takes.
type Option struct {
	Answer string `json:"answer"`
	Does   string `json:"does,omitempty"`
}

// Field is a field, or an entry of a list, that an edit changes.
type Field struct {
	// Path is the field in the spec: storagePools[ssd].properties.
	Path string `json:"path"`
	// From and To are its values; nil for none.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
	// Class is the field's in the present phase; see docs/changing-the-spec.md.
	Class string `json:"class"`
	// When says when the change is taken up, and Effect what it does.
	When   string `json:"when"`
	Effect string `json:"effect"`
}

// Phase is one that the cluster would go through.
type Phase struct {
	Name string `json:"name"`
	// Why the cluster would enter it; "" if that follows from the one before.
	Why string `json:"why,omitempty"`
}

// Names are some of many names.
type Names struct {
	Count int `json:"count"`
	// Names are the first of them.
	Names []string `json:"names,omitempty"`
}

// MostNames bounds how many names are listed.
const MostNames = 10

// Of lists names.
func Of(names []string) Names {
	return Names{Count: len(names), Names: names[:min(len(names), MostNames)]}
}

// NodeChange is nodes that would join or leave.
type NodeChange struct {
	Names
	// Do is "join", "leave" or "leave in another way".
	Do string `json:"do"`
	// How says what would become of them.
	How string `json:"how,omitempty"`
}

// Object is one of Kubernetes that would be written.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Do is "create", "change" or "remove".
	Do string `json:"do"`
	// Fields are the fields that would change, the first of them.
	Fields []string `json:"fields,omitempty"`
	// More is how many fields would change beside those.
	More int `json:"more,omitempty"`
}

// Restart is pods that would be restarted.
type Restart struct {
	// What they are: "satellites", "LINSTOR's controller".
	What string `json:"what"`
	// Names are the nodes, or the pods, that it is about.
	Names
	// How says in which order they are restarted, and what does not work meanwhile.
	How string `json:"how"`
}

// Members are members of etcd that would come or go.
type Members struct {
	// Do is "start" or "remove", and Count of how many.
	Do    string `json:"do"`
	Count int    `json:"count"`
	// Nodes are those on which they would be started, or of whose members so many would be removed.
	Nodes Names `json:"nodes"`
	// How says in which order, and what does not work meanwhile.
	How string `json:"how"`
}

// Pool is a storage pool on nodes of which the same is to be said.
type Pool struct {
	Name  string `json:"name"`
	Nodes Names  `json:"nodes"`
	// Do is "make", "register", "remove", "approve", "wait", "skip" or "unknown".
	Do string `json:"do"`
	// Text says what would be done, or why nothing is.
	Text string `json:"text"`
	// Disks are those that would be overwritten, at once or once they are approved.
	Disks []Disk `json:"disks,omitempty"`
	// Refused are disks that match and would not be used, with the reason.
	Refused []string `json:"refused,omitempty"`
}

// Disk is a disk of a node.
type Disk struct {
	Node      string `json:"node"`
	Path      string `json:"path"`
	Serial    string `json:"serial,omitempty"`
	Model     string `json:"model,omitempty"`
	SizeBytes int64  `json:"sizeBytes"`
}

// Write is what would be written to LINSTOR.
type Write struct {
	// What is written: "properties of the controller".
	What  string `json:"what"`
	Nodes Names  `json:"nodes,omitzero"`
	// Set are properties that would be set, and Delete those that would be removed, as far as that is known.
	Set    map[string]string `json:"set,omitempty"`
	Delete []string          `json:"delete,omitempty"`
}

// Hold is a question to a human in which an edit would end.
type Hold struct {
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
	Options []Option `json:"options,omitempty"`
}
