// Package freeport finds ports of loopback for programs that a test starts later.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// lowest is above the ports that LINSTOR, etcd and Kubernetes have by default.
const lowest = 10000

// localRange has the first and the last port that the kernel gives to connections.
const localRange = "/proc/sys/net/ipv4/ip_local_port_range"

var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// Find returns a port of 127.0.0.1 at which nothing listens. It returns none twice in a process, and none of the range
// from which the kernel takes the ports of connections: a client of another test once had the port when the program
// was started, which then ended.
func Find() (int, error) {
	given.Lock()
	defer given.Unlock()
	below := firstOfConnections()
	var last error
	for range 1000 {
		port := lowest + rand.IntN(below-lowest)
		if given.ports[port] {
			continue
		}
		if last = free(port); last == nil {
			given.ports[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a port from %d to %d at which nothing listens: %w", lowest, below-1, last)
}

// Address is Find's port with 127.0.0.1 before it.
func Address() (string, error) {
	port, err := Find()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func free(port int) error {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return err
	}
	return l.Close()
}

// firstOfConnections is the first port that the kernel gives to connections. Where that leaves too few, it is the
// kernel's default.
func firstOfConnections() int {
	const usual = 32768
	text, err := os.ReadFile(localRange)
	if err != nil {
		return usual
	}
	var first int
	if _, err := fmt.Sscan(string(text), &first); err != nil || first < lowest+5000 {
		return usual
	}
	return first
}
