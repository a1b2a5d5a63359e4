package sim

import (
	"slices"
	"strings"
)

// Provider kinds that the simulator knows (LINSTOR REST API, ProviderKind).
const (
	kindDiskless = "DISKLESS"
	kindLVM      = "LVM"
	kindLVMThin  = "LVM_THIN"
	kindZFS      = "ZFS"
	kindZFSThin  = "ZFS_THIN"
	kindFile     = "FILE"
	kindFileThin = "FILE_THIN"
	kindSPDK     = "SPDK"
)

const disklessPool = "DfltDisklessStorPool"

// noInfo is the reason for every tool-dependent kind of a node whose satellite has not reported yet.
const noInfo = "No information from satellite yet"

// allKinds lists the kinds in the order in which LINSTOR reports them; toolless ones work without anything installed.
var (
	allKinds = []string{kindDiskless, kindLVM, kindLVMThin, kindZFS, kindZFSThin, kindFile, kindFileThin, kindSPDK,
		"REMOTE_SPDK", "EBS_INIT", "EBS_TARGET", "STORAGE_SPACES", "STORAGE_SPACES_THIN"}
	toolless = map[string]bool{kindDiskless: true, "REMOTE_SPDK": true, "EBS_INIT": true, "EBS_TARGET": true}

	allLayers = []string{"DRBD", "LUKS", "NVME", "WRITECACHE", "CACHE", "BCACHE", "STORAGE"}
)

// parseKind accepts what LINSTOR accepts: any case, and two older spellings.
func parseKind(text string) (string, bool) {
	kind := strings.ToUpper(text)
	switch kind {
	case "DRBD_DISKLESS":
		return kindDiskless, true
	case "LVMTHIN":
		return kindLVMThin, true
	}
	for _, known := range allKinds {
		if kind == known {
			return kind, true
		}
	}
	return "", false
}

func isThin(kind string) bool {
	return kind == kindLVMThin || kind == kindZFSThin || kind == kindFileThin
}

func supportsSnapshots(kind string) bool {
	switch kind {
	case kindLVMThin, kindZFS, kindZFSThin, kindFile, kindFileThin, kindSPDK:
		return true
	}
	return false
}

// capabilities is what a satellite can do, as it tells the controller when they connect.
type capabilities struct {
	providers, layers           []string
	lackingProviders, lackLayer map[string][]string
}

func (c *capabilities) supports(kind string) bool {
	for _, p := range c.providers {
		if p == kind {
			return true
		}
	}
	return false
}

// unknownCapabilities is what the controller assumes about a satellite that it has not talked to.
func unknownCapabilities() *capabilities {
	c := &capabilities{layers: []string{"STORAGE"}, lackingProviders: map[string][]string{},
		lackLayer: map[string][]string{}}
	for _, kind := range allKinds {
		if toolless[kind] {
			c.providers = append(c.providers, kind)
		} else {
			c.lackingProviders[kind] = []string{noInfo}
		}
	}
	for _, layer := range allLayers {
		if layer != "STORAGE" {
			c.lackLayer[layer] = []string{noInfo}
		}
	}
	return c
}

// capabilities looks at the machine as it is now.
func (m *Machine) capabilities() *capabilities {
	c := &capabilities{lackingProviders: map[string][]string{}, lackLayer: map[string][]string{}}
	for _, kind := range allKinds {
		if toolless[kind] || m.hasTool(kind) {
			c.providers = append(c.providers, kind)
			continue
		}
		c.lackingProviders[kind] = []string{"IO exception occurred when running the tools of " + kind +
			": error=2, No such file or directory"}
	}
	for _, layer := range allLayers {
		reasons := []string(nil)
		switch layer {
		case "DRBD":
			reasons = m.missingDRBD()
		case "NVME":
			reasons = []string{"IO exception occurred when running 'nvme version': error=2, No such file or directory"}
		}
		if slices.Contains(m.lacked, layer) {
			reasons = []string{"IO exception occurred when running the tools of " + layer +
				": error=2, No such file or directory"}
		}
		if reasons == nil {
			c.layers = append(c.layers, layer)
		} else {
			c.lackLayer[layer] = reasons
		}
	}
	return c
}
