package csidriver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/linstor-dev/storagecluster-operator/test/csidriver"
)

// asked are the requests since the last call, in short.
func (s *site) asked() []string {
	var out []string
	for _, r := range s.world.Requests() {
		path := strings.TrimPrefix(r.Path, "/v1/")
		for long, short := range map[string]string{"resource-definitions": "rd", "resource-groups": "rg",
			"volume-definitions": "vd", "volume-groups": "vg"} {
			path = strings.ReplaceAll(path, long, short)
		}
		out = append(out, r.Method+" "+path)
	}
	s.world.ResetRequests()
	return out
}

func (s *site) check(what string, want ...string) {
	s.Helper()
	if d := cmp.Diff(want, s.asked()); d != "" {
		s.Errorf("%s (-linstor-csi +this driver):\n%s", what, d)
	}
}

func mountable(fsType string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
	}
}

// TestRequests compares what LINSTOR is asked with what linstor-csi 1.11.2 asked of a real one, call by call.
func TestRequests(t *testing.T) {
	s := newSite(t)
	d, _ := s.driver("node-2", time.Hour)
	ctx := t.Context()
	create := &csi.CreateVolumeRequest{Name: "pvc-a", CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{mountable("ext4")},
		Parameters:         map[string]string{"storagePool": "thin", "resourceGroup": "csi-thin", "layerList": "storage"},
		AccessibilityRequirements: &csi.TopologyRequirement{
			Preferred: []*csi.Topology{{Segments: map[string]string{csidriver.HostnameTopology: "node-2"}}},
			Requisite: []*csi.Topology{{Segments: map[string]string{csidriver.HostnameTopology: "node-1"}},
				{Segments: map[string]string{csidriver.HostnameTopology: "node-2"}}}}}
	if _, err := d.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{}); err != nil {
		t.Fatal(err)
	}
	s.world.ResetRequests()
	made, err := d.Controller().CreateVolume(ctx, create)
	s.must(err)
	s.check("the first volume of a class", "GET rd/pvc-a", "GET rg/csi-thin", "POST rg", "POST rg/csi-thin/vg",
		"GET rg/csi-thin", "PUT rg/csi-thin", "GET rg/csi-thin", "GET rd/pvc-a", "POST rd", "GET rd/pvc-a",
		"GET rd/pvc-a/vd/0", "POST rd/pvc-a/vd", "GET rd/pvc-a/vd/0", "GET view/resources", "POST rd/pvc-a/autoplace",
		"GET view/resources", "PUT rd/pvc-a")
	if where := made.GetVolume().GetAccessibleTopology(); len(where) != 1 ||
		where[0].GetSegments()[csidriver.HostnameTopology] != "node-2" {
		t.Errorf("the volume can be used at %v", where)
	}
	_, err = d.Controller().CreateVolume(ctx, create)
	s.must(err)
	s.check("the same volume again", "GET rd/pvc-a", "GET rd/pvc-a/vd")
	create.CapacityRange.RequiredBytes *= 2
	if _, err := d.Controller().CreateVolume(ctx, create); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same volume with another size: %v", err)
	}
	s.world.ResetRequests()

	publish := &csi.ControllerPublishVolumeRequest{VolumeId: "pvc-a", NodeId: "node-2", VolumeCapability: mountable("")}
	_, err = d.Controller().ControllerPublishVolume(ctx, publish)
	s.must(err)
	s.check("an attachment where the copy is", "GET rd/pvc-a", "GET rd/pvc-a/vd")
	publish.NodeId = "node-1"
	_, err = d.Controller().ControllerPublishVolume(ctx, publish)
	s.must(err)
	s.check("an attachment elsewhere", "GET rd/pvc-a", "GET rd/pvc-a/vd", "POST rd/pvc-a/resources/node-1/make-available",
		"GET view/resources", "PUT rd/pvc-a/resources/node-1/volumes/0")
	_, err = d.Controller().ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: "pvc-a",
		CapacityRange: &csi.CapacityRange{RequiredBytes: 128 << 20}})
	s.must(err)
	s.check("growth", "GET rd/pvc-a", "GET rd/pvc-a/vd", "PUT rd/pvc-a/vd/0")
	snapshot, err := d.Controller().CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "s1", SourceVolumeId: "pvc-a"})
	s.must(err)
	s.check("a snapshot", "GET view/snapshots", "GET key-value-store/csi-backup-mapping", "GET remotes",
		"POST actions/snapshot/multi", "GET view/snapshots")
	_, err = d.Controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "pvc-a"})
	s.must(err)
	s.check("the end of a volume with a snapshot", "PUT rd/pvc-a", "GET view/resources",
		"DELETE rd/pvc-a/resources/node-1", "DELETE rd/pvc-a/resources/node-2", "GET rd/pvc-a/vd", "DELETE rd/pvc-a/vd/0",
		"PUT rd/pvc-a", "GET view/resources")
	id := snapshot.GetSnapshot().GetSnapshotId()
	_, err = d.Controller().DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
	s.must(err)
	s.check("the end of the snapshot", "DELETE rd/pvc-a/snapshots/s1", "GET view/snapshots", "GET rd/pvc-a",
		"DELETE rd/pvc-a", "DELETE rg/csi-thin")
	_, err = d.Controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "pvc-a"})
	s.must(err)
	s.check("the end of a volume that is not there", "PUT rd/pvc-a")
}

// TestParameters: what a class may say, and what not.
func TestParameters(t *testing.T) {
	s := newSite(t)
	d, _ := s.driver("node-1", time.Hour)
	for name, c := range map[string]struct {
		parameters map[string]string
		code       codes.Code
	}{
		"unknown":                {map[string]string{"nonsense": "1"}, codes.InvalidArgument},
		"unknown with prefix":    {map[string]string{csidriver.Name + "/nonsense": "1"}, codes.InvalidArgument},
		"somebody else's":        {map[string]string{"example.com/x": "1", "STORAGEPOOL": "thin"}, codes.OK},
		"no number":              {map[string]string{"placementCount": "two"}, codes.InvalidArgument},
		"no layer":               {map[string]string{"layerList": "drbd disk"}, codes.InvalidArgument},
		"no policy":              {map[string]string{"allowRemoteVolumeAccess": "some"}, codes.InvalidArgument},
		"pool that nobody has":   {map[string]string{"storagePool": "nope"}, codes.ResourceExhausted},
		"more copies than nodes": {map[string]string{"autoPlace": "4"}, codes.Internal},
		"a property": {map[string]string{"property." + csidriver.Name +
			"/DrbdOptions/Resource/on-no-data-accessible": "suspend-io"}, codes.OK},
		"all in one zone": {map[string]string{"placementCount": "2", "storagePool": "thin",
			"replicasOnSame": "topology.kubernetes.io/zone"}, codes.ResourceExhausted},
	} {
		_, err := d.Controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "pvc-1", Parameters: c.parameters,
			VolumeCapabilities: []*csi.VolumeCapability{mountable("")}})
		if status.Code(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		_, err = d.Controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "pvc-1"})
		s.must(err)
	}
	if got := s.world.Volumes().Data("pvc-1"); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}
