package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// csiPath takes the path of a request apart: what it is about, and the rest.
var csiPath = regexp.MustCompile(`^/v1/(resource-definitions|resource-groups)/([^/?]+)(/[^?]*)?`)

// suppose does what requests did that the recordings lack, as far as a recorded answer shows it: objects that an
// answer takes for granted are made, objects that it says are not there go, and copies are where the satellites speak
// of them. All of that is done by requests as well.
func (s *site) suppose(x exchange) {
	s.Helper()
	s.makeRoom(x)
	m := csiPath.FindStringSubmatch(x.Request.Path)
	missing, kind := x.Status == http.StatusNotFound, strings.TrimPrefix(x.Request.Path, "/v1/")
	switch {
	case strings.HasPrefix(x.Request.Path, "/v1/view/resources"):
		s.supposeView(x)
	case x.Request.Path == "/v1/resource-definitions" && x.Request.Method == http.MethodGet:
		s.supposeDefinitions(x)
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

// makeRoom ends what the exchanges about a full pool take for granted, after the last of them.
func (s *site) makeRoom(x exchange) {
	s.Helper()
	if s.filled && !strings.HasPrefix(x.Name, "k8s: full pool") {
		s.filled = false
		s.must(s.world.Machine("node-1").Fill("FILE_THIN", csiPoolPath, 2<<20))
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

// supposeDefinitions makes those of a list.
func (s *site) supposeDefinitions(x exchange) {
	s.Helper()
	var list []json.RawMessage
	s.must(json.Unmarshal(x.Body, &list))
	for _, raw := range list {
		one := x
		one.Body = raw
		var shown struct {
			Name string `json:"name"`
		}
		s.must(json.Unmarshal(raw, &shown))
		s.supposeDefinition(one, shown.Name, "")
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
	if rest == "" && len(shown.Layer) > 0 {
		s.supposePlaced(name)
	}
}

// supposePlaced makes the copies of a definition of which LINSTOR knows the layers already: it had some by then. They
// are where satellites next speak of them. The volume comes first: it has properties from its first copy.
func (s *site) supposePlaced(name string) {
	s.Helper()
	path := "/v1/resource-definitions/" + name
	for _, x := range s.coming {
		if x.Request.Path == path+"/volume-definitions" {
			s.supposeDefinition(x, name, "/volume-definitions")
		}
		nodes := speakers(x, name)
		for n := range nodes {
			s.supposeCopy(name, n)
		}
		if len(nodes) > 0 {
			return
		}
	}
}

// speakers are the nodes whose satellites speak of a volume in an answer.
func speakers(x exchange, name string) map[string]bool {
	nodes := map[string]bool{}
	for _, m := range spokenOf.FindAllStringSubmatch(string(x.Body), -1) {
		if m[2] == name {
			nodes[m[1]] = true
		}
	}
	return nodes
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
	if name == "" {
		for _, m := range spokenOf.FindAllStringSubmatch(string(x.Body), -1) {
			s.supposeDefinition(exchange{}, m[2], "/autoplace")
			s.supposeCopy(m[2], m[1])
		}
		return
	}
	nodes := speakers(x, name)
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
