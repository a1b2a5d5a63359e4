package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// nodeJSON is LINSTOR's Node, for both directions.
type nodeJSON struct {
	Name                 string              `json:"name,omitempty"`
	Type                 *string             `json:"type,omitempty"`
	Props                map[string]string   `json:"props,omitempty"`
	Flags                []string            `json:"flags,omitempty"`
	NetInterfaces        []netIfJSON         `json:"net_interfaces,omitempty"`
	ConnectionStatus     string              `json:"connection_status,omitempty"`
	UUID                 string              `json:"uuid,omitempty"`
	StorageProviders     []string            `json:"storage_providers,omitempty"`
	ResourceLayers       []string            `json:"resource_layers,omitempty"`
	UnsupportedProviders map[string][]string `json:"unsupported_providers,omitempty"`
	UnsupportedLayers    map[string][]string `json:"unsupported_layers,omitempty"`
	EvictionTimestamp    *int64              `json:"eviction_timestamp,omitempty"`
	Platform             string              `json:"platform,omitempty"`
	OSVariant            string              `json:"os_variant,omitempty"`
}

func nodeContext(op uint64, name string) rcContext {
	return rcContext{op: op, object: objNode, refs: map[string]string{"Node": name}, subject: "Node: " + name}
}

func (c *call) nodeJSON(n *node) nodeJSON {
	caps := c.ctl.capabilities(n)
	out := nodeJSON{
		Name: n.name, Type: &n.nodeType, Props: n.props, Flags: n.flagNames(),
		ConnectionStatus: c.ctl.status(n), UUID: n.uuid,
		StorageProviders: caps.providers, ResourceLayers: caps.layers,
		UnsupportedProviders: caps.lackingProviders, UnsupportedLayers: caps.lackLayer,
	}
	for _, i := range n.sortedNets() {
		out.NetInterfaces = append(out.NetInterfaces, i.json(n))
	}
	if at, scheduled := c.ctl.evictionTime(n); scheduled {
		out.EvictionTimestamp = unixMillis(at)
	}
	if p := c.ctl.peer(n); p != nil && p.os != "" && c.ctl.version.atLeast(1, 34) {
		out.Platform, out.OSVariant = "LINUX", p.os
	}
	return out
}

// listNodes ignores unknown names in its filter.
func listNodes(c *call) reply {
	for _, name := range c.query["nodes"] {
		if !validNodeName(name) {
			return c.list(http.StatusOK, rcContext{bare: true}, rcs{invalidNodeName(name)})
		}
	}
	match := c.filter("nodes")
	var list []nodeJSON
	for _, n := range c.db.sortedNodes() {
		if match(n.name) && c.matchesProps(n.props) {
			list = append(list, c.nodeJSON(n))
		}
	}
	return c.object(http.StatusOK, page(c, list))
}

func invalidNodeName(name string) rc {
	return failure(codeInvalidNodeName, "The given node name '%s' is invalid.", name)
}

// nodeNameFault says what is wrong with a node's name, in LINSTOR's words.
func nodeNameFault(name string) string {
	switch {
	case len(name) < 2:
		return fmt.Sprintf("Hostname length of %d violates RFC1123 minimum length of 2", len(name))
	case name[0] == '-' || name[0] == '.':
		return fmt.Sprintf("Hostname cannot begin with '%c'", name[0])
	}
	for _, r := range name {
		if !strings.ContainsRune("-.", r) && (r > 'z' || !unicode.IsLetter(r) && !unicode.IsDigit(r)) {
			return fmt.Sprintf("Domain name cannot contain character '%c'", r)
		}
	}
	return "Hostname is not valid"
}

func getNode(c *call) reply {
	name := c.req.PathValue("node")
	n := c.db.lookup(name)
	if n == nil {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundNode, "Node '%s' not found.", name)})
	}
	return c.object(http.StatusOK, c.nodeJSON(n))
}

// lookup finds a node by a path element: with a SearchDomain, short names get it appended.
func (d *Database) lookup(name string) *node {
	if n := d.nodes[key(name)]; n != nil {
		return n
	}
	if domain := d.props["SearchDomain"]; domain != "" && !strings.Contains(name, ".") {
		return d.nodes[key(name+"."+domain)]
	}
	return nil
}

// node is the node of the path that is to be changed, or the reply that it is unknown.
func (c *call) node() (n *node, missing reply, ok bool) {
	return c.nodeIn(nodeContext(opModify, c.req.PathValue("node")))
}

// nodeIn is the same for a call that is about another object.
func (c *call) nodeIn(x rcContext) (n *node, missing reply, ok bool) {
	name := c.req.PathValue("node")
	if n = c.db.lookup(name); n != nil {
		return n, reply{}, true
	}
	return nil, c.list(http.StatusOK, x, rcs{unknownNode(name)}), false
}

// bareNode is the node of the path where LINSTOR looks it up outside any context: the answer names no operation and
// no object.
func (c *call) bareNode() (n *node, missing reply, ok bool) {
	return c.nodeIn(rcContext{bare: true})
}

func unknownNode(name string) rc {
	return failure(codeNotFoundNode, "Node '%s' not found.", name).
		cause("The specified node '%s' could not be found in the database", name).
		correction("Create a node with the name '%s' first.", name)
}

func createNode(c *call) reply {
	var body nodeJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	x := nodeContext(opCreate, body.Name)
	n, bad := c.newNode(body)
	if bad != nil {
		return c.list(http.StatusCreated, x, rcs{*bad})
	}
	c.db.nodes[key(n.name)] = n
	list := propChange{OverrideProps: body.Props}.messages(objNode)
	list = append(list, success(codeCreated, "New node '%s' registered.", n.name).
		details("Node '%s' UUID is: %s", n.name, n.uuid).ref("UUID", n.uuid))
	if refusal, refuses := c.noConnector(n); refuses {
		return c.list(http.StatusInternalServerError, x, append(list, refusal))
	}
	if n.connectable() {
		list = append(list, c.handshake(n)...)
	}
	return c.list(http.StatusCreated, x, list)
}

// newNode checks a body in LINSTOR's order and builds the node that it describes.
func (c *call) newNode(body nodeJSON) (*node, *rc) {
	fail := func(e rc) (*node, *rc) { return nil, &e }
	if !validNodeName(body.Name) {
		return fail(invalidNodeName(body.Name).cause("%s", nodeNameFault(body.Name)))
	}
	nodeType := typeSatellite
	if body.Type != nil {
		var bad *rc
		if nodeType, bad = parseNodeType(*body.Type); bad != nil {
			return nil, bad
		}
	}
	failed := fmt.Sprintf("Registration of node '%s' failed.", body.Name)
	if len(body.NetInterfaces) == 0 {
		return fail(failure(codeMissingNetcom, "%s", failed).cause("No network interfaces were given.").
			correction("At least one network interface has to be given and be marked to be used for controller-satellite " +
				"communitaction."))
	}
	if c.db.nodes[key(body.Name)] != nil {
		return fail(failure(codeExistsNode, "%s", failed).
			cause("A node with the specified name '%s' already exists.\nThe Node already exists", body.Name).
			correction("- Specify another name for the new node\nor\n- Delete the existing node before creating a new node " +
				"with the same name"))
	}
	n := c.db.newNode(body.Name, nodeType)
	for _, given := range body.NetInterfaces {
		if given.SatellitePort != nil && !validPort(*given.SatellitePort) {
			given.SatellitePort = nil // then it is no interface for the satellite's connection
		}
		i, bad := c.newNetIf(given)
		if bad != nil {
			return nil, bad
		}
		if n.nets[key(i.name)] != nil {
			return fail(failure(codeExistsNetIf, "NetInterface '%s' on node '%s' already exists.", i.name, n.name))
		}
		n.addNet(i)
	}
	if n.active == "" {
		return fail(failure(codeNoStltConn, "No satellite connection defined for node '%s'", body.Name))
	}
	change := propChange{OverrideProps: body.Props}
	if bad := prefNicError(n, change); bad != nil {
		return nil, bad
	}
	props, bad := change.apply(n.props, onNode, c.ctl.version)
	if bad != nil {
		return nil, bad
	}
	n.props = props
	return n, nil
}

func parseNodeType(text string) (string, *rc) {
	nodeType := strings.ToUpper(text)
	if slices.Contains([]string{typeSatellite, typeCombined, typeController, typeAuxiliary}, nodeType) {
		return nodeType, nil
	}
	e := failure(codeInvalidNodeType, "The specified node type '%s' is invalid.", text).
		cause("No enum constant com.linbit.linstor.core.objects.Node.Type.%s", nodeType).
		correction("Valid node types are:\nCONTROLLER\nSATELLITE\nCOMBINED\nAUXILIARY\n")
	return "", &e
}

type nodeModifyJSON struct {
	NodeType string `json:"node_type"`
	propChange
}

// modifyNode reaches ONLINE satellites only; about the others it says nothing.
func modifyNode(c *call) reply {
	n, missing, ok := c.node()
	if !ok {
		return missing
	}
	var body nodeModifyJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	x := nodeContext(opModify, n.name)
	bad := prefNicError(n, body.propChange)
	var props map[string]string
	if bad == nil {
		props, bad = body.apply(n.props, onNode, c.ctl.version)
	}
	nodeType := n.nodeType
	if bad == nil && body.NodeType != "" {
		nodeType, bad = parseNodeType(body.NodeType)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	changed := !maps.Equal(n.props, props) || n.nodeType != nodeType
	n.props, n.nodeType = props, nodeType
	list := body.messages(objNode)
	list = append(list, success(codeModified, "Node '%s' modified.", n.name).details("Node '%s' UUID is: %s", n.name,
		n.uuid).ref("UUID", n.uuid))
	if changed {
		list = append(list, c.ctl.applied([]*node{n}, nodeChangesApplied)...)
		list = append(list, c.ctl.adjusted(n)...)
	}
	return c.list(http.StatusOK, x, list)
}
