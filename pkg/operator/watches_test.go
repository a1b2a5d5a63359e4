package operator

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestFailedWatch(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{}, "")
	for _, tc := range []struct {
		name string
		kind any
		err  error
		logs int
	}{
		{"snapshots are not served any more", &snapshotv1.VolumeSnapshotContent{}, gone, 0},
		{"snapshots are forbidden", &snapshotv1.VolumeSnapshotContent{},
			apierrors.NewForbidden(schema.GroupResource{}, "", nil), 1},
		{"another kind is not served", &corev1.Node{}, gone, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logs := 0
			ctx := logr.NewContext(t.Context(), funcr.New(func(string, string) { logs++ }, funcr.Options{}))
			failedWatch(ctx, toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, tc.kind, nil,
				toolscache.ReflectorOptions{}), tc.err)
			if logs != tc.logs {
				t.Errorf("%d lines, want %d", logs, tc.logs)
			}
		})
	}
}
