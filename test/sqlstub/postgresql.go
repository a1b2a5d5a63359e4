package sqlstub

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"
)

// Codes of PostgreSQL's protocol 3.0 (PostgreSQL's documentation, "Message Formats").
const (
	pgSSLRequest = 80877103
	pgProtocol3  = 3 << 16
)

// PostgreSQL speaks as much of PostgreSQL's protocol as one login and simple queries need.
func (s *Server) PostgreSQL(conn net.Conn) error {
	if s.TLS {
		var err error
		if conn, err = pgSecure(conn); err != nil {
			return pgEnd(err)
		}
	}
	in := bufio.NewReader(conn)
	params, err := pgStartup(in, conn)
	if err != nil || params == nil {
		return err
	}
	if err := pgSend(conn, 'R', binary.BigEndian.AppendUint32(nil, 3)); err != nil { // AuthenticationCleartextPassword
		return err
	}
	kind, body, err := pgReceive(in)
	if err != nil {
		return err
	}
	if kind != 'p' {
		return fmt.Errorf("message %q instead of a password", kind)
	}
	user, database := params["user"], params["database"]
	password := strings.TrimSuffix(string(body), "\x00")
	switch s.login(user, password == s.Users[user], database) {
	case badPassword:
		return pgError(conn, "FATAL", "28P01", `password authentication failed for user "`+user+`"`)
	case noDatabase:
		return pgError(conn, "FATAL", "3D000", `database "`+database+`" does not exist`)
	default: // it goes on
	}
	if err := pgSend(conn, 'R', make([]byte, 4)); err != nil { // AuthenticationOk
		return err
	}
	return s.pgQueries(in, conn, user, database)
}

// pgSecure answers the request for TLS with which a connection must begin.
func pgSecure(conn net.Conn) (net.Conn, error) {
	var request [8]byte // its length and code are all of it
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return nil, err
	}
	if code := binary.BigEndian.Uint32(request[4:]); code != pgSSLRequest {
		return nil, fmt.Errorf("the connection began with %d, not with a request for TLS", code)
	}
	if _, err := conn.Write([]byte{'S'}); err != nil {
		return nil, err
	}
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}), nil
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func pgStartup(in *bufio.Reader, conn net.Conn) (map[string]string, error) {
	for {
		var head [8]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, pgEnd(err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:4])-8)
		if _, err := io.ReadFull(in, body); err != nil {
			return nil, err
		}
		switch binary.BigEndian.Uint32(head[4:]) {
		case pgSSLRequest:
			if _, err := conn.Write([]byte{'N'}); err != nil {
				return nil, err
			}
		case pgProtocol3:
			words := strings.Split(string(body), "\x00")
			params := map[string]string{}
			for i := 0; i+1 < len(words); i += 2 {
				params[words[i]] = words[i+1]
			}
			return params, nil
		default:
			return nil, fmt.Errorf("startup %x", head)
		}
	}
}

func (s *Server) pgQueries(in *bufio.Reader, conn net.Conn, user, database string) error {
	for {
		if err := pgSend(conn, 'Z', []byte{'I'}); err != nil { // ReadyForQuery
			return err
		}
		kind, body, err := pgReceive(in)
		if err != nil || kind == 'X' {
			return pgEnd(err)
		}
		query := strings.TrimSuffix(string(body), "\x00")
		from := queried(query, `"LINSTOR".`)
		switch {
		case kind == 'Q' && query == ";": // how the driver asks whether a connection lives
			err = pgSend(conn, 'I', nil)
		case kind == 'Q' && from != nil:
			err = s.pgAnswer(conn, user, database, from, query)
		default:
			err = fmt.Errorf("message %q: %q", kind, query)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Server) pgAnswer(conn net.Conn, user, database string, from *table, query string) error {
	rows, outcome := s.query(user, database, from, query)
	switch outcome {
	case denied:
		return pgError(conn, "ERROR", "42501", "permission denied for schema LINSTOR")
	case noTable:
		return pgError(conn, "ERROR", "42P01", `relation "LINSTOR.`+strings.ToLower(from.name)+`" does not exist`)
	default: // it goes on
	}
	if deletes(query) {
		return pgSend(conn, 'C', []byte("DELETE 0\x00"))
	}
	columns := []byte{0, byte(len(from.columns))}
	for _, name := range from.columns {
		columns = append(columns, strings.ToLower(name)+"\x00"...)
		columns = append(columns, 0, 0, 0, 0, 0, 0) // of no table
		columns = binary.BigEndian.AppendUint32(columns, 1043)
		columns = append(columns, 0xff, 0xff, 0, 0, 1, 3, 0, 0) // varchar(255), as text
	}
	if err := pgSend(conn, 'T', columns); err != nil {
		return err
	}
	for _, row := range rows {
		message := []byte{0, byte(len(row))}
		for _, value := range row {
			message = append(binary.BigEndian.AppendUint32(message, uint32(len(value))), value...)
		}
		if err := pgSend(conn, 'D', message); err != nil {
			return err
		}
	}
	return pgSend(conn, 'C', []byte("SELECT 1\x00"))
}

func pgError(conn net.Conn, severity, code, text string) error {
	return pgSend(conn, 'E', []byte("S"+severity+"\x00V"+severity+"\x00C"+code+"\x00M"+text+"\x00\x00"))
}

func pgSend(conn net.Conn, kind byte, body []byte) error {
	message := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	_, err := conn.Write(append(message, body...))
	return err
}

func pgReceive(in *bufio.Reader) (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err := io.ReadFull(in, body)
	return head[0], body, err
}

// pgEnd takes the client's end of the connection for an end and nothing worse.
func pgEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
