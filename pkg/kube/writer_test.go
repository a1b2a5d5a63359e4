package kube

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), snapshotv1.AddToScheme(s),
		v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func newClient(t *testing.T, f interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.StorageCluster{}).WithInterceptorFuncs(f).Build()
}

func configMap(cluster string, data map[string]string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "c"}, Data: data}
	if cluster != "" {
		cm.Labels = map[string]string{v1alpha1.LabelCluster: cluster}
	}
	return cm
}

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		name string
		live *corev1.ConfigMap
		err  error
		want map[string]string
	}{
		{name: "new", want: map[string]string{"k": "new"}},
		{name: "ours", live: configMap("linstor", map[string]string{"k": "old"}), want: map[string]string{"k": "new"}},
		{name: "somebody's", live: configMap("", map[string]string{"k": "old"}), err: ErrNotOurs,
			want: map[string]string{"k": "old"}},
		{name: "another cluster's", live: configMap("other", map[string]string{"k": "old"}), err: ErrNotOurs,
			want: map[string]string{"k": "old"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var live []client.Object
			if tc.live != nil {
				live = append(live, tc.live)
			}
			c := newClient(t, interceptor.Funcs{}, live...)
			err := (&Writer{Client: c}).Apply(t.Context(), configMap("linstor", map[string]string{"k": "new"}))
			if !errors.Is(err, tc.err) {
				t.Errorf("err = %v, want %v", err, tc.err)
			}
			var got corev1.ConfigMap
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: "c"}, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got.Data); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestApplySendsOneForcedPatchUnderItsName(t *testing.T) {
	var sent []string
	var body string
	c := newClient(t,
		interceptor.Funcs{Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			options := (&client.ApplyOptions{}).ApplyOptions(opts)
			sent = append(sent, options.FieldManager)
			if options.Force == nil || !*options.Force {
				t.Error("not forced: a field that somebody took would stop the operator for ever")
			}
			data, err := json.Marshal(o)
			body = string(data)
			return err
		}})
	ds := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "y"}}
	ds.Status.NumberReady = 3
	if err := (&Writer{Client: c}).Apply(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{FieldOwner}, sent); d != "" {
		t.Error(d)
	}
	for _, field := range []string{"creationTimestamp", "numberReady", `"status"`} {
		if strings.Contains(body, field) {
			t.Errorf("%s is sent: %s", field, body)
		}
	}
}

func TestApplyStopsWhenItCannotLook(t *testing.T) {
	boom := errors.New("boom")
	c := newClient(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return boom
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			t.Error("written without knowing whose it is")
			return nil
		},
	})
	if err := (&Writer{Client: c}).Apply(t.Context(), configMap("linstor", nil)); !errors.Is(err, boom) {
		t.Errorf("err = %v", err)
	}
}

func TestDelete(t *testing.T) {
	gr := schema.GroupResource{Resource: "configmaps"}
	for _, tc := range []struct {
		name  string
		fault error
		fails bool
	}{
		{name: "deleted"},
		{name: "gone already", fault: apierrors.NewNotFound(gr, "c")},
		{name: "another one under that name", fault: apierrors.NewConflict(gr, "c",
			errors.New("the UID in the precondition does not match"))},
		{name: "refused", fault: apierrors.NewForbidden(gr, "c", errors.New("no")), fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls := 0
			c := newClient(t,
				interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, o client.Object,
					opts ...client.DeleteOption) error {
					calls++
					options := (&client.DeleteOptions{}).ApplyOptions(opts)
					if options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID != "seen" {
						t.Errorf("%s is deleted whatever its UID: %+v", o.GetName(), options.Preconditions)
					}
					if options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationBackground {
						t.Errorf("propagation %v", options.PropagationPolicy)
					}
					return tc.fault
				}})
			w := &Writer{Client: c}
			cm := configMap("linstor", nil)
			cm.UID = "seen"
			if err := w.Delete(t.Context(), cm); (err != nil) != tc.fails || calls != 1 {
				t.Errorf("err = %v after %d calls", err, calls)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "seen",
				Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}}}
			if err := w.DeletePod(t.Context(), pod); (err != nil) != tc.fails || calls != 2 {
				t.Errorf("a pod: err = %v after %d calls", err, calls)
			}
			if err := w.Delete(t.Context(), pod); err == nil || calls != 2 {
				t.Errorf("a pod is deleted in the way of other objects: err = %v after %d calls", err, calls)
			}
		})
	}
}

// TestWhichPodsAreDeleted: a pod is deleted to restart what runs in it, or because the operator has made it by itself,
// and each way refuses all others.
func TestWhichPodsAreDeleted(t *testing.T) {
	restart, own := (*Writer).DeletePod, (*Writer).DeleteOwnPod
	for _, tc := range []struct {
		component    string
		restart, own bool
	}{
		{component: v1alpha1.ComponentSatellite, restart: true},
		{component: v1alpha1.ComponentController, restart: true},
		{component: etcdmember.Component, restart: true},
		{component: v1alpha1.ComponentCanary, own: true},
		{component: v1alpha1.ComponentDrainGuard, own: true},
		{component: v1alpha1.ComponentBackup, own: true},
		{component: v1alpha1.ComponentComparison, own: true},
		{component: v1alpha1.ComponentRestore, own: true},
		{component: v1alpha1.ComponentListing},
		{component: v1alpha1.ComponentDriverNode},
		{component: ""},
	} {
		for _, way := range []struct {
			name string
			do   func(*Writer, context.Context, *corev1.Pod) error
			want bool
		}{{"DeletePod", restart, tc.restart}, {"DeleteOwnPod", own, tc.own}} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n",
				Labels: map[string]string{v1alpha1.LabelComponent: tc.component}}}
			w := &Writer{Client: newClient(t, interceptor.Funcs{}, pod)}
			err := way.do(w, t.Context(), pod)
			there := w.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}) == nil
			if (err == nil) != way.want || there == way.want {
				t.Errorf("%s of a pod of component %q: %v; it is there: %t", way.name, tc.component, err, there)
			}
		}
	}
}

func TestLabelNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
		Labels: map[string]string{"mine": "x", v1alpha1.LabelOS: "old"}}}
	c := newClient(t, interceptor.Funcs{}, n)
	w := &Writer{Client: c}
	if err := w.LabelNode(t.Context(), n, map[string]*string{v1alpha1.LabelMember: ptr.To("linstor"),
		v1alpha1.LabelOS: nil}); err != nil {
		t.Fatal(err)
	}
	var got corev1.Node
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(n), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"mine": "x", v1alpha1.LabelMember: "linstor"}, got.Labels); d != "" {
		t.Error(d)
	}
	if err := w.LabelNode(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}, nil); err != nil {
		t.Errorf("a node that is gone: %v", err)
	}
}

func TestStatusAndMetaAreLocked(t *testing.T) {
	stored := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: "linstor"}}
	c := newClient(t, interceptor.Funcs{}, stored)
	w := &Writer{Client: c}
	read := func() *v1alpha1.StorageCluster {
		got := &v1alpha1.StorageCluster{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	stale := read()
	for name, write := range map[string]func(before *v1alpha1.StorageCluster) error{
		"status": func(before *v1alpha1.StorageCluster) error {
			o := before.DeepCopy()
			o.Status.Message = "a" + o.Status.Message
			return w.PatchStatus(t.Context(), before, o)
		},
		"meta": func(before *v1alpha1.StorageCluster) error {
			o := before.DeepCopy()
			o.Finalizers = append(o.Finalizers, v1alpha1.Finalizer)
			return w.PatchMeta(t.Context(), before, o)
		},
	} {
		if err := write(read()); err != nil {
			t.Errorf("%s on what is stored: %v", name, err)
		}
		if err := write(stale); !apierrors.IsConflict(err) {
			t.Errorf("%s on an old object: %v, want a conflict", name, err)
		}
	}
	if got := read(); got.Status.Message != "a" || len(got.Finalizers) != 1 {
		t.Errorf("stored %q %v", got.Status.Message, got.Finalizers)
	}
}

func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	gone := errors.New("the lease has run out")
	sent := 0
	c := newClient(t, interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			sent++
			return nil
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			sent++
			return nil
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			sent++
			return nil
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
			...client.SubResourcePatchOption) error {
			sent++
			return nil
		},
	})
	w := &Writer{Client: c}
	cluster := &v1alpha1.StorageCluster{}
	writes := map[string]func() error{
		"Apply":  func() error { return w.Apply(t.Context(), configMap("linstor", nil)) },
		"Delete": func() error { return w.Delete(t.Context(), configMap("linstor", nil)) },
		"DeletePod": func() error {
			return w.DeletePod(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}}})
		},
		"LabelNode":   func() error { return w.LabelNode(t.Context(), &corev1.Node{}, nil) },
		"PatchStatus": func() error { return w.PatchStatus(t.Context(), cluster, cluster) },
		"PatchMeta":   func() error { return w.PatchMeta(t.Context(), cluster, cluster) },
	}
	for name, write := range writes {
		w.BeforeWrite = func(context.Context) error { return nil }
		sent = 0
		if err := write(); err != nil || sent != 1 {
			t.Errorf("%s with the lease: %v, sent %d", name, err, sent)
		}
		w.BeforeWrite = func(context.Context) error { return gone }
		sent = 0
		if err := write(); !errors.Is(err, gone) || sent > 0 {
			t.Errorf("%s without the lease: %v, sent %d", name, err, sent)
		}
	}
}
