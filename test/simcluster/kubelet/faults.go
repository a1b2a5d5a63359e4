package kubelet

import "strings"

// DefaultModuleVersion is the DRBD version that a loader loads when neither its result nor its image's tag names one.
const DefaultModuleVersion = "9.3.3"

// LoaderResult is what the module loader does on a node. The zero value succeeds and loads the version in its image's tag.
type LoaderResult struct {
	ExitCode int32
	Message  string // the last lines of its log
	Version  string // DRBD version that it loads
}

// crash is a container on a node; an empty node means all.
type crash struct{ container, node string }

type faults struct {
	enrolled map[string]string // by node: the certificate that its firmware trusts
	loader   map[string]LoaderResult
	badImage string // "" = none
	crashes  map[crash]string
	backup   BackupResult
}

func newFaults() faults {
	return faults{enrolled: map[string]string{}, loader: map[string]LoaderResult{}, crashes: map[crash]string{}}
}

// SetLoaderResult decides what the module loader does on a node from its next start on; a loader that waits in a crash
// loop starts at once. A module that is loaded stays loaded: the loader then succeeds whatever the result says, as
// LINBIT's loader does.
func (d *Driver) SetLoaderResult(node string, r LoaderResult) {
	d.mu.Lock()
	d.faults.loader[node] = r
	d.mu.Unlock()
	d.retryNow(node)
}

// SetSecureBoot makes a node's kernel take only modules that are signed with the key of that certificate.
func (d *Driver) SetSecureBoot(node, certificate string) {
	d.mu.Lock()
	d.faults.enrolled[node] = certificate
	d.mu.Unlock()
	d.retryNow(node)
}

func (d *Driver) secureBoot(node string) (certificate string, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	certificate, on = d.faults.enrolled[node]
	return certificate, on
}

// SetImagePullError makes pods that are new on their node fail to pull images with that substring. "" ends it.
func (d *Driver) SetImagePullError(imageSubstring string) {
	d.mu.Lock()
	d.faults.badImage = imageSubstring
	d.mu.Unlock()
	d.retryNow("")
}

// SetCrash makes a container end with exit code 1 and the message as its last log line, now and at each start. The empty
// node means all nodes. An empty message ends it.
func (d *Driver) SetCrash(container, node, message string) {
	d.mu.Lock()
	if key := (crash{container, node}); message == "" {
		delete(d.faults.crashes, key)
	} else {
		d.faults.crashes[key] = message
	}
	d.mu.Unlock()
	d.retryNow(node)
}

// retryNow ends the crash-loop back-off of the node's containers, so that a test need not wait for it.
func (d *Driver) retryNow(node string) {
	d.mu.Lock()
	var runs []*podRun
	for _, run := range d.runs {
		if node == "" || run.node == node {
			runs = append(runs, run)
		}
	}
	d.mu.Unlock()
	for _, run := range runs {
		run.mu.Lock()
		run.endBackoff()
		run.mu.Unlock()
	}
	d.kick(node)
}

func (d *Driver) loaderResult(node string) LoaderResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults.loader[node]
}

func (d *Driver) pullFails(image string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults.badImage != "" && strings.Contains(image, d.faults.badImage)
}

func (d *Driver) crashMessage(container, node string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if message := d.faults.crashes[crash{container, node}]; message != "" {
		return message
	}
	return d.faults.crashes[crash{container, ""}]
}
