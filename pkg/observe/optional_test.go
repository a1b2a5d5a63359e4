package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
)

// apiServer serves kinds, or fails, and counts how often it is asked.
type apiServer struct {
	served map[string][]string // kinds by group and version
	errs   map[schema.GroupVersion]error
	asked  int
}

func (a *apiServer) Kinds(_ context.Context, gv schema.GroupVersion) ([]string, error) {
	a.asked++
	return a.served[gv.String()], a.errs[gv]
}

func TestOptionalAPIs(t *testing.T) {
	one, other := schema.GroupVersion{Group: "one", Version: "v1"}, schema.GroupVersion{Group: "other", Version: "v1"}
	groups := []schema.GroupVersion{one, other}
	api := &apiServer{served: map[string][]string{other.String(): {"B"}}, errs: map[schema.GroupVersion]error{}}
	var m optionalMemory
	now, timing := time.Unix(1000, 0), cluster.DefaultTiming()
	look := func(after time.Duration, asked int, wantOne, wantOther optional.State) {
		t.Helper()
		now, api.asked = now.Add(after), 0
		f := &cluster.Facts{Now: now, Timing: timing}
		m.look(t.Context(), api, groups, f)
		if a, b := f.Kube.Optional.State(one, "A"), f.Kube.Optional.State(other, "B"); a != wantOne || b != wantOther {
			t.Errorf("one is %q, want %q; the other is %q, want %q", a, wantOne, b, wantOther)
		}
		if api.asked != asked {
			t.Errorf("asked %d times, want %d", api.asked, asked)
		}
	}
	look(0, 2, optional.Absent, optional.Served)

	// A definition that was installed is seen at the next look that is due.
	api.served[one.String()] = []string{"A"}
	look(timing.Safety-time.Second, 0, optional.Absent, optional.Served)
	look(time.Second, 2, optional.Served, optional.Served)

	// What the API server does not answer to is unknown, and soon asked for again.
	api.errs[other] = errors.New("not now")
	look(timing.Safety, 2, optional.Served, optional.Unknown)
	look(timing.PollSteady-time.Second, 0, optional.Served, optional.Unknown)
	delete(api.errs, other)
	look(time.Second, 2, optional.Served, optional.Served)

	// One that was removed.
	delete(api.served, one.String())
	look(timing.Safety, 2, optional.Absent, optional.Served)
}
