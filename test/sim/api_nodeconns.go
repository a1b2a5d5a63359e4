package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

type nodeConnJSON struct {
	NodeA string            `json:"node_a"`
	NodeB string            `json:"node_b"`
	Props map[string]string `json:"props,omitempty"`
}

// pair orders two nodes as LINSTOR does, by name.
func (d *Database) pair(a, b string) (first, second *node) {
	first, second = d.nodes[key(a)], d.nodes[key(b)]
	if key(a) > key(b) {
		first, second = second, first
	}
	return first, second
}

func (d *Database) nodeConnJSON(conn *nodeConn) nodeConnJSON {
	return nodeConnJSON{d.nodes[conn.a].name, d.nodes[conn.b].name, conn.props}
}

func listNodeConns(c *call) reply {
	a, b := key(c.query.Get("node_a")), key(c.query.Get("node_b"))
	touches := func(conn *nodeConn, k string) bool { return k == "" || conn.a == k || conn.b == k }
	list := []nodeConnJSON{}
	for _, k := range slices.Sorted(maps.Keys(c.db.nodeConns)) {
		if conn := c.db.nodeConns[k]; touches(conn, a) && touches(conn, b) {
			list = append(list, c.db.nodeConnJSON(conn))
		}
	}
	if a != "" && b != "" && len(list) == 0 {
		return c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(codeNotFoundNodeConn, "Node connection between '%s' and '%s' not found.", a, b)})
	}
	return c.object(http.StatusOK, page(c, list))
}

func putNodeConn(c *call) reply {
	nameA, nameB := c.req.PathValue("a"), c.req.PathValue("b")
	first, second := c.db.pair(nameA, nameB)
	inline := fmt.Sprintf("Node connection between nodes '%s' and '%s'", nameA, nameB)
	x := rcContext{op: opModify, object: objNodeConn, refs: map[string]string{"FirstNode": nameA, "SecondNode": nameB},
		subject: inline}
	var change propChange
	if r, ok := c.decode(&change, parsedUncaught); !ok {
		return r
	}
	if first == nil || second == nil {
		// LINSTOR does not look before it uses them (linstor-server 1.34, CtrlNodeConnectionApiCallHandler).
		return c.list(http.StatusOK, x, rcs{failure(codeUnknownError, "Modification of %s failed due to an unhandled "+
			"exception of type "+
			"NullPointerException. Cannot invoke \"com.linbit.linstor.core.objects.Node.getObjProt()\"",
			strings.ToLower(inline[:1])+inline[1:])})
	}
	id := key(first.name) + "|" + key(second.name)
	conn := c.db.nodeConns[id]
	if conn == nil {
		conn = &nodeConn{a: key(first.name), b: key(second.name), uuid: c.world.newUUID()}
	}
	props, bad := change.apply(conn.props, onConnection, c.ctl.version)
	if bad == nil {
		bad = badPath(change, first, second)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	changed := !maps.Equal(conn.props, props)
	conn.props = props
	c.db.nodeConns[id] = conn
	if len(props) == 0 {
		delete(c.db.nodeConns, id) // an object without properties is none
	}
	list := append(change.messages(objNodeConn), success(codeModified, "%s modified.", inline).
		details("%s UUID is: %s", inline, conn.uuid).ref("UUID", conn.uuid))
	if changed && c.ctl.stuckDeletion() {
		return c.neverAnswer()
	}
	if changed {
		list = append(list, c.ctl.applied([]*node{second, first}, nodeChangesApplied)...)
	}
	return c.list(http.StatusOK, x, list)
}

// badPath checks Paths/<name>/<node> = <interface>.
func badPath(change propChange, first, second *node) *rc {
	for _, k := range slices.Sorted(maps.Keys(change.OverrideProps)) {
		parts := strings.Split(k, "/")
		if parts[0] != "Paths" || len(parts) != 3 {
			continue
		}
		n := first
		if !strings.EqualFold(parts[2], first.name) {
			n = second
		}
		if !strings.EqualFold(parts[2], n.name) {
			e := failure(codeInvalidProp, "Connection path node unknown.").
				cause("The node '%s' is not part of the connection", parts[2])
			return &e
		}
		if n.nets[key(change.OverrideProps[k])] == nil {
			e := failure(codeInvalidProp, "NetInterface for node unknown.").
				cause("The Netinterface '%s' is not known for node '%s'", change.OverrideProps[k], n.name)
			return &e
		}
	}
	return nil
}
