package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// archive is a backup with these files.
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	noise := make([]byte, 4<<10)
	if _, err := rand.New(rand.NewSource(1)).Read(noise); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f, Mode: 0o600, Size: int64(len(noise))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(noise); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func secret(name, kind, version string, age time.Duration, data []byte) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name,
			CreationTimestamp: metav1.NewTime(began.Add(age)), Labels: map[string]string{}},
		Type: corev1.SecretType(kind),
	}
	if version != "" {
		s.Annotations = map[string]string{annotationVersion: version}
	}
	if data != nil {
		s.Data = map[string][]byte{keyArchive: data}
	}
	return s
}

func part(of string, n int, data []byte) *corev1.Secret {
	s := secret(fmt.Sprintf("%s-%02d", of, n), typePart, "", time.Second, data)
	s.Labels[labelBackup] = of
	return s
}

func TestRead(t *testing.T) {
	good := archive(t, "crds.yaml", "nodes.internal.linstor.linbit.com.yaml")
	third := len(good) / 3
	damaged := bytes.Clone(good)
	damaged[len(damaged)/2] ^= 0xff
	whole := secret("b1", TypeBackup, "1.35.3", time.Second, good)
	for _, tc := range []struct {
		name    string
		secrets []client.Object
		want    string
		err     string
	}{
		{name: "none"},
		{name: "in one piece", secrets: []client.Object{whole}, want: "b1"},
		{name: "in parts", want: "b2", secrets: []client.Object{secret("b2", TypeBackup, "1.35.3", time.Second, nil),
			part("b2", 2, good[2*third:]), part("b2", 0, good[:third]), part("b2", 1, good[third:2*third])}},
		{name: "the newest of two", secrets: []client.Object{whole, secret("b0", TypeBackup, "1.35.3", time.Minute, good)},
			want: "b0"},
		{name: "of an earlier upgrade", secrets: []client.Object{secret("b1", TypeBackup, "1.35.3", -time.Second, good)}},
		{name: "of another version", secrets: []client.Object{secret("b1", TypeBackup, "1.34.2", time.Second, good)}},
		{name: "of a version that begins alike",
			secrets: []client.Object{secret("b1", TypeBackup, "1.35.30", time.Second, good)}},
		{name: "the version among other words",
			secrets: []client.Object{secret("b1", TypeBackup, "LINSTOR Controller v1.35.3", time.Second, good)}, want: "b1"},
		{name: "a part is missing", err: "b2", secrets: []client.Object{secret("b2", TypeBackup, "1.35.3", time.Second, nil),
			part("b2", 0, good[:third]), part("b2", 2, good[2*third:])}},
		{name: "the last part is missing", err: "unexpected EOF",
			secrets: []client.Object{secret("b2", TypeBackup, "1.35.3", time.Second, nil),
				part("b2", 0, good[:third]), part("b2", 1, good[third:2*third])}},
		{name: "no part", secrets: []client.Object{secret("b2", TypeBackup, "1.35.3", time.Second, nil)}, err: "empty"},
		{name: "damaged", secrets: []client.Object{secret("b1", TypeBackup, "1.35.3", time.Second, damaged)}, err: "b1"},
		{name: "no gzip", secrets: []client.Object{secret("b1", TypeBackup, "1.35.3", time.Second, []byte("hello"))},
			err: "decompress"},
		{name: "without definitions",
			secrets: []client.Object{secret("b1", TypeBackup, "1.35.3", time.Second, archive(t, "other.yaml"))},
			err:     "crds.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			byType := func(o client.Object) []string {
				if s, ok := o.(*corev1.Secret); ok {
					return []string{string(s.Type)}
				}
				return []string{TypeBackup} // the fake client keeps no type with the metadata; the parts have no annotation
			}
			c := fake.NewClientBuilder().WithObjects(tc.secrets...).
				WithIndex(&corev1.Secret{}, "type", byType).
				WithIndex(&corev1.Secret{}, "metadata.name",
					func(o client.Object) []string { return []string{o.GetName()} }).Build()
			got, err := Reader{Client: c}.Read(context.Background(), "1.35.3", began)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error is %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("backup %q, error %v; want %q", got, err, tc.want)
			}
		})
	}
}

// TestReadIsBounded: parts are joined in memory, and no more of them than a large cluster has.
func TestReadIsBounded(t *testing.T) {
	pages := 0
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{List: func(_ context.Context,
		_ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		parts, ok := list.(*corev1.SecretList)
		var o client.ListOptions
		o.ApplyOptions(opts)
		if !ok || o.LabelSelector == nil {
			return nil
		}
		pages++
		for i := range o.Limit {
			parts.Items = append(parts.Items, *part("b", pages*100+int(i), make([]byte, 512<<10)))
		}
		parts.Continue = "more"
		return nil
	}})
	_, err := Reader{Client: c}.archive(t.Context(), "b")
	if err == nil || !strings.Contains(err.Error(), "the backup is larger than 96 MiB, which is the limit") ||
		pages != 13 {
		t.Errorf("%d pages, %v", pages, err)
	}
}
