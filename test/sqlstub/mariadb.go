package sqlstub

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// Capabilities of MariaDB's protocol that the stub offers (MariaDB's documentation, "Connection phase").
const (
	myLongPassword     = 1 << 0
	myConnectWithDB    = 1 << 3
	myProtocol41       = 1 << 9
	myTransactions     = 1 << 13
	mySecureConnection = 1 << 15
	myPluginAuth       = 1 << 19
	myCapabilities     = myLongPassword | myConnectWithDB | myProtocol41 | myTransactions | mySecureConnection |
		myPluginAuth

	myScramble = "abcdefghijklmnopqrst"
)

// myOK says that something was done, to no row.
var myOK = []byte{0, 0, 0, 2, 0, 0, 0}

// myConn reads and writes packets with MariaDB's header: three bytes of length and one that counts.
type myConn struct {
	in       *bufio.Reader
	out      io.Writer
	sequence byte
}

// MariaDB speaks as much of MariaDB's protocol as one login with mysql_native_password and text queries need.
func (s *Server) MariaDB(conn net.Conn) error {
	c := &myConn{in: bufio.NewReader(conn), out: conn}
	if err := c.send(myGreeting()); err != nil {
		return err
	}
	login, err := c.receive()
	if err != nil {
		return pgEnd(err)
	}
	user, proof, database, err := myLogin(login)
	if err != nil {
		return err
	}
	right := subtle.ConstantTimeCompare(proof, myProof(s.Users[user])) == 1
	switch s.login(user, right, database) {
	case badPassword:
		return c.fail(1045, "28000", "Access denied for user '"+user+"'@'localhost' (using password: YES)")
	case noDatabase:
		return c.fail(1049, "42000", "Unknown database '"+database+"'")
	default: // it goes on
	}
	if err := c.send(myOK); err != nil {
		return err
	}
	for {
		c.sequence = 0
		command, err := c.receive()
		if err != nil || command[0] == 1 { // COM_QUIT
			return pgEnd(err)
		}
		query := string(command[1:])
		from := queried(query, "")
		if command[0] != 3 || from == nil {
			return fmt.Errorf("command %q", command)
		}
		if err := c.answer(s, user, database, from, query); err != nil {
			return err
		}
	}
}

func myGreeting() []byte {
	p := append([]byte{10}, "5.5.5-10.11.0-stub\x00"...)
	p = append(p, 1, 0, 0, 0)
	p = append(p, myScramble[:8]+"\x00"...)
	p = binary.LittleEndian.AppendUint16(p, uint16(myCapabilities&0xffff))
	p = append(p, 45, 2, 0) // utf8mb4, autocommit
	p = binary.LittleEndian.AppendUint16(p, uint16(myCapabilities>>16))
	p = append(p, byte(len(myScramble)+1))
	p = append(p, make([]byte, 10)...)
	p = append(p, myScramble[8:]+"\x00"...)
	return append(p, "mysql_native_password\x00"...)
}

func myLogin(p []byte) (user string, proof []byte, database string, err error) {
	if len(p) < 32 || binary.LittleEndian.Uint32(p)&myConnectWithDB == 0 {
		return "", nil, "", fmt.Errorf("login %q", p)
	}
	name, rest, found := bytes.Cut(p[32:], []byte{0})
	if !found || len(rest) == 0 || len(rest) < 1+int(rest[0]) {
		return "", nil, "", fmt.Errorf("login %q", p)
	}
	proof = rest[1 : 1+rest[0]]
	db, _, _ := bytes.Cut(rest[1+rest[0]:], []byte{0})
	return string(name), proof, string(db), nil
}

// myProof is the answer of mysql_native_password: SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password))).
func myProof(password string) []byte {
	once := sha1.Sum([]byte(password))
	twice := sha1.Sum(once[:])
	mask := sha1.Sum(append([]byte(myScramble), twice[:]...))
	proof := make([]byte, len(once))
	subtle.XORBytes(proof, once[:], mask[:])
	return proof
}

func (c *myConn) answer(s *Server, user, database string, from *table, query string) error {
	rows, outcome := s.query(user, database, from, query)
	switch outcome {
	case denied:
		return c.fail(1142, "42000", "SELECT command denied to user '"+user+"'@'localhost' for table `"+database+"`.`"+
			from.name+"`")
	case noTable:
		return c.fail(1146, "42S02", "Table '"+database+"."+from.name+"' doesn't exist")
	default: // it goes on
	}
	if deletes(query) {
		return c.send(myOK)
	}
	packets := [][]byte{{byte(len(from.columns))}}
	for _, name := range from.columns {
		column := myTexts("def", database, from.name, from.name, name, name)
		packets = append(packets, // utf8mb4, 1020 bytes, VAR_STRING
			append(column, 0x0c, 45, 0, 0xfc, 3, 0, 0, 0xfd, 0, 0, 0, 0, 0))
	}
	end := []byte{0xfe, 0, 0, 2, 0}
	packets = append(packets, end)
	for _, row := range rows {
		packets = append(packets, myTexts(row...))
	}
	for _, p := range append(packets, end) {
		if err := c.send(p); err != nil {
			return err
		}
	}
	return nil
}

// myTexts are texts of less than 251 bytes, each after its length.
func myTexts(texts ...string) (p []byte) {
	for _, text := range texts {
		p = append(append(p, byte(len(text))), text...)
	}
	return p
}

func (c *myConn) fail(number uint16, state, text string) error {
	return c.send(append(binary.LittleEndian.AppendUint16([]byte{0xff}, number), "#"+state+text...))
}

func (c *myConn) send(p []byte) error {
	head := []byte{byte(len(p)), byte(len(p) >> 8), byte(len(p) >> 16), c.sequence}
	c.sequence++
	_, err := c.out.Write(append(head, p...))
	return err
}

func (c *myConn) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	c.sequence = head[3] + 1
	p := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err := io.ReadFull(c.in, p)
	return p, err
}
