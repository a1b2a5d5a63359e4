package linstor

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// note is the value of PropUnkept.
type note struct {
	Version    string            `json:"version"`
	Properties map[string]string `json:"properties"`
}

// Unkept are those of the wanted properties that LINSTOR of that version accepted for an object and did not keep.
func Unkept(have, wanted map[string]string, version string) map[string]string {
	var n note
	if have[PropUnkept] == "" || json.Unmarshal([]byte(have[PropUnkept]), &n) != nil || n.Version != version {
		return nil
	}
	maps.DeleteFunc(n.Properties, func(k, noted string) bool {
		value, is := wanted[k]
		return !is || fingerprint(value) != noted
	})
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
//
// Only what is missing after two writes in a row is noted: after one, somebody else may have written it in between.
// Notes of the operator itself are never given up.
func (c *Change) Send(version string, write func(set map[string]string, del []string) error) error {
	err := write(c.Set, c.Delete)
	var lost *NotKeptError
	if !errors.As(err, &lost) {
		return err
	}
	if err = write(lost.Properties, nil); !errors.As(err, &lost) {
		return err
	}
	properties := map[string]string{}
	for k, v := range c.Unkept {
		properties[k] = fingerprint(v)
	}
	for k, v := range lost.Properties {
		if strings.HasPrefix(k, AuxPrefix) {
			return err
		}
		properties[k] = fingerprint(v)
	}
	text, err := json.Marshal(note{Version: version, Properties: properties})
	if err != nil {
		return err
	}
	return write(map[string]string{PropUnkept: string(text)}, nil)
}

// fingerprint stands for a value in a note, which LINSTOR limits to 4096 characters as any other value.
func fingerprint(value string) string {
	if len(value) <= 64 {
		return value
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(value)))[:64]
}

// replacements say what to write instead of properties that LINSTOR accepts and does not keep.
var replacements = map[string]string{
	PropAutoQuorum: "use " + PropQuorum + " to set when volumes have quorum (majority, LINSTOR's default, or off), and " +
		PropOnNoQuorum + " to set what happens without quorum",
	"ExtCmdWaitTimeout": "use ExtCmd/WaitTimeout instead",
}

// Replacement says what to write instead of a property that LINSTOR accepts and does not keep; "" if it is not known.
func Replacement(key string) string { return replacements[key] }
