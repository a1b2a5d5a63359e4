package sim

import (
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
func (c *call) pair(a, b string) (first, second *node) {
	first, second = c.db.nodes[key(a)], c.db.nodes[key(b)]
	if key(a) > key(b) {
		first, second = second, first
	}
	return first, second
}

func (c *call) nodeConnJSON(conn *nodeConn) nodeConnJSON {
	return nodeConnJSON{c.db.nodes[conn.a].name, c.db.nodes[conn.b].name, conn.props}
}

func listNodeConns(c *call) reply {
	a, b := key(c.query.Get("node_a")), key(c.query.Get("node_b"))
	touches := func(conn *nodeConn, k string) bool { return k == "" || conn.a == k || conn.b == k }
	list := []nodeConnJSON{}
	for _, k := range slices.Sorted(maps.Keys(c.db.nodeConns)) {
		if conn := c.db.nodeConns[k]; touches(conn, a) && touches(conn, b) {
			list = append(list, c.nodeConnJSON(conn))
		}
	}
	if a != "" && b != "" && len(list) == 0 {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundNodeConn, "Node connection between '%s' and '%s' not found.", a, b)})
	}
	return c.object(http.StatusOK, page(c, list))
}

func putNodeConn(c *call) reply {
	nameA, nameB := c.req.PathValue("a"), c.req.PathValue("b")
	first, second := c.pair(nameA, nameB)
	x := rcContext{op: opModify, object: objNodeConn, refs: map[string]string{"FirstNode": nameA, "SecondNode": nameB},
		subject: "Node connection between " + nameA + " and " + nameB}
	if first == nil || second == nil {
		missing := nameA
		if c.db.nodes[key(nameA)] != nil {
			missing = nameB
		}
		return c.list(http.StatusOK, x, rcs{unknownNode(missing)})
	}
	var change propChange
	if r, ok := c.decode(&change, http.StatusInternalServerError); !ok {
		return r
	}
	id := key(first.name) + "|" + key(second.name)
	conn := c.db.nodeConns[id]
	if conn == nil {
		conn = &nodeConn{a: key(first.name), b: key(second.name)}
	}
	props, bad := change.apply(conn.props, onConnection, c.ctl.version)
	if bad == nil {
		bad = badPath(change, first, second)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	conn.props = props
	c.db.nodeConns[id] = conn
	if len(props) == 0 {
		delete(c.db.nodeConns, id) // an object without properties is none
	}
	return c.list(http.StatusOK, x, append(change.messages(objNodeConn),
		success(codeModified, "Node connection between %s and %s modified.", first.name, second.name)))
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
			e := failure(codeInvalidProp, "Connection path node unknown.")
			return &e
		}
		if n.nets[key(change.OverrideProps[k])] == nil {
			e := failure(codeInvalidProp, "NetInterface for node unknown.")
			return &e
		}
	}
	return nil
}
