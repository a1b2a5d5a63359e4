package database

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// What every SQL server of the tests has: users by name, and databases by name.
const (
	// ownerUser owns all databases; guestUser may connect to them and read nothing.
	ownerUser, ownerPassword = "linstor-owner", "s3cret-owner"
	guestUser, guestPassword = "linstor-guest", "s3cret-guest"

	// emptyDatabase has no LINSTOR, freshDatabase LINSTOR's tables without nodes, foreignDatabase the foreignNodes.
	emptyDatabase, freshDatabase, foreignDatabase = "empty", "fresh", "taken"
)

// foreignNodes are in no order, more than a Result shows, and one is not in ASCII.
func foreignNodes() []string {
	return []string{"n07", "n03", "n11", "N05", "n01", "n02", "n04", "n06", "n08", "n09", "n10", "Zürich"}
}

// stubOutcome is what a stub of an SQL server answers.
type stubOutcome int

const (
	stubOK stubOutcome = iota
	stubBadPassword
	stubNoDatabase
	stubNoTable
	stubDenied
)

// stubLogin decides on a login as a server with the databases above does.
func stubLogin(user string, passwordOK bool, database string) stubOutcome {
	if user != ownerUser && user != guestUser || !passwordOK {
		return stubBadPassword
	}
	switch database {
	case emptyDatabase, freshDatabase, foreignDatabase:
		return stubOK
	}
	return stubNoDatabase
}

// stubQuery answers the one query that a stub understands.
func stubQuery(user, database string) ([]string, stubOutcome) {
	switch {
	case user == guestUser:
		return nil, stubDenied
	case database == emptyDatabase:
		return nil, stubNoTable
	case database == foreignDatabase:
		return foreignNodes(), stubOK
	}
	return nil, stubOK
}

func stubPassword(user string) string {
	if user == guestUser {
		return guestPassword
	}
	return ownerPassword
}

// serveStub serves each connection on loopback with handle. A connection that fails otherwise than by its end fails the
// test, because then the stub does not speak the protocol.
func serveStub(t *testing.T, handle func(net.Conn) error) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				if err := handle(conn); err != nil {
					t.Errorf("stub: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// stubError is an error that the stub's protocol has no answer for.
func stubError(format string, args ...any) error { return fmt.Errorf(format, args...) }
