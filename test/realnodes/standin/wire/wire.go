// Package wire is the protocol between a stand-in, which runs in a container, and the tests: lines of JSON over a
// connection that lasts as long as the container's program.
package wire

import (
	"io"
	"net"
	"sync"
)

// AddressEnv names the environment variable with the address of the tests, which is part of the images.
const AddressEnv = "STANDIN_ADDRESS"

// Hello is the first line of a connection. It either starts the program of a container, or asks for a connection to
// something else.
type Hello struct {
	Pod       string `json:"pod,omitempty"` // UID
	Container string `json:"container,omitempty"`
	Dial      string `json:"dial,omitempty"` // a Port's To
}

// Order is a line from the tests. Exactly one field is set.
type Order struct {
	Listen *Port `json:"listen,omitempty"`
	Ready  *bool `json:"ready,omitempty"`
	Exit   *Exit `json:"exit,omitempty"`
}

// Port is what the program listens on: a TCP port or the path of a Unix socket. Connections are passed on to To. If
// that is empty, the port is a health check, which succeeds while the program is ready.
type Port struct {
	Port   int    `json:"port,omitempty"`
	Socket string `json:"socket,omitempty"`
	To     string `json:"to,omitempty"`
	// Probed ports are closed until the program is ready, as those that a TCP probe checks.
	Probed bool `json:"probed,omitempty"`
}

// Exit is how the program ends.
type Exit struct {
	Code    int    `json:"code"`
	Log     string `json:"log,omitempty"`
	Message string `json:"message,omitempty"` // for the termination log
}

// Join copies both ways until both have ended.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
