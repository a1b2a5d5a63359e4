package satellites_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

// awayWorld is locked, and LINSTOR reaches none of its satellites, which all are as they are to be.
func awayWorld(t *testing.T) *clustertest.World {
	t.Helper()
	w := hungWorld(t)
	for _, n := range w.Names() {
		back(w, n, false)
		w.Satellite(n).CreationTimestamp = metav1.NewTime(w.Now.Add(-2 * time.Hour))
		w.LinkDown(n, 3*time.Minute)
	}
	startController(w, w.Now.Add(-time.Hour))
	return w
}

// startController gives the controller another pod.
func startController(w *clustertest.World, at time.Time) {
	p := w.Kube.ControllerPods[0].DeepCopy()
	p.UID, p.CreationTimestamp = types.UID("controller-"+at.Format(time.RFC3339)), metav1.NewTime(at)
	readySince(p, at)
	w.Kube.ControllerPods = []*corev1.Pod{p}
}

// later lets time go by for all that has its own.
func later(w *clustertest.World, d time.Duration) {
	w.Now = w.Now.Add(d)
	w.Linstor.View.TakenAt = w.Now
}

// act does the link's work once, and reports whether it has restarted the controller, which is back at once.
func act(t *testing.T, w *clustertest.World) (restarted bool) {
	t.Helper()
	in, r := w.Input()
	if err := satellites.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Applied {
		if cm, ok := o.(*corev1.ConfigMap); ok {
			w.Kube.ConfigMaps[cm.Name] = cm
		}
	}
	if restarted = slices.Contains(r.Calls, "delete Pod/"+w.Kube.ControllerPods[0].Name); restarted {
		startController(w, w.Now)
	}
	return restarted
}

// restartsWithin lets so much time go by, and says after how long the controller was restarted each time.
func restartsWithin(t *testing.T, w *clustertest.World, d time.Duration) (after []time.Duration) {
	t.Helper()
	begin, last := w.Now, w.Now
	for w.Now.Sub(begin) < d {
		if act(t, w) {
			after = append(after, w.Now.Sub(last).Round(time.Minute))
			last = w.Now
		}
		later(w, 30*time.Second)
	}
	return after
}

// noted is what is noted of restarts; "" for nothing.
func noted(w *clustertest.World) string {
	return w.Kube.ConfigMaps[resources.SatelliteConfigName].Annotations[netcomtls.AnnotationRestarts]
}

// TestRestartsInVain: satellites that are away for another reason do not make the operator restart LINSTOR's
// controller for ever, whichever process of the operator looks. They once did, every six minutes. What is noted makes
// none of the satellites' objects look changed.
func TestRestartsInVain(t *testing.T) {
	w := awayWorld(t)
	got := restartsWithin(t, w, 24*time.Hour)
	want := []time.Duration{0, 13 * time.Minute, 25 * time.Minute, 49 * time.Minute, 97 * time.Minute}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Fatalf("restarts after %v, want %v first", got, want)
	}
	for _, d := range got[len(want):] {
		if d < 2*time.Hour || d > 2*time.Hour+time.Minute {
			t.Errorf("a restart after %s, want two hours", d)
		}
	}
	if e := satellites.Link().Judge(w.Snapshot()); e.Lost || !strings.HasPrefix(noted(w), fmt.Sprintf("%d ", len(got))) {
		t.Errorf("evidence %+v, noted is %q after %d restarts", e, noted(w), len(got))
	}
}

// TestRestartsThatMayHelp: a controller that may well hang does not wait for what was tried in another situation.
func TestRestartsThatMayHelp(t *testing.T) {
	for name, tc := range map[string]struct {
		then   func(*testing.T, *clustertest.World)
		within time.Duration
	}{
		"a satellite has reached it, for long": {func(t *testing.T, w *clustertest.World) {
			back(w, "n01", false)
			later(w, 10*time.Minute)
			act(t, w)
			if noted(w) != "" {
				t.Errorf("noted is %q", noted(w))
			}
			w.LinkDown("n01", 0)
		}, 3 * time.Minute},
		"a satellite was started since": {func(_ *testing.T, w *clustertest.World) {
			later(w, time.Minute)
			w.Satellite("n05").CreationTimestamp = metav1.NewTime(w.Now)
		}, 7 * time.Minute},
		"somebody has removed the note": {func(_ *testing.T, w *clustertest.World) {
			w.Kube.ConfigMaps[resources.SatelliteConfigName].Annotations = nil
		}, 7 * time.Minute},
		"somebody has spoiled the note": {func(_ *testing.T, w *clustertest.World) {
			w.Kube.ConfigMaps[resources.SatelliteConfigName].Annotations[netcomtls.AnnotationRestarts] = "-1 x"
		}, 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := awayWorld(t)
			restartsWithin(t, w, 3*time.Hour)
			tc.then(t, w)
			if len(restartsWithin(t, w, tc.within)) != 1 {
				t.Errorf("it was not restarted within %s; noted is %q", tc.within, noted(w))
			}
		})
	}
}

// TestRestartIsNotedFirst: a restart that cannot be noted is not made, and one that was noted is not counted twice.
func TestRestartIsNotedFirst(t *testing.T) {
	w := awayWorld(t)
	in, r := w.Input()
	note, restart := "apply ConfigMap/"+resources.SatelliteConfigName, "delete Pod/"+w.Kube.ControllerPods[0].Name
	r.Fail[note] = errors.New("x")
	if err := satellites.Link().Work(t.Context(), in); err == nil || slices.Contains(r.Calls, restart) {
		t.Errorf("error %v, calls %v", err, r.Calls)
	}
	in, r = w.Input()
	r.Fail[restart] = errors.New("x")
	if err := satellites.Link().Work(t.Context(), in); err == nil || !slices.Equal(r.Calls, []string{note, restart}) {
		t.Errorf("error %v, calls %v", err, r.Calls)
	}
	w.Kube.ConfigMaps[resources.SatelliteConfigName] = r.Applied[0].(*corev1.ConfigMap)
	in, r = w.Input()
	if err := satellites.Link().Work(t.Context(), in); err != nil || !slices.Equal(r.Calls, []string{restart}) {
		t.Errorf("error %v, calls %v", err, r.Calls)
	}
}

// TestRestartThatHelpsForAMoment: what hangs again within minutes waits longer each time, unless satellites were
// started meanwhile, which shows that work goes on.
func TestRestartThatHelpsForAMoment(t *testing.T) {
	w := awayWorld(t)
	act(t, w)
	before := noted(w)
	back(w, "n01", false)
	later(w, time.Minute)
	if act(t, w); noted(w) != before || before == "" {
		t.Errorf("noted is %q, and was %q", noted(w), before)
	}
}
