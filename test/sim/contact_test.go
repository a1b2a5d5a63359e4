package sim_test

import (
	"testing"
	"time"
)

// TestFirstContactAfterAnImport: what satellites make of volumes that are not as an older database says.
func TestFirstContactAfterAnImport(t *testing.T) {
	resize := func(b *bench, size string) {
		b.change([3]string{"PUT", "resource-definitions/pvc-1/volume-definitions/0", `{"size_kib":` + size + `}`})
	}
	const grown, small = 2 << 20, 1 << 20
	for name, tt := range map[string]struct {
		before, after func(b *bench)
		// data are the nodes with a copy afterwards, reads what is read on the node n2.
		data  []string
		reads string
		size  int64
		want  []string
	}{
		"one copy was removed": {
			before: func(b *bench) { b.must(b.world.Volumes().Create("pvc-1", small, "ssd", "n1", "n2")) },
			after:  func(b *bench) { b.must(b.world.Volumes().RemoveCopy("pvc-1", "n1")) },
			data:   []string{"n1", "n2"}, reads: "written", size: small},
		"a copy without DRBD was removed": {
			before: func(b *bench) { b.must(b.world.Volumes().CreateWithoutDRBD("pvc-1", small, "ssd", "n1", "n2")) },
			after:  func(b *bench) { b.must(b.world.Volumes().RemoveCopy("pvc-1", "n1")) },
			data:   []string{"n1", "n2"}, reads: "written", size: small,
			want: []string{"volume-emptied resource=pvc-1 node=n1"}},
		"it was deleted": {
			before: func(b *bench) { b.must(b.world.Volumes().Create("pvc-1", small, "ssd", "n1", "n2")) },
			after:  func(b *bench) { b.must(b.world.Volumes().Delete("pvc-1")) },
			data:   []string{"n1", "n2"}, size: small, want: []string{"volume-emptied resource=pvc-1 node=n1"}},
		"it was moved": {
			before: func(b *bench) { b.must(b.world.Volumes().Create("pvc-1", small, "ssd", "n2")) },
			after: func(b *bench) {
				b.must(b.world.Volumes().Delete("pvc-1"))
				b.must(b.world.Volumes().Create("pvc-1", small, "ssd", "n3"))
			},
			data: []string{"n2", "n3"}, size: small, want: []string{"volume-emptied resource=pvc-1 node=n2"}},
		"it was grown": {
			before: func(b *bench) { b.must(b.world.Volumes().Create("pvc-1", small, "ssd", "n1", "n2")) },
			after:  func(b *bench) { resize(b, "2097152") },
			data:   []string{"n1", "n2"}, reads: "written", size: grown},
		"a thin file was grown": {
			before: func(b *bench) { b.must(b.world.Volumes().CreateWithoutDRBD("pvc-1", small, "files", "n2")) },
			after:  func(b *bench) { resize(b, "2097152") },
			data:   []string{"n2"}, reads: "written", size: small, want: []string{"volume-cut resource=pvc-1 node=n2"}},
		"it was made smaller": {
			before: func(b *bench) { b.must(b.world.Volumes().Create("pvc-1", grown, "ssd", "n1", "n2")) },
			after:  func(b *bench) { resize(b, "1048576") },
			data:   []string{"n1", "n2"}, reads: "written", size: grown},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.online(3)
			b.world.Machine("n2").MakeDirectory("/pool")
			b.change([3]string{"POST", "nodes/n2/storage-pools", `{"storage_pool_name":"files","provider_kind":"FILE_THIN",` +
				`"props":{"StorDriver/FileDir":"/pool"}}`})
			tt.before(b)
			v := b.world.Volumes()
			b.must(v.WriteFile("n2", b.deviceOf("pvc-1", "n2"), "file", "written"))
			export := b.export()
			tt.after(b)
			b.restore(export)
			for range 2 { // the second contact changes nothing
				device := b.deviceOf("pvc-1", "n2")
				if got, err := v.ReadFile("n2", device, "file"); got != tt.reads || (err == nil) != (tt.reads != "") {
					t.Errorf("read %q, %v, want %q", got, err, tt.reads)
				}
				if size, err := v.DeviceKiB("n2", device); err != nil || size != tt.size {
					t.Errorf("%d KiB, %v, want %d", size, err, tt.size)
				}
				b.data("pvc-1", tt.data...)
				b.violations(tt.want...)
				b.restartController()
				b.pass(2 * time.Second)
			}
		})
	}
}

// TestRequestedShrink: a volume that is made smaller on purpose is, and a copy whose node was away meanwhile later.
func TestRequestedShrink(t *testing.T) {
	b := newBench(t)
	satellites := b.online(2)
	v := b.world.Volumes()
	b.must(v.CreateWithoutDRBD("pvc-1", 2<<20, "ssd", "n1", "n2"))
	satellites[1].Stop()
	b.pass(2 * time.Second)
	b.raw("PUT", "/v1/resource-definitions/pvc-1/volume-definitions/0", `{"size_kib":1048576}`)
	size := func(node string, want int64) {
		t.Helper()
		if got, err := v.DeviceKiB(node, b.deviceOf("pvc-1", node)); err != nil || got != want {
			t.Errorf("%d KiB on %s, %v, want %d", got, node, err, want)
		}
	}
	size("n1", 1<<20)
	size("n2", 2<<20)
	b.satellite(2)
	b.pass(10 * time.Second)
	size("n2", 1<<20)
	b.violations()
}
