package observe

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
)

const (
	// mostStalled limits how many stalled pods of a component have their Events read: they usually share one cause.
	mostStalled = 5
	// warningsWithin is how long reading Events may hold up a look.
	warningsWithin = 5 * time.Second
)

// warningMemory keeps what Kubernetes warned of at the last look, so that the API server does not get a request for it
// with each look.
type warningMemory struct {
	at     time.Time
	byName map[string][]cluster.Warning
}

// of are the warnings about test volumes that take long, and about pods that do not start. Failing to read them is no
// error, and changes nothing in what was known: they only explain what is seen anyway.
func (w *warningMemory) of(ctx context.Context, o *Observer, f *cluster.Facts) map[string][]cluster.Warning {
	names := slices.Concat(canary.Slow(f), stalled(f))
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) == 0 || o.Events == nil:
		*w = warningMemory{}
		return nil
	case f.Now.Sub(w.at) < o.Timing.PollSteady && w.covers(names):
		return w.byName
	}
	ctx, cancel := context.WithTimeout(ctx, warningsWithin)
	defer cancel()
	before := w.byName
	w.at, w.byName = f.Now, map[string][]cluster.Warning{}
	for _, name := range names {
		var list corev1.EventList
		if err := o.Events.List(ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingFields{"involvedObject.name": name, "type": corev1.EventTypeWarning}); err != nil {
			w.byName[name] = before[name]
			continue
		}
		w.byName[name] = newest(list.Items, objects(f, name))
	}
	return w.byName
}

// covers reports whether the last look was about all these names.
func (w *warningMemory) covers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := w.byName[name]
		return !ok
	})
}

// objects are the pod and the claim of a name that are there now. Events about earlier ones of the same name are none
// of theirs.
func objects(f *cluster.Facts, name string) map[types.UID]bool {
	there := map[types.UID]bool{}
	for _, p := range podsOf(&f.Kube) {
		if p.Name == name {
			there[p.UID] = true
		}
	}
	if c := f.Kube.Canary.Claims[name]; c != nil {
		there[c.UID] = true
	}
	return there
}

// podsOf are all pods that the operator has made.
func podsOf(k *cluster.Kube) []*corev1.Pod {
	out := slices.Concat(k.Hidden, k.ControllerPods)
	for _, some := range k.Pods {
		for _, p := range some {
			out = append(out, p)
		}
	}
	for _, some := range []map[string]*corev1.Pod{k.Canary.Pods, k.Backups, k.Comparisons, k.Restores} {
		for _, p := range some {
			out = append(out, p)
		}
	}
	return out
}

// stalled names pods that the kubelet has failed to start for some time: of each component those that have waited
// longest, so that one whose problem is already known stays among them.
func stalled(f *cluster.Facts) (names []string) {
	waiting := map[string][]*corev1.Pod{}
	for _, p := range podsOf(&f.Kube) {
		if since := poddiagnosis.StartingSince(p); !since.IsZero() && f.Now.Sub(since) > f.Timing.HealthLost {
			component := p.Labels[v1alpha1.LabelComponent]
			waiting[component] = append(waiting[component], p)
		}
	}
	for _, pods := range waiting {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(poddiagnosis.StartingSince(a).Compare(poddiagnosis.StartingSince(b)), cmp.Compare(a.Name, b.Name))
		})
		for _, p := range pods[:min(len(pods), mostStalled)] {
			names = append(names, p.Name)
		}
	}
	return names
}

// newest are the Events about objects that are there, the newest first. Those about earlier ones of the same name are
// left out.
func newest(all []corev1.Event, there map[types.UID]bool) []cluster.Warning {
	all = slices.DeleteFunc(all, func(e corev1.Event) bool { return !there[e.InvolvedObject.UID] })
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return seen(&b).Compare(seen(&a)) })
	var out []cluster.Warning
	for i := range all {
		out = append(out, cluster.Warning{Reason: all[i].Reason, Message: all[i].Message, UID: all[i].InvolvedObject.UID,
			At: seen(&all[i])})
	}
	return out
}

// seen is when an Event was seen last: Events of the API events.k8s.io have their time elsewhere.
func seen(e *corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if t.After(last) {
			last = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}
