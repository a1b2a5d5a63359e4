package snapshotclass_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

const (
	class   = volumespec.DefaultSnapshotClass
	taskKey = "snapshot-class/" + class
	apply   = "apply VolumeSnapshotClass/" + class
	gone    = "delete VolumeSnapshotClass/" + class
)

// somebodys is a VolumeSnapshotClass that the operator did not make.
func somebodys(driver, isDefault string) *snapshotv1.VolumeSnapshotClass {
	return &snapshotv1.VolumeSnapshotClass{Driver: driver, ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{resources.AnnotationDefaultSnapshotClass: isDefault}}}
}

// spec changes what the accepted spec says of snapshots.
func spec(change func(*volumespec.VolumeSnapshotsSpec)) func(*clustertest.World) {
	return func(w *clustertest.World) {
		change(&w.Cluster.Spec.Volumes.Snapshots)
		w.Accept()
	}
}

func off(s *volumespec.VolumeSnapshotsSpec) { s.Mode = volumespec.SnapshotsNone }

func snapshots(w *clustertest.World, class string, names ...string) {
	w.Kube.Driver.Snapshots = usage.Used{Count: len(names), Names: names, ByClass: map[string]int{class: len(names)}}
}

func TestClass(t *testing.T) {
	live := func(w *clustertest.World) *snapshotv1.VolumeSnapshotClass {
		return w.Kube.Driver.SnapshotClasses[class]
	}
	for _, tc := range []struct {
		name   string
		change func(*clustertest.World)
		reason string
		words  string // in the message or the note
		calls  []string
	}{
		{"as wanted", func(*clustertest.World) {}, "", "", nil},
		{"missing", func(w *clustertest.World) { delete(w.Kube.Driver.SnapshotClasses, class) },
			snapshotclass.ReasonMaking, "is being created or updated", []string{apply}},
		{"somebody lets snapshots stay", func(w *clustertest.World) {
			live(w).DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
		}, snapshotclass.ReasonMaking, "", []string{apply}},
		{"somebody gave it to another driver", func(w *clustertest.World) { live(w).Driver = "other.example.com" },
			snapshotclass.ReasonMaking, "", []string{apply}},
		{"somebody gave it parameters", func(w *clustertest.World) {
			live(w).Parameters = map[string]string{"snap.linstor.csi.linbit.com/type": "S3"}
		}, snapshotclass.ReasonMaking, "", []string{apply}},
		{"it shall not be the default any more", spec(func(s *volumespec.VolumeSnapshotsSpec) {
			s.Default = ptr.To(false)
		}), snapshotclass.ReasonMaking, "", []string{apply}},
		{"snapshots shall stay", spec(func(s *volumespec.VolumeSnapshotsSpec) {
			s.DeletionPolicy = volumespec.SnapshotsRetain
		}), snapshotclass.ReasonMaking, "", []string{apply}},
		{"somebody else's", func(w *clustertest.World) {
			w.Kube.Driver.SnapshotClasses[class] = somebodys(resources.DriverName, "")
		}, snapshotclass.ReasonForeign, "storage.linstor.dev/cluster=linstor", nil},
		{"two defaults", func(w *clustertest.World) {
			w.Kube.Driver.SnapshotClasses["old"] = somebodys(resources.DriverName, "true")
		}, "", "old is also marked as the driver's default", nil},
		{"another default", func(w *clustertest.World) {
			w.Kube.Driver.SnapshotClasses["old"] = somebodys(resources.DriverName, "true")
			delete(w.Kube.Driver.SnapshotClasses, class)
		}, snapshotclass.ReasonMaking, "old is already the driver's default", []string{apply}},
		{"another driver's default", func(w *clustertest.World) {
			w.Kube.Driver.SnapshotClasses["old"] = somebodys("other.example.com", "true")
		}, "", "", nil},
		{"making it fails", func(w *clustertest.World) {
			delete(w.Kube.Driver.SnapshotClasses, class)
			w.Tasks = map[string]work.State{taskKey: {Err: errors.New("a webhook refuses")}}
		}, snapshotclass.ReasonMaking, "cannot be created or updated: a webhook refuses", []string{apply}},
		{"the cluster is being deleted", func(w *clustertest.World) {
			delete(w.Kube.Driver.SnapshotClasses, class)
			w.Cluster.DeletionTimestamp = ptr.To(metav1.NewTime(w.Now))
		}, snapshotclass.ReasonMaking, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			clustertest.RunSnapshotter(w)
			tc.change(w)
			in, r := w.Input()
			c := in.Snapshot.SnapshotClasses[0]
			if c.Name != class || c.Reason != tc.reason || !strings.Contains(c.Message+c.Note, tc.words) {
				t.Errorf("%s: %q, note %q", c.Reason, c.Message, c.Note)
			}
			if tc.words == "" && c.Note != "" {
				t.Errorf("note %q", c.Note)
			}
			snapshotclass.Ensure(in)
			for _, key := range r.Keys() {
				if err := r.Run(t, key); err != nil {
					t.Error(err)
				}
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestAClassThatTheSpecHasNoMore goes, unless snapshots are of it.
func TestAClassThatTheSpecHasNoMore(t *testing.T) {
	renamed := func(s *volumespec.VolumeSnapshotsSpec) { s.ClassName = "nightly" }
	for _, tc := range []struct {
		name   string
		change func(*volumespec.VolumeSnapshotsSpec)
		taken  []string
		since  map[string]string // snapshots that came since the view
		note   string
		calls  []string
	}{
		{"off", off, nil, nil, "", []string{gone}},
		{"off, and a snapshot was taken just now", off, nil, map[string]string{"s-1": class}, "", nil},
		{"off, and one of another class was", off, nil, map[string]string{"s-1": "theirs"}, "", []string{gone}},
		{"off, and snapshots are of it", off, []string{"s-1", "s-2"}, nil,
			"linstor-snapshots is no longer in the spec, but is kept because 2 VolumeSnapshotContents use it", nil},
		{"another name", renamed, nil, nil, "", []string{"apply VolumeSnapshotClass/nightly", gone}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			clustertest.RunSnapshotter(w)
			w.Kube.Driver.SnapshotClasses["theirs"] = somebodys(resources.DriverName, "")
			snapshots(w, class, tc.taken...)
			spec(tc.change)(w)
			in, r := w.Input()
			r.Live.NewContents = tc.since
			all := in.Snapshot.SnapshotClasses
			c := all[len(all)-1]
			if c.Name != class || c.Want != nil || !strings.Contains(c.Note, tc.note) || tc.note == "" && c.Note != "" {
				t.Errorf("%+v", c)
			}
			snapshotclass.Ensure(in)
			for _, key := range r.Keys() {
				if err := r.Run(t, key); err != nil {
					t.Error(err)
				}
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestWhereNothingIsMade: no class without the API, or without the driver.
func TestWhereNothingIsMade(t *testing.T) {
	for name, change := range map[string]func(*clustertest.World){
		"no API":            func(w *clustertest.World) { w.Kube.Optional = optional.APIs{optional.Snapshots: nil} },
		"part of the API":   func(w *clustertest.World) { w.Kube.Optional[optional.Snapshots] = []string{"VolumeSnapshot"} },
		"unknown API":       func(w *clustertest.World) { w.Kube.Optional = nil },
		"no driver":         func(w *clustertest.World) { delete(w.Kube.Deployments, resources.DriverControllerName) },
		"not our driver":    func(w *clustertest.World) { foreignDriver(w) },
		"off, and no class": func(w *clustertest.World) { spec(off)(w) },
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			clustertest.RunSnapshotter(w)
			delete(w.Kube.Driver.SnapshotClasses, class)
			change(w)
			in, r := w.Input()
			snapshotclass.Ensure(in)
			if n := len(in.Snapshot.SnapshotClasses); n > 0 || len(r.Keys()) > 0 {
				t.Errorf("%d classes, tasks %v", n, r.Keys())
			}
		})
	}
}

func foreignDriver(w *clustertest.World) {
	delete(w.Kube.Deployments[resources.DriverControllerName].Labels, v1alpha1.LabelCluster)
}

// TestSidecar: csi-snapshotter runs where it is wanted or needed, and the API is there; a look that failed changes
// nothing.
func TestSidecar(t *testing.T) {
	unknown := func(w *clustertest.World) { w.Kube.Optional = nil }
	absent := func(w *clustertest.World) { w.Kube.Optional = optional.APIs{optional.Snapshots: nil} }
	for _, tc := range []struct {
		name   string
		change []func(*clustertest.World)
		want   bool
	}{
		{"wanted", nil, true},
		{"off", []func(*clustertest.World){spec(off)}, false},
		{"off, and there are snapshots", []func(*clustertest.World){spec(off), func(w *clustertest.World) {
			snapshots(w, class, "s-1")
		}}, true},
		{"no driver is wanted", []func(*clustertest.World){func(w *clustertest.World) {
			w.Cluster.Spec.Volumes.Driver.Mode = volumespec.DriverNone
			w.Accept()
		}}, false},
		{"no API", []func(*clustertest.World){absent}, false},
		{"nobody knows, and it runs", []func(*clustertest.World){unknown}, true},
		{"nobody knows, and it does not run", []func(*clustertest.World){func(w *clustertest.World) {
			clustertest.RunDriver(w)
		}, unknown}, false},
		{"nobody knows, and nothing runs", []func(*clustertest.World){func(w *clustertest.World) {
			delete(w.Kube.Deployments, resources.DriverControllerName)
		}, unknown}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			clustertest.RunSnapshotter(w)
			for _, change := range tc.change {
				change(w)
			}
			if got := snapshotclass.Sidecar(&w.Snapshot().Facts); got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
}

func TestRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *clustertest.World)
		want   bool
	}{
		"it runs": {func(*clustertest.World) {}, true},
		"a pod without it is left": {func(w *clustertest.World) {
			w.Kube.Deployments[resources.DriverControllerName].Status.Replicas = 2
		}, false},
		"its pod is not ready": {func(w *clustertest.World) {
			w.Kube.Deployments[resources.DriverControllerName].Status.UnavailableReplicas = 1
		}, false},
		"nobody has looked since the change": {func(w *clustertest.World) {
			w.Kube.Deployments[resources.DriverControllerName].Generation = 2
		}, false},
		"the pods are without it": {clustertest.RunDriver, false},
		"no Deployment": {func(w *clustertest.World) {
			delete(w.Kube.Deployments, resources.DriverControllerName)
		}, false},
	} {
		w := clustertest.NewWorld(t, 3)
		clustertest.RunSnapshotter(w)
		tc.change(w)
		if got := snapshotclass.Runs(&w.Snapshot().Facts); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
