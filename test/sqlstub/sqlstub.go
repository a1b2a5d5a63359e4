// Package sqlstub stands in for SQL servers in tests: it answers what the operator asks a PostgreSQL or MariaDB server
// before LINSTOR uses it.
package sqlstub

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// Server is what a server has.
type Server struct {
	// Users are the passwords by user.
	Users map[string]string
	// Guests are the users that may connect and read nothing.
	Guests []string
	// Databases are the names of LINSTOR's nodes by database; nil without LINSTOR's tables.
	Databases map[string][]string
	// TLS has PostgreSQL speak through TLS alone, with a certificate that nobody signed.
	TLS bool
}

// outcome is what a server answers.
type outcome int

const (
	ok outcome = iota
	badPassword
	noDatabase
	noTable
	denied
)

func (s *Server) login(user string, passwordOK bool, database string) outcome {
	if _, known := s.Users[user]; !known || !passwordOK {
		return badPassword
	}
	if _, known := s.Databases[database]; !known {
		return noDatabase
	}
	return ok
}

// query answers the one query that a stub understands.
func (s *Server) query(user, database string) ([]string, outcome) {
	nodes := s.Databases[database]
	switch {
	case slices.Contains(s.Guests, user):
		return nil, denied
	case nodes == nil:
		return nil, noTable
	}
	return nodes, ok
}

// Serve serves each connection on loopback with handle, until the test ends, and returns the port. A connection that
// fails otherwise than by its end fails the test, because then the stub does not speak the protocol.
func Serve(t testing.TB, handle func(net.Conn) error) int32 {
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
				if err := handle(conn); err != nil && !ended(err) {
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

// ended reports whether the client went away, whenever it did.
func ended(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
