package sim_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// deviceOf is the path of a volume's device on a node, as LINSTOR tells it.
func (b *bench) deviceOf(name, node string) string {
	b.Helper()
	copies, err := b.client.Resources.GetResourceView(b.Context())
	b.must(err)
	for _, r := range copies {
		if r.Name == name && r.NodeName == node {
			return r.Volumes[0].DevicePath
		}
	}
	b.Fatalf("%s is not on %s", name, node)
	return ""
}

func (b *bench) reads(name, node, want string) {
	b.Helper()
	if got, err := b.world.Volumes().ReadFile(node, b.deviceOf(name, node), "file"); err != nil || got != want {
		b.Errorf("read %s on %s: %q, %v, want %q", name, node, got, err, want)
	}
}

// TestDRBDKeepsCopiesEqual: what is written on one node is read on all, by diskless clients too, as long as one copy
// can be reached. A snapshot has what was there when it was taken.
func TestDRBDKeepsCopiesEqual(t *testing.T) {
	b := newBench(t)
	b.online(3)
	v := b.world.Volumes()
	b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(v.AttachDiskless("pvc-1", "n3"))
	b.must(v.WriteFile("n3", b.deviceOf("pvc-1", "n3"), "file", "old"))
	b.must(v.CreateSnapshot("pvc-1", "s1"))
	b.must(v.WriteFile("n1", b.deviceOf("pvc-1", "n1"), "file", "new"))
	for _, node := range []string{"n1", "n2", "n3"} {
		b.reads("pvc-1", node, "new")
	}
	b.restored("pvc-1", "s1", "pvc-2", "n2")
	b.reads("pvc-2", "n2", "old")

	b.world.RemoveMachine("n1")
	b.reads("pvc-1", "n3", "new")
	b.world.Machine("n2").SetNetworkCut(true)
	b.pass(2 * time.Second)
	if got, err := v.ReadFile("n3", b.deviceOf("pvc-1", "n3"), "file"); err == nil {
		t.Errorf("read %q without a copy", got)
	}
}

// restored makes a volume of a snapshot, on one node.
func (b *bench) restored(from, snapshot, to, node string) {
	b.Helper()
	at := "/v1/resource-definitions/" + from
	for _, request := range [][2]string{
		{"/v1/resource-definitions", `{"resource_definition":{"name":"` + to + `"}}`},
		{at + "/snapshot-restore-volume-definition/" + snapshot, `{"to_resource":"` + to + `"}`},
		{at + "/snapshot-restore-resource/" + snapshot, `{"to_resource":"` + to + `","nodes":["` + node + `"]}`},
	} {
		if status, answer := b.raw(http.MethodPost, request[0], request[1]); status >= http.StatusMultipleChoices {
			b.Fatalf("POST %s: %d %s", request[0], status, answer)
		}
	}
}

// TestBareCopiesAreNotEqual: without DRBD each copy has what was written on its node.
func TestBareCopiesAreNotEqual(t *testing.T) {
	b := newBench(t)
	b.online(2)
	v := b.world.Volumes()
	b.must(v.CreateWithoutDRBD("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(v.WriteFile("n1", b.deviceOf("pvc-1", "n1"), "file", "here"))
	b.reads("pvc-1", "n1", "here")
	if got, err := v.ReadFile("n2", b.deviceOf("pvc-1", "n2"), "file"); err == nil {
		t.Errorf("n2 reads %q, which was never written there", got)
	}
}

// TestOneNodeUsesADevice: DRBD has one primary at a time.
func TestOneNodeUsesADevice(t *testing.T) {
	b := newBench(t)
	b.online(2)
	v := b.world.Volumes()
	b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	first, second := b.deviceOf("pvc-1", "n1"), b.deviceOf("pvc-1", "n2")
	b.must(v.OpenDevice("n1", first))
	if err := v.OpenDevice("n2", second); err == nil || !strings.Contains(err.Error(), "in use on node n1") {
		t.Errorf("the second node: %v", err)
	}
	v.CloseDevice("n1", first)
	b.must(v.OpenDevice("n2", second))
	if _, err := v.DeviceKiB("n2", "/dev/drbd1"); err == nil {
		t.Error("a device that is not there has a size")
	}
}
