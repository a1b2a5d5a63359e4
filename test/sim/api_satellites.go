package sim

import (
	"fmt"
	"net/http"
	"strings"
)

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
		list = append(list, info(codeNameMismatch, "Linstor node name '%s' and hostname '%s' doesn't match.", n.name,
			p.hostName))
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

func reconnectNode(c *call) reply {
	n, missing, ok := c.node()
	if !ok {
		return missing
	}
	x := nodeContext(opModify, n.name)
	x.subject = "Nodes: [" + n.name + "]"
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

// getSatelliteConfig is what the satellite told when it connected. Of one that is not connected nothing is known.
func getSatelliteConfig(c *call) reply {
	n, missing, ok := c.node()
	if !ok {
		return missing
	}
	config := map[string]any{
		"config":      map[string]any{},
		"debug":       map[string]any{"console_enabled": false},
		"log":         map[string]any{"print_stack_trace": false},
		"remote_spdk": false, "ebs": false, "special_satellite": false,
		"net": map[string]any{},
	}
	p := c.ctl.peer(n)
	if p == nil || p.link == nil {
		return c.object(http.StatusOK, config)
	}
	config["config"] = map[string]any{"dir": "/etc/linstor"}
	config["log"] = map[string]any{"print_stack_trace": false, "directory": "/var/log/linstor-satellite", "level": "INFO",
		"level_linstor": "INFO"}
	config["net"] = map[string]any{"bind_address": "::0", "port": p.link.sat.port, "com_type": p.link.sat.kind()}
	if !strings.EqualFold(p.hostName, p.link.sat.machine.name) {
		config["stlt_override_node_name"] = p.hostName
	}
	return c.object(http.StatusOK, config)
}
