package linstor

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const (
	// AuxPrefix begins every property that is the operator's own note on an object. LINSTOR takes any value under Aux/.
	AuxPrefix = "Aux/storage.linstor.dev/"
	// keysProperty lists, as a JSON array, the keys that the operator manages on the object that carries it. A key that
	// leaves the specification is deleted because it is in this list; a key that is not is somebody else's.
	keysProperty = AuxPrefix + "keys"
)

// Change is what to send to make an object's properties as wanted.
type Change struct {
	Set    map[string]string
	Delete []string
}

// Empty tells whether there is nothing to send.
func (c Change) Empty() bool { return len(c.Set) == 0 && len(c.Delete) == 0 }

// Diff compares the properties an object has with those wanted of it. have holds all of the object's properties and with
// them the list of the keys that were set before; keys that are neither wanted nor in that list are left alone. Send the
// whole Change in one call, so that the list never differs from what was set.
//
// Values that LINSTOR normalises count as equal: it stores "yes" or "True" as "true" or "yes", by the kind of the
// property. Keys whose values LINSTOR's answers are stripped of here (passwords) would be set again each time and must
// not be wanted.
func Diff(have, want map[string]string) Change {
	change := Change{Set: map[string]string{}}
	keys := make([]string, 0, len(want))
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if k == keysProperty {
			continue
		}
		keys = append(keys, k)
		if v, ok := have[k]; !ok || !sameValue(k, v, want[k]) {
			change.Set[k] = want[k]
		}
	}
	for _, k := range ownedKeys(have) {
		_, present := have[k]
		if _, wanted := want[k]; present && !wanted && k != keysProperty {
			change.Delete = append(change.Delete, k)
		}
	}
	switch list, listed := have[keysProperty]; {
	case len(keys) == 0 && listed:
		change.Delete = append(change.Delete, keysProperty)
	case len(keys) > 0:
		if encoded := encodeKeys(keys); encoded != list {
			change.Set[keysProperty] = encoded
		}
	}
	if len(change.Set) == 0 {
		change.Set = nil
	}
	return change
}

// ownedKeys reads the list of keys that were set before, sorted and without repetition. A list that cannot be read owns
// nothing: to leave a property behind is better than to delete a stranger's.
func ownedKeys(have map[string]string) []string {
	var keys []string
	if err := json.Unmarshal([]byte(have[keysProperty]), &keys); err != nil {
		return nil
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func encodeKeys(keys []string) string {
	data, err := json.Marshal(keys)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(data)
}

// sameValue compares two values of a key the way LINSTOR stores them. It keeps free-form values (Aux/) as they are.
func sameValue(key, a, b string) bool {
	if a == b {
		return true
	}
	if strings.HasPrefix(key, "Aux/") {
		return false
	}
	x, isBool := truth(a)
	y, alsoBool := truth(b)
	return isBool && alsoBool && x == y
}

// truth reads the words LINSTOR takes for booleans.
func truth(v string) (value, ok bool) {
	switch strings.ToLower(v) {
	case "true", "yes":
		return true, true
	case "false", "no":
		return false, true
	}
	return false, false
}
