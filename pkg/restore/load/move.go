package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
)

// Move says what LINSTOR's own program has moved from one database into another, and through which files.
type Move struct {
	// Cluster is the Cluster/LocalID of LINSTOR, and Mark what the claim says of the move.
	Cluster string `json:"cluster"`
	Mark    string `json:"mark"`
	// Export is the file with the export of the one database, and Restored that of the other one afterwards.
	Export   string `json:"export"`
	Restored string `json:"restored"`
}

// ParseMove reads a Move from JSON. An error names the field.
func ParseMove(text string) (*Move, error) {
	m := &Move{}
	if err := decode(text, m); err != nil {
		return nil, fmt.Errorf("parse the move configuration: %w", err)
	}
	return m, lacks("the move configuration", map[string]string{"cluster": m.Cluster, "mark": m.Mark,
		"export": m.Export, "restored": m.Restored})
}

// Moved is data that was moved.
type Moved struct {
	Mark string `json:"mark"`
	// Rows is how many rows there are.
	Rows int `json:"rows"`
}

// Check fails unless both databases hold the same rows, those of this LINSTOR, and removes both files: they hold keys,
// and the pod may stay.
func (m *Move) Check() (moved *Moved, err error) {
	defer func() { err = errors.Join(err, remove(m.Export), remove(m.Restored)) }()
	s, err := export.SameRows(m.Export, m.Restored)
	if err != nil {
		return nil, err
	}
	if s.LocalID != m.Cluster {
		return nil, fmt.Errorf("the exported database belongs to another cluster: its Cluster/LocalID is %q, but this "+
			"cluster's is %s", s.LocalID, m.Cluster)
	}
	return &Moved{Mark: m.Mark, Rows: s.Rows}, nil
}

// Note is what was moved as JSON, for the termination log of a container.
func (m *Moved) Note() ([]byte, error) { return json.Marshal(m) }

// ParseMoved reads a note. One that does not say what was moved is an error.
func ParseMoved(text string) (*Moved, error) {
	m := &Moved{}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, fmt.Errorf("parse the move result: %w", err)
	}
	if m.Mark == "" {
		return nil, errors.New("the move result does not identify the move")
	}
	return m, nil
}

// decode reads JSON that has no unknown fields.
func decode(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// lacks is an error that names the fields without a value.
func lacks(what string, fields map[string]string) (err error) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] == "" {
			err = errors.Join(err, fmt.Errorf("%s lacks %s", what, name))
		}
	}
	return err
}
