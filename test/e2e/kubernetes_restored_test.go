package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

func holdKubernetesRestored(t *testing.T) {
	t.Parallel()
	t.Run("with LINSTOR's state", restoredWithLinstor)
	t.Run("without LINSTOR's state", restoredWithoutLinstor)
}

// sameEpoch waits until claim and LINSTOR have the same number, and that is at least so much. It returns the number.
func sameEpoch(e *env, least int) (n int) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("claim and LINSTOR have a number of %d at least", least), func() error {
		n = epoch.Parse(e.claim().Data["epoch"]).Number
		if got := epoch.In(e.View()); got != n || n < least {
			return fmt.Errorf("the claim has %d, and LINSTOR %d", n, got)
		}
		return nil
	})
	return n
}

// laterLinstor gives LINSTOR another number, as if it were of that time.
func laterLinstor(e *env, number int) {
	e.T.Helper()
	e.LinstorWrite(http.MethodPost, "/v1/controller/properties",
		fmt.Sprintf(`{"override_props": {%q: %q}}`, linstor.PropEpoch, strconv.Itoa(number)))
}

// linstorStopped waits until LINSTOR's controller is gone, and its lists are kept.
func linstorStopped(e *env, volume string) {
	e.T.Helper()
	e.Eventually("LINSTOR is stopped, and its lists are kept", func() error {
		var lists corev1.ConfigMap
		key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ListsName}
		if err := e.Client().Get(e.Ctx, key, &lists); err != nil {
			return err
		}
		if !strings.Contains(lists.Data["copies"], volume+" n1 diskful") || !strings.HasPrefix(lists.Data["nodes"], "n1 ") {
			return fmt.Errorf("the lists are %v", lists.Data)
		}
		key.Name = resources.ControllerName
		if err := e.Client().Get(e.Ctx, key, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the controller's Deployment is there"), err)
		}
		return nil
	})
}

// restoredWithLinstor: LINSTOR's state is in Kubernetes and was put back with it; LINSTOR goes on with what it has in
// memory. Nobody can say that it goes on with that. Started again, it is of the same time as Kubernetes.
func restoredWithLinstor(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.ready("1/1", "1/1")
	sameEpoch(e, 1)
	again := func(every time.Duration) {
		e.StopOperator()
		e.Timing.Epoch = every
		e.Run()
	}
	often := e.Timing.Epoch
	again(time.Millisecond)
	n := sameEpoch(e, 2) // the node has come since the first look
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1"); err != nil {
		t.Fatal(err)
	}
	n = sameEpoch(e, n+1)
	again(often)

	laterLinstor(e, n+3)
	h := e.held(v1alpha1.HoldKubernetesRestored, fmt.Sprintf("is %d,", n+3), "later changes only in memory")
	if got := len(h.Options); got != 1 {
		t.Errorf("options %+v", h.Options)
	}
	waitDriverReplicas(e, 0)
	linstorStopped(e, "pvc-1")
	e.ignored(h.ID + ":" + v1alpha1.OptionContinue)
	e.staysAfterSpecChange(h)
	h = e.retriedInVain(h)
	linstorStopped(e, "pvc-1")
	e.Sim.World().Database(kubernetesDatabase).EditProperties(func(props map[string]string) {
		props[linstor.PropEpoch] = strconv.Itoa(n)
	})
	e.stays(h, "LINSTOR is stopped")
	e.answered(h, v1alpha1.OptionRetry)
	e.ready("1/1", "1/1")
	waitDriverReplicas(e, 1)
}

// restoredWithoutLinstor: LINSTOR has a database of its own, which is of now. A human lets both go on together. What
// was asked before waits until then: the spec has a version that nobody knows.
func restoredWithoutLinstor(t *testing.T) {
	e := start(t, harness.Nodes(2))
	address := harness.FreeAddress(t)
	harness.StartEtcd(t, address)
	e.Run()
	e.Apply(harness.Manifest(fmt.Sprintf("  version: 1.33.3\n  database: {etcd: {endpoints: [\"http://%s\"]}}", address) +
		harness.ThinPool))
	e.ready("2/2", "2/2")
	n := sameEpoch(e, 1)
	version := func(v string) { e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = v }) }
	version("1.33.9")
	e.held(v1alpha1.HoldUnsupportedChange, "1.33.9")
	comeToRest(e)
	writes := len(e.Sim.World().Writes())
	laterLinstor(e, n+2)
	h := e.held(v1alpha1.HoldKubernetesRestored, fmt.Sprintf("is %d,", n+2), "reapply the latest spec")
	if !slices.ContainsFunc(h.Options, func(o v1alpha1.HoldOption) bool { return o.Answer == v1alpha1.OptionContinue }) {
		t.Errorf("options %+v", h.Options)
	}
	e.staysAfterSpecChange(h)
	h = e.retriedInVain(h)
	e.During(settle, "LINSTOR is left alone", func() error {
		if got := e.Sim.World().Writes()[writes:]; len(got) != 1 {
			return fmt.Errorf("%d writes, the last is %s %s", len(got), got[len(got)-1].Method, got[len(got)-1].Path)
		}
		return nil
	})
	e.answered(h, v1alpha1.OptionContinue)
	e.held(v1alpha1.HoldUnsupportedChange, "1.33.9")
	version("1.33.3")
	e.ready("2/2", "2/2")
	sameEpoch(e, n+2)
}
