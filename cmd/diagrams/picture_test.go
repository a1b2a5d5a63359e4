package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// TestPicture: every state and every transition that is not told in words is drawn, and the words fit.
func TestPicture(t *testing.T) {
	table := fsm.Cluster()
	drawn, err := picture(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range table.States {
		if !strings.Contains(drawn, ">"+string(s.State)+"</text>") {
			t.Errorf("%s is not drawn", s.State)
		}
	}
	// The lines, the one to the first state, and the tip of all arrows.
	if got, want := strings.Count(drawn, "<path "), len(edges(table))+2; got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
	for _, b := range append(left, right...) {
		if n := utf8.RuneCountInString(b.words); n == 0 || n > 38 {
			t.Errorf("%s: %d characters do not fit", b.state, n)
		}
	}
	d := xml.NewDecoder(strings.NewReader(drawn))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPictureOfAnotherTable: what has no place is not left out silently.
func TestPictureOfAnotherTable(t *testing.T) {
	table := fsm.Cluster()
	table.States = append(table.States, fsm.StateInfo{State: "New"})
	if _, err := picture(table); err == nil || !strings.Contains(err.Error(), "New") {
		t.Errorf("a state without a place: %v", err)
	}
	table = fsm.Cluster()
	table.Rows = append(table.Rows, fsm.Row{From: fsm.Ready, Event: "Jump", To: fsm.Database})
	if _, err := picture(table); err == nil || !strings.Contains(err.Error(), "Database") {
		t.Errorf("a transition that cannot be drawn: %v", err)
	}
}
