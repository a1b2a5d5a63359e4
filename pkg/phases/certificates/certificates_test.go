package certificates_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

const day = 24 * time.Hour

// world wants the API locked, with the CSI driver and without Prometheus.
func world(t *testing.T) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 2)
	w.Cluster.Spec.TLS.Mode = tlsspec.Managed
	w.Cluster.Spec.Monitoring.Mode = monitoringspec.MonitoringNone
	w.Cluster.Spec.Volumes.Driver.Mode = volumespec.DriverManaged
	w.Accept()
	return w
}

// work does one step, and puts what it writes where the next one sees it.
func work(t *testing.T, w *clustertest.World) []string {
	t.Helper()
	in, r := w.Input()
	in.Failures = &step.Failures{}
	certificates.Work(t.Context(), in)
	if why := in.Failures.Aside(conditions.CertificatesValid); why != "" {
		t.Fatal(why)
	}
	for _, o := range r.Applied {
		w.Kube.Secrets[o.GetName()] = o.(*corev1.Secret)
	}
	for _, call := range r.Calls {
		if name, ok := strings.CutPrefix(call, "delete Secret/"); ok {
			delete(w.Kube.Secrets, name)
		}
	}
	return r.Calls
}

// kept is what the Secrets hold.
func kept(w *clustertest.World) *apicerts.Kept {
	k := apicerts.Read(w.Kube.Secrets, &w.Cluster.Spec.TLS, w.Now)
	return &k
}

// restart has all that uses certificates run with what is published.
func restart(w *clustertest.World) {
	k := kept(w)
	access := k.Access(&w.Cluster.Spec.TLS)
	put := func(p *corev1.Pod, part apitls.Part) {
		p.Annotations = access[part].Annotate(p.Annotations)
	}
	for _, p := range w.Kube.ControllerPods {
		put(p, apitls.Controller)
	}
	for _, p := range w.Kube.ControllerPods {
		p.Annotations = netcomtls.Kind.Annotate(k.Netcom.Ref(netcomtls.Controller), p.Annotations)
	}
	for _, p := range w.Kube.Pods[v1alpha1.ComponentSatellite] {
		p.Annotations = netcomtls.Kind.Annotate(k.Netcom.Ref(netcomtls.Satellite), p.Annotations)
	}
	w.Seen = apicerts.Seen{Leaf: k.API.Held[apitls.Controller].Leaf.Hash()}
	for _, c := range k.API.Held[apitls.Controller].Trust {
		w.Seen.Authorities = append(w.Seen.Authorities, c.RawSubject)
	}
	for component, part := range map[string]apitls.Part{v1alpha1.ComponentDriver: apitls.Driver,
		v1alpha1.ComponentDriverNode: apitls.DriverNode} {
		for _, n := range w.Kube.Nodes {
			p := w.ReadyPod(component, n.Name)
			put(p, part)
			w.PutPod(component, n.Name, p)
		}
	}
}

func reason(w *clustertest.World) string { return certificates.Judge(w.Snapshot()).Reason }

// made is a world at rest.
func made(t *testing.T) *clustertest.World {
	t.Helper()
	w := world(t)
	work(t, w)
	restart(w)
	if calls := work(t, w); calls != nil || reason(w) != conditions.ReasonAsExpected {
		t.Fatalf("not at rest: %v, %s", calls, reason(w))
	}
	return w
}

// entries looks at what is in which Secret: keys of authorities are in their own alone, and Java's stores where they
// are read.
func entries(t *testing.T, w *clustertest.World) {
	t.Helper()
	for name, s := range w.Kube.Secrets {
		_, key := s.Data["ca.key"]
		if part := strings.HasSuffix(name, "-tls"); s.Labels[v1alpha1.LabelComponent] == tlssecret.Component && key == part {
			t.Errorf("Secret %s has the authority's key: %t", name, key)
		}
		_, store := s.Data["keystore.p12"]
		java := name == apitls.Kind.Secret(apitls.Controller) || strings.HasSuffix(name, "-netcom-tls")
		if strings.HasSuffix(name, "-tls") && store != java {
			t.Errorf("Secret %s has a key store: %t", name, store)
		}
		_, config := s.Data[netcomtls.EntryConfig]
		if config != (name == netcomtls.Kind.Secret(netcomtls.Satellite)) {
			t.Errorf("Secret %s has a satellite's configuration: %t", name, config)
		}
	}
}

func TestFirst(t *testing.T) {
	w := world(t)
	if got := reason(w); got != certificates.ReasonMaking {
		t.Errorf("reason %s before anything is there", got)
	}
	want := []string{"apply Secret/linstor-api-authority", "apply Secret/linstor-controller-api-tls",
		"apply Secret/linstor-operator-api-tls", "apply Secret/linstor-csi-controller-api-tls",
		"apply Secret/linstor-csi-node-api-tls", "apply Secret/linstor-netcom-authority",
		"apply Secret/linstor-controller-netcom-tls", "apply Secret/linstor-satellite-netcom-tls"}
	if diff := cmp.Diff(want, work(t, w)); diff != "" {
		t.Fatal(diff)
	}
	if got := reason(w); got != certificates.ReasonSwitching {
		t.Errorf("reason %s although LINSTOR does not run with it", got)
	}
	entries(t, w)
	restart(w)
	if got := reason(w); got != conditions.ReasonAsExpected {
		t.Errorf("reason %s: %v", got, certificates.Judge(w.Snapshot()).Message)
	}
	var names []string
	for _, c := range certificates.Status(&w.Snapshot().Facts) {
		names = append(names, c.Secret)
		if c.Serial == "" || !c.NotAfter.After(w.Now) || c.RenewAfter == nil {
			t.Errorf("%+v", c)
		}
	}
	if want := []string{"linstor-api-authority", "linstor-netcom-authority", "linstor-controller-api-tls",
		"linstor-operator-api-tls", "linstor-csi-controller-api-tls", "linstor-csi-node-api-tls",
		"linstor-controller-netcom-tls", "linstor-satellite-netcom-tls"}; !slices.Equal(names, want) {
		t.Errorf("the status lists %v", names)
	}
}

// TestACacheThatLagsBehind: an authority that is not in the cache yet is not made once more.
func TestACacheThatLagsBehind(t *testing.T) {
	w := made(t)
	in, r := w.Input()
	in.Failures = &step.Failures{}
	r.Live.Kube = &cluster.Kube{Secrets: w.Kube.Secrets}
	in.Snapshot.Certificates = apicerts.Kept{}
	in.Snapshot.Kube.Secrets = map[string]*corev1.Secret{}
	certificates.Work(t.Context(), in)
	if len(r.Calls) > 0 || in.Failures.Aside(conditions.CertificatesValid) != "" {
		t.Errorf("%v, %q", r.Calls, in.Failures.Aside(conditions.CertificatesValid))
	}
}

func TestRenewal(t *testing.T) {
	w := made(t)
	w.Now = w.Now.Add(60 * day)
	before := kept(w)
	if calls := work(t, w); len(calls) != 6 {
		t.Fatalf("%v", calls)
	}
	after := kept(w)
	for part, h := range before.API.Held {
		if after.API.Held[part].Leaf.Hash() == h.Leaf.Hash() {
			t.Errorf("%s was not made anew", part)
		}
	}
	for part, h := range before.Netcom.Held {
		if after.Netcom.Held[part].Leaf.Hash() == h.Leaf.Hash() {
			t.Errorf("%s was not made anew between controller and satellites", part)
		}
	}
	if diff := cmp.Diff(before.API.Succession.Current.Certificate.Raw,
		after.API.Succession.Current.Certificate.Raw); diff != "" {
		t.Error("the authority is another one")
	}
	e := certificates.Judge(w.Snapshot())
	if e.Reason != certificates.ReasonRenewing || !strings.Contains(e.Message, "LINSTOR's controller") {
		t.Errorf("%s: %s", e.Reason, e.Message)
	}
	restart(w)
	if calls := work(t, w); calls != nil || reason(w) != conditions.ReasonAsExpected {
		t.Errorf("%v, %s", calls, reason(w))
	}
}

// TestSuccession: nobody is ever asked to take what it is not known to trust.
func TestSuccession(t *testing.T) {
	w := made(t)
	w.Now = w.Now.Add(4*365*day - 10*day)
	work(t, w)
	restart(w)
	w.Now = w.Now.Add(11 * day)
	var signers []string
	for range 6 {
		work(t, w)
		k := kept(w)
		signers = append(signers, k.API.Held[apitls.Operator].Leaf.Certificate.Issuer.CommonName)
		for part, h := range k.API.Held {
			if err := h.Trust.Verify(h.Leaf, 2, w.Now); err != nil && part != apitls.Controller {
				t.Fatalf("%s does not trust itself: %v", part, err)
			}
		}
		if calls := work(t, w); calls != nil {
			t.Fatalf("it does not wait: %v", calls)
		}
		restart(w)
	}
	k := kept(w)
	if len(k.API.Succession.Trust()) != 1 || signers[0] == signers[len(signers)-1] ||
		reason(w) != conditions.ReasonAsExpected {
		t.Errorf("signers %v, trusted are %d, %s", signers, len(k.API.Succession.Trust()), reason(w))
	}
}

func TestMend(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*clustertest.World)
		want  []string
	}{
		"a store was changed": {func(w *clustertest.World) {
			w.Kube.Secrets[apitls.Kind.Secret(apitls.Controller)].Data["keystore.p12"] = []byte("x")
		}, []string{"apply Secret/linstor-controller-api-tls"}},
		"a Secret has another label": {func(w *clustertest.World) {
			w.Kube.Secrets[apitls.Kind.Secret(apitls.Operator)].Labels["team"] = "storage"
			w.Kube.Secrets[apitls.Kind.Secret(apitls.Operator)].Annotations = map[string]string{"a": "b"}
		}, nil},
		"a Secret is gone": {func(w *clustertest.World) { delete(w.Kube.Secrets, apitls.Kind.Secret(apitls.Driver)) },
			[]string{"apply Secret/linstor-csi-controller-api-tls"}},
		"a part is not wanted any more": {func(w *clustertest.World) {
			w.Kube.Secrets[apitls.Kind.Secret(apitls.Metrics)] = w.Kube.Secrets[apitls.Kind.Secret(apitls.Operator)].DeepCopy()
			w.Kube.Secrets[apitls.Kind.Secret(apitls.Metrics)].Name = apitls.Kind.Secret(apitls.Metrics)
		}, []string{"delete Secret/linstor-metrics-api-tls"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := made(t)
			tc.spoil(w)
			if diff := cmp.Diff(tc.want, work(t, w)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDisabled: certificates go when no pod was made with them.
func TestDisabled(t *testing.T) {
	w := made(t)
	w.Cluster.Spec.TLS.Mode = tlsspec.Disabled
	w.Accept()
	if calls := work(t, w); calls != nil || reason(w) != certificates.ReasonRemoving {
		t.Fatalf("%v, %s", calls, reason(w))
	}
	for _, p := range w.Kube.ControllerPods {
		delete(p.Annotations, apitls.Kind.Annotation)
	}
	clear(w.Kube.Pods[v1alpha1.ComponentDriver])
	if calls := work(t, w); calls != nil {
		t.Fatalf("the pods on the nodes still have theirs: %v", calls)
	}
	clear(w.Kube.Pods[v1alpha1.ComponentDriverNode])
	if calls := work(t, w); len(calls) != 5 || reason(w) != certificates.ReasonRemoving {
		t.Fatalf("satellites still have theirs: %v, %s", calls, reason(w))
	}
	for _, p := range w.Kube.ControllerPods {
		delete(p.Annotations, netcomtls.Kind.Annotation)
	}
	clear(w.Kube.Pods[v1alpha1.ComponentSatellite])
	if calls := work(t, w); len(calls) != 3 || reason(w) != certificates.ReasonNotWanted {
		t.Errorf("%v, %s", calls, reason(w))
	}
	if got := certificates.Status(&w.Snapshot().Facts); got != nil {
		t.Errorf("the status lists %v", got)
	}
}

func TestARefusedWrite(t *testing.T) {
	w := world(t)
	in, r := w.Input()
	in.Failures = &step.Failures{}
	r.Fail = map[string]error{"apply Secret/linstor-api-authority": errors.New("quota exceeded"),
		"apply Secret/linstor-netcom-authority": errors.New("quota exceeded")}
	certificates.Work(t.Context(), in)
	if got := in.Failures.Aside(conditions.CertificatesValid); !strings.Contains(got, "quota exceeded") {
		t.Errorf("the condition would say %q", got)
	}
	want := []string{"apply Secret/linstor-api-authority", "apply Secret/linstor-netcom-authority"}
	if diff := cmp.Diff(want, r.Calls); diff != "" {
		t.Errorf("a certificate was published that its authority could be lost for: %s", diff)
	}
}

// TestTheClock: while the clocks differ that is said, and nothing is signed or removed; once they agree all is as if
// nothing had been.
func TestTheClock(t *testing.T) {
	for name, tc := range map[string]struct {
		ahead time.Duration // of the operator's clock
		says  string
	}{
		"behind":                    {-31 * time.Minute, "more than 30 minutes behind that of the Kubernetes API server"},
		"ahead of a renewal":        {70 * day, "ahead of that of the Kubernetes API server"},
		"ahead of the authority":    {6 * 365 * day, "ahead of that of the Kubernetes API server"},
		"the other one is not seen": {0, "the Kubernetes API server's time is not known yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := made(t)
			right := w.Now
			w.Now, w.APIClock = right.Add(tc.ahead), &right
			if tc.ahead == 0 {
				w.APIClock = &time.Time{}
			}
			e := certificates.Judge(w.Snapshot())
			if calls := work(t, w); calls != nil || e.Reason != certificates.ReasonClock || e.State == cluster.Satisfied ||
				!strings.Contains(e.Message, tc.says) {
				t.Errorf("%v, %+v", calls, e)
			}
			w.Now, w.APIClock = right, nil
			if calls := work(t, w); calls != nil || reason(w) != conditions.ReasonAsExpected {
				t.Errorf("%v, %s", calls, reason(w))
			}
		})
	}
}
