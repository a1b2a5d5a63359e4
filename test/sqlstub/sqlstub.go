// Package sqlstub stands in for SQL servers in tests: it answers what the operator asks a PostgreSQL or MariaDB server
// before LINSTOR uses it.
package sqlstub

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
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
	// Databases are what each database holds; nil without LINSTOR's tables.
	Databases map[string]*Contents
	// TLS has PostgreSQL speak through TLS alone, with a certificate that nobody signed.
	TLS bool
}

// Contents are what a database with LINSTOR's tables holds.
type Contents struct {
	// Nodes are the names of LINSTOR's nodes, and Properties those of its controller.
	Nodes      []string
	Properties map[string]string
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

// table is what a query selects from.
type table struct {
	name    string
	columns []string
	rows    func(c *Contents, query string) [][]string
}

// tables are those that a stub knows, with the names in capitals.
var tables = []table{
	{name: "NODES", columns: []string{"NODE_DSP_NAME"}, rows: func(c *Contents, _ string) (rows [][]string) {
		for _, name := range c.Nodes {
			rows = append(rows, []string{name})
		}
		return rows
	}},
	{name: "PROPS_CONTAINERS", columns: []string{"PROP_KEY", "PROP_VALUE"}, rows: properties},
}

// properties are those that the query names.
func properties(c *Contents, query string) (rows [][]string) {
	for key, value := range c.Properties {
		if strings.Contains(query, "'/CTRL'") && strings.Contains(query, "'"+key+"'") {
			rows = append(rows, []string{key, value})
		}
	}
	return rows
}

// queried is the table that a query selects from, or deletes no row of; nil if the stub does not understand it. schema
// is what stands before the table's name.
func queried(query, schema string) *table {
	for i := range tables {
		t := &tables[i]
		if strings.ToUpper(query) == "DELETE FROM "+schema+t.name+" WHERE FALSE" {
			return t
		}
		selects := "SELECT " + strings.Join(t.columns, ", ") + " FROM " + schema + t.name
		if rest, found := strings.CutPrefix(strings.ToUpper(query), selects); found &&
			(rest == "" || strings.HasPrefix(rest, " WHERE ")) {
			return t
		}
	}
	return nil
}

// deletes reports whether a query that the stub understands is a deletion.
func deletes(query string) bool { return strings.HasPrefix(query, "DELETE ") }

// query answers a query.
func (s *Server) query(user, database string, t *table, query string) ([][]string, outcome) {
	c := s.Databases[database]
	switch {
	case slices.Contains(s.Guests, user):
		return nil, denied
	case c == nil:
		return nil, noTable
	}
	return t.rows(c, query), ok
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

// ended reports whether the client went away, whenever it did: one that is killed right after it has connected has
// said nothing at all.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
