package sim

import (
	"fmt"
	"maps"
	"slices"
)

// files are what is written to a volume, by name: as much of a file system as tests need. Copies that DRBD keeps equal
// share theirs.
type files map[string]string

// backing is a copy's part of a machine, whether or not LINSTOR can reach it; nil if there is none.
func (v Volumes) backing(volumeName, nodeName string) *backing {
	var found *backing
	for _, m := range v.world.machines {
		m.stores(func(s *store) {
			if b := s.volumes[key(volumeName)]; b != nil && key(b.node) == key(nodeName) {
				found = b
			}
		})
	}
	return found
}

// filesOf are those that a new copy of a volume gets: with DRBD the ones that the others have, else none.
func (v Volumes) filesOf(dfn *rscDfn) files {
	if !dfn.storageOnly {
		for _, r := range dfn.sortedResources() {
			if b := v.backing(dfn.name, r.nodeName); b != nil && b.files != nil {
				return b.files
			}
		}
	}
	return files{}
}

// fill gives copies the files of a snapshot or of another volume: the same ones to all that DRBD keeps equal. Which
// copy has which is told by the key of its node.
func (v Volumes) fill(dfn *rscDfn, copies []*resource, from map[string]files) {
	var shared files
	for _, r := range copies {
		b := v.backing(dfn.name, r.nodeName)
		if b == nil {
			continue
		}
		if shared == nil || dfn.storageOnly {
			shared = files{}
			maps.Copy(shared, from[r.node])
		}
		b.files = shared
	}
}

// written are the files of copies, by the key of the node, as they are now.
func (v Volumes) written(dfn *rscDfn, copies []*resource) map[string]files {
	out := map[string]files{}
	for _, r := range copies {
		if b := v.backing(dfn.name, r.nodeName); b != nil {
			out[r.node] = maps.Clone(b.files)
		}
	}
	return out
}

// device is what a path of a node leads to.
func (v Volumes) device(nodeName, path string) (placed, *Database, error) {
	if db, n := v.obeyed(nodeName); n != nil {
		for _, on := range db.resourcesOn(n) {
			if on.rsc.broken || on.dfn.volume == nil {
				continue
			}
			at := fmt.Sprintf("/dev/drbd%d", on.dfn.minor)
			if p := n.pools[key(on.rsc.pool)]; on.dfn.storageOnly && p != nil {
				at = p.devicePath(on.dfn)
			}
			if at == path {
				return on, db, nil
			}
		}
	}
	return placed{}, nil, fmt.Errorf("stat %s: no such file or directory on node %s", path, nodeName)
}

// DeviceKiB is the size of the device at a path of a node, such as /dev/drbd1000.
func (v Volumes) DeviceKiB(node, path string) (int64, error) {
	v.world.lock()
	defer v.world.mu.Unlock()
	on, _, err := v.device(node, path)
	if err != nil {
		return 0, err
	}
	if b := v.backing(on.dfn.name, on.rsc.nodeName); b != nil {
		return b.sizeKiB, nil
	}
	return on.dfn.sizeKiB, nil
}

// OpenDevice tells that a program on a node uses a device. DRBD lets no two nodes do so at a time.
func (v Volumes) OpenDevice(node, path string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	on, _, err := v.device(node, path)
	if err != nil {
		return err
	}
	for _, other := range on.dfn.sortedResources() {
		if !on.dfn.storageOnly && other != on.rsc && other.inUse {
			return fmt.Errorf("open %s: wrong medium type: it is in use on node %s", path, other.nodeName)
		}
	}
	v.eachCopy(on.dfn.name, on.rsc.nodeName, func(r *resource) { r.inUse = true })
	return nil
}

// CloseDevice ends that. A path that leads to nothing is ignored.
func (v Volumes) CloseDevice(node, path string) {
	v.world.lock()
	defer v.world.mu.Unlock()
	if on, _, err := v.device(node, path); err == nil {
		v.eachCopy(on.dfn.name, on.rsc.nodeName, func(r *resource) { r.inUse = false })
	}
}

// content are the files that can be read and written through a device: its own, or through DRBD those of another copy
// whose node is up.
func (v Volumes) content(node, path string) (files, error) {
	on, db, err := v.device(node, path)
	if err != nil {
		return nil, err
	}
	candidates := []*resource{on.rsc}
	if !on.dfn.storageOnly {
		candidates = append(candidates, on.dfn.sortedResources()...)
	}
	for _, r := range candidates {
		b := v.backing(on.dfn.name, r.nodeName)
		if b != nil && b.complete && (r == on.rsc || db.drbdUp(r.node)) {
			if b.files == nil {
				b.files = files{}
			}
			return b.files, nil
		}
	}
	return nil, fmt.Errorf("read %s on node %s: input/output error: no copy with the data can be reached", path, node)
}

// WriteFile writes to the file system on a device.
func (v Volumes) WriteFile(node, path, name, content string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	f, err := v.content(node, path)
	if err != nil {
		return err
	}
	f[name] = content
	return nil
}

// ReadFile reads what was written to the file system on a device, on whatever node.
func (v Volumes) ReadFile(node, path, name string) (string, error) {
	v.world.lock()
	defer v.world.mu.Unlock()
	f, err := v.content(node, path)
	if err != nil {
		return "", err
	}
	content, ok := f[name]
	if !ok {
		return "", fmt.Errorf("open %s: no such file; there are %v", name, slices.Sorted(maps.Keys(f)))
	}
	return content, nil
}
