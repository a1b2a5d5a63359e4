package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/linstor-dev/storagecluster-operator/test/realnodes/fabric"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/programs"
)

const containerdSocket = "/run/containerd/containerd.sock"

// containerdConfig is containerd's configuration. See makeRuntimeSpec for base_runtime_spec.
const containerdConfig = `version = 3
root = "${dir}/containerd"
state = "/run/containerd"
[grpc]
  address = "${socket}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "${dir}/base-spec.json"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["${programs}"]
    conf_dir = "${dir}/cni"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "${pause}"
`

const cniConfig = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0",
"isGateway": true, "ipMasq": true, "ipMasqBackend": "nftables", "hairpinMode": true, "mtu": 1450,
"ipam": {"type": "host-local", "dataDir": "${dir}/cni-addresses", "ranges": [[{"subnet": "${pods}"}]],
"routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// kubeletConfig keeps the pods' cgroups below one of the node's own, whichever version of cgroups the machine has, and
// turns off what the machine itself would otherwise decide: evictions, swap and the removal of images.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ${address}
port: 10250
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: ${ca}}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /${cgroup}
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
containerRuntimeEndpoint: unix://${socket}
clusterDNS: [${dns}]
clusterDomain: cluster.local
resolvConf: /etc/resolv-node.conf
imageGCHighThresholdPercent: 100
evictionHard: {}
enforceNodeAllocatable: [pods]
localStorageCapacityIsolation: false
maxPods: 110
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
bindAddress: ${address}
hostnameOverride: ${name}
clusterCIDR: 10.244.0.0/16
clientConnection: {kubeconfig: ${kubeconfig}}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// prepare gives the node the directories that a host has to itself, and its configuration.
func (n *Node) prepare() error {
	at := func(name string) string { return filepath.Join(n.o.Dir, name) }
	values := map[string]string{"dir": n.o.Dir, "socket": containerdSocket, "programs": n.o.Programs, "pause": n.o.Pause,
		"pods": n.Pods.String(), "address": n.Address.String(), "name": n.Name, "ca": n.o.ClientCA, "cgroup": n.cgroup(),
		"dns": fabric.Address, "kubeconfig": n.o.ProxyKubeconfig}
	for _, d := range []string{"var/lib/kubelet", "var/log", "etc", "lib-upper", "lib-work", "usr-src", "modules",
		"cni"} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			return err
		}
	}
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	spec := &spec{Name: n.Name,
		Mounts: []hostMount{
			{"run", "/run", "tmpfs", ""},
			{at("var"), "/var", "bind", ""},
			{at("usr-src"), "/usr/src", "bind", ""},
			// A host has a directory of kernel modules. The machine that runs the tests may have none.
			{"lib", "/usr/lib", "overlay",
				"lowerdir=/usr/lib,upperdir=" + at("lib-upper") + ",workdir=" + at("lib-work")},
			{"etc", "/etc", "overlay", "lowerdir=/etc,upperdir=" + at("etc") + ",workdir=" + at("etc-work")},
		},
		Directories: []string{"/run/udev/data", "/run/lock", "/run/mount", "/usr/lib/modules/" + release, "/var/run",
			"/var/lib/kubelet", "/var/log/pods", "/var/log/containers"},
		Files: map[string]string{
			"/etc/hostname":            n.Name + "\n",
			"/etc/hosts":               fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", n.Address, n.Name),
			"/etc/resolv.conf":         "", // nothing outside of the tests' network can be reached
			"/etc/resolv-node.conf":    "",
			"/etc/os-release":          "ID=debian\nPRETTY_NAME=\"" + n.o.OSImage + "\"\n",
			at("containerd.toml"):      text(containerdConfig, values),
			at("cni/10-pods.conflist"): text(cniConfig, values),
			at("kubelet.yaml"):         text(kubeletConfig, values),
			at("kube-proxy.yaml"):      text(proxyConfig, values),
		}}
	if err := os.MkdirAll(at("etc-work"), 0o755); err != nil {
		return err
	}
	if _, err := n.ask(&request{Op: "prepare", Spec: spec}); err != nil {
		return err
	}
	for key, value := range map[string]string{"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.route_localnet": "1"} {
		path := "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
		if _, err := n.Run("sh", "-c", "echo "+value+" > "+path); err != nil {
			return err
		}
	}
	return nil
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// StartContainerd starts the container runtime. It returns once the runtime answers.
func (n *Node) StartContainerd() error {
	if err := n.makeRuntimeSpec(); err != nil {
		return err
	}
	if err := n.start(programs.Containerd, programs.Containerd, "--config",
		filepath.Join(n.o.Dir, "containerd.toml")); err != nil {
		return err
	}
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			_, last = n.Run(programs.Ctr, "version")
			return last == nil, nil
		})
	if err != nil {
		return fmt.Errorf("containerd does not answer: %w\n%s", last, n.Log(programs.Containerd))
	}
	return nil
}

// makeRuntimeSpec writes the spec that all containers start from. It has no rlimits, which cannot be raised where the
// tests themselves run in a container. In place of /sys/module there is a directory of the node: a test puts the
// version of DRBD there, in a file that nothing can create in sysfs.
func (n *Node) makeRuntimeSpec() error {
	path := filepath.Join(n.o.Dir, "base-spec.json")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	printed, err := n.Run(programs.Ctr, "oci", "spec")
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal([]byte(printed), &spec); err != nil {
		return fmt.Errorf("read what ctr oci spec printed: %w", err)
	}
	process, ok := spec["process"].(map[string]any)
	mounts, isList := spec["mounts"].([]any)
	if !ok || !isList {
		return errors.New("ctr oci spec printed no process, or no mounts")
	}
	delete(process, "rlimits")
	spec["mounts"] = append(mounts, map[string]any{"destination": "/sys/module", "type": "bind",
		"source": filepath.Join(n.o.Dir, "modules"), "options": []string{"rbind", "ro"}})
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// StartKubelet starts the kubelet. The caller waits until it has registered the node.
func (n *Node) StartKubelet() error {
	return n.start(programs.Kubelet, programs.Kubelet, "--kubeconfig="+n.o.Kubeconfig,
		"--config="+filepath.Join(n.o.Dir, "kubelet.yaml"), "--hostname-override="+n.Name,
		"--node-ip="+n.Address.String(), "--root-dir=/var/lib/kubelet", "--v=2")
}

func (n *Node) startProxy() error {
	return n.start(programs.KubeProxy, programs.KubeProxy, "--config="+filepath.Join(n.o.Dir, "kube-proxy.yaml"))
}

// cgroup is the name of the node's cgroup.
func (n *Node) cgroup() string { return fabric.ID() + "-" + n.Name }

// makeCgroups creates the node's cgroup in each hierarchy. A new cgroup of cpuset has no processors, and takes no
// process until it has some.
func (n *Node) makeCgroups() error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range dirs {
		dir := filepath.Join(h, n.cgroup())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(h, file))
			if err != nil || filepath.Base(h) != "cpuset" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroups removes them, with those of the node's pods: after a power cut, a kubelet that finds them retries each
// of their containers for minutes.
func (n *Node) removeCgroups() error {
	var errs []error
	for _, dir := range fabric.Cgroups(n.cgroup()) {
		var last error
		_ = wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, 5*time.Second, true,
			func(context.Context) (bool, error) { // the kernel needs a moment to remove killed processes
				last = fabric.RemoveCgroup(dir)
				return last == nil, nil
			})
		errs = append(errs, last)
	}
	return errors.Join(errs...)
}

// hierarchies are the machine's cgroup file systems: one for each controller with version 1, or a single one with
// version 2.
func hierarchies() ([]string, error) {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(root, e.Name()))
		}
	}
	return out, nil
}

// text replaces ${name} by its value.
func text(format string, values map[string]string) string {
	return os.Expand(format, func(name string) string { return values[name] })
}
