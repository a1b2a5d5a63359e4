package kubelet

import (
	"strings"
	"sync"
)

// DefaultModuleVersion is the DRBD version that a loader loads when neither its result nor its image's tag names one.
const DefaultModuleVersion = "9.3.3"

// LoaderResult is what the module loader does on a node. The zero value succeeds and loads the version in its image's
// tag.
type LoaderResult struct {
	ExitCode int32
	Message  string // the last lines of its log
	Version  string // DRBD version that it loads
}

// crash is a container on a node; an empty node means all.
type crash struct{ container, node string }

// mount is a path of a node.
type mount struct{ node, path string }

// Faults are what goes wrong with pods. All its methods are safe for concurrent use.
type Faults struct {
	// retry ends the crash-loop back-off of a node's containers, or of all when the node is empty.
	retry func(node string)

	mu       sync.Mutex
	enrolled map[string]string // by node: the certificate that its firmware trusts
	loader   map[string]LoaderResult
	badImage string // "" = none
	crashes  map[crash]exit
	mounts   map[mount]string
	backup   BackupResult
}

func newFaults(retry func(node string)) *Faults {
	return &Faults{retry: retry, enrolled: map[string]string{}, loader: map[string]LoaderResult{},
		crashes: map[crash]exit{}, mounts: map[mount]string{}}
}

// Faults returns what goes wrong with the driver's pods.
func (d *Driver) Faults() *Faults { return d.faults }

// Any reports whether anything goes wrong.
func (f *Faults) Any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.enrolled)+len(f.loader)+len(f.crashes)+len(f.mounts) > 0 || f.badImage != "" || f.backup != BackupWhole
}

// SetLoaderResult decides what the module loader does on a node from its next start on; a loader that waits in a crash
// loop starts at once. A module that is loaded stays loaded: the loader then succeeds whatever the result says, as
// LINBIT's loader does.
func (f *Faults) SetLoaderResult(node string, r LoaderResult) {
	f.mu.Lock()
	f.loader[node] = r
	f.mu.Unlock()
	f.retry(node)
}

// SetSecureBoot makes a node's kernel take only modules that are signed with the key of that certificate.
func (f *Faults) SetSecureBoot(node, certificate string) {
	f.mu.Lock()
	f.enrolled[node] = certificate
	f.mu.Unlock()
	f.retry(node)
}

func (f *Faults) secureBoot(node string) (certificate string, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	certificate, on = f.enrolled[node]
	return certificate, on
}

// SetImagePullError makes pods that are new on their node fail to pull images with that substring. "" ends it.
func (f *Faults) SetImagePullError(imageSubstring string) {
	f.mu.Lock()
	f.badImage = imageSubstring
	f.mu.Unlock()
	f.retry("")
}

// SetCrash makes a container end with exit code 1 and the message as its last log line, now and at each start. The
// empty node means all nodes. An empty message ends it.
func (f *Faults) SetCrash(container, node, message string) {
	f.setExit(container, node, exit{code: 1, message: message})
}

// SetOOMKilled does the same as if the kernel had killed the container because of its memory limit.
func (f *Faults) SetOOMKilled(container, node, message string) {
	f.setExit(container, node, exit{code: 137, reason: "OOMKilled", message: message})
}

// SetStartError does the same as if the runtime could not start the container's command. The message is the runtime's.
func (f *Faults) SetStartError(container, node, message string) {
	f.setExit(container, node, exit{code: 128, reason: startError, message: message})
}

// startError is the reason that containerd gives where the command cannot be started.
const startError = "StartError"

func (f *Faults) setExit(container, node string, e exit) {
	f.mu.Lock()
	if key := (crash{container, node}); e.message == "" {
		delete(f.crashes, key)
	} else {
		f.crashes[key] = e
	}
	f.mu.Unlock()
	f.retry(node)
}

// SetMountError makes the kubelet of a node fail to mount that path of the host, with the message of its hostPath
// plugin. An empty message ends it.
func (f *Faults) SetMountError(node, path, message string) {
	f.mu.Lock()
	if key := (mount{node, path}); message == "" {
		delete(f.mounts, key)
	} else {
		f.mounts[key] = message
	}
	f.mu.Unlock()
	f.retry(node)
}

func (f *Faults) mountMessage(node, path string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mounts[mount{node, path}]
}

func (f *Faults) loaderResult(node string) LoaderResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loader[node]
}

func (f *Faults) pullFails(image string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.badImage != "" && strings.Contains(image, f.badImage)
}

// crash is how a container ends at once; false if it does not.
func (f *Faults) crash(container, node string) (exit, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.crashes[crash{container, node}]
	if !ok {
		e, ok = f.crashes[crash{container, ""}]
	}
	return e, ok
}

// SetBackup decides how the next backups come out.
func (f *Faults) SetBackup(r BackupResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backup = r
}

func (f *Faults) backupResult() BackupResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.backup
}
