package e2e

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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// sample says what a sample's text asks its reader to prepare, and what comes of it.
type sample struct {
	machine func(i int, n *simcluster.NodeSpec)
	// prepare changes the manifest where it names what is the reader's own, and makes what has to be there before.
	prepare func(e *env, manifest string) string
	// pools are what each node has in the end: "name provider backing" in order.
	pools map[string][]string
	check func(e *env)
}

func onAll(pools ...string) map[string][]string {
	return map[string][]string{"n1": pools, "n2": pools, "n3": pools}
}

// withVolumeGroup makes the volume group that two of the samples take for granted.
func withVolumeGroup(_ int, n *simcluster.NodeSpec) {
	n.Machine.VolumeGroups = []sim.VolumeGroup{{Name: "vg_ssd", SizeKiB: 200 << 20, ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 180 << 20}}}}
}

func samples() map[string]sample {
	return map[string]sample{
		"storagecluster.yaml":   {machine: withVolumeGroup, pools: onAll("ssd LVM_THIN vg_ssd/thin")},
		"file.yaml":             {pools: onAll("file FILE_THIN /var/lib/linstor-pools/thin")},
		"lvm-thin-devices.yaml": {pools: onAll("ssd LVM_THIN vg_ssd/thin")},
		"zfs.yaml": {
			machine: func(i int, n *simcluster.NodeSpec) {
				if i > 0 {
					n.Labels["example.com/disk"] = "hdd"
				}
				if i > 1 {
					n.Machine.Disks = n.Machine.Disks[:2] // no spinning disk: the pool is optional
				}
			},
			pools: map[string][]string{"n1": {"fast ZFS_THIN tank/linstor"}, "n2": {"bulk ZFS bulk"}, "n3": nil},
		},
		"postgresql.yaml": {machine: withVolumeGroup, pools: onAll("ssd LVM_THIN vg_ssd/thin"), prepare: preparePostgreSQL, check: func(e *env) {
			if !e.Sim.World().Database("k8s").Empty() {
				e.T.Error("LINSTOR wrote to the Kubernetes API although PostgreSQL is its database")
			}
			var secret corev1.Secret
			key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ControllerConfigName}
			if err := e.Client().Get(e.Ctx, key, &secret); err != nil || !strings.Contains(string(secret.Data["linstor.toml"]), "change-me") {
				e.T.Errorf("LINSTOR's configuration with the password is not in a Secret: %v", err)
			}
		}},
	}
}

// TestSamples applies each sample as it is to a cluster that has what the sample's text asks for.
func TestSamples(t *testing.T) {
	dir := filepath.Join("..", "..", "deploy", "samples")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	known := samples()
	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			s, ok := known[entry.Name()]
			if !ok {
				t.Fatal("no test says what this sample needs")
			}
			manifest, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			s.run(t, string(manifest))
		})
		delete(known, entry.Name())
	}
	for name := range known {
		t.Errorf("the sample %s is gone", name)
	}
}

func (s sample) run(t *testing.T, manifest string) {
	t.Helper()
	ns := harness.Nodes(3)
	for i := range ns {
		if s.machine != nil {
			s.machine(i, &ns[i])
		}
	}
	e := start(t, ns)
	if s.prepare != nil {
		manifest = s.prepare(e, manifest)
	}
	e.Run()
	e.Apply(manifest)
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if got := harness.Condition(c, v1alpha1.ConditionReady); got != "True/Ready" {
		t.Errorf("Ready is %s", got)
	}
	for name, want := range s.pools {
		n, err := e.LinstorNode(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := poolList(n); !slices.Equal(got, want) {
			t.Errorf("pools of %s: %q, want %q", name, got, want)
		}
	}
	if s.check != nil {
		s.check(e)
	}
}

// poolList are a node's pools without the diskless one that every node has.
func poolList(n *linstor.Node) []string {
	var out []string
	for _, p := range n.Pools {
		if p.Provider != "DISKLESS" {
			out = append(out, p.Name+" "+p.Provider+" "+p.Backing)
		}
	}
	slices.Sort(out)
	return out
}

// preparePostgreSQL makes the Secret of the sample's text and puts the address of a stand-in for the server into the
// manifest.
func preparePostgreSQL(e *env, manifest string) string {
	e.T.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "linstor-db"},
		StringData: map[string]string{"username": "linstor", "password": "change-me"},
	}
	if err := e.Client().Create(e.Ctx, secret); err != nil {
		e.T.Fatal(err)
	}
	port := servePostgreSQL(e.T)
	e.Sim.World().Database(fmt.Sprintf("jdbc:postgresql://127.0.0.1:%d/linstor?sslmode=require", port)).SetCredentials("linstor", "change-me")
	const host = "host: postgresql.example.com"
	if strings.Count(manifest, host) != 1 {
		e.T.Fatalf("the sample has no line %q", host)
	}
	return strings.Replace(manifest, host, fmt.Sprintf("host: 127.0.0.1\n      port: %d", port), 1)
}

// servePostgreSQL answers as a PostgreSQL server with TLS and an empty database does: all that the operator asks before
// LINSTOR starts.
func servePostgreSQL(t testing.TB) int {
	t.Helper()
	certificate, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				if err := emptyPostgreSQL(conn, certificate); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					t.Errorf("stand-in for PostgreSQL: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// postgresMessage is a message of the server's.
type postgresMessage struct {
	kind byte
	body string
}

// emptyPostgreSQL serves one connection (PostgreSQL's documentation, "Message Formats").
func emptyPostgreSQL(plain net.Conn, certificate tls.Certificate) error {
	const sslRequest = 80877103
	switch code, _, err := postgresStartup(plain); {
	case err != nil:
		return err
	case code != sslRequest:
		return fmt.Errorf("the connection began with %d, not with a request for TLS", code)
	}
	if _, err := plain.Write([]byte{'S'}); err != nil {
		return err
	}
	conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	in := bufio.NewReader(conn)
	_, params, err := postgresStartup(in)
	if err != nil {
		return err
	}
	if !strings.Contains(params, "user\x00linstor\x00") || !strings.Contains(params, "database\x00linstor\x00") {
		return fmt.Errorf("login as %q", params)
	}
	answer := func(kind byte, body string) error {
		_, err := conn.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...))
		return err
	}
	const askPassword, welcome, idle = "\x00\x00\x00\x03", "\x00\x00\x00\x00", "I"
	reply := []postgresMessage{{'R', askPassword}}
	for {
		for _, r := range reply {
			if err := answer(r.kind, r.body); err != nil {
				return err
			}
		}
		var head [5]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		reply = reply[:0]
		switch {
		case head[0] == 'p' && string(body) == "change-me\x00":
			reply = append(reply, postgresMessage{'R', welcome})
		case head[0] == 'Q':
			reply = append(reply, postgresMessage{'E', "SERROR\x00VERROR\x00C42P01\x00Mrelation does not exist\x00\x00"})
		case head[0] == 'X':
			return nil
		default:
			return fmt.Errorf("message %q: %q", head[0], body)
		}
		reply = append(reply, postgresMessage{'Z', idle})
	}
}

// postgresStartup reads the message that has no kind in front.
func postgresStartup(in io.Reader) (code uint32, body string, err error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, "", err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[:4])-8)
	_, err = io.ReadFull(in, rest)
	return binary.BigEndian.Uint32(head[4:]), string(rest), err
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
