package observe

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
)

// Discovery finds out which kinds the API server serves.
type Discovery interface {
	// Kinds are those of a group's version; none if the API server does not serve that.
	Kinds(ctx context.Context, gv schema.GroupVersion) ([]string, error)
}

// discoverWithin bounds a look for optional APIs: an API server that does not answer must not keep the operator from
// LINSTOR.
const discoverWithin = 3 * time.Second

// optionalMemory is what the last look for optional APIs has found, and when it was taken. A watch on definitions
// would find out at once; it needs the right to read all of them.
type optionalMemory struct {
	apis optional.APIs
	at   time.Time
	// failed is true if the API server did not answer to all that was asked.
	failed bool
}

// look finds out which of the groups are served, unless that was seen a short while ago. What the API server does not
// answer to is unknown until it answers.
func (m *optionalMemory) look(ctx context.Context, d Discovery, groups []schema.GroupVersion, f *cluster.Facts) {
	lasts := f.Timing.Safety
	if m.failed {
		lasts = f.Timing.PollSteady
	}
	if m.at.IsZero() || f.Now.Sub(m.at) >= lasts {
		ctx, cancel := context.WithTimeout(ctx, discoverWithin)
		defer cancel()
		m.apis, m.at, m.failed = optional.APIs{}, f.Now, false
		for _, gv := range groups {
			if d == nil {
				m.apis[gv] = nil
				continue
			}
			kinds, err := d.Kinds(ctx, gv)
			if err != nil {
				log.FromContext(ctx).Info("cannot determine which APIs the API server serves", "error", err.Error())
				m.failed = true
				continue
			}
			m.apis[gv] = kinds
		}
	}
	f.Kube.Optional = m.apis
}
