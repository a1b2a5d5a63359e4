package database

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// startEtcd starts a real etcd on loopback and returns its port and a client for its content.
func startEtcd(t *testing.T) (int32, *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // the binaries are built once
	defer cancel()
	bin, err := kubebin.Ensure(ctx, kubebin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	port := freePort(t)
	clientURL := fmt.Sprintf("http://127.0.0.1:%d", port)
	ended := startProcess(t, exec.Command(filepath.Join(bin, kubebin.Etcd), "--name=default", "--data-dir="+dir,
		"--listen-client-urls="+clientURL, "--advertise-client-urls="+clientURL,
		"--listen-peer-urls=unix://"+filepath.Join(dir, "peer.sock"),
		"--unsafe-no-fsync", "--log-level=warn", "--bcrypt-cost=4", "--heartbeat-interval=20", "--election-timeout=200"))
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{clientURL}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	waitUntil(t, ended, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := c.Get(ctx, "ready")
		return err
	})
	return port, c
}

func etcdSpec(secret string, ports ...int32) *v1alpha1.DatabaseSpec {
	spec := &v1alpha1.EtcdDatabase{CredentialsSecret: secret}
	for _, port := range ports {
		spec.Endpoints = append(spec.Endpoints, "http://127.0.0.1:"+decimal(port))
	}
	return &v1alpha1.DatabaseSpec{Etcd: spec}
}

// putNode writes a node's rows as LINSTOR does: a key a column, with the name in capitals.
func putNode(t *testing.T, c *clientv3.Client, name string) {
	t.Helper()
	key := strings.ToUpper(name)
	for k, v := range map[string]string{
		"NODES/" + key + "/UUID":                               "u",
		"NODES/" + key + "/NODE_DSP_NAME":                      name,
		"NODES/" + key + "/NODE_FLAGS":                         "0",
		"NODES/" + key + "/NODE_TYPE":                          "2",
		"NODE_NET_INTERFACES/" + key + ":DEFAULT/INET_ADDRESS": "10.0.0.1",
	} {
		if _, err := c.Put(t.Context(), "/LINSTOR/"+k, v); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEtcd(t *testing.T) {
	port, c := startEtcd(t)
	look := func(t *testing.T, want connection.Contents, ports ...int32) {
		t.Helper()
		spec := etcdSpec("", ports...)
		got, err := patient(nil).Look(t.Context(), spec, accessTo(spec, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}
	look(t, connection.Contents{}, port)

	// What a LINSTOR writes that has no node yet, and what is none of LINSTOR's.
	for _, key := range []string{"/LINSTOR/DBHISTORY/version", "/LINSTOR/NODES_OF_OTHERS/A/NODE_DSP_NAME",
		"/registry/nodes/n1"} {
		if _, err := c.Put(t.Context(), key, "44"); err != nil {
			t.Fatal(err)
		}
	}
	look(t, connection.Contents{}, port)

	for _, name := range foreignNodes() {
		putNode(t, c, name)
	}
	look(t, connection.Contents{Nodes: firstForeignNodes}, port)
	if _, err := c.Put(t.Context(), "/LINSTOR/NODES/DAMAGED/UUID", "u"); err != nil {
		t.Fatal(err)
	}
	withDamaged := connection.Contents{Nodes: append([]string{"DAMAGED"}, firstForeignNodes[:9]...)}
	look(t, withDamaged, port)
	t.Run("a member is down", func(t *testing.T) { look(t, withDamaged, freePort(t), port) })

	enableEtcdAuth(t, c)
	for _, tc := range []struct {
		name, secret, user, password string
		kind                         error
		says                         []string
	}{
		{name: "right password", secret: secretName, user: ownerUser, password: ownerPassword},
		{
			name: "wrong password", secret: secretName, user: ownerUser, password: "wr0ng",
			kind: errCredentials, says: []string{"127.0.0.1:" + decimal(port), "linstor-storage/" + secretName},
		},
		{name: "no credentials", kind: errCredentials, says: []string{"credentialsSecret is not set"}},
		{name: "may not read", secret: secretName, user: guestUser, password: guestPassword, kind: errCredentials},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := etcdSpec(tc.secret, port)
			got, err := patient(nil).Look(t.Context(), spec, accessTo(spec, tc.user, tc.password))
			if !errors.Is(err, tc.kind) {
				t.Fatalf("error %v, want %v", err, tc.kind)
			}
			if tc.kind == nil {
				if diff := cmp.Diff(withDamaged, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				return
			}
			checkText(t, err, tc.says)
			if tc.user != "" {
				checkText(t, err, nil, tc.user, tc.password)
			}
		})
	}
}

// enableEtcdAuth makes a user that may do all and one that may do nothing, and lets no one else in.
func enableEtcdAuth(t *testing.T, c *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	for _, do := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", ownerPassword); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.UserAdd(ctx, ownerUser, ownerPassword); return err },
		func() error { _, err := c.UserGrantRole(ctx, ownerUser, "root"); return err },
		func() error { _, err := c.UserAdd(ctx, guestUser, guestPassword); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEtcdUnreachable(t *testing.T) {
	silent := silentServer(t) // first, lest it gets the port that nobody shall listen on
	for _, tc := range []struct {
		name   string
		port   int32
		prober *Prober
		says   string
	}{
		{"nobody listens", freePort(t), patient(nil), "connection refused"},
		{"silent", silent, &Prober{timeout: 200 * time.Millisecond}, "no response within 200ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := etcdSpec(secretName, tc.port)
			_, err := tc.prober.Look(t.Context(), spec, accessTo(spec, ownerUser, ownerPassword))
			if !errors.Is(err, errUnreachable) {
				t.Fatalf("error %v, want %v", err, errUnreachable)
			}
			checkText(t, err, []string{tc.says, "127.0.0.1:" + decimal(tc.port)}, ownerUser, ownerPassword)
		})
	}
}
