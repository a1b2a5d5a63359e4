package resources_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
)

// rulesOf are the rules that a ServiceAccount is bound to, by the namespace that they hold in; "" is the whole
// cluster.
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
			if len(r.NonResourceURLs) != 0 {
				t.Errorf("rule %v names URLs", r)
			}
			only := ""
			if len(r.ResourceNames) > 0 {
				only = " of " + strings.Join(r.ResourceNames, ",")
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					got[namespace] = append(got[namespace], group+"/"+resource+": "+strings.Join(r.Verbs, ",")+only)
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
			"internal.linstor.linbit.com/linstorversion: get of version",
			"internal.linstor.linbit.com/nodes: list",
			// Cluster/LocalID and the operator's number, under both names that LINSTOR has had for the controller's.
			"internal.linstor.linbit.com/propscontainers: get of " +
				"61f66494ccb203ed69793961f89ecd070910dd56ee9bbd44d1fb827c723108a4," +
				"bf0d3ea2fa3f4ca709eaf9e7245fcf98318c7f04fd17dd45326f0239ca691ca6," +
				"5cadff5d1b0113dbc494e1ca477d146101eb6f4642ea5efbed46dc6dc8d97a4b," +
				"10b4b6743969977ec23cb14520f726bcfce4a57ab9b20ab4e1d977661747a3e7",
			"snapshot.storage.k8s.io/volumesnapshotclasses: list,watch,create,patch,delete",
			"snapshot.storage.k8s.io/volumesnapshotcontents: list,watch",
			"storage.k8s.io/csidrivers: create,patch,delete of " + resources.DriverName,
			"storage.k8s.io/csidrivers: list,watch",
			"storage.k8s.io/csinodes: list,watch",
			"storage.k8s.io/storageclasses: list,watch,create,patch,delete",
			"storage.k8s.io/volumeattachments: list",
			"storage.linstor.dev/storageclusters/status: patch",
			"storage.linstor.dev/storageclusters: list,watch,patch",
		},
		v1alpha1.WorkloadNamespace: {
			"/configmaps: " + all, "/events: list", "/persistentvolumeclaims: " + all, "/pods: " + all, "/secrets: " + all,
			"/services: " + all,
			"apps/controllerrevisions: " + all, "apps/daemonsets: " + all, "apps/deployments: " + all,
			"monitoring.coreos.com/podmonitors: get,list,create,patch,delete",
			"monitoring.coreos.com/prometheusrules: get,list,create,patch,delete",
			"monitoring.coreos.com/servicemonitors: get,list,create,patch,delete",
			"policy/poddisruptionbudgets: " + all,
			"snapshot.storage.k8s.io/volumesnapshots: get,list,create,patch,delete",
		},
		v1alpha1.OperatorNamespace: {"/pods: get", "coordination.k8s.io/leases: get,create,update"},
		"default":                  {"events.k8s.io/events: create,patch"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}

// TestNoDangerousRights checks every role of the file, the operator's and LINSTOR's, for what none may have.
func TestNoDangerousRights(t *testing.T) {
	objects := manifest(t)
	for _, r := range only[*rbacv1.ClusterRole](objects) {
		checkRules(t, r.Name, "", r.Rules)
		if r.Labels["rbac.authorization.k8s.io/aggregate-to-edit"]+
			r.Labels["rbac.authorization.k8s.io/aggregate-to-admin"] != "" {
			t.Errorf("ClusterRole %s becomes part of edit or admin", r.Name)
		}
		if r.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "" && r.Name != "storagecluster-viewer" {
			t.Errorf("ClusterRole %s becomes part of view", r.Name)
		}
	}
	for _, r := range only[*rbacv1.Role](objects) {
		checkRules(t, r.Name, r.Namespace, r.Rules)
	}
}

// checkRules checks the rules of a role for what none may have. The namespace of a ClusterRole is "".
func checkRules(t *testing.T, role, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				checkRight(t, role, namespace, group, resource, r.Verbs)
			}
		}
		if slices.ContainsFunc(r.Verbs,
			func(v string) bool { return slices.Contains([]string{"escalate", "bind", "impersonate"}, v) }) {
			t.Errorf("%s: %v", role, r.Verbs)
		}
	}
}

// checkRight checks what a role may do with one resource.
func checkRight(t *testing.T, role, namespace, group, resource string, verbs []string) {
	t.Helper()
	writes := slices.ContainsFunc(verbs,
		func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
	switch {
	case slices.Contains(verbs, "*"), group == "*", resource == "*" && group != "internal.linstor.linbit.com":
		t.Errorf("%s: %s/%s has a wildcard", role, group, resource)
	case group == rbacv1.GroupName:
		t.Errorf("%s: has rights on roles and bindings", role)
	case resource == "pods/eviction" && role == highavailability.Name: // pods on a node that lost its volumes
	case strings.HasPrefix(resource, "serviceaccounts"), strings.HasPrefix(resource, "pods/"),
		resource == "nodes/proxy":
		t.Errorf("%s: has rights on %s", role, resource)
	case resource == "secrets" && namespace != v1alpha1.WorkloadNamespace:
		t.Errorf("%s: has rights on Secrets in %q", role, namespace)
	case resource == "customresourcedefinitions" && writes && role != "linstor-controller":
		t.Errorf("%s: may change definitions", role)
	case group == "admissionregistration.k8s.io", group == "certificates.k8s.io":
		t.Errorf("%s: has rights on %s", role, group)
	}
}

// everywhere are the rights that a ServiceAccount of the workloads has in the whole cluster.
func everywhere(t *testing.T, account string) []string {
	t.Helper()
	var out []string
	for _, r := range rulesOf(t, manifest(t), account, v1alpha1.WorkloadNamespace)[""] {
		for _, resource := range r.Resources {
			out = append(out, r.APIGroups[0]+"/"+resource+": "+strings.Join(r.Verbs, ","))
		}
	}
	slices.Sort(out)
	return out
}

// TestAffinityRights: they are those that linstor-affinity-controller 1.5 asks for, and no more.
func TestAffinityRights(t *testing.T) {
	want := []string{
		"/persistentvolumes: get,list,watch,create,update,patch,delete",
		"events.k8s.io/events: create,patch",
		"storage.k8s.io/storageclasses: get",
	}
	if diff := cmp.Diff(want, everywhere(t, affinity.Name)); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}

// TestHighAvailabilityRights: the rights on all pods and nodes are those that piraeus-ha-controller 1.3 asks for, and
// no more.
func TestHighAvailabilityRights(t *testing.T) {
	want := []string{
		"/nodes: get,list,watch,patch,update",
		"/persistentvolumes: get,list,watch",
		"/pods/eviction: create",
		"/pods: get,list,watch,delete",
		"events.k8s.io/events: create,patch",
		"storage.k8s.io/volumeattachments: get,list,watch,delete",
	}
	if diff := cmp.Diff(want, everywhere(t, highavailability.Name)); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}

// TestServiceAccounts checks that the builders name ServiceAccounts that exist, that policies name users that exist,
// and that those without a need for it have no rights and no token.
func TestServiceAccounts(t *testing.T) {
	objects := manifest(t)
	allowed := find[*admissionv1.ValidatingAdmissionPolicy](t, objects, "", "storagecluster-operator-workloads")
	for name, w := range pods(t) {
		if !strings.Contains(allowed.Spec.Validations[0].Expression, "'"+w.template.Spec.ServiceAccountName+"'") {
			t.Errorf("%s: the policy %s does not let it start", name, allowed.Name)
		}
		account := find[*corev1.ServiceAccount](t, objects, v1alpha1.WorkloadNamespace, w.template.Spec.ServiceAccountName)
		rights := rulesOf(t, objects, account.Name, account.Namespace)
		if slices.Contains([]string{resources.ControllerName, resources.DriverControllerName, highavailability.Name,
			affinity.Name}, account.Name) {
			if len(rights) == 0 {
				t.Errorf("%s: ServiceAccount %s has no rights", name, account.Name)
			}
			continue
		}
		// OpenShift's word for what a pod may be is no right on the API.
		constraints := []rbacv1.PolicyRule{{Verbs: []string{"use"}, APIGroups: []string{"security.openshift.io"},
			Resources: []string{"securitycontextconstraints"}, ResourceNames: []string{"privileged"}}}
		if diff := cmp.Diff(map[string][]rbacv1.PolicyRule{v1alpha1.WorkloadNamespace: constraints}, rights); diff != "" ||
			account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Errorf("%s: ServiceAccount %s has other rights or a token (-want +got):\n%s", name, account.Name, diff)
		}
		if mounts := w.template.Spec.AutomountServiceAccountToken; mounts == nil || *mounts {
			t.Errorf("%s: its pods get a token", name)
		}
	}
	for _, p := range only[*admissionv1.ValidatingAdmissionPolicy](objects) {
		if p.Name == "storagecluster-node-labels" { // it is for kubelets, which are no ServiceAccounts
			continue
		}
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
