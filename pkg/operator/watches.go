package operator

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
)

// failedWatch logs that a watch of the cache fails, as client-go does by itself. It says nothing of a kind of the API
// of snapshots whose definition was removed: the next look for optional APIs ends that watch, which is tried again and
// again until then.
func failedWatch(ctx context.Context, r *toolscache.Reflector, err error) {
	if apierrors.IsNotFound(err) && strings.Contains(r.TypeDescription(), "VolumeSnapshot") {
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}
