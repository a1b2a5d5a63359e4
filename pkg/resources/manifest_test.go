package resources_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

const operatorName = "storagecluster-operator"

// manifest is what an installation applies besides the definition, parsed strictly: a field that is misspelt is an
// error.
func manifest(t *testing.T) []client.Object {
	t.Helper()
	return append(parsed(t, "../../deploy/operator.yaml"), parsed(t, "../../deploy/protection.yaml")...)
}

func parsed(t *testing.T, file string) []client.Object {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var out []client.Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		o, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		object, ok := o.(client.Object)
		if !ok {
			t.Fatalf("%s is no object", kind)
		}
		out = append(out, object)
	}
}

func only[T client.Object](objects []client.Object) []T {
	var out []T
	for _, o := range objects {
		if o, ok := o.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

func find[T client.Object](t *testing.T, objects []client.Object, namespace, name string) T {
	t.Helper()
	for _, o := range only[T](objects) {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	var none T
	t.Fatalf("no %T %s/%s", none, namespace, name)
	return none
}

// TestAdmissionPolicies checks that each policy is bound, denies, and refuses when it cannot be evaluated.
func TestAdmissionPolicies(t *testing.T) {
	objects := manifest(t)
	policies := only[*admissionv1.ValidatingAdmissionPolicy](objects)
	if len(policies) != 8 || len(only[*admissionv1.ValidatingAdmissionPolicyBinding](objects)) != len(policies) {
		t.Errorf("%d policies", len(policies))
	}
	for _, p := range policies {
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("policy %s does not fail closed", p.Name)
		}
		b := find[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects, "", p.Name)
		if b.Spec.PolicyName != p.Name || !slices.Equal(b.Spec.ValidationActions,
			[]admissionv1.ValidationAction{admissionv1.Deny}) {
			t.Errorf("binding %s: %+v", b.Name, b.Spec)
		}
	}
}

// TestNetworkPolicies checks that the policies select the pods that the builders make, and open the ports that they
// have.
func TestNetworkPolicies(t *testing.T) {
	objects := manifest(t)
	for name, w := range pods(t) {
		var open []int32
		selected := 0
		for _, p := range only[*networkingv1.NetworkPolicy](objects) {
			if p.Namespace != v1alpha1.WorkloadNamespace || !matchesLabels(t, &p.Spec.PodSelector, w.template.Labels) {
				continue
			}
			selected++
			for _, in := range p.Spec.Ingress {
				for _, port := range in.Ports {
					open = append(open, port.Port.IntVal)
				}
			}
		}
		if selected != 1 {
			t.Errorf("%s is selected by %d network policies", name, selected)
		}
		var ports []int32
		for _, c := range w.template.Spec.Containers {
			for _, p := range c.Ports {
				ports = append(ports, p.ContainerPort)
			}
		}
		for component, both := range map[string][]int32{ // by spec.tls.mode
			v1alpha1.ComponentController: {resources.ControllerPort, apitls.Port},
			v1alpha1.ComponentSatellite:  {resources.SatellitePort, netcomtls.Port},
		} {
			if w.template.Labels[v1alpha1.LabelComponent] != component {
				continue
			}
			others := slices.DeleteFunc(slices.Clone(ports), func(p int32) bool { return slices.Contains(both, p) })
			if len(others) != len(ports)-1 {
				t.Errorf("%s has ports %v", name, ports)
			}
			ports = slices.Concat(others, both)
		}
		slices.Sort(open)
		slices.Sort(ports)
		if !slices.Equal(open, ports) {
			t.Errorf("%s has ports %v, its network policy opens %v", name, ports, open)
		}
	}
}

// TestOperatorDeployment checks that the operator's pod fits its namespace and that what selects it does.
func TestOperatorDeployment(t *testing.T) {
	objects := manifest(t)
	d := find[*appsv1.Deployment](t, objects, v1alpha1.OperatorNamespace, operatorName)
	template := d.Spec.Template
	service := find[*corev1.Service](t, objects, v1alpha1.OperatorNamespace, operatorName+"-metrics")
	budget := find[*policyv1.PodDisruptionBudget](t, objects, v1alpha1.OperatorNamespace, operatorName)
	network := find[*networkingv1.NetworkPolicy](t, objects, v1alpha1.OperatorNamespace, operatorName)
	for what, s := range map[string]*metav1.LabelSelector{
		"Deployment": d.Spec.Selector, "Service": {MatchLabels: service.Spec.Selector},
		"PodDisruptionBudget": budget.Spec.Selector,
		"NetworkPolicy":       &network.Spec.PodSelector,
		"topology spread":     template.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		if len(s.MatchLabels) == 0 || !matchesLabels(t, s, template.Labels) {
			t.Errorf("%s selects %v, the pods have %v", what, s.MatchLabels, template.Labels)
		}
	}
	if *d.Spec.Replicas != 2 || budget.Spec.MaxUnavailable.IntVal != 1 {
		t.Errorf("%d replicas, %v may be unavailable", *d.Spec.Replicas, budget.Spec.MaxUnavailable)
	}
	find[*corev1.ServiceAccount](t, objects, v1alpha1.OperatorNamespace, template.Spec.ServiceAccountName)
	c := template.Spec.Containers[0]
	// An image that was loaded into the nodes is used.
	if c.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("imagePullPolicy is %q", c.ImagePullPolicy)
	}
	checkMemoryLimit(t, &c)
	names := map[string]bool{}
	for _, p := range c.Ports {
		names[p.Name] = true
	}
	for _, port := range []string{c.LivenessProbe.HTTPGet.Port.StrVal, c.ReadinessProbe.HTTPGet.Port.StrVal,
		service.Spec.Ports[0].TargetPort.StrVal} {
		if !names[port] {
			t.Errorf("no port %q in %v", port, c.Ports)
		}
	}
	if !slices.Contains(c.Args, "--leader-elect") {
		t.Error("two replicas without leader election")
	}
}

// TestNamespaces: pods are admitted at the level that they need, and run where the spec says, whatever nodes the
// cluster prefers for all others.
func TestNamespaces(t *testing.T) {
	objects := manifest(t)
	for namespace, level := range map[string]string{v1alpha1.OperatorNamespace: "restricted",
		v1alpha1.WorkloadNamespace: "privileged"} {
		o := find[*corev1.Namespace](t, objects, "", namespace)
		labels := o.Labels
		// A cluster's default node selector would keep DaemonSets from all other nodes.
		for _, key := range []string{"openshift.io/node-selector", "scheduler.alpha.kubernetes.io/node-selector"} {
			if value, there := o.Annotations[key]; !there || value != "" {
				t.Errorf("namespace %s: the annotation %s is %q, there: %t", namespace, key, value, there)
			}
		}
		for _, mode := range []string{"enforce", "audit", "warn"} {
			if got := labels["pod-security.kubernetes.io/"+mode]; got != level {
				t.Errorf("namespace %s: %s is %q, want %q", namespace, mode, got, level)
			}
		}
	}
}

// checkMemoryLimit wants Go's own limit below the container's, and near it.
func checkMemoryLimit(t *testing.T, c *corev1.Container) {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if i < 0 {
		t.Fatal("no GOMEMLIMIT")
	}
	soft := resource.MustParse(strings.TrimSuffix(c.Env[i].Value, "B"))
	if hard := c.Resources.Limits.Memory().Value(); soft.Value() > hard*95/100 || soft.Value() < hard*80/100 {
		t.Errorf("GOMEMLIMIT %s, limit %s", c.Env[i].Value, c.Resources.Limits.Memory())
	}
}

// TestQuotas: where pods of a system's priority class need a ResourceQuota that speaks of it, each namespace has one
// that does for all of its pods.
func TestQuotas(t *testing.T) {
	objects := manifest(t)
	classes := map[string][]string{v1alpha1.OperatorNamespace: {
		find[*appsv1.Deployment](t, objects, v1alpha1.OperatorNamespace, operatorName).Spec.Template.Spec.PriorityClassName,
	}}
	for _, w := range pods(t) {
		classes[v1alpha1.WorkloadNamespace] = append(classes[v1alpha1.WorkloadNamespace], w.template.Spec.PriorityClassName)
	}
	for namespace, needed := range classes {
		q := find[*corev1.ResourceQuota](t, objects, namespace, "critical-pods")
		if q.Spec.ScopeSelector == nil || len(q.Spec.ScopeSelector.MatchExpressions) != 1 ||
			q.Spec.Hard.Pods().Value() < 1e6 {
			t.Fatalf("the quota of %s is %+v", namespace, q.Spec)
		}
		e := q.Spec.ScopeSelector.MatchExpressions[0]
		for _, class := range needed {
			if e.ScopeName != corev1.ResourceQuotaScopePriorityClass || e.Operator != corev1.ScopeSelectorOpIn ||
				!slices.Contains(e.Values, class) {
				t.Errorf("the quota of %s does not speak of priority class %q: %+v", namespace, class, e)
			}
		}
	}
}

// TestPeersOfLinstor: a label on a namespace lets its pods reach LINSTOR's API, as another one lets them reach
// metrics.
func TestPeersOfLinstor(t *testing.T) {
	objects := manifest(t)
	for _, tc := range []struct {
		namespace, policy, label string
		port                     int32
	}{
		{v1alpha1.WorkloadNamespace, resources.ControllerName, "storage.linstor.dev/linstor-api", resources.ControllerPort},
		{v1alpha1.OperatorNamespace, operatorName, "storage.linstor.dev/metrics", 8443},
	} {
		open := map[string]bool{}
		for _, in := range find[*networkingv1.NetworkPolicy](t, objects, tc.namespace, tc.policy).Spec.Ingress {
			for _, from := range in.From {
				for _, port := range in.Ports {
					for _, labels := range []map[string]string{{tc.label: "true"}, {tc.label: "false"}, {"name": "else"}} {
						if from.NamespaceSelector != nil && port.Port.IntVal == tc.port &&
							matchesLabels(t, from.NamespaceSelector, labels) {
							open[k8slabels.FormatLabels(labels)] = true
						}
					}
				}
			}
		}
		if len(open) != 1 || !open[tc.label+"=true"] {
			t.Errorf("%s opens port %d for namespaces with %v", tc.policy, tc.port, open)
		}
	}
}

func matchesLabels(t *testing.T, s *metav1.LabelSelector, labels map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(k8slabels.Set(labels))
}

func TestServiceSelectsController(t *testing.T) {
	p := params(v1alpha1.StorageClusterSpec{})
	s, pod := resources.ControllerService(p, false), resources.Controller(p, "x").Spec.Template
	if !matchesLabels(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pod.Labels) || len(s.Spec.Selector) == 0 {
		t.Errorf("the Service selects %v, the pods have %v", s.Spec.Selector, pod.Labels)
	}
	if matchesLabels(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector},
		resources.Satellite(p, generic).Spec.Template.Labels) {
		t.Error("the Service selects satellites")
	}
}
