package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// csiPool is the storage pool of the recordings.
const (
	csiPool     = "thin"
	csiPoolPath = "/var/lib/linstor-pools/thin"
)

// TestReplayCSI does with the exchanges of a real linstor-csi what TestReplay does with others, part by part: each
// begins with a LINSTOR of its own.
//
// Where many volumes were made at once the recordings have the first exchanges of each step only. What those that are
// missing did is concluded from the answers that follow: see site.suppose.
func TestReplayCSI(t *testing.T) {
	path := os.Getenv("LINSTOR_EXCHANGES_CSI")
	if path == "" {
		t.Skip("set LINSTOR_EXCHANGES_CSI to recorded exchanges of linstor-csi with a real LINSTOR to replay them")
	}
	score := score{unrecorded: []string{"[]/created_at", "/messages[]/created_at"}} // most answers came without
	part, supposed := "main", 0
	s := newPart(t, part)
	for _, x := range readExchanges(t, path) {
		if x.Part != "" && x.Part != part {
			part = x.Part
			supposed += s.supposed
			s.world.Close()
			s = newPart(t, part)
		}
		switch {
		case x.Outside != "":
			s.outsideCSI(x.Outside)
		case x.Request.Method == "" || x.Status == 0: // a note, or a request that nobody answered
		default:
			s.suppose(x)
			score.replay(s, x)
		}
	}
	t.Logf("%d requests were supposed besides", supposed+s.supposed)
	score.judge(t)
}

// newPart is a LINSTOR as a part of the recordings begins with it.
func newPart(t *testing.T, part string) *site {
	s := newSiteAt(t, "127.0.0.5", 2<<20)
	for i := 1; i <= 3; i++ {
		s.world.Machine(fmt.Sprintf("node-%d", i)).MakeDirectory(csiPoolPath)
		s.world.Machine(fmt.Sprintf("node-%d", i)).SetDeviceError(part == "device fails")
	}
	if part == "main" || part == "empty database" {
		return s
	}
	for i := 1; i <= 3; i++ {
		s.supposeNode(i)
	}
	return s
}

// supposeNode registers a node with its pool.
func (s *site) supposeNode(i int) {
	s.Helper()
	s.do(http.MethodPost, "/v1/nodes", fmt.Sprintf(`{"name":"node-%d","type":"SATELLITE","net_interfaces":[{"name":`+
		`"default","address":"127.0.0.5%d","satellite_port":3366,"satellite_encryption_type":"PLAIN"}],`+
		`"props":{"Aux/topology/kubernetes.io/hostname":"node-%d",`+
		`"Aux/topology/topology.kubernetes.io/zone":"zone-%d"}}`, i, i, i, i))
	s.do(http.MethodPost, fmt.Sprintf("/v1/nodes/node-%d/storage-pools", i), fmt.Sprintf(`{"storage_pool_name":%q,`+
		`"provider_kind":"FILE_THIN","props":{"StorDriver/FileDir":%q}}`, csiPool, csiPoolPath))
}

// do sends a request that is not in the recordings. It must succeed.
func (s *site) do(method, path, body string) []byte {
	s.Helper()
	var status int
	var answer []byte
	s.async(func() { status, answer = s.raw(method, path, body) })
	if method != http.MethodGet {
		s.supposed++
	}
	if status >= 300 {
		s.Errorf("not recorded: %s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// there reports whether an object is there.
func (s *site) there(path string) bool {
	status, _ := s.raw(http.MethodGet, path, "")
	return status == http.StatusOK
}

var killed = regexp.MustCompile(`^SIGKILL of the satellite of (\S+)$`)

// outsideCSI does what was done between two requests, as these recordings word it.
func (s *site) outsideCSI(what string) {
	s.Helper()
	if m := killed.FindStringSubmatch(what); m != nil {
		s.satellites[m[1]].Stop()
		s.waitFor("OFFLINE", []string{m[1]})
		return
	}
	switch what {
	case "the satellite of node-3 is started again":
		// The answers to the requests that follow are of the time before it was connected.
	case "SIGKILL of the controller":
		s.stop()
	case "the controller is started again":
		s.startController()
		s.waitFor("ONLINE", []string{"node-1", "node-2", "node-3"})
	case "SIGKILL of the controller 0.1 s after it got POST autoplace; it is started again 4 s later":
		s.stop()
		s.startController()
		s.waitFor("ONLINE", []string{"node-1", "node-2", "node-3"})
	case "the file system below the pool of node-1 is filled, 12 MiB are left":
		s.must(s.world.Machine("node-1").Fill("FILE_THIN", csiPoolPath, 12<<10))
		s.filled = true
	default:
		s.Logf("nothing to do: %s", what)
	}
}

// csiPath takes the path of a request apart: what it is about, and the rest.
var csiPath = regexp.MustCompile(`^/v1/(resource-definitions|resource-groups)/([^/?]+)(/[^?]*)?`)

// suppose does what requests did that the recordings lack, as far as a recorded answer shows it: objects that an
// answer takes for granted are made, objects that it says are not there go, and copies are where the satellites speak
// of them. All of that is done by requests as well.
func (s *site) suppose(x exchange) {
	s.Helper()
	if s.filled && !strings.HasPrefix(x.Name, "k8s: full pool") {
		s.filled = false
		s.must(s.world.Machine("node-1").Fill("FILE_THIN", csiPoolPath, 2<<20))
	}
	m := csiPath.FindStringSubmatch(x.Request.Path)
	missing, kind := x.Status == http.StatusNotFound, strings.TrimPrefix(x.Request.Path, "/v1/")
	switch {
	case strings.HasPrefix(x.Request.Path, "/v1/view/resources"):
		s.supposeView(x)
	case x.Request.Method == http.MethodPost && !strings.Contains(kind, "/"):
		s.supposeNone(kind, nameIn(x))
	case strings.HasPrefix(x.Request.Path, "/v1/nodes/") && x.Request.Method == http.MethodDelete:
		s.supposeCopies(x, "", "")
	case x.Request.Path == "/v1/actions/snapshot/multi" || m == nil:
	case m[3] == "" && missing:
		s.supposeNone(m[1], m[2])
	case m[1] == "resource-groups":
		s.supposeGroup(x, m[2])
	case !strings.HasPrefix(m[3], "/clone"):
		s.supposeDefinition(x, m[2], m[3])
	}
}

// nameIn is the name of what a request makes.
func nameIn(x exchange) string {
	var body struct {
		Name       string `json:"name"`
		Definition struct {
			Name string `json:"name"`
		} `json:"resource_definition"`
	}
	_ = json.Unmarshal(x.Request.Body, &body)
	return body.Name + body.Definition.Name
}

// supposeNone deletes an object with all that keeps it.
func (s *site) supposeNone(kind, name string) {
	s.Helper()
	path := "/v1/" + kind + "/" + name
	if !s.there(path) {
		return
	}
	if kind == "resource-groups" {
		for _, d := range s.definitionsOf(name) {
			s.supposeNone("resource-definitions", d)
		}
	}
	s.do(http.MethodDelete, path, "")
}

func (s *site) definitionsOf(group string) []string {
	var list []struct {
		Name  string `json:"name"`
		Group string `json:"resource_group_name"`
	}
	s.must(json.Unmarshal(s.do(http.MethodGet, "/v1/resource-definitions", ""), &list))
	var names []string
	for _, d := range list {
		if d.Group == group {
			names = append(names, d.Name)
		}
	}
	return names
}

// supposeGroup makes a group that a request takes for granted, and a member of it where its deletion was refused.
func (s *site) supposeGroup(x exchange, name string) {
	s.Helper()
	if !s.there("/v1/resource-groups/" + name) {
		s.do(http.MethodPost, "/v1/resource-groups", fmt.Sprintf(`{"name":%q,"select_filter":{"place_count":1,`+
			`"storage_pool_list":[%q],"layer_stack":["STORAGE"]}}`, name, csiPool))
	}
	if x.Request.Method != http.MethodDelete {
		return
	}
	members := s.definitionsOf(name)
	if x.Status == http.StatusOK {
		for _, d := range members {
			s.supposeNone("resource-definitions", d)
		}
	} else if len(members) == 0 {
		s.do(http.MethodPost, "/v1/resource-definitions", fmt.Sprintf(
			`{"resource_definition":{"name":"other-of-%s","resource_group_name":%q}}`, name, name))
	}
}

// supposeDefinition makes a definition, its volume and its copies that a request takes for granted.
func (s *site) supposeDefinition(x exchange, name, rest string) {
	s.Helper()
	path := "/v1/resource-definitions/" + name
	var shown struct {
		Props map[string]string `json:"props"`
		Group string            `json:"resource_group_name"`
		Size  int64             `json:"size_kib"`
		Layer []any             `json:"layer_data"`
	}
	var volumes []struct {
		Size int64 `json:"size_kib"`
	}
	_ = json.Unmarshal(x.Body, &shown)
	_ = json.Unmarshal(x.Body, &volumes)
	if x.Status == http.StatusNotFound && rest != "/volume-definitions/0" {
		return
	}
	if !s.there(path) {
		if shown.Group == "" {
			shown.Group = "DfltRscGrp"
		}
		if !s.there("/v1/resource-groups/" + shown.Group) {
			s.supposeGroup(x, shown.Group)
		}
		if shown.Props == nil {
			shown.Props = map[string]string{}
		}
		body, err := json.Marshal(map[string]any{"resource_definition": map[string]any{"name": name, "props": shown.Props,
			"resource_group_name": shown.Group}})
		s.must(err)
		s.do(http.MethodPost, "/v1/resource-definitions", string(body))
	}
	if rest == "" && x.Request.Method == http.MethodGet {
		s.supposeProps(path, shown.Props)
	}
	s.supposeVolume(x, path, rest, max(shown.Size, sizeOf(volumes)))
	s.supposeCopies(x, name, rest)
}

func sizeOf(volumes []struct {
	Size int64 `json:"size_kib"`
}) int64 {
	for _, v := range volumes {
		return v.Size
	}
	return 0
}

// supposeProps sets properties that only a request that is missing can have set, or removed.
func (s *site) supposeProps(path string, want map[string]string) {
	s.Helper()
	var have struct {
		Props map[string]string `json:"props"`
	}
	s.must(json.Unmarshal(s.do(http.MethodGet, path, ""), &have))
	if maps.Equal(have.Props, want) {
		return
	}
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(have.Props)), func(k string) bool {
		_, wanted := want[k]
		return wanted || k == "DrbdOptions/Resource/quorum"
	})
	set := maps.Clone(want)
	delete(set, "DrbdOptions/Resource/quorum") // of LINSTOR itself
	body, err := json.Marshal(map[string]any{"override_props": set, "delete_props": append([]string{}, gone...)})
	s.must(err)
	s.async(func() { s.raw(http.MethodPut, path, string(body)) }) // an error of a satellite changes nothing here
}

// supposeVolume makes or deletes the volume of a definition.
func (s *site) supposeVolume(x exchange, path, rest string, size int64) {
	s.Helper()
	there := s.there(path + "/volume-definitions/0")
	made := x.Request.Method == http.MethodPost && rest == "/volume-definitions"
	none := x.Status == http.StatusNotFound && rest == "/volume-definitions/0" || made && x.Status == http.StatusOK ||
		rest == "/volume-definitions" && string(x.Body) == "[]"
	needed := size > 0 || rest == "/volume-definitions/0" && x.Status == http.StatusOK || rest == "/autoplace"
	switch {
	case there && none:
		s.do(http.MethodDelete, path+"/volume-definitions/0", "")
	case !there && needed && !none:
		s.do(http.MethodPost, path+"/volume-definitions",
			fmt.Sprintf(`{"volume_definition":{"size_kib":%d}}`, max(size, 16384)))
	}
}

var (
	usedNode = regexp.MustCompile(`'(node-\d) \(`)
	spokenOf = regexp.MustCompile(`\((node-\d)\) Volume number 0 of resource '([^']+)' \[FILE THIN\] (?:resized|deleted)`)
	silent   = regexp.MustCompile(`No active connection to satellite '(node-\d)'`)
)

// supposeCopies puts copies where the satellites of an answer have one. Without a name, the answer is about a node.
func (s *site) supposeCopies(x exchange, name, rest string) {
	s.Helper()
	if x.Request.Method == http.MethodGet || strings.HasPrefix(rest, "/snapshot") {
		return
	}
	nodes := map[string]bool{}
	for _, m := range spokenOf.FindAllStringSubmatch(string(x.Body), -1) {
		switch {
		case name == "":
			s.supposeDefinition(exchange{}, m[2], "/autoplace")
			s.supposeCopy(m[2], m[1])
		case m[2] == name:
			nodes[m[1]] = true
		}
	}
	if name == "" {
		return
	}
	for _, m := range usedNode.FindAllStringSubmatch(string(x.Body), -1) {
		if n := m[1]; !s.there("/v1/nodes/" + n) {
			s.supposeNode(int(n[len(n)-1] - '0'))
		}
	}
	for _, m := range silent.FindAllStringSubmatch(string(x.Body), -1) {
		nodes[m[1]] = true
	}
	if _, node, of := strings.Cut(rest, "/resources/"); of && x.Request.Method == http.MethodDelete {
		nodes[node] = true
	}
	for n := range nodes {
		s.supposeCopy(name, n)
	}
}

func (s *site) supposeCopy(name, node string) {
	s.Helper()
	path := "/v1/resource-definitions/" + name
	if s.there(path + "/resources/" + node) {
		return
	}
	s.do(http.MethodPost, path+"/resources/"+node,
		fmt.Sprintf(`{"resource":{"props":{"StorPoolName":%q}},"layer_list":["STORAGE"]}`, csiPool))
}

// supposeView makes and deletes copies until they are those of a recorded view.
func (s *site) supposeView(x exchange) {
	s.Helper()
	type copyOn struct {
		Name    string   `json:"name"`
		Node    string   `json:"node_name"`
		Flags   []string `json:"flags"`
		Volumes []struct {
			Layers []struct {
				Data struct {
					Size int64 `json:"usable_size_kib"`
				} `json:"data"`
			} `json:"layer_data_list"`
		} `json:"volumes"`
	}
	var want, have []copyOn
	s.must(json.Unmarshal(x.Body, &want))
	s.must(json.Unmarshal(s.do(http.MethodGet, "/v1/view/resources", ""), &have))
	named := func(list []copyOn, c copyOn) bool {
		return slices.ContainsFunc(list, func(o copyOn) bool { return o.Name == c.Name && o.Node == c.Node })
	}
	for _, c := range want {
		if !named(have, c) {
			s.supposeDefinition(exchange{}, c.Name, "/autoplace")
			s.supposeCopy(c.Name, c.Node)
		}
	}
	for _, c := range have {
		if !named(want, c) && len(c.Flags) == 0 {
			s.do(http.MethodDelete, "/v1/resource-definitions/"+c.Name+"/resources/"+c.Node, "")
		}
	}
}
