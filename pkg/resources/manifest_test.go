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

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const operatorName = "storagecluster-operator"

// manifest is deploy/operator.yaml, parsed strictly: a field that is misspelt is an error.
func manifest(t *testing.T) []client.Object {
	t.Helper()
	text, err := os.ReadFile("../../deploy/operator.yaml")
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

// rulesOf are the rules that a ServiceAccount is bound to, by the namespace that they hold in; "" is the whole cluster.
func rulesOf(t *testing.T, objects []client.Object, account, accountNamespace string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	is := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == account && s.Namespace == accountNamespace
		})
	}
	out := map[string][]rbacv1.PolicyRule{}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		if is(b.Subjects) {
			out[""] = append(out[""], find[*rbacv1.ClusterRole](t, objects, "", b.RoleRef.Name).Rules...)
		}
	}
	for _, b := range only[*rbacv1.RoleBinding](objects) {
		if is(b.Subjects) {
			if b.RoleRef.Kind != "Role" {
				t.Errorf("RoleBinding %s/%s binds a %s", b.Namespace, b.Name, b.RoleRef.Kind)
				continue
			}
			out[b.Namespace] = append(out[b.Namespace], find[*rbacv1.Role](t, objects, b.Namespace, b.RoleRef.Name).Rules...)
		}
	}
	return out
}

// TestOperatorRights lists all that the operator may do. A right more is a decision, so it needs a change here.
func TestOperatorRights(t *testing.T) {
	got := map[string][]string{}
	for namespace, rules := range rulesOf(t, manifest(t), operatorName, v1alpha1.OperatorNamespace) {
		for _, r := range rules {
			if len(r.NonResourceURLs)+len(r.ResourceNames) != 0 {
				t.Errorf("rule %v names URLs or objects", r)
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					got[namespace] = append(got[namespace], group+"/"+resource+": "+strings.Join(r.Verbs, ","))
				}
			}
		}
		slices.Sort(got[namespace])
	}
	const all = "list,watch,create,patch,delete"
	want := map[string][]string{
		"": {
			"/nodes: list,watch,patch",
			"/persistentvolumes: list,watch",
			"authentication.k8s.io/tokenreviews: create",
			"authorization.k8s.io/subjectaccessreviews: create",
			"internal.linstor.linbit.com/nodes: list",
			"storage.linstor.dev/storageclusters/status: patch",
			"storage.linstor.dev/storageclusters: list,watch,patch",
		},
		v1alpha1.WorkloadNamespace: {
			"/configmaps: " + all, "/pods: list,watch,delete", "/secrets: " + all, "/services: " + all,
			"apps/controllerrevisions: " + all, "apps/daemonsets: " + all, "apps/deployments: " + all,
		},
		v1alpha1.OperatorNamespace: {"coordination.k8s.io/leases: get,create,update"},
		"default":                  {"events.k8s.io/events: create,patch"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}

// TestNoDangerousRights checks every role of the file, the operator's and LINSTOR's, for what none may have.
func TestNoDangerousRights(t *testing.T) {
	objects := manifest(t)
	check := func(role, namespace string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			writes := slices.ContainsFunc(r.Verbs, func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					switch {
					case slices.Contains(r.Verbs, "*"), group == "*", resource == "*" && group != "internal.linstor.linbit.com":
						t.Errorf("%s: %s/%s has a wildcard", role, group, resource)
					case group == rbacv1.GroupName:
						t.Errorf("%s: has rights on roles and bindings", role)
					case strings.HasPrefix(resource, "serviceaccounts"), strings.HasPrefix(resource, "pods/"), resource == "nodes/proxy":
						t.Errorf("%s: has rights on %s", role, resource)
					case resource == "secrets" && namespace != v1alpha1.WorkloadNamespace:
						t.Errorf("%s: has rights on Secrets in %q", role, namespace)
					case resource == "customresourcedefinitions" && writes && role != "linstor-controller":
						t.Errorf("%s: may change definitions", role)
					case group == "admissionregistration.k8s.io", group == "certificates.k8s.io":
						t.Errorf("%s: has rights on %s", role, group)
					}
				}
			}
			if slices.ContainsFunc(r.Verbs, func(v string) bool { return slices.Contains([]string{"escalate", "bind", "impersonate"}, v) }) {
				t.Errorf("%s: %v", role, r.Verbs)
			}
		}
	}
	for _, r := range only[*rbacv1.ClusterRole](objects) {
		check(r.Name, "", r.Rules)
		if r.Labels["rbac.authorization.k8s.io/aggregate-to-edit"]+r.Labels["rbac.authorization.k8s.io/aggregate-to-admin"] != "" {
			t.Errorf("ClusterRole %s becomes part of edit or admin", r.Name)
		}
		if r.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "" && r.Name != "storagecluster-viewer" {
			t.Errorf("ClusterRole %s becomes part of view", r.Name)
		}
	}
	for _, r := range only[*rbacv1.Role](objects) {
		check(r.Name, r.Namespace, r.Rules)
	}
}

// TestServiceAccounts checks that the builders name ServiceAccounts that exist, that policies name users that exist, and
// that those without a need for it have no rights and no token.
func TestServiceAccounts(t *testing.T) {
	objects := manifest(t)
	for name, w := range pods(t) {
		account := find[*corev1.ServiceAccount](t, objects, v1alpha1.WorkloadNamespace, w.template.Spec.ServiceAccountName)
		rights := rulesOf(t, objects, account.Name, account.Namespace)
		if account.Name == resources.ControllerName {
			if len(rights) == 0 {
				t.Errorf("%s: ServiceAccount %s has no rights", name, account.Name)
			}
			continue
		}
		// OpenShift's word for what a pod may be is no right on the API.
		constraints := []rbacv1.PolicyRule{{Verbs: []string{"use"}, APIGroups: []string{"security.openshift.io"},
			Resources: []string{"securitycontextconstraints"}, ResourceNames: []string{"privileged"}}}
		if diff := cmp.Diff(map[string][]rbacv1.PolicyRule{v1alpha1.WorkloadNamespace: constraints}, rights); diff != "" || account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Errorf("%s: ServiceAccount %s has other rights or a token (-want +got):\n%s", name, account.Name, diff)
		}
		if mounts := w.template.Spec.AutomountServiceAccountToken; mounts == nil || *mounts {
			t.Errorf("%s: its pods get a token", name)
		}
	}
	for _, p := range only[*admissionv1.ValidatingAdmissionPolicy](objects) {
		for _, c := range p.Spec.MatchConditions {
			user, ok := strings.CutPrefix(c.Expression, "request.userInfo.username == 'system:serviceaccount:")
			namespace, name, _ := strings.Cut(strings.TrimSuffix(user, "'"), ":")
			if !ok {
				t.Errorf("policy %s: condition %s", p.Name, c.Expression)
				continue
			}
			find[*corev1.ServiceAccount](t, objects, namespace, name)
		}
	}
}

// TestAdmissionPolicies checks that each policy is bound, denies, and refuses when it cannot be evaluated.
func TestAdmissionPolicies(t *testing.T) {
	objects := manifest(t)
	policies := only[*admissionv1.ValidatingAdmissionPolicy](objects)
	if len(policies) != 5 || len(only[*admissionv1.ValidatingAdmissionPolicyBinding](objects)) != len(policies) {
		t.Errorf("%d policies", len(policies))
	}
	for _, p := range policies {
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("policy %s does not fail closed", p.Name)
		}
		b := find[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects, "", p.Name)
		if b.Spec.PolicyName != p.Name || !slices.Equal(b.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
			t.Errorf("binding %s: %+v", b.Name, b.Spec)
		}
	}
}

// TestNetworkPolicies checks that the policies select the pods that the builders make, and open the ports that they have.
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
		"Deployment": d.Spec.Selector, "Service": {MatchLabels: service.Spec.Selector}, "PodDisruptionBudget": budget.Spec.Selector,
		"NetworkPolicy": &network.Spec.PodSelector, "topology spread": template.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		if len(s.MatchLabels) == 0 || !matchesLabels(t, s, template.Labels) {
			t.Errorf("%s selects %v, the pods have %v", what, s.MatchLabels, template.Labels)
		}
	}
	if *d.Spec.Replicas != 2 || budget.Spec.MaxUnavailable.IntVal != 1 {
		t.Errorf("%d replicas, %v may be unavailable", *d.Spec.Replicas, budget.Spec.MaxUnavailable)
	}
	find[*corev1.ServiceAccount](t, objects, v1alpha1.OperatorNamespace, template.Spec.ServiceAccountName)
	for namespace, level := range map[string]string{v1alpha1.OperatorNamespace: "restricted", v1alpha1.WorkloadNamespace: "privileged"} {
		labels := find[*corev1.Namespace](t, objects, "", namespace).Labels
		for _, mode := range []string{"enforce", "audit", "warn"} {
			if got := labels["pod-security.kubernetes.io/"+mode]; got != level {
				t.Errorf("namespace %s: %s is %q, want %q", namespace, mode, got, level)
			}
		}
	}
	c := template.Spec.Containers[0]
	names := map[string]bool{}
	for _, p := range c.Ports {
		names[p.Name] = true
	}
	for _, port := range []string{c.LivenessProbe.HTTPGet.Port.StrVal, c.ReadinessProbe.HTTPGet.Port.StrVal, service.Spec.Ports[0].TargetPort.StrVal} {
		if !names[port] {
			t.Errorf("no port %q in %v", port, c.Ports)
		}
	}
	if !slices.Contains(c.Args, "--leader-elect") {
		t.Error("two replicas without leader election")
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
	s, pod := resources.ControllerService(p), resources.Controller(p, "x").Spec.Template
	if !matchesLabels(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pod.Labels) || len(s.Spec.Selector) == 0 {
		t.Errorf("the Service selects %v, the pods have %v", s.Spec.Selector, pod.Labels)
	}
	if matchesLabels(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, resources.Satellite(p, generic).Spec.Template.Labels) {
		t.Error("the Service selects satellites")
	}
}
