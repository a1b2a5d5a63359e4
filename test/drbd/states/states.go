// Package states has states of a real DRBD 9.3.3 that were recorded, as the input of tests of everything that judges
// replicas. linstor/ has what LINSTOR 1.33.3 reported of nodes and resources, reduced to the fields that are read;
// drbd.txt has what DRBD itself reported.
package states

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
)

//go:embed linstor/*.json drbd.txt
var recorded embed.FS

// State is what was recorded at one time.
type State struct {
	Name string
	// Online has the nodes that are ONLINE in LINSTOR.
	Online    map[string]bool
	Resources []linstor.Resource
	// Want is what drbd.txt expects of it, line by line.
	Want []string
}

// Names are the states in linstor/.
func Names(t testing.TB) []string {
	files, err := recorded.ReadDir("linstor")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".json"))
	}
	return out
}

// Linstor is a state as LINSTOR reported it. The nodes node-a, node-b and node-c get other names if there are any.
func Linstor(t testing.TB, name string, nodes ...string) *State {
	t.Helper()
	data, err := recorded.ReadFile("linstor/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		data = bytes.ReplaceAll(data, []byte(`"node-`+string(rune('a'+i))+`"`), []byte(`"`+n+`"`))
	}
	var file struct {
		Nodes     map[string]string `json:"nodes"`
		Resources []copies.Wire     `json:"resources"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	s := &State{Name: name, Online: map[string]bool{}}
	for node, status := range file.Nodes {
		s.Online[node] = status == linstor.StatusOnline
	}
	for i := range file.Resources {
		s.Resources = append(s.Resources, file.Resources[i].Resource())
	}
	return s
}

// Show makes a view of LINSTOR show a state. It has to have the nodes.
func Show(t testing.TB, v *linstor.View, name string, nodes ...string) {
	t.Helper()
	s := Linstor(t, name, nodes...)
	volumes := map[string]bool{}
	for _, r := range s.Resources {
		volumes[r.Name] = true
	}
	v.Resources, v.ResourcesKnown, v.Volumes = s.Resources, true, len(volumes)
	for node, online := range s.Online {
		if !online {
			v.Node(node).Status = linstor.StatusOffline
		}
	}
}

// DRBD are the states in drbd.txt, in LINSTOR's terms: LINSTOR passes on what DRBD reports.
func DRBD(t testing.TB) []*State {
	t.Helper()
	data, err := recorded.ReadFile("drbd.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []*State
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(lines.Text(), " "):
			out = append(out, &State{Name: line, Online: map[string]bool{}})
		case strings.HasPrefix(line, "= "):
			s := out[len(out)-1]
			s.Want = append(s.Want, strings.TrimPrefix(line, "= "))
		default:
			r, err := parse(line)
			if err != nil {
				t.Fatalf("drbd.txt: %q: %v", line, err)
			}
			s := out[len(out)-1]
			s.Resources, s.Online[r.Node] = append(s.Resources, r), copies.HasState(&r)
		}
	}
	return out
}

// parse reads a line: the node, its role, the state of its disk, its promotion score and its connections.
func parse(line string) (linstor.Resource, error) {
	words := strings.Fields(line)
	if len(words) < 4 {
		return linstor.Resource{}, fmt.Errorf("%d words", len(words))
	}
	score, err := strconv.Atoi(words[3])
	disk, client := strings.CutSuffix(words[2], "(client)")
	inUse := words[1] == "Primary"
	r := linstor.Resource{Name: "pvc", Node: words[0], Diskful: !client, States: []string{linstor.DiskState(disk)},
		InUse: &inUse, PromotionScore: &score, Connected: map[string]bool{}}
	if client {
		r.Flags = []string{linstor.FlagDiskless}
	}
	if disk == "-" { // its node, or its satellite, is down
		return linstor.Resource{Name: "pvc", Node: words[0], Diskful: true, States: []string{""}}, err
	}
	for _, w := range words[4:] {
		peer, state, _ := strings.Cut(w, ":")
		r.Connected[peer] = state == "Connected"
		if state == "StandAlone" {
			r.StandAlone = append(r.StandAlone, peer)
		}
	}
	return r, err
}
