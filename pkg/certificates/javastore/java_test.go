package javastore_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/certificatestest"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
)

// java is a running testdata/Peer.java.
type java struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// newJava compiles and starts it; the test is skipped where there is no JDK.
func newJava(t *testing.T) *java {
	t.Helper()
	if testing.Short() {
		t.Skip("Java takes seconds to start")
	}
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skip("there is no JDK")
	}
	classes := t.TempDir()
	run(t, "javac", "-d", classes, filepath.Join("testdata", "Peer.java"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, "java", "-cp", classes, "Peer")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it is killed
	})
	return &java{t, in, bufio.NewScanner(out)}
}

func (j *java) say(words ...string) {
	j.t.Helper()
	if _, err := fmt.Fprintln(j.in, strings.Join(words, " ")); err != nil {
		j.t.Fatal(err)
	}
}

func (j *java) hear() string {
	j.t.Helper()
	if !j.out.Scan() {
		j.t.Fatalf("Java has ended: %v", j.out.Err())
	}
	return j.out.Text()
}

// stores are the paths of both stores, as words of a line.
func stores(t *testing.T, m certificates.Material) []string {
	t.Helper()
	dir := files(t, m.Leaf, m.Trust)
	return []string{filepath.Join(dir, javastore.EntryKeyStore), filepath.Join(dir, javastore.EntryTrustStore)}
}

// serves has Java accept a connection of Go, and returns what either side says.
func (j *java) serves(server, client certificates.Material) (javas string, gos error) {
	j.t.Helper()
	j.say(append([]string{"serve"}, stores(j.t, server)...)...)
	said := j.hear()
	port, ok := strings.CutPrefix(said, "port ")
	if !ok {
		j.t.Fatalf("Java says %s", said)
	}
	conn, err := (&net.Dialer{}).DialContext(j.t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		j.t.Fatal(err)
	}
	gos = certificatestest.Greet(conn, nil, certificatestest.Client(client, "", time.Now()))
	return j.hear(), gos
}

// connects has Java open a connection to Go.
func (j *java) connects(server, client certificates.Material) (javas string, gos error) {
	j.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(j.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		j.t.Fatal(err)
	}
	j.say(append(append([]string{"connect"}, stores(j.t, client)...), port)...)
	conn, err := l.Accept()
	if err != nil {
		j.t.Fatal(err)
	}
	gos = certificatestest.Greet(conn, certificatestest.Server(server, time.Now()), nil)
	return j.hear(), gos
}

// TestJava has Java's own TLS, with our stores and in the way that LINSTOR uses them, speak to Go: at the moments of a
// change of the authority, and with what must be refused.
func TestJava(t *testing.T) {
	j := newJava(t)
	now := time.Now()
	before, after, other, expired := newKind(t, now), newKind(t, now), newKind(t, now), newKind(t, now.AddDate(0, 0, -91))
	same := renewed(t, before, now)
	with := func(l *certificates.Leaf, kinds ...kind) certificates.Material {
		return certificates.Material{Leaf: l, Trust: bundle(kinds...)}
	}
	type moment struct {
		name           string
		server, client certificates.Material
		refused        bool
	}
	moments := []moment{{"at rest", with(before.server, before), with(before.client, before), false}}
	for name, after := range map[string]kind{"another name": after, "the same name": same} {
		for _, m := range []moment{
			{"phase 1, the server first", with(before.server, before, after), with(before.client, before), false},
			{"phase 1, the client first", with(before.server, before), with(before.client, before, after), false},
			{"phase 2, the server first", with(after.server, before, after), with(before.client, before, after), false},
			{"phase 2, the client first", with(before.server, before, after), with(after.client, before, after), false},
			{"phase 3, the server first", with(after.server, after), with(after.client, before, after), false},
			{"phase 3, the client first", with(after.server, before, after), with(after.client, after), false},
			{"the server was signed anew too early", with(after.server, before, after), with(before.client, before), true},
			{"the client was signed anew too early", with(before.server, before), with(after.client, before, after), true},
		} {
			m.name += ", under " + name
			moments = append(moments, m)
		}
	}
	moments = append(moments, []moment{
		{"another authority's client", with(before.server, before), with(other.client, before), true},
		{"another authority's server", with(other.server, before), with(before.client, before), true},
		{"a server as a client", with(before.server, before), with(before.server, before), true},
		{"a client as a server", with(before.client, before), with(before.client, before), true},
		{"an expired client", with(before.server, before, expired), with(expired.client, before), true},
		{"an expired server", with(expired.server, before), with(before.client, before, expired), true},
	}...)
	for _, tc := range moments {
		for way, speak := range map[string]func(server, client certificates.Material) (string, error){
			"Java serves": j.serves, "Java connects": j.connects} {
			javas, gos := speak(tc.server, tc.client)
			if refused := javas != "yes" || gos != nil; refused != tc.refused {
				t.Errorf("%s, %s: Java says %s, Go says %v", tc.name, way, javas, gos)
			}
		}
	}
}

// TestJavaTrustsAnExpiredAuthority is why no certificate outlives its authority, and why an old one that has expired
// is no longer published: Java does not look at the dates of what is in its trust store.
func TestJavaTrustsAnExpiredAuthority(t *testing.T) {
	j := newJava(t)
	now := time.Now()
	good, old := newKind(t, now), newKind(t, now.AddDate(-6, 0, 0))
	a, c := old.authority, *old.client.Certificate
	c.NotBefore, c.NotAfter, c.SerialNumber = now.Add(-time.Hour), now.Add(time.Hour), nil
	der, err := x509.CreateCertificate(rand.Reader, &c, a.Certificate, c.PublicKey, a.Key.Signer())
	if err != nil {
		t.Fatal(err)
	}
	young, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	javas, gos := j.serves(certificates.Material{Leaf: good.server, Trust: bundle(old)},
		certificates.Material{Leaf: &certificates.Leaf{Certificate: young, Key: old.client.Key}, Trust: bundle(good)})
	if javas != "yes" || gos != nil {
		t.Errorf("Java says %s, Go says %v", javas, gos)
	}
}
