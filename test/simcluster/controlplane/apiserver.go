package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/test/freeport"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// maxSocketPath keeps a unix socket's path below the kernel's limit of 108 bytes.
const maxSocketPath = 100

// startEtcd serves on unix sockets: no port to clash on.
func (c *ControlPlane) startEtcd() error {
	sockets := c.opts.Dir
	if len(filepath.Join(sockets, "etcd-client.sock")) > maxSocketPath {
		dir, err := os.MkdirTemp("", "kcp-")
		if err != nil {
			return fmt.Errorf("create a directory for etcd's sockets: %w", err)
		}
		c.tempDir, sockets = dir, dir
	}
	c.socket = "unix://" + filepath.Join(sockets, "etcd-client.sock")
	peer := "unix://" + filepath.Join(sockets, "etcd-peer.sock")
	return c.spawn(kubebin.Etcd,
		"--name=default", "--data-dir="+filepath.Join(c.opts.Dir, "etcd"),
		"--listen-client-urls="+c.socket, "--advertise-client-urls="+c.socket,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--log-level=warn",
		// A single member elects itself within one election's time. Each tick costs processor time, also in a cluster at
		// rest: at a fifth of this a dozen clusters cost an eighth of a processor.
		"--heartbeat-interval=100", "--election-timeout=1000")
}

func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	var failures []error
	for range startAttempts {
		port, err := freeport.Find()
		if err != nil {
			return err
		}
		c.host = fmt.Sprintf("https://127.0.0.1:%d", port)
		if err := c.spawn(kubebin.APIServer, c.apiServerFlags(port)...); err != nil {
			return err
		}
		err = c.waitReady(ctx)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil || c.children.alive(kubebin.APIServer) {
			break // not a port that was taken: another try would end the same way
		}
		c.logf("kube-apiserver ended while starting, trying another port: %v", err)
	}
	return fmt.Errorf("start kube-apiserver: %w", errors.Join(failures...))
}

func (c *ControlPlane) apiServerFlags(port int) []string {
	flags := []string{
		"--etcd-servers=" + c.socket, fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + c.pki.servingCert, "--tls-private-key-file=" + c.pki.servingKey,
		"--client-ca-file=" + c.pki.caFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.serviceAccountKey,
		"--service-account-signing-key-file=" + c.pki.serviceAccountKey,
		"--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
		"--profiling=false",
	}
	if c.opts.NodeNetwork != "" {
		flags = append(flags, "--bind-address=0.0.0.0", "--advertise-address="+c.opts.NodeNetwork,
			"--kubelet-preferred-address-types=InternalIP", "--enable-admission-plugins=NodeRestriction",
			"--kubelet-client-certificate="+c.pki.kubeletClientCert, "--kubelet-client-key="+c.pki.kubeletClientKey)
	} else {
		flags = append(flags, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
			// Loopback is no valid endpoint address, and nothing in here resolves the kubernetes Service.
			"--endpoint-reconciler-type=none",
			// The nodes' addresses are made up and lead nowhere: logs, exec and proxy must fail at once and not try them.
			"--kubelet-preferred-address-types=ExternalDNS")
	}
	if c.opts.AuditLog {
		// Without rotation (maxsize 0) the whole run stays in one file.
		flags = append(flags, "--audit-policy-file="+c.auditPolicyPath(), "--audit-log-path="+c.AuditLogPath(),
			"--audit-log-format=json", "--audit-log-mode=blocking", "--audit-log-maxsize=0")
	}
	if c.opts.LimitCriticalPods {
		flags = append(flags, "--admission-control-config-file="+c.admissionPath())
	}
	return flags
}

// waitReady asks /readyz until it answers 200, the API server's process ends, or readyTimeout passes.
func (c *ControlPlane) waitReady(ctx context.Context) error {
	ctx, cancel := machine.WithTimeout(ctx, readyTimeout)
	defer cancel()
	config, err := c.Config("system:simcluster:starter", "system:masters")
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client of kube-apiserver: %w", err)
	}
	defer client.CloseIdleConnections()
	ended := c.children.done(kubebin.APIServer)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		last := probe(ctx, client, c.host+"/readyz")
		if last == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("kube-apiserver ended: %s", c.children.tail(kubebin.APIServer))
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready after %s: %w (last answer: %w)", readyTimeout, ctx.Err(), last)
		case <-tick.C:
		}
	}
}

func probe(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
