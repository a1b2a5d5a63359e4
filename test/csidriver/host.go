package csidriver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Mount is a volume that pods can use at a path of a node.
type Mount struct {
	// Volume is the volume's id, Device its path on the node, Target where it is mounted.
	Volume, Device, Target string
	// FSType is the file system's type; "" for a block device, which the target then is.
	FSType   string
	ReadOnly bool
}

// Host is the machine that the node service works on.
type Host interface {
	// DeviceKiB is the size of a device; an error if there is none.
	DeviceKiB(device string) (int64, error)
	// Mount makes a volume usable, or does nothing if it is mounted there already. Two volumes never have one target.
	Mount(m Mount) error
	// Unmount ends that; an unknown target is no error.
	Unmount(target string) error
	// At is what is mounted at a target or holds it.
	At(target string) (Mount, bool)
	// Grow brings the file system of a target to the size of its device, and returns that.
	Grow(target string) (int64, error)
}

// Devices are the block devices of a machine.
type Devices interface {
	// DeviceKiB is the size of a device; an error if there is none.
	DeviceKiB(device string) (int64, error)
	// Open and Close tell that somebody uses a device.
	Open(device string) error
	Close(device string)
}

// Records is a Host that mounts nothing and remembers what would be mounted.
type Records struct {
	devices Devices

	mu     sync.Mutex
	mounts map[string]mounted // by target
}

type mounted struct {
	Mount
	kib int64 // size of the file system
}

// NewRecords is a host with nothing mounted.
func NewRecords(d Devices) *Records { return &Records{devices: d, mounts: map[string]mounted{}} }

// DeviceKiB implements Host.
func (r *Records) DeviceKiB(device string) (int64, error) { return r.devices.DeviceKiB(device) }

// Mount implements Host.
func (r *Records) Mount(m Mount) error {
	size, err := r.devices.DeviceKiB(m.Device)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if there, ok := r.mounts[m.Target]; ok {
		if there.Mount != m {
			return fmt.Errorf("%s is taken by volume %s", m.Target, there.Volume)
		}
		return nil
	}
	if !r.used(m.Device) {
		if err := r.devices.Open(m.Device); err != nil {
			return err
		}
	}
	r.mounts[m.Target] = mounted{m, size}
	return nil
}

// used reports whether a device is mounted somewhere. The mutex is held.
func (r *Records) used(device string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.mounts)), func(m mounted) bool { return m.Device == device })
}

// Unmount implements Host.
func (r *Records) Unmount(target string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	there, ok := r.mounts[target]
	delete(r.mounts, target)
	if ok && !r.used(there.Device) {
		r.devices.Close(there.Device)
	}
	return nil
}

// At implements Host.
func (r *Records) At(target string) (Mount, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, m := range r.mounts {
		if path == target || strings.HasPrefix(target, path+"/") {
			return m.Mount, true
		}
	}
	return Mount{}, false
}

var errNotMounted = errors.New("nothing is mounted there")

// Grow implements Host.
func (r *Records) Grow(target string) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.mounts[target]
	if !ok {
		return 0, fmt.Errorf("grow %s: %w", target, errNotMounted)
	}
	size, err := r.devices.DeviceKiB(m.Device)
	if err != nil {
		return 0, err
	}
	m.kib = size
	r.mounts[target] = m
	return size, nil
}

// FileSystemKiB is the size of the file system at a target: that of its device when it was mounted or last grown.
func (r *Records) FileSystemKiB(target string) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.mounts[target]
	if !ok {
		return 0, fmt.Errorf("look at %s: %w", target, errNotMounted)
	}
	return m.kib, nil
}

// Mounts are all targets, sorted.
func (r *Records) Mounts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.mounts))
}

// Forget drops all mounts, as a power cut does.
func (r *Records) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mounts)
}
