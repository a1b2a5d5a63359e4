// Package inventory is the script that reports what is on which disk of a node.
package inventory

import (
	_ "embed" // the script
	"strconv"
	"strings"
)

// Limit is the most that the device inventory's termination message holds, in bytes. The kubelet cuts the messages of
// a pod's containers to 12 KiB divided by their number (kubernetes 1.36, pkg/kubelet/status, normalizeStatus), and a
// satellite's pod has four.
const Limit = 3000

//go:embed inventory.sh
var file string

// Script always succeeds: what it finds is of use only where disks are turned into pools, and a satellite must start
// without it. A message that does not end with a line break was cut off, so that its last line counts for nothing.
//
// Left out by their major numbers are ram, floppy, loop, optical, network block and DRBD devices.
var Script = strings.NewReplacer("LIMIT", strconv.Itoa(Limit)).Replace(file)
