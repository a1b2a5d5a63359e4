package e2e

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

func holdUnsupportedChange(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	for _, x := range []struct {
		name     string
		change   func(*v1alpha1.StorageClusterSpec)
		contains []string
	}{
		{"an older version", func(s *v1alpha1.StorageClusterSpec) { s.Version = "1.34.2" },
			[]string{"spec.version", "1.34.2", "1.35.3"}},
		{"a version that nobody knows", func(s *v1alpha1.StorageClusterSpec) { s.Version = "1.99.0" },
			[]string{"spec.version", "1.99.0"}},
		{"another provider", func(s *v1alpha1.StorageClusterSpec) {
			s.StoragePools[0] = v1alpha1.StoragePoolSpec{Name: "ssd2", Pool: "ssd",
				LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_ssd0"}}
		}, []string{"storagePools[ssd2]", "use a different pool name"}},
	} {
		good := e.Get().Spec.DeepCopy()
		e.Sim.World().ResetRequests()
		generation := e.deploymentGeneration()
		e.Update(func(c *v1alpha1.StorageCluster) { x.change(&c.Spec) })
		h := e.held(v1alpha1.HoldUnsupportedChange, x.contains...)
		h = e.retriedInVain(h)
		e.stays(h, "time passes")
		if w := e.Sim.World().Writes(); len(w) > 0 || e.deploymentGeneration() != generation {
			t.Errorf("%s: something was touched: Deployment's generation %d, LINSTOR %+v", x.name, e.deploymentGeneration(), w)
		}
		e.removeToken()
		e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec = *good })
		e.ready("3/3", "3/3")
	}
}

func holdOperationFailed(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Timing.Deadlines[fsm.KernelModule] = machine.Slow(time.Second)
	granted := e.rules()
	e.setRules(nil)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldOperationFailed, "no progress", "forbidden")
	h = e.retriedInVain(h)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.NodeSelector = map[string]string{"example.com/storage": "true"}
	})
	h = e.held(v1alpha1.HoldOperationFailed, "forbidden")
	e.setRules(granted)
	e.stays(h, "the right is granted")
	e.answered(h, v1alpha1.OptionRetry)
	e.ready("1/1", "1/1")
}

func (e *env) workloadRole() *rbacv1.Role {
	e.T.Helper()
	role := &rbacv1.Role{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
		Name: "storagecluster-operator"}, role); err != nil {
		e.T.Fatal(err)
	}
	return role
}

func (e *env) rules() []rbacv1.PolicyRule { return e.workloadRole().Rules }

// setRules sets the operator's rights in the workloads' namespace; nil takes it the right to start DaemonSets.
func (e *env) setRules(rules []rbacv1.PolicyRule) {
	e.T.Helper()
	role := e.workloadRole()
	if rules == nil {
		for i := range role.Rules {
			if strings.Contains(strings.Join(role.Rules[i].Resources, ","), "daemonsets") {
				role.Rules[i].Resources = []string{"deployments", "controllerrevisions"}
				rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"},
					Verbs: []string{"get", "list", "watch"}})
			}
		}
	}
	role.Rules = rules
	if err := e.Client().Update(e.Ctx, role); err != nil {
		e.T.Fatal(err)
	}
}
