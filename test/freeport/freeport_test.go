package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/test/freeport"
)

// TestFind: each port is given once, can be listened on, and is none of those that connections have.
func TestFind(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		port, err := freeport.Find()
		if err != nil || seen[port] || port < 10000 || port >= 32768 {
			t.Fatalf("port %d, given before: %v, %v", port, seen[port], err)
		}
		seen[port] = true
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if a, err := freeport.Address(); err != nil {
		t.Error(err)
	} else if host, _, err := net.SplitHostPort(a); err != nil || host != "127.0.0.1" {
		t.Errorf("%s: %v", a, err)
	}
}
