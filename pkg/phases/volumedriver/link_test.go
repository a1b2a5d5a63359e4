package volumedriver_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	object     = "CSIDriver/" + resources.DriverName
	controller = "Deployment/" + resources.DriverControllerName
	nodes      = "DaemonSet/" + resources.DriverNodeName
)

// unwanted takes the driver out of the accepted spec, with that many PersistentVolumes of it.
func unwanted(w *clustertest.World, volumes ...string) {
	w.Cluster.Spec.Volumes.Driver.Mode = volumespec.DriverNone
	w.Accept()
	w.Kube.Driver.Volumes = usage.Used{Count: len(volumes), Names: volumes}
}

func foreign(w *clustertest.World) {
	labels := w.Kube.Driver.Object.Labels
	delete(labels, v1alpha1.LabelCluster)
	labels["app.kubernetes.io/managed-by"] = "Helm"
}

func TestLink(t *testing.T) {
	missing := cluster.Evidence{State: cluster.Missing, Reason: "DriverMissing", Lost: true}
	removing := cluster.Evidence{State: cluster.Missing, Reason: "RemovingDriver", Lost: true}
	for _, tc := range []struct {
		name   string
		change func(*clustertest.World)
		want   cluster.Evidence // State, Reason, Lost and what the message has in it
		calls  []string
	}{
		{"at rest", func(*clustertest.World) {}, cluster.Evidence{State: cluster.Satisfied, Reason: "DriverRunning",
			Message: "3 of 3 nodes have the CSI driver"}, nil},
		{"nothing is there", func(w *clustertest.World) {
			w.Kube.Driver = cluster.Driver{}
			delete(w.Kube.Deployments, resources.DriverControllerName)
			delete(w.Kube.DaemonSets, resources.DriverNodeName)
		}, missing, []string{"apply " + object, "apply " + nodes, "apply " + controller}},
		{"no Deployment", func(w *clustertest.World) { delete(w.Kube.Deployments, resources.DriverControllerName) },
			missing, []string{"apply " + controller}},
		{"snapshots can be taken by now", func(w *clustertest.World) { clustertest.ServeSnapshots(w) }, missing,
			[]string{"apply " + controller}},
		{"snapshots cannot be taken any more", func(w *clustertest.World) {
			clustertest.RunSnapshotter(w)
			w.Kube.Optional = optional.APIs{optional.Snapshots: nil}
		}, missing, []string{"apply " + controller}},
		{"the class of snapshots is missing: no matter of the link", func(w *clustertest.World) {
			clustertest.RunSnapshotter(w)
			clear(w.Kube.Driver.SnapshotClasses)
		}, cluster.Evidence{State: cluster.Satisfied, Reason: "DriverRunning"}, nil},
		{"somebody changed how it is attached", func(w *clustertest.World) {
			*w.Kube.Driver.Object.Spec.PodInfoOnMount = false
		}, missing, []string{"apply " + object}},
		{"a member of another platform", func(w *clustertest.World) {
			w.KubeNode("n02").Status.NodeInfo.OSImage = "Talos (v1.10.0)"
		}, missing, []string{"apply " + nodes + "-talos"}},
		{"a kubelet does not have it", func(w *clustertest.World) { delete(w.Kube.Driver.Nodes, "n02") },
			cluster.Evidence{State: cluster.Enough, Reason: "StartingDriver", Message: "2 of 3 nodes"}, nil},
		{"kubelets have it under other names", func(w *clustertest.World) {
			for name, n := range w.Kube.Driver.Nodes {
				n.NodeID = "x-" + name
				w.Kube.Driver.Nodes[name] = n
			}
		}, cluster.Evidence{State: cluster.Missing, Reason: "StartingDriver", Message: "0 of 3 nodes"}, nil},
		{"a kubelet does not know where it is", func(w *clustertest.World) {
			w.Kube.Driver.Nodes["n02"] = cluster.DriverNode{NodeID: "n02", TopologyKeys: []string{"zone"}}
		}, cluster.Evidence{State: cluster.Enough, Reason: "StartingDriver", Message: "2 of 3 nodes"}, nil},
		{"the controller is down", func(w *clustertest.World) {
			w.Kube.Deployments[resources.DriverControllerName].Status.AvailableReplicas = 0
			w.PutPod(v1alpha1.ComponentDriver, "n01", w.ReadyPod(v1alpha1.ComponentDriver, "n01"))
			w.FailPod(v1alpha1.ComponentDriver, "n01", "no route to host")
		}, cluster.Evidence{State: cluster.Missing, Reason: volumedriver.ReasonControllerDown,
			Message: "no route to host"}, nil},
		{"somebody else's", foreign, cluster.Evidence{State: cluster.Failed,
			Reason: string(v1alpha1.HoldForeignDriverFound), Message: "(managed by Helm)"}, nil},
		{"not wanted, and not there", func(w *clustertest.World) {
			unwanted(w)
			w.Kube.Driver = cluster.Driver{}
			delete(w.Kube.Deployments, resources.DriverControllerName)
			delete(w.Kube.DaemonSets, resources.DriverNodeName)
		}, cluster.Evidence{State: cluster.Satisfied, Reason: volumedriver.ReasonNotWanted, Message: "mode is None"}, nil},
		{"not wanted, and somebody else's", func(w *clustertest.World) {
			foreign(w)
			unwanted(w, "pv-1")
			delete(w.Kube.Deployments, resources.DriverControllerName)
			delete(w.Kube.DaemonSets, resources.DriverNodeName)
		}, cluster.Evidence{State: cluster.Satisfied, Reason: volumedriver.ReasonNotWanted, Message: "mode is None"}, nil},
		{"not wanted, and needed", func(w *clustertest.World) { unwanted(w, "pv-1", "pv-2") },
			cluster.Evidence{State: cluster.Satisfied, Reason: "DriverRunning",
				Message: "spec.volumes.driver.mode is None, but the driver is kept because 2 PersistentVolumes use it " +
					"(pv-1, pv-2)"},
			nil},
		{"not wanted, and needed by a snapshot", func(w *clustertest.World) {
			unwanted(w, "pv-1")
			w.Kube.Driver.Snapshots = usage.Used{Count: 2, Names: []string{"s-1", "s-2"}}
		}, cluster.Evidence{State: cluster.Satisfied, Reason: "DriverRunning", Message: "because 1 PersistentVolume uses " +
			"it (pv-1), and 2 VolumeSnapshotContents use it (s-1, s-2)"}, nil},
		{"not wanted, needed, and changed", func(w *clustertest.World) {
			unwanted(w, "pv-1")
			*w.Kube.Driver.Object.Spec.PodInfoOnMount = false
		}, missing, []string{"apply " + object}},
		{"not wanted: the class of snapshots goes first", func(w *clustertest.World) {
			clustertest.RunSnapshotter(w)
			unwanted(w)
		}, removing, []string{"delete VolumeSnapshotClass/linstor-snapshots"}},
		{"not wanted: then the controller", func(w *clustertest.World) { unwanted(w) },
			removing, []string{"delete " + controller}},
		{"not wanted: then the nodes", func(w *clustertest.World) {
			unwanted(w)
			delete(w.Kube.Deployments, resources.DriverControllerName)
		}, removing, []string{"delete " + nodes}},
		{"not wanted: the object goes last", func(w *clustertest.World) {
			unwanted(w)
			delete(w.Kube.Deployments, resources.DriverControllerName)
			delete(w.Kube.DaemonSets, resources.DriverNodeName)
		}, removing, []string{"delete " + object}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			clustertest.RunDriver(w)
			tc.change(w)
			in, r := w.Input()
			e := volumedriver.Link().Judge(in.Snapshot)
			if e.State != tc.want.State || e.Reason != tc.want.Reason || e.Lost != tc.want.Lost || e.Message == "" ||
				!strings.Contains(e.Message, tc.want.Message) {
				t.Errorf("evidence %+v, want %+v", e, tc.want)
			}
			if err := volumedriver.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.calls, r.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAVolumeMadeJustNowKeepsTheDriver: the cache does not show it yet.
func TestAVolumeMadeJustNowKeepsTheDriver(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	clustertest.RunDriver(w)
	unwanted(w)
	in, r := w.Input()
	r.Live.NewVolumes = map[string]string{"pv-1": "fast"}
	if err := volumedriver.Link().Work(t.Context(), in); err != nil || len(r.Calls) > 0 {
		t.Errorf("%v, calls %v", err, r.Calls)
	}
	r.Live.NewVolumes, r.Live.NewContents = nil, map[string]string{"s-1": "linstor-snapshots"}
	if err := volumedriver.Link().Work(t.Context(), in); err != nil || len(r.Calls) > 0 {
		t.Errorf("a snapshot: %v, calls %v", err, r.Calls)
	}
}

// TestTheDriverStopsOnForeignData: else it would take the deletion of volumes that LINSTOR does not know for done.
func TestTheDriverStopsOnForeignData(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*clustertest.World)
		want   []string
	}{
		{"its own data", func(*clustertest.World) {}, nil},
		{"LINSTOR is silent", func(w *clustertest.World) { w.Silent(nil) }, nil},
		{"another database", func(w *clustertest.World) { w.Linstor.View.LocalID = "other" },
			[]string{"apply " + controller}},
		{"another database, and it is stopped already", func(w *clustertest.World) {
			w.Linstor.View = &linstor.View{LocalID: "other"}
			w.Kube.Deployments[resources.DriverControllerName] = resources.DriverController(
				w.Snapshot().SatelliteParams(), false, false)
		}, nil},
		{"suspended", func(w *clustertest.World) {
			w.Linstor.View.LocalID = "other"
			w.Cluster.Spec.Suspend = true
		}, nil},
		{"somebody else's driver", func(w *clustertest.World) {
			w.Linstor.View.LocalID = "other"
			delete(w.Kube.Deployments[resources.DriverControllerName].Labels, v1alpha1.LabelCluster)
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			clustertest.RunDriver(w)
			tc.change(w)
			in, r := w.Input()
			if err := volumedriver.StopOnForeignData(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, r.Calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhyANodeHasNoDriver(t *testing.T) {
	for _, tc := range []struct {
		name          string
		change        func(*clustertest.World)
		reason, words string
		hold          v1alpha1.HoldReason
	}{
		{"its pod fails", func(w *clustertest.World) {
			delete(w.Kube.Driver.Nodes, "n02")
			w.FailPod(v1alpha1.ComponentDriverNode, "n02", "no such node")
		}, "DriverFailing", "no such node", v1alpha1.HoldVolumeDriverFailed},
		{"its pod is not made", func(w *clustertest.World) {
			delete(w.Kube.Driver.Nodes, "n02")
			delete(w.Kube.Pods[v1alpha1.ComponentDriverNode], "n02")
		}, "DriverNotCreated", "describe daemonset linstor-csi-node", ""},
		{"its pod is not ready", func(w *clustertest.World) {
			delete(w.Kube.Driver.Nodes, "n02")
			w.UnreadyPod(v1alpha1.ComponentDriverNode, "n02")
		}, "DriverNotReady", "csi-node", ""},
		{"the kubelet looks elsewhere", func(w *clustertest.World) { delete(w.Kube.Driver.Nodes, "n02") },
			"DriverNotRegistered", "the driver pod is running, but the kubelet does not have the CSI driver", ""},
		{"the kubelet looks in a long directory", func(w *clustertest.World) {
			delete(w.Kube.Driver.Nodes, "n02")
			w.Cluster.Spec.Volumes.Driver.KubeletDirectory = "/" + strings.Repeat("long/", 20) + "kubelet"
			w.Accept()
		}, "DriverNotRegistered", "the driver pod is running, but the kubelet does not have the CSI driver", ""},
		{"another driver", func(w *clustertest.World) {
			w.Kube.Driver.Nodes["n02"] = cluster.DriverNode{NodeID: "other", TopologyKeys: []string{resources.DriverTopology}}
		}, "DriverNotRegistered", "with node name other", ""},
		{"no zone", func(w *clustertest.World) {
			w.Cluster.Spec.Volumes.TopologyKeys = []string{"zone"}
			w.Accept()
			w.KubeNode("n02").Labels["zone"] = "a"
			s := w.Snapshot()
			m := s.MemberByName("n02")
			maps.Copy(m.Linstor.Properties, registration.WantedRegistration(s, m).Props.Set)
		}, "DriverNotRegistered", "without the topology key zone, because the label was added after", ""},
		{"no zone, whose key is long", func(w *clustertest.World) {
			key := strings.Repeat("long.", 40) + "example.com/zone"
			w.Cluster.Spec.Volumes.TopologyKeys = []string{key}
			w.Accept()
			w.KubeNode("n02").Labels[key] = "a"
			s := w.Snapshot()
			m := s.MemberByName("n02")
			maps.Copy(m.Linstor.Properties, registration.WantedRegistration(s, m).Props.Set)
		}, "DriverNotRegistered", "its kubelet has CSI driver " + resources.DriverName + " without the topology key", ""},
		{"no topology", func(w *clustertest.World) {
			w.Kube.Driver.Nodes["n02"] = cluster.DriverNode{NodeID: "n02"}
		}, "DriverNotRegistered", "without the topology key", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			clustertest.RunDriver(w)
			tc.change(w)
			w.States = map[string]cluster.StateSince{"n02": {State: v1alpha1.NodeStartingDriver}} // for long
			m := w.Snapshot().MemberByName("n02")
			if p := m.Problem; m.State != v1alpha1.NodeStartingDriver || p == nil || p.Reason != tc.reason ||
				!strings.Contains(p.Message, tc.words) || p.Hold != tc.hold {
				t.Errorf("%s %+v", m.State, p)
			}
		})
	}
}
