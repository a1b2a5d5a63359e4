package module_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// signingKey puts a Secret with these keys into the world; each call gives it another version.
func signingKey(w *clustertest.World, version string, keys ...string) {
	data := map[string][]byte{}
	for _, k := range keys {
		data[k] = []byte("content of " + k + " " + version)
	}
	w.Kube.Secrets["mok"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mok",
		Namespace: v1alpha1.WorkloadNamespace, ResourceVersion: version}, Data: data}
}

// signedWorld is a cluster at rest whose loaders sign the module.
func signedWorld(t *testing.T, mode v1alpha1.KernelModuleMode) *clustertest.World {
	w := clustertest.NewWorld(t, 2)
	w.Cluster.Spec.KernelModule = v1alpha1.KernelModuleSpec{Mode: mode, SigningKeySecret: "mok"}
	signingKey(w, "7", resources.SigningKey, resources.SigningCertificate)
	w.Settle()
	return w
}

func TestSigningKeyBeforeLoadersStart(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mode  v1alpha1.KernelModuleMode
		spoil func(*clustertest.World)
		want  string // part of the hold's message; "" for none
	}{
		{"usable", v1alpha1.ModuleAuto, func(*clustertest.World) {}, ""},
		{"no Secret", v1alpha1.ModuleAuto, func(w *clustertest.World) { delete(w.Kube.Secrets, "mok") },
			"spec.kernelModule.signingKeySecret: Secret mok does not exist in namespace linstor-storage"},
		{"no private key", v1alpha1.ModuleCompile,
			func(w *clustertest.World) { signingKey(w, "8", resources.SigningCertificate) },
			"has no signing_key.pem key"},
		{"no certificate", v1alpha1.ModuleCompile,
			func(w *clustertest.World) { signingKey(w, "8", resources.SigningKey, "signing_key.der") },
			"has no signing_key.x509 key"},
		{"nothing is compiled", v1alpha1.ModulePrebuilt, func(w *clustertest.World) { delete(w.Kube.Secrets, "mok") }, ""},
		{"nothing is loaded", v1alpha1.ModulePreinstalled, func(w *clustertest.World) { delete(w.Kube.Secrets, "mok") }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := signedWorld(t, tc.mode)
			for name, ds := range w.Kube.DaemonSets {
				if ds.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentModuleLoader {
					delete(w.Kube.DaemonSets, name)
				}
			}
			tc.spoil(w)
			in, r := w.Input()
			e := module.Link().Judge(in.Snapshot)
			if err := module.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if e.Hold != nil {
					t.Errorf("hold %+v", e.Hold)
				}
				return
			}
			if e.State != cluster.Failed || e.Hold.Reason != v1alpha1.HoldSigningKeyUnusable ||
				!strings.Contains(e.Hold.Message, tc.want) {
				t.Errorf("%s: %+v", e.State, e.Hold)
			}
			if len(r.Calls) != 0 {
				t.Errorf("loaders are started without their key: %v", r.Calls)
			}
			if strings.Contains(e.Message, "content of") {
				t.Errorf("the message gives the Secret away: %s", e.Message)
			}
		})
	}
}

func TestAnotherSigningKeyRestartsLoaders(t *testing.T) {
	w := signedWorld(t, v1alpha1.ModuleAuto)
	if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Satisfied {
		t.Fatalf("at rest: %+v", e)
	}
	secret := w.Kube.Secrets["mok"]
	secret.ResourceVersion, secret.Data["other"] = "70", []byte("x")
	secret.Labels = map[string]string{"by": "external-secrets"}
	if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Satisfied {
		t.Errorf("another label on the Secret: %+v", e)
	}
	signingKey(w, "8", resources.SigningKey, resources.SigningCertificate)
	in, r := w.Input()
	if e := module.Link().Judge(in.Snapshot); !e.Lost {
		t.Errorf("another key: %+v", e)
	}
	if err := module.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"apply DaemonSet/linstor-module-loader-noble"}, r.Calls); d != "" {
		t.Error(d)
	}
	// What a loader with the old key says is no reason to ask a human again.
	w.FailPod(v1alpha1.ComponentModuleLoader, "n01", "Key was rejected by service")
	m := w.Snapshot().MemberByName("n01")
	if m.Problem == nil || m.Problem.Hold != "" {
		t.Errorf("a pod that is being replaced: %+v", m.Problem)
	}
	loader := w.Kube.Pods[v1alpha1.ComponentModuleLoader]["n01"]
	loader.Annotations[resources.AnnotationSigningKeyVersion] = resources.SigningKeyVersion(w.Kube.Secrets["mok"])
	if m = w.Snapshot().MemberByName("n01"); m.Problem.Hold != v1alpha1.HoldSecureBootKeyMissing {
		t.Errorf("the new pod: %+v", m.Problem)
	}
}

// A Secret that goes away later stops nothing: the module is loaded. It is told, because the next boot needs the key.
func TestLoadersOutliveTheirKey(t *testing.T) {
	w := signedWorld(t, v1alpha1.ModuleAuto)
	delete(w.Kube.Secrets, "mok")
	in, r := w.Input()
	e := module.Link().Judge(in.Snapshot)
	if e.State != cluster.Satisfied || !strings.Contains(e.Message, "cannot sign the module when a node boots") ||
		!strings.Contains(e.Message, "Secret mok does not exist") {
		t.Errorf("%s: %s", e.State, e.Message)
	}
	if err := module.Link().Work(t.Context(), in); err != nil || len(r.Calls) != 0 {
		t.Errorf("%v %v", r.Calls, err)
	}
	w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01")
	if m := w.Snapshot().MemberByName("n01"); m.Problem == nil ||
		m.Problem.Reason != string(v1alpha1.HoldSigningKeyUnusable) {
		t.Errorf("a node that boots now: %+v", m.Problem)
	}
}

func TestALoaderThatIsNotAsWanted(t *testing.T) {
	for name, spoil := range map[string]func(w *clustertest.World, loader string){
		"gone": func(w *clustertest.World, loader string) { delete(w.Kube.DaemonSets, loader) },
		"changed": func(w *clustertest.World, loader string) {
			w.Kube.DaemonSets[loader].Spec.Template.Spec.InitContainers[0].Image = "other"
		},
		"being deleted": func(w *clustertest.World, loader string) {
			w.Kube.DaemonSets[loader].DeletionTimestamp = clustertest.At(clustertest.Begin)
		},
	} {
		w := clustertest.NewWorld(t, 2)
		spoil(w, resources.ModuleLoaderName("noble"))
		if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Missing || !e.Lost || e.Message == "" {
			t.Errorf("%s: %+v", name, e)
		}
		in, r := w.Input()
		if err := module.Link().Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if len(r.Calls) != 1 || !strings.HasPrefix(r.Calls[0], "apply ") {
			t.Errorf("%s: calls %v, want the one object again", name, r.Calls)
		}
	}
}
