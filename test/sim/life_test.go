package sim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"
)

// driver is a client that names itself as the volume driver does.
func (b *bench) driver() *client.Client {
	b.Helper()
	base, err := url.Parse(b.server.URL)
	b.must(err)
	c, err := client.NewClient(client.BaseURL(base), client.Log(nil), client.UserAgent("linstor-csi/1.11.2"))
	b.must(err)
	return c
}

// class makes a resource group as the driver does for a storage class.
func (b *bench) class(name string, count int32, layers ...string) {
	b.Helper()
	d := b.driver()
	b.must(d.ResourceGroups.Create(b.Context(), client.ResourceGroup{Name: name}))
	b.must(d.ResourceGroups.CreateVolumeGroup(b.Context(), name, client.VolumeGroup{}))
	b.must(d.ResourceGroups.Modify(b.Context(), name, client.ResourceGroupModify{SelectFilter: client.AutoSelectFilter{
		PlaceCount: count, StoragePoolList: []string{"ssd"}, LayerStack: layers}}))
}

// define makes a definition with a volume of 64 MiB.
func (b *bench) define(name, group string) {
	b.Helper()
	d := b.driver()
	b.must(d.ResourceDefinitions.Create(b.Context(), client.ResourceDefinitionCreate{ResourceDefinition: client.
		ResourceDefinition{Name: name, ResourceGroupName: group}}))
	b.must(d.ResourceDefinitions.CreateVolumeDefinition(b.Context(), name, client.VolumeDefinitionCreate{
		VolumeDefinition: client.VolumeDefinition{SizeKib: 64 << 10}}))
}

// copies are the nodes with a resource of a volume, with "/diskless" if it has no disk, and "!" if nothing is known of
// its state.
func (b *bench) copies(name string, want ...string) {
	b.Helper()
	view, err := b.client.Resources.GetResourceView(b.Context(), &client.ListOpts{Resource: []string{name}})
	b.must(err)
	var got []string
	for _, r := range view {
		text := r.NodeName
		for _, f := range r.Flags {
			if f == "DISKLESS" || f == "DELETE" {
				text += "/" + f
			}
		}
		if r.State == nil {
			text += "!"
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("copies of %s (-want +got):\n%s", name, diff)
	}
}

// TestLifeOfAVolume: what a volume driver does with a volume of DRBD, from its class to its end.
func TestLifeOfAVolume(t *testing.T) {
	b := newBench(t)
	b.online(3)
	d, ctx := b.driver(), t.Context()
	b.class("gold", 2, "DRBD", "STORAGE")
	b.define("pvc-1", "gold")
	b.must(d.Resources.Autoplace(ctx, "pvc-1", client.AutoPlaceRequest{SelectFilter: client.AutoSelectFilter{
		PlaceCount: 1, AdditionalPlaceCount: 1, NodeNameList: []string{"n2"}}}))
	b.copies("pvc-1", "n2")
	b.must(d.Resources.Autoplace(ctx, "pvc-1", client.AutoPlaceRequest{SelectFilter: client.AutoSelectFilter{
		NodeNameList: []string{"n1", "n2"}}}))
	b.pass(time.Second)
	b.copies("pvc-1", "n1", "n2")
	b.data("pvc-1", "n1", "n2")

	b.must(d.Resources.MakeAvailable(ctx, "pvc-1", "n3", client.ResourceMakeAvailable{}))
	b.copies("pvc-1", "n1", "n2", "n3/DISKLESS")
	volume, err := d.Resources.GetVolume(ctx, "pvc-1", "n3", 0)
	b.must(err)
	if volume.DevicePath != "/dev/drbd1000" {
		t.Errorf("device %q", volume.DevicePath)
	}
	b.must(d.Resources.Delete(ctx, "pvc-1", "n3"))

	b.must(d.ResourceDefinitions.ModifyVolumeDefinition(ctx, "pvc-1", 0,
		client.VolumeDefinitionModify{SizeKib: 128 << 10}))
	b.must(d.Resources.CreateSnapshots(ctx, client.Snapshot{Name: "snap", ResourceName: "pvc-1"}))
	snap, err := d.Resources.GetSnapshot(ctx, "pvc-1", "snap")
	b.must(err)
	if len(snap.Snapshots) != 2 || snap.VolumeDefinitions[0].SizeKib != 128<<10 ||
		snap.Snapshots[0].CreateTimestamp == nil {
		t.Errorf("snapshot %+v", snap)
	}
	b.must(d.ResourceDefinitions.Create(ctx, client.ResourceDefinitionCreate{ResourceDefinition: client.
		ResourceDefinition{Name: "pvc-2", ResourceGroupName: "gold"}}))
	to := client.SnapshotRestore{ToResource: "pvc-2", Nodes: []string{"n1"}}
	b.must(d.Resources.RestoreVolumeDefinitionSnapshot(ctx, "pvc-1", "snap", to))
	b.must(d.Resources.RestoreSnapshot(ctx, "pvc-1", "snap", to))
	b.must(d.Resources.Autoplace(ctx, "pvc-2", client.AutoPlaceRequest{}))
	b.pass(time.Second)
	if got := len(b.world.Volumes().Data("pvc-2")); got != 2 {
		t.Errorf("%d copies of the restored volume have its data, want 2", got)
	}

	started, err := d.ResourceDefinitions.Clone(ctx, "pvc-1", client.ResourceDefinitionCloneRequest{Name: "pvc-3"})
	b.must(err)
	status, err := d.ResourceDefinitions.CloneStatus(ctx, started.SourceName, started.CloneName)
	b.must(err)
	if status.Status != "COMPLETE" {
		t.Errorf("clone %+v", status)
	}

	b.must(d.Resources.DeleteSnapshot(ctx, "pvc-1", "snap"))
	for _, name := range []string{"pvc-1", "pvc-2", "pvc-3"} {
		for _, n := range b.world.Volumes().Data(name) {
			b.must(d.Resources.Delete(ctx, name, n))
		}
		b.must(d.ResourceDefinitions.DeleteVolumeDefinition(ctx, name, 0))
		b.must(d.ResourceDefinitions.Delete(ctx, name))
		b.data(name)
	}
	b.must(d.ResourceGroups.Delete(ctx, "gold"))
	b.violations() // a driver deletes because the user does
}

// TestPlacement: where a copy goes, by what a request and the resource group say.
func TestPlacement(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(b *bench)
		group  string // select_filter of the resource group
		ask    string // select_filter of the request
		want   []string
	}{
		"the place count of the group": {group: `{"place_count":2}`, want: []string{"n1", "n2"}},
		"one of these nodes": {group: `{"place_count":1}`, ask: `{"node_name_list":["n3","N2"]}`,
			want: []string{"n2"}},
		"one more": {group: `{"place_count":3}`, ask: `{"additional_place_count":1}`,
			want: []string{"n1"}},
		"where most is free": {group: `{"place_count":1}`, want: []string{"n2"},
			before: func(b *bench) { b.must(b.world.Volumes().Create("pvc-9", 1<<20, "ssd", "n1", "n3")) }},
		"an unknown pool":     {group: `{"place_count":1,"storage_pool_list":["nope"]}`},
		"too many":            {group: `{"place_count":4}`},
		"a layer that is new": {group: `{"place_count":1,"layer_stack":["nvme","storage"]}`},
		"a node that is OFFLINE": {group: `{"place_count":1}`, ask: `{"node_name_list":["n1"]}`,
			before: func(b *bench) { b.world.Machine("n1").SetNetworkCut(true); b.pass(2 * time.Second) }},
		"a node that is no target": {group: `{"place_count":1}`, ask: `{"node_name_list":["n1"]}`,
			before: func(b *bench) { b.raw("PUT", "/v1/nodes/n1", `{"override_props":{"AutoplaceTarget":"false"}}`) }},
		"DRBD only where it is": {group: `{"place_count":3,"layer_stack":["DRBD","STORAGE"]}`, before: withoutModule},
		"bare storage anywhere": {group: `{"place_count":3,"layer_stack":["STORAGE"]}`, before: withoutModule,
			want: []string{"n1", "n2", "n3"}},
		"apart from another volume": {group: `{"place_count":1,"not_place_with_rsc":["pvc-9"]}`, want: []string{"n3"},
			before: func(b *bench) { b.must(b.world.Volumes().Create("pvc-9", 1<<20, "ssd", "n1", "n2")) }},
		"in different zones": {group: `{"place_count":2,"replicas_on_different":["Aux/zone"]}`, before: zones,
			want: []string{"n1", "n3"}},
		"in one zone": {group: `{"place_count":2,"replicas_on_same":["Aux/zone"]}`, before: zones,
			want: []string{"n1", "n2"}},
		"in a zone that is too small": {group: `{"place_count":2,"replicas_on_same":["Aux/zone=b"]}`, before: zones},
		"beyond what thin pools may promise": {group: `{"place_count":1}`,
			before: func(b *bench) { b.must(b.world.Machine("n1").Fill("LVM_THIN", "vg/thin", 1)) },
			ask:    `{"node_name_list":["n1"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.online(3)
			if tt.before != nil {
				tt.before(b)
			}
			b.raw("POST", "/v1/resource-groups", `{"name":"class"}`)
			b.raw("PUT", "/v1/resource-groups/class", `{"select_filter":`+tt.group+`}`)
			b.define("pvc-1", "class")
			if tt.ask == "" {
				tt.ask = "{}"
			}
			status, body := b.raw("POST", "/v1/resource-definitions/pvc-1/autoplace", `{"select_filter":`+tt.ask+`}`)
			if tt.want != nil && status != http.StatusCreated {
				t.Fatalf("%d %s", status, body)
			}
			if tt.want == nil && (status != http.StatusInternalServerError ||
				b.entries(body)[0].Message != "Not enough available nodes") {
				t.Errorf("%d %s", status, body)
			}
			b.copies("pvc-1", tt.want...)
		})
	}
}

func withoutModule(b *bench) {
	b.world.Machine("n3").LoadModule("")
	b.raw("PUT", "/v1/nodes/n3/reconnect", "")
	b.pass(2 * time.Second)
}

func zones(b *bench) {
	for n, zone := range map[string]string{"n1": "a", "n2": "a", "n3": "b"} {
		b.raw("PUT", "/v1/nodes/"+n, fmt.Sprintf(`{"override_props":{"Aux/zone":%q}}`, zone))
	}
}

// TestGroups: a larger place count takes effect at once, a smaller one never; a group in use stays.
func TestGroups(t *testing.T) {
	b := newBench(t)
	b.online(3)
	b.class("one", 1, "DRBD", "STORAGE")
	b.define("pvc-1", "one")
	b.must(b.client.Resources.Autoplace(t.Context(), "pvc-1", client.AutoPlaceRequest{}))
	b.copies("pvc-1", "n1")
	group := "/v1/resource-groups/one"
	_, body := b.raw("PUT", group, `{"select_filter":{"place_count":2,"storage_pool_list":["ssd","nope"]}}`)
	missing := "The following configured storage pools do not exist on any node:\n\tnope"
	if got := b.entries(body); got[0].Message != missing {
		t.Errorf("answer %+v", got)
	}
	b.copies("pvc-1", "n1", "n2")
	b.raw("PUT", group, `{"select_filter":{"place_count":1}}`)
	b.copies("pvc-1", "n1", "n2")
	got, err := b.client.ResourceGroups.Get(t.Context(), "ONE")
	b.must(err)
	if f := got.SelectFilter; f.PlaceCount != 1 || f.StoragePool != "ssd" || len(f.StoragePoolList) != 2 ||
		len(f.LayerStack) != 2 {
		t.Errorf("filter %+v", f)
	}
	for _, name := range []string{"one", "DfltRscGrp"} {
		if err := b.client.ResourceGroups.Delete(t.Context(), name); !client.IsApiCallError(err, linstor.FailExistsRscDfn) {
			t.Errorf("delete %s: %v", name, err)
		}
	}
}

// TestCopiesWithoutDRBD: a second copy has nothing of the first.
func TestCopiesWithoutDRBD(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.class("bare", 1, "STORAGE")
	b.define("pvc-1", "bare")
	b.must(b.client.Resources.Autoplace(t.Context(), "pvc-1", client.AutoPlaceRequest{}))
	b.must(b.client.Resources.MakeAvailable(t.Context(), "pvc-1", "n2", client.ResourceMakeAvailable{}))
	b.copies("pvc-1", "n1", "n2")
	b.pass(time.Minute)
	b.data("pvc-1", "n1")
	b.must(b.client.Resources.Delete(t.Context(), "pvc-1", "n1"))
	b.violations("last-replica-lost resource=pvc-1 node=n1")
}
