package sim

import (
	"fmt"
	"net/http"
	"strings"
)

// netIfJSON is LINSTOR's NetInterface, for both directions.
type netIfJSON struct {
	Name                    string  `json:"name,omitempty"`
	Address                 *string `json:"address,omitempty"`
	SatellitePort           *int    `json:"satellite_port,omitempty"`
	SatelliteEncryptionType string  `json:"satellite_encryption_type,omitempty"`
	IsActive                *bool   `json:"is_active,omitempty"`
	UUID                    string  `json:"uuid,omitempty"`
}

func (i *netIf) json(n *node) netIfJSON {
	active := key(i.name) == n.active
	out := netIfJSON{Name: i.name, Address: &i.address, SatelliteEncryptionType: i.encryption, IsActive: &active,
		UUID: i.uuid}
	if i.port > 0 {
		out.SatellitePort = &i.port
	}
	return out
}

func netIfContext(op uint64, nodeName, name string) rcContext {
	return rcContext{op: op, object: objNetIf, refs: map[string]string{"Node": nodeName},
		subject: fmt.Sprintf("Node: '%s', NetIfName: %s'", nodeName, name)}
}

// newNetIf checks a posted interface.
func (c *call) newNetIf(given netIfJSON) (*netIf, *rc) {
	fail := func(e rc) (*netIf, *rc) { return nil, &e }
	if !validNetIfName(given.Name) {
		return fail(failure(codeInvalidNetName, "The specified net interface name '%s' is invalid.", given.Name).
			cause("Invalid name: %s", objectNameFault(given.Name, 3, 32)))
	}
	i := &netIf{name: given.Name, uuid: c.world.newUUID()}
	address := ""
	if given.Address != nil {
		address = *given.Address
	}
	var ok bool
	if i.address, ok = parseIP(address); !ok {
		return fail(badAddress(address))
	}
	if bad := i.setConnection(given); bad != nil {
		return nil, bad
	}
	return i, nil
}

func badAddress(address string) rc {
	return failure(codeInvalidNetAddr, "Failed to parse IP address").cause("The specified IP address is not valid\n%s",
		address).
		details("The specified input '%s' is not a valid IP address.",
			address).correction("Specify a valid IPv4 or IPv6 address.")
}

func validPort(port int) bool { return port >= 1 && port <= 65535 }

// setConnection takes port and encryption type from a body, where it has them.
func (i *netIf) setConnection(given netIfJSON) *rc {
	if given.SatellitePort != nil {
		if !validPort(*given.SatellitePort) {
			e := failure(codeInvalidNetPort, "The given port '%d' is invalid.", *given.SatellitePort)
			return &e
		}
	}
	encryption := strings.ToUpper(given.SatelliteEncryptionType)
	if encryption != "" && encryption != encPlain && encryption != encSSL {
		e := failure(codeInvalidNetType, "The given encryption type '%s' is invalid.", given.SatelliteEncryptionType).
			cause("No enum constant com.linbit.linstor.core.objects.NetInterface.EncryptionType.%s", encryption)
		return &e
	}
	if given.SatellitePort != nil {
		i.port = *given.SatellitePort
		if encryption == "" && i.encryption == "" {
			encryption = encPlain
		}
	}
	if encryption != "" {
		i.encryption = encryption
	}
	return nil
}

func listNetIfs(c *call) reply {
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	var list []netIfJSON
	for _, i := range n.sortedNets() {
		list = append(list, i.json(n))
	}
	return c.object(http.StatusOK, page(c, list))
}

func getNetIf(c *call) reply {
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	name := c.req.PathValue("i")
	if i := n.nets[key(name)]; i != nil {
		return c.object(http.StatusOK, i.json(n))
	}
	return c.list(http.StatusOK, rcContext{bare: true},
		rcs{failure(codeNotFoundNetIf, "Netinterface '%s' not found.", name)})
}

func createNetIf(c *call) reply {
	var body netIfJSON
	if r, ok := c.decode(&body, parsedInScope); !ok {
		return r
	}
	n, missing, ok := c.nodeIn(netIfContext(opCreate, c.req.PathValue("node"), body.Name))
	if !ok {
		return missing
	}
	x := netIfContext(opCreate, n.name, body.Name)
	i, bad := c.newNetIf(body)
	if bad != nil {
		return c.list(http.StatusCreated, x, rcs{*bad})
	}
	if n.nets[key(i.name)] != nil {
		refusal := failure(codeExistsNetIf, "NetInterface '%s' on node '%s' already exists.", i.name, n.name)
		return c.list(http.StatusCreated, x, rcs{refusal.cause("The NetInterface already exists")})
	}
	activate := body.IsActive != nil && *body.IsActive
	if activate && !i.usable() {
		// LINSTOR joins two codes by a bitwise OR here, 211 and 217.
		return c.list(http.StatusCreated, x, rcs{failure(codeInvalidNetPort|codeInvalidEncType,
			"The network interface '%s' cannot be used for the satellite connection without port and encryption type.",
			i.name)})
	}
	n.addNet(i)
	list := rcs{success(codeCreated, "New netInterface '%s' on node '%s' registered.", i.name, n.name).
		details("NetInterface '%s' on node '%s' UUID is: %s", i.name, n.name, i.uuid).ref("UUID", i.uuid)}
	if activate {
		n.activate(i)
		c.ctl.restartConnection(n)
	}
	return c.list(http.StatusCreated, x, list)
}

// restartConnection closes the connection to a satellite and opens it again, without waiting for the outcome: the
// satellite was ONLINE 1 to 2 s after the answer (run with linstor-server 1.34.0-rc.1).
func (c *controller) restartConnection(n *node) {
	if n.connectable() && !n.evicted {
		dialer{c}.connectLater(n, 0)
	}
}

// needsReconnect is LINSTOR's rule: with port and type in the body only if one of them changed or is_active is true
// (then always); without them if the active interface gets an address, or another one becomes active.
func needsReconnect(n *node, before *netIf, after netIf, body netIfJSON) bool {
	wantsActive := body.IsActive != nil && *body.IsActive
	if body.SatellitePort != nil && body.SatelliteEncryptionType != "" {
		return wantsActive || after.port != before.port || after.encryption != before.encryption
	}
	if n.active == key(before.name) {
		return body.Address != nil
	}
	return wantsActive
}

func modifyNetIf(c *call) reply {
	var body netIfJSON
	if r, ok := c.decode(&body, parsedInScope); !ok {
		return r
	}
	n, missing, ok := c.nodeIn(netIfContext(opModify, c.req.PathValue("node"), c.req.PathValue("i")))
	if !ok {
		return missing
	}
	name := c.req.PathValue("i")
	x := netIfContext(opModify, n.name, name)
	i := n.nets[key(name)]
	if i == nil {
		return c.list(http.StatusOK, x, rcs{
			failure(codeNotFoundNetIf, "Node '%s' has no network interface named '%s'.", n.name, name).reported(c)})
	}
	changed := *i
	if body.Address != nil {
		if changed.address, ok = parseIP(*body.Address); !ok {
			return c.list(http.StatusOK, x, rcs{badAddress(*body.Address)})
		}
	}
	if bad := changed.setConnection(body); bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	wantsActive := body.IsActive != nil && *body.IsActive
	reconnect := needsReconnect(n, i, changed, body)
	*i = changed
	if n.active == "" && i.usable() || wantsActive && i.usable() {
		n.activate(i)
	}
	list := rcs{success(codeModified, "NetInterface '%s' on node '%s' modified.", i.name, n.name).
		details("NetInterface '%s' on node '%s' UUID is: %s", i.name, n.name, i.uuid).ref("UUID", i.uuid)}
	if refusal, refuses := c.noConnector(n); reconnect && refuses {
		return c.list(http.StatusInternalServerError, x, append(list, refusal))
	}
	if reconnect {
		c.ctl.restartConnection(n)
	}
	return c.list(http.StatusOK, x, list)
}

func deleteNetIf(c *call) reply {
	n, missing, ok := c.nodeIn(netIfContext(opDelete, c.req.PathValue("node"), c.req.PathValue("i")))
	if !ok {
		return missing
	}
	name := c.req.PathValue("i")
	x := netIfContext(opDelete, n.name, name)
	i := n.nets[key(name)]
	if i == nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "Deletion of netInterface '%s' on node '%s' had "+
			"no effect.", name, n.name).
			cause("NetInterface '%s' on node '%s' does not exist.", name, n.name)})
	}
	wasActive := n.active == key(name)
	delete(n.nets, key(name))
	list := rcs{success(codeDeleted, "NetInterface '%s' on node '%s' deleted.", i.name, n.name).
		details("NetInterface '%s' on node '%s' UUID was: %s", i.name, n.name, i.uuid).ref("UUID", i.uuid)}
	if wasActive {
		n.active = ""
		delete(n.props, propCurStltConn)
		for _, other := range n.sortedNets() {
			if other.usable() {
				n.activate(other)
				break
			}
		}
		if n.active == "" {
			list = rcs{warning(codeNoStltDefined, "NetInterface '%s' on node '%s' was the last connection to the satellite! \n"+
				"To fix this, create at least one netInterface with a valid PORT and COMMUNICATION-TYPE.", i.name, n.name)}
		}
		c.ctl.restartConnection(n)
	}
	return c.list(http.StatusOK, x, list)
}
