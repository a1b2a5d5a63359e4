package disks_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

func disk(path string, gib int64, kind, model, serial string, fate result.Fate, text string) result.NodeDisk {
	return result.NodeDisk{Path: path, SizeBytes: gib << 30, Type: kind, Model: model, Serial: serial, Fate: fate,
		Text: text}
}

// system is the disk that each node has for itself, and pooled one that is in a pool.
func system() result.NodeDisk {
	return disk("/dev/sda", 100, "SSD", "OS", "OS1", result.InUse, "carries gpt partition table")
}

func pooled(serial string) result.NodeDisk {
	return disk("/dev/nvme0n1", 3726, "NVMe", "SAMSUNG MZ7L37T6HBLA-00A07", serial, result.InPool, "is in pool ssd")
}

func free(serial, pool string) result.NodeDisk {
	return disk("/dev/nvme1n1", 3726, "NVMe", "SAMSUNG MZ7L37T6HBLA-00A07", serial, result.BecomesPool,
		"becomes part of pool "+pool)
}

// mixed are nodes with a disk of each fate, and one that could not be looked at.
func mixed() *result.Disks {
	return &result.Disks{Of: result.Present,
		Notes: []string{"spec.suspend is set: the operator observes and changes nothing"},
		Nodes: []result.NodeDisks{
			{Name: "node-1", Disks: []result.NodeDisk{system(), pooled("S6ZUNX0W100001")}},
			{Name: "node-2", Disks: []result.NodeDisk{system(), pooled("S6ZUNX0W100002"),
				disk("/dev/sdb", 7452, "HDD", "ST8000NM0055", "ZA1234", result.NotUsed, "matches hot, but carries ext4"),
				disk("/dev/sdc", 7452, "HDD", "ST8000NM0055", "ZA1235", result.BecomesPool, "becomes part of pool hot"),
				disk("/dev/sdd", 7452, "HDD", "ST8000NM0055", "ZA1236", result.NeedsAnswer, "becomes part of pool cold once that "+
					"is approved (hold h-0a11ce); look first: one of them may be that of PersistentVolume local-1 (/mnt/disks/1)"),
				disk("/dev/sde", 300, "", "", "", result.NoMatch, "is empty, and no entry matches it: for hot it has no serial "+
					"number; for cold it is smaller than 400Gi")}},
			{Name: "node-3", Unknown: []string{"LINSTOR calls the node OFFLINE, and lists the disks of no node that is not " +
				"ONLINE"}, Notes: []string{"NodeNotReady: the Kubernetes node is not ready"},
				Disks: []result.NodeDisk{system(), disk("/dev/sdb", 7452, "HDD", "ST8000NM0055", "ZA1237", result.Unknown,
					"matches hot, and nobody knows whether it is empty")}},
			{Name: "node-4", Unknown: []string{"no satellite runs there"}},
		}}
}

// thousand are a thousand nodes, most of which are alike.
func thousand() *result.Disks {
	out := &result.Disks{Of: result.Edit}
	for i, name := range plugintest.Names(1, 1000) {
		n := result.NodeDisks{Name: name, Disks: []result.NodeDisk{system(), pooled(fmt.Sprintf("S6ZUNX0W%06d", i))}}
		switch {
		case i == 7:
			n.Unknown = []string{"no satellite runs there"}
		case i%10 == 0:
			n.Disks = append(n.Disks, free(fmt.Sprintf("S6ZUNX1W%06d", i), "hot"))
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}

// TestGolden renders disks for a usual and a wide terminal. go test -update writes the files.
func TestGolden(t *testing.T) {
	for name, tc := range map[string]struct {
		d   *result.Disks
		all bool
	}{
		"mixed": {mixed(), false}, "all": {mixed(), true}, "thousand": {thousand(), false},
		"refused": {&result.Disks{Of: result.Edit, Refusals: []result.Refusal{{By: "API server",
			Message: `strict decoding error: unknown field "spec.verzion"`}}}, false},
		"none": {&result.Disks{Of: result.Creation}, false},
	} {
		for _, width := range []int{80, 120} {
			t.Run(fmt.Sprintf("%s-%d", name, width), func(t *testing.T) {
				lines := disks.Lines(tc.d, tc.all, tree.Style{Width: width})
				for _, l := range lines {
					if utf8.RuneCountInString(l) > width || strings.TrimRight(l, " ") != l {
						t.Errorf("wider than %d, or with blanks at its end: %q", width, l)
					}
				}
				plugintest.Golden(t, fmt.Sprintf("%s-%d.txt", name, width), lines)
			})
		}
	}
}

// TestManyNodes: those of which the same is to be said are one line or one table, and each has its own with --all.
func TestManyNodes(t *testing.T) {
	few := disks.Lines(thousand(), false, tree.Style{Width: 80})
	all := disks.Lines(thousand(), true, tree.Style{Width: 80})
	if len(few) > 20 || len(all) < 4000 {
		t.Errorf("%d lines, and %d with --all", len(few), len(all))
	}
}

// TestHostileDisks: what a disk says of itself cannot move the cursor, and long names are cut.
func TestHostileDisks(t *testing.T) {
	const evil = "\x1b[2J\u009b1m\r"
	d := &result.Disks{Of: result.Present, Notes: []string{evil}, Nodes: []result.NodeDisks{{Name: "n" + evil,
		Unknown: []string{evil}, Disks: []result.NodeDisk{disk("/dev/sdb"+evil, 1, "SSD", strings.Repeat("m", 99)+evil,
			strings.Repeat("s", 99)+evil, result.NotUsed, "says "+evil)}}}}
	for _, width := range []int{40, 80, 120} {
		for _, l := range disks.Lines(d, true, tree.Style{Width: width}) {
			if strings.ContainsAny(l, "\x1b\u009b\r") || width > 40 && utf8.RuneCountInString(l) > width {
				t.Errorf("%d: %q", width, l)
			}
		}
	}
}
