package realnodes

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/linstor-dev/storagecluster-operator/test/csidriver"
)

// mounter mounts volumes on the nodes. While a volume is used, its files are in a directory that all nodes see, as if
// they were replicated. Whenever it is unmounted, they are also stored in the simulated LINSTOR, which takes snapshots
// of them.
type mounter struct {
	*cluster

	mu      sync.Mutex
	mounted map[string]csidriver.Mount // by node and target
}

// stored is the name of the file in the simulated LINSTOR that has all files of a volume, as tar packs them.
const stored = "files.tar"

// Mount implements kubelet.Mounter.
func (m *mounter) Mount(node string, v csidriver.Mount) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := node + v.Target
	if _, mounted := m.mounted[key]; mounted {
		return nil
	}
	if err := m.restore(node, v); err != nil {
		return err
	}
	n := m.node(node)
	if _, err := n.Run("mkdir", "-p", v.Target); err != nil {
		return err
	}
	if _, err := n.Run("mount", "--bind", m.files(v), v.Target); err != nil {
		return err
	}
	m.mounted[key] = v
	return nil
}

// Unmount implements kubelet.Mounter.
func (m *mounter) Unmount(node, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := node + target
	v, mounted := m.mounted[key]
	if !mounted {
		return nil
	}
	if err := m.store(node, v); err != nil {
		return err
	}
	n := m.node(node)
	if _, err := n.Run("umount", target); err != nil {
		return err
	}
	delete(m.mounted, key)
	_, err := n.Run("rmdir", target)
	return err
}

// lost forgets what was mounted on a node: its power was cut.
func (m *mounter) lost(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.mounted {
		if strings.HasPrefix(key, node+"/") {
			delete(m.mounted, key)
		}
	}
}

// files is the directory with a volume's files.
func (m *mounter) files(v csidriver.Mount) string { return filepath.Join(m.dir, "volumes", v.Volume) }

// restore creates the directory of a volume that is mounted for the first time. One that was created from a snapshot
// has files then.
func (m *mounter) restore(node string, v csidriver.Mount) error {
	dir := m.files(v)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	content, err := m.Sim.World().Volumes().ReadFile(node, v.Device, stored)
	if err != nil {
		return nil //nolint:nilerr // nothing has been written to the volume yet
	}
	unpack := exec.Command("tar", "-C", dir, "-xf", "-")
	unpack.Stdin = strings.NewReader(content)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("restore the files of volume %s: %w: %s", v.Volume, err, out)
	}
	return nil
}

func (m *mounter) store(node string, v csidriver.Mount) error {
	pack := exec.Command("tar", "-C", m.files(v), "-cf", "-", ".")
	var failure bytes.Buffer
	pack.Stderr = &failure
	content, err := pack.Output()
	if err != nil {
		return fmt.Errorf("store the files of volume %s: %w: %s", v.Volume, err, failure.String())
	}
	return m.Sim.World().Volumes().WriteFile(node, v.Device, stored, string(content))
}
