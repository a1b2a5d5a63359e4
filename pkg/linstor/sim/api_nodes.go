package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	if p := c.ctl.peer(n); p != nil && p.link != nil && c.ctl.version.atLeast(1, 34) {
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

func getNode(c *call) reply {
	name := c.req.PathValue("node")
	n := c.lookup(name)
	if n == nil {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundNode, "Node '%s' not found.", name)})
	}
	return c.object(http.StatusOK, c.nodeJSON(n))
}

// lookup finds a node by a path element: with a SearchDomain, short names get it appended.
func (c *call) lookup(name string) *node {
	if n := c.db.nodes[key(name)]; n != nil {
		return n
	}
	if domain := c.db.props["SearchDomain"]; domain != "" && !strings.Contains(name, ".") {
		return c.db.nodes[key(name+"."+domain)]
	}
	return nil
}

// node is the node of the path, or the reply that it is unknown.
func (c *call) node(op uint64) (n *node, missing reply, ok bool) {
	name := c.req.PathValue("node")
	if n = c.lookup(name); n != nil {
		return n, reply{}, true
	}
	return nil, c.list(http.StatusOK, nodeContext(op, name), rcs{unknownNode(name)}), false
}

func unknownNode(name string) rc {
	return failure(codeNotFoundNode, "Node '%s' not found.", name).
		cause("The specified node '%s' could not be found in the database", name).
		correction("Create a node with the name '%s' first.", name)
}

func createNode(c *call) reply {
	var body nodeJSON
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
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
	if n.connectable() {
		list = append(list, c.handshake(n)...)
	}
	return c.list(http.StatusCreated, x, list)
}

// newNode checks a body in LINSTOR's order and builds the node that it describes.
func (c *call) newNode(body nodeJSON) (*node, *rc) {
	fail := func(e rc) (*node, *rc) { return nil, &e }
	if !validNodeName(body.Name) {
		return fail(invalidNodeName(body.Name))
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
		return fail(failure(codeMissingNetcom, "%s", failed).cause("No network interfaces were given."))
	}
	if c.db.nodes[key(body.Name)] != nil {
		return fail(failure(codeExistsNode, "%s", failed).
			cause("A node with the specified name '%s' already exists.\nThe Node already exists", body.Name).
			correction("- Specify another name for the new node\nor\n- Delete the existing node before creating a new node with the same name"))
	}
	n := c.db.newNode(body.Name, nodeType)
	for _, given := range body.NetInterfaces {
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
	e := failure(codeInvalidNodeType, "The specified node type '%s' is invalid.", text)
	return "", &e
}

// handshake connects and waits as LINSTOR does: for the TCP connection up to the time-out, then for the full sync. A
// refused connection leaves no trace in the reply.
func (c *call) handshake(n *node) rcs {
	switch c.ctl.connect(n) {
	case unreachable:
		c.wait(c.world.opts.ConnectTimeout)
		return rcs{notConnected(n)}
	case refused:
		return nil
	case authenticated:
	}
	p := c.ctl.peer(n)
	if p.status == statusConnected {
		c.wait(c.world.opts.FullSyncDelay)
	}
	list := rcs{success(codeAuthenticated, "Node '%s' authenticated", n.name).details("%s", p.caps.describe())}
	if !strings.EqualFold(p.hostName, n.name) {
		list = append(list, info(codeNameMismatch, "Linstor node name '%s' and hostname '%s' doesn't match.", n.name, p.hostName))
	}
	return list
}

func notConnected(n *node) rc {
	return warning(codeNotConnected, "No active connection to satellite '%s'", n.name).
		details("The controller is trying to (re-) establish a connection to the satellite. " +
			"The controller stored the changes and as soon the satellite is connected, it will receive this update.")
}

// describe is the text in which LINSTOR tells what a satellite can do.
func (c *capabilities) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Supported storage providers: [%s]\n", strings.ToLower(strings.Join(c.providers, ", ")))
	fmt.Fprintf(&b, "Supported resource layers  : [%s]", strings.ToLower(strings.Join(c.layers, ", ")))
	write := func(title string, order []string, reasons map[string][]string) {
		if len(reasons) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s:", title)
		for _, name := range order {
			if why := reasons[name]; why != nil {
				fmt.Fprintf(&b, "\n    %s: %s", name, strings.Join(why, "\n         "))
			}
		}
	}
	write("Unsupported storage providers", allKinds, c.lackingProviders)
	write("Unsupported resource layers", allLayers, c.lackLayer)
	return b.String()
}

type nodeModifyJSON struct {
	NodeType string `json:"node_type"`
	propChange
}

// modifyNode reaches ONLINE satellites only; about the others it says nothing.
func modifyNode(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	var body nodeModifyJSON
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	x := nodeContext(opModify, n.name)
	bad := prefNicError(n, body.propChange)
	var props map[string]string
	if bad == nil {
		props, bad = body.apply(n.props, onNode, c.ctl.version)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	if body.NodeType != "" {
		nodeType, bad := parseNodeType(body.NodeType)
		if bad != nil {
			return c.list(http.StatusOK, x, rcs{*bad})
		}
		n.nodeType = nodeType
	}
	n.props = props
	list := body.messages(objNode)
	list = append(list, success(codeModified, "Node '%s' modified.", n.name).details("Node '%s' UUID is: %s", n.name, n.uuid).ref("UUID", n.uuid))
	return c.list(http.StatusOK, x, list)
}

func reconnectNode(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	x := nodeContext(opModify, n.name)
	if n.evicted {
		return c.list(http.StatusOK, x, rcs{warning(codeNodeEvicted,
			"Nodes [%s] are evicted and will not be reconnected. Use node restore <node-name> to reconnect.", n.name)})
	}
	list := rcs{success(0, "Nodes [%s] will be reconnected.", n.name)}
	if n.connectable() {
		list = append(list, c.handshake(n)...)
	}
	return c.list(http.StatusOK, x, list)
}

// getSatelliteConfig is answered only while the satellite is connected.
func getSatelliteConfig(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	p := c.ctl.peer(n)
	if p == nil || p.link == nil {
		r := c.list(http.StatusOK, rcContext{object: objNode}, rcs{warning(codeNotConnected, "Node is offline")})
		r.status = http.StatusServiceUnavailable
		return r
	}
	config := map[string]any{
		"config":      map[string]any{"dir": "/etc/linstor"},
		"debug":       map[string]any{"console_enabled": false},
		"log":         map[string]any{"print_stack_trace": false, "directory": "/var/log/linstor-satellite", "level": "INFO", "level_linstor": "INFO"},
		"remote_spdk": false, "ebs": false, "special_satellite": false,
		"net": map[string]any{"bind_address": "::0", "port": p.link.sat.port, "com_type": "plain"},
	}
	if !strings.EqualFold(p.hostName, n.machine) {
		config["stlt_override_node_name"] = p.hostName
	}
	return c.object(http.StatusOK, config)
}
