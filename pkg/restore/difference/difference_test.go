package difference

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

// on is what the backup has on a node, in each kind of place one volume of 1 GiB.
func on(node string) []export.Stored {
	var all []export.Stored
	for _, p := range []struct{ provider, place string }{{export.LVMThin, "vg"}, {export.ZFS, "tank"},
		{export.File, "/srv/a"}} {
		all = append(all, export.Stored{Node: node, Resource: "pvc-" + strings.ToLower(p.provider), Provider: p.provider,
			Place: p.place, MinKiB: 1 << 20, MaxKiB: 1<<20 + 4096})
	}
	return all
}

// lines is a listing in which all of it lies.
const lines = "VG\tvg\t4194304\nLV\tvg\tpvc-lvm_thin_00000\t1073741824\nZPOOL\ttank\n" +
	"ZVOL\ttank/pvc-zfs_00000\t1073741824\nDIR\t/srv/a\nFILE\t/srv/a/pvc-file_00000.img\t1073741824\n"

func parsed(t *testing.T, text string) *listing.Listing {
	t.Helper()
	l, err := listing.Parse(strings.NewReader(text+"END\n"), listing.Room())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func snapshot(provider, place string) export.Stored {
	return export.Stored{Node: "n1", Resource: "pvc-" + strings.ToLower(provider), Snapshot: "s", Provider: provider,
		Place: place, MinKiB: 1, MaxKiB: 2}
}

// TestCompare: each way in which backup and node differ is found, and nothing else.
func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		stored func([]export.Stored) []export.Stored
		old    string
		new    string // in place of old
		want   string // kind, place and name of the differences
	}{
		"nothing differs": {},
		"a logical volume is gone": {old: "LV\tvg\tpvc-lvm_thin_00000\t1073741824\n",
			want: "Absent vg pvc-lvm_thin_00000"},
		"a zvol is gone": {old: "ZVOL\ttank/pvc-zfs_00000\t1073741824\n", want: "Absent tank pvc-zfs_00000"},
		"a file is gone": {old: "FILE\t/srv/a/pvc-file_00000.img\t1073741824\n", want: "Absent /srv/a pvc-file_00000.img"},
		"it was being removed, and is gone": {stored: change(func(s *export.Stored) { s.BeingRemoved = true }),
			old: "LV\tvg\tpvc-lvm_thin_00000\t1073741824\n"},
		"it was being removed, and is there": {stored: change(func(s *export.Stored) { s.BeingRemoved = true }),
			want: "Doomed vg pvc-lvm_thin_00000"},
		"it was being made, and is not there": {stored: change(func(s *export.Stored) { s.BeingMade = true }),
			old: "LV\tvg\tpvc-lvm_thin_00000\t1073741824\n"},
		"it was being made, and is there": {stored: change(func(s *export.Stored) { s.BeingMade = true })},
		"it was being rolled back": {stored: change(func(s *export.Stored) { s.RolledBack = "s" }),
			want: "Doomed vg pvc-lvm_thin_00000"},
		"it has another name": {stored: change(func(s *export.Stored) { s.Given = "thin" }),
			old: "LV\tvg\tpvc-lvm_thin_00000", new: "LV\tvg\tthin"},
		"a file is empty": {old: "img\t1073741824", new: "img\t0", want: "Smaller /srv/a pvc-file_00000.img"},
		"a file was grown": {old: "img\t1073741824", new: "img\t1077940225",
			want: "Larger /srv/a pvc-file_00000.img"},
		"as large as metadata lets it be": {old: "img\t1073741824", new: "img\t1077936128"},
		"an extent larger":                {old: "thin_00000\t1073741824", new: "thin_00000\t1082130432"},
		"two extents larger": {old: "thin_00000\t1073741824", new: "thin_00000\t1086324736",
			want: "Larger vg pvc-lvm_thin_00000"},
		"smaller":         {old: "img\t1073741824", new: "img\t1073740800", want: "Smaller /srv/a pvc-file_00000.img"},
		"size not listed": {old: "tank/pvc-zfs_00000\t1073741824", new: "tank/pvc-zfs_00000\t-"},
		"size not in the backup": {stored: func(all []export.Stored) []export.Stored {
			all[0].MinKiB, all[0].MaxKiB = 0, 0
			return all
		}},
		"a snapshot is gone": {stored: with(snapshot(export.LVMThin, "vg")),
			want: "SnapshotAbsent vg pvc-lvm_thin_00000_s"},
		"a snapshot is there": {stored: with(snapshot(export.LVMThin, "vg")), old: "ZPOOL",
			new: "LV\tvg\tpvc-lvm_thin_00000_s\t5000\nZPOOL"},
		"a snapshot of ZFS is there": {stored: with(snapshot(export.ZFS, "tank")), old: "DIR",
			new: "ZVOL\ttank/pvc-zfs_00000@s\t-\nDIR"},
		"a snapshot of a zvol that was deleted": {stored: with(snapshot(export.ZFS, "tank")), old: "DIR",
			new:  "ZVOL\ttank/_deleted_pvc-zfs_00000_2026-11-25@s\t-\nZVOL\ttank/_deleted_pvc-zfs_00000_2026-11-25\t1\nDIR",
			want: "SnapshotAbsent tank pvc-zfs_00000@s"},
		"what clones lie on, and what could not be removed": {old: "DIR",
			new: "ZVOL\ttank/pvc-zfs_00000@CF_1a2b\t-\nZVOL\ttank/pvc-zfs_00000@_deleted_s_2026\t-\n" +
				"LV\tvg\tpvc-lvm_thin_00000_CF_1a2b\t1\nDIR"},
		"a volume since": {old: "DIR", new: "LV\tvg\tpvc-2_00000\t1\nDIR", want: "Unknown vg pvc-2_00000"},
		"a snapshot since": {old: "DIR", new: "ZVOL\ttank/pvc-zfs_00000@s\t-\nDIR",
			want: "Unknown tank pvc-zfs_00000@s"},
		"in a place that the backup does not have": {old: "DIR", new: "VG\tvg2\t1\nLV\tvg2\tpvc-2_00000\t1\nDIR",
			want: "Unknown vg2 pvc-2_00000"},
		"not LINSTOR's": {old: "DIR", new: "LV\tvg\troot\t1\nLV\tvg\tthin_tmeta\t1\nDIR"},
		"no LVM":        {old: "DIR", new: "FAILED\tLVM\nDIR", want: "Unseen LVM |Unseen vg "},
		"no ZFS":        {old: "DIR", new: "FAILED\tZFS\nDIR", want: "Unseen ZFS |Unseen tank "},
		"no directory":  {old: "DIR\t/srv/a\nFILE\t/srv/a/pvc-file_00000.img\t1073741824\n", want: "Unseen /srv/a "},
		"no such group": {stored: func(all []export.Stored) []export.Stored { all[0].Place = "vg2"; return all },
			want: "Stray vg pvc-lvm_thin_00000|Unseen vg2 "},
		"no place": {stored: func(all []export.Stored) []export.Stored { all[0].Place = ""; return all },
			want: "Stray vg pvc-lvm_thin_00000|Unseen  "},
		"in use, and the backup knows":         {old: "DIR", new: "PRIMARY\tpvc-known\nDIR"},
		"in use, and the backup does not know": {old: "DIR", new: "PRIMARY\tpvc-9\nDIR", want: "InUse  pvc-9"},
		"use not known":                        {old: "DIR", new: "FAILED\tDRBD\nDIR", want: "Unseen DRBD "},
		"another provider": {stored: with(export.Stored{Node: "n1", Resource: "pvc-5", Provider: "SPDK", Place: "x"}),
			want: "Unseen x "},
	} {
		t.Run(name, func(t *testing.T) {
			stored := on("n1")
			if tc.stored != nil {
				stored = tc.stored(stored)
			}
			if !strings.Contains(lines, tc.old) {
				t.Fatalf("the listing lacks %q", tc.old)
			}
			nodes := map[string]*listing.Listing{"n1": parsed(t, strings.Replace(lines, tc.old, tc.new, 1))}
			var got []string
			for _, d := range Compare(&export.Layout{Nodes: []string{"n1"}, Stored: stored,
				Placed: map[export.Placed]bool{{Node: "N1", Resource: "PVC-KNOWN"}: true}}, nodes, nil) {
				got = append(got, string(d.Kind)+" "+d.Place+" "+d.Name)
				nobodys := slices.Contains([]Kind{Unknown, Unseen, InUse, Stray}, d.Kind)
				if d.Node != "n1" || d.Says == "" || (d.Resource == "") != nobodys {
					t.Errorf("%+v", d)
				}
			}
			if d := cmp.Diff(tc.want, strings.Join(got, "|")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// change changes the logical volume.
func change(f func(*export.Stored)) func([]export.Stored) []export.Stored {
	return func(all []export.Stored) []export.Stored {
		f(&all[0])
		return all
	}
}

func with(more export.Stored) func([]export.Stored) []export.Stored {
	return func(all []export.Stored) []export.Stored { return append(all, more) }
}

func TestString(t *testing.T) {
	for want, d := range map[string]Difference{
		"Absent: /srv/a/r.img on n1: gone": {Kind: Absent, Node: "n1", Place: "/srv/a", Name: "r.img", Says: "gone"},
		"Unseen: vg on n1: no":             {Kind: Unseen, Node: "n1", Place: "vg", Says: "no"},
		"Unseen: n1: no":                   {Kind: Unseen, Node: "n1", Says: "no"},
		"InUse: pvc-1 on n1: yes":          {Kind: InUse, Node: "n1", Name: "pvc-1", Says: "yes"},
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestNodes: a volume that moved is said to lie elsewhere; of nodes that nobody has looked at nothing is known, also
// where the backup has nothing there; and differences come in order.
func TestNodes(t *testing.T) {
	l := &export.Layout{Nodes: []string{"n1", "n2", "n3", "n4"}, Stored: append(on("n1"), on("n3")...)}
	gone := strings.Replace(lines, "LV\tvg\tpvc-lvm_thin_00000\t1073741824\n", "", 1)
	got := Compare(l, map[string]*listing.Listing{"n1": parsed(t, gone),
		"n2": parsed(t, "VG\tvg\t4194304\nLV\tvg\tpvc-lvm_thin_00000\t1073741824\n"), "n5": parsed(t, "")},
		[]TakenAddress{{Address: "10.0.0.3", Node: "n3", Machine: "n5"}})
	want := []Difference{
		{Kind: AddressTaken, Node: "n5", Name: "10.0.0.3", Says: "in the backup, this address belongs to node n3: " +
			"LINSTOR would mistake a satellite on n5 for that node's satellite, and would create and delete that node's " +
			"volumes there"},
		{Kind: Absent, Node: "n1", Place: "vg", Name: "pvc-lvm_thin_00000", Resource: "pvc-lvm_thin",
			Says: "it is missing, but exists on n2 instead: LINSTOR recreates it EMPTY"},
		{Kind: Stray, Node: "n2", Place: "vg", Name: "pvc-lvm_thin_00000",
			Says: "in the backup, this volume exists only elsewhere: LINSTOR does not use this replica, which may be the " +
				"most recent one"},
		{Kind: Unseen, Node: "n3", Says: "the node was not checked; the backup has 3 volumes and snapshots on it"},
		{Kind: Unseen, Node: "n4", Says: "the node was not checked; the backup has 0 volumes and snapshots on it"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestCapitals: LINSTOR and Kubernetes may write the names of nodes, and DRBD those of resources, in other letters;
// what lies on storage has exactly one name.
func TestCapitals(t *testing.T) {
	l := &export.Layout{Nodes: []string{"Node-1", "NODE-2"}, Stored: on("Node-1"),
		Placed: map[export.Placed]bool{{Node: "NODE-1", Resource: "PVC-KNOWN"}: true}}
	got := Compare(l, map[string]*listing.Listing{"node-1": parsed(t, lines+"PRIMARY\tPvc-Known\n"),
		"node-2": parsed(t, "")}, nil)
	if len(got) > 0 {
		t.Errorf("%+v", got)
	}
	got = Compare(l, map[string]*listing.Listing{"node-2": parsed(t, ""),
		"node-1": parsed(t, strings.Replace(lines, "pvc-lvm_thin_00000", "PVC-lvm_thin_00000", 1))}, nil)
	var kinds []string
	for _, d := range got {
		kinds = append(kinds, string(d.Kind)+" "+d.Node)
	}
	if want := []string{"Absent Node-1", "Unknown Node-1"}; !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
	got = Compare(l, map[string]*listing.Listing{"node-1": parsed(t, lines), "node-3": nil}, nil)
	kinds = nil
	for _, d := range got {
		kinds = append(kinds, string(d.Kind)+" "+d.Node)
	}
	if want := []string{"Unseen NODE-2", "Unseen node-3"}; !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
}
