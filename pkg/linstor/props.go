package linstor

import (
	"encoding/json"
	"slices"
	"strings"
)

// Properties that the operator reads or writes.
const (
	// PropUname is where LINSTOR keeps the host name of the satellite that it connected to last (linstor-server,
	// CtrlAuthResponseApiCallHandler.updateUnameMap). A node without it was never ONLINE.
	PropUname = "NodeUname"
	// PropLocalID is the controller's: the identity of its database, which exports and imports take along. LINSTOR
	// makes one while it makes its tables (linstor-server 1.34, Migration_2018_03_27_14_01_ConsolidatedInit and, in
	// Kubernetes, Migration_10_v1_19_1_ConsolidatedInit).
	PropLocalID = "Cluster/LocalID"
	// PropAutoplace on a node set to false keeps new copies of volumes away; what is there stays.
	PropAutoplace = "AutoplaceTarget"
	// TopologyPrefix begins the properties of a node that say where it is. What follows is the key of a Node label; the
	// CSI driver makes it a topology key (its flag --property-namespace).
	TopologyPrefix = "Aux/topology/"
	// AuxPrefix begins every property that is the operator's own note on an object. LINSTOR takes any value under Aux/.
	AuxPrefix = "Aux/storage.linstor.dev/"
	// PropNodeUID is on a node that the operator registered: the UID of its Kubernetes Node.
	PropNodeUID = AuxPrefix + "node-uid"
	// PropEpoch is on the controller: the number by which the operator notices that Kubernetes was put back in time.
	PropEpoch = AuxPrefix + "epoch"
	// PropKeys lists, as a JSON array, the keys that the operator manages on the object that carries it. A key that
	// leaves the specification is deleted because it is in this list; a key that is not is somebody else's.
	PropKeys = AuxPrefix + "keys"
	// PropAutoQuorum had LINSTOR before 1.31 give volumes quorum. Since then LINSTOR does so by itself and ignores it.
	PropAutoQuorum = "DrbdOptions/auto-quorum"
	// PropQuorum says with how many copies a volume has quorum, and PropOnNoQuorum what happens without.
	PropQuorum     = "DrbdOptions/Resource/quorum"
	PropOnNoQuorum = "DrbdOptions/Resource/on-no-quorum"
	// PropUnkept says, as JSON, what LINSTOR of a version accepted for the object that carries it and did not keep.
	PropUnkept = AuxPrefix + "not-kept"
)

// Change is what to send to make an object's properties as wanted.
type Change struct {
	Set    map[string]string
	Delete []string
	// Unkept are wanted properties that are not sent, because this version of LINSTOR accepted them and did not keep
	// them. They are written again when the value or the version is another one.
	Unkept map[string]string `json:"-"`
}

// Empty reports whether there is nothing to send.
func (c Change) Empty() bool { return len(c.Set) == 0 && len(c.Delete) == 0 }

// Diff compares the properties an object has with those wanted of it. have holds all of the object's properties and
// with them the list of the keys that were set before; keys that are neither wanted nor in that list are left alone.
// Send the whole Change in one call, so that the list never differs from what was set.
//
// Values that LINSTOR normalises count as equal: it stores "yes" or "True" as "true" or "yes", by the kind of the
// property. Keys whose values LINSTOR's answers are stripped of here (passwords) would be set again each time and must
// not be wanted. What LINSTOR of this version has not kept is not set again, see [Change.Send].
func Diff(have, want map[string]string, version string) Change {
	var change Change
	unkept := Unkept(have, want, version)
	keys := make([]string, 0, len(want))
	for k, v := range want {
		if k != PropKeys {
			keys = append(keys, k)
			change.want(have, unkept, k, v)
		}
	}
	slices.Sort(keys)
	list, _ := json.Marshal(keys) // strings always encode
	if len(keys) > 0 {
		change.want(have, unkept, PropKeys, string(list))
	}
	change.dropNote(have)
	if have[PropKeys] != string(list) { // else what was set before is what is wanted
		change.forget(have, want)
	}
	return change
}

// want sets a property, unless it is as wanted or was not kept.
func (c *Change) want(have, unkept map[string]string, k, v string) {
	if old, present := have[k]; present && SameValue(k, old, v) {
		return // most calls find nothing to change, and there are some for each node in each reconcile
	}
	to := &c.Set
	if _, tried := unkept[k]; tried {
		to = &c.Unkept
	}
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[k] = v
}

// forget deletes what was set before and is not wanted any more, and the list itself with the last key.
func (c *Change) forget(have, want map[string]string) {
	for _, k := range ownedKeys(have) {
		_, present := have[k]
		if _, wanted := want[k]; present && !wanted && k != PropKeys && k != PropUnkept {
			c.Delete = append(c.Delete, k)
		}
	}
	_, sets := c.Set[PropKeys]
	if _, listed := have[PropKeys]; listed && !sets {
		c.Delete = append(c.Delete, PropKeys)
	}
}

// Initial are the properties that an object is made with.
func Initial(want map[string]string) map[string]string { return Diff(nil, want, "").Set }

// ownedKeys reads the list of keys that were set before, sorted and without repetition. A list that cannot be read
// owns nothing: to leave a property behind is better than to delete a stranger's.
func ownedKeys(have map[string]string) []string {
	var keys []string
	if json.Unmarshal([]byte(have[PropKeys]), &keys) != nil {
		return nil
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// SameValue compares two values of a key the way LINSTOR stores them. It keeps free-form values (Aux/) as they are.
func SameValue(key, a, b string) bool {
	return a == b || !strings.HasPrefix(key, "Aux/") && truth(a) != "" && truth(a) == truth(b)
}

// IsFalse reports whether LINSTOR takes a property's value for false: "false" or "no", in any case of letters.
func IsFalse(value string) bool { return truth(value) == "false" }

// truth reads the words that LINSTOR takes for booleans; "" for any other.
func truth(v string) string {
	switch strings.ToLower(v) {
	case "true", "yes":
		return "true"
	case "false", "no":
		return "false"
	}
	return ""
}
