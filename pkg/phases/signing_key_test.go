package phases

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// signingKey puts a Secret with these keys into the world; each call gives it another version.
func (w *world) signingKey(version string, keys ...string) {
	data := map[string][]byte{}
	for _, k := range keys {
		data[k] = []byte("content of " + k)
	}
	w.kube.Secrets["mok"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mok", Namespace: v1alpha1.WorkloadNamespace, ResourceVersion: version}, Data: data}
}

// signedWorld is a cluster at rest whose loaders sign the module.
func signedWorld(t *testing.T, mode v1alpha1.KernelModuleMode) *world {
	w := newWorld(t, 2)
	w.cluster.Spec.KernelModule = v1alpha1.KernelModuleSpec{Mode: mode, SigningKeySecret: "mok"}
	w.signingKey("7", resources.SigningKey, resources.SigningCertificate)
	w.settle()
	for _, n := range []string{"n01", "n02"} {
		w.kube.Pods[v1alpha1.ComponentModuleLoader][n].Annotations = map[string]string{resources.AnnotationSigningKeyVersion: "7"}
	}
	return w
}

func TestSigningKeyBeforeLoadersStart(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mode  v1alpha1.KernelModuleMode
		spoil func(*world)
		want  string // part of the hold's message; "" for none
	}{
		{"usable", v1alpha1.ModuleAuto, func(*world) {}, ""},
		{"no Secret", v1alpha1.ModuleAuto, func(w *world) { delete(w.kube.Secrets, "mok") },
			"spec.kernelModule.signingKeySecret: there is no Secret mok in the namespace linstor-storage"},
		{"no private key", v1alpha1.ModuleCompile, func(w *world) { w.signingKey("8", resources.SigningCertificate) }, "has no key signing_key.pem"},
		{"no certificate", v1alpha1.ModuleCompile, func(w *world) { w.signingKey("8", resources.SigningKey, "signing_key.der") }, "has no key signing_key.x509"},
		{"nothing is compiled", v1alpha1.ModulePrebuilt, func(w *world) { delete(w.kube.Secrets, "mok") }, ""},
		{"nothing is loaded", v1alpha1.ModulePreinstalled, func(w *world) { delete(w.kube.Secrets, "mok") }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := signedWorld(t, tc.mode)
			for name, ds := range w.kube.DaemonSets {
				if ds.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentModuleLoader {
					delete(w.kube.DaemonSets, name)
				}
			}
			tc.spoil(w)
			in, r := w.input()
			e := moduleLink{}.Evidence(in.Snapshot)
			if err := (moduleLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if e.Hold != nil {
					t.Errorf("hold %+v", e.Hold)
				}
				return
			}
			if e.State != Failed || e.Hold.Reason != v1alpha1.HoldSigningKeyUnusable || !strings.Contains(e.Hold.Message, tc.want) {
				t.Errorf("%s: %+v", e.State, e.Hold)
			}
			if len(r.calls) != 0 {
				t.Errorf("loaders are started without their key: %v", r.calls)
			}
			if strings.Contains(e.Message, "content of") {
				t.Errorf("the message gives the Secret away: %s", e.Message)
			}
		})
	}
}

func TestAnotherSigningKeyRestartsLoaders(t *testing.T) {
	w := signedWorld(t, v1alpha1.ModuleAuto)
	if e := (moduleLink{}).Evidence(w.snapshot()); e.State != Satisfied {
		t.Fatalf("at rest: %+v", e)
	}
	w.signingKey("8", resources.SigningKey, resources.SigningCertificate)
	in, r := w.input()
	if e := (moduleLink{}).Evidence(in.Snapshot); !e.Lost {
		t.Errorf("another key: %+v", e)
	}
	if err := (moduleLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"apply DaemonSet/linstor-module-loader-noble"}, r.calls); d != "" {
		t.Error(d)
	}
	// What a loader with the old key says is no reason to ask a human again.
	w.failPod(v1alpha1.ComponentModuleLoader, "n01", "Key was rejected by service")
	m := w.snapshot().MemberByName("n01")
	if m.Problem == nil || m.Problem.Hold != "" {
		t.Errorf("a pod that is being replaced: %+v", m.Problem)
	}
	w.kube.Pods[v1alpha1.ComponentModuleLoader]["n01"].Annotations[resources.AnnotationSigningKeyVersion] = "8"
	if m = w.snapshot().MemberByName("n01"); m.Problem.Hold != v1alpha1.HoldSecureBootKeyMissing {
		t.Errorf("the new pod: %+v", m.Problem)
	}
}

// A Secret that goes away later stops nothing: the module is loaded. It is told, because the next boot needs the key.
func TestLoadersOutliveTheirKey(t *testing.T) {
	w := signedWorld(t, v1alpha1.ModuleAuto)
	delete(w.kube.Secrets, "mok")
	in, r := w.input()
	e := moduleLink{}.Evidence(in.Snapshot)
	if e.State != Satisfied || !strings.Contains(e.Message, "cannot sign the module when a node boots") || !strings.Contains(e.Message, "no Secret mok") {
		t.Errorf("%s: %s", e.State, e.Message)
	}
	if err := (moduleLink{}).Work(t.Context(), in); err != nil || len(r.calls) != 0 {
		t.Errorf("%v %v", r.calls, err)
	}
	w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01")
	if m := w.snapshot().MemberByName("n01"); m.Problem == nil || m.Problem.Reason != string(v1alpha1.HoldSigningKeyUnusable) {
		t.Errorf("a node that boots now: %+v", m.Problem)
	}
}
