package linstor

import (
	"encoding/json"
	"errors"
	"maps"
)

// note is the value of PropUnkept.
type note struct {
	Version    string            `json:"version"`
	Properties map[string]string `json:"properties"`
}

// Unkept are those of an object's properties that LINSTOR of that version accepted and did not keep.
func Unkept(have map[string]string, version string) map[string]string {
	var n note
	if have[PropUnkept] == "" || json.Unmarshal([]byte(have[PropUnkept]), &n) != nil || n.Version != version {
		return nil
	}
	return n.Properties
}

// dropNote deletes the note of what was not kept once it speaks of nothing that is wanted.
func (c *Change) dropNote(have map[string]string) {
	if _, there := have[PropUnkept]; there && len(c.Unkept) == 0 {
		c.Delete = append(c.Delete, PropUnkept)
	}
}

// Send writes the change to LINSTOR of that version. What it accepts and does not keep would be missing at each look,
// and be written in each reconcile. So it is noted on the object itself, where a restart of the operator does not
// forget it, and not sent again.
func (c *Change) Send(version string, write func(set map[string]string, del []string) error) error {
	err := write(c.Set, c.Delete)
	var lost *NotKeptError
	if !errors.As(err, &lost) {
		return err
	}
	properties := maps.Clone(lost.Properties)
	maps.Copy(properties, c.Unkept)
	text, err := json.Marshal(note{Version: version, Properties: properties})
	if err != nil {
		return err
	}
	return write(map[string]string{PropUnkept: string(text)}, nil)
}

// replacements say what to write instead of properties that LINSTOR accepts and does not keep.
var replacements = map[string]string{
	PropAutoQuorum: "volumes have quorum without it, which " + PropQuorum + " set to \"off\" prevents; " +
		PropOnNoQuorum + " says what happens without quorum",
	"ExtCmdWaitTimeout": "set ExtCmd/WaitTimeout instead",
}

// Replacement says what to write instead of a property that LINSTOR accepts and does not keep; "" if it is not known.
func Replacement(key string) string { return replacements[key] }
