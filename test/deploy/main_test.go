// Package deploy tests the manifests below deploy/ and the objects of package resources on a real API server: what the
// operator's and LINSTOR's ServiceAccounts may do, and what the admission policies refuse.
package deploy

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

const operatorName = "storagecluster-operator"

var (
	cluster *simcluster.Cluster
	// admin may do all, operator and linstor what their ServiceAccounts may.
	admin, operator, linstor client.Client
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	var err error
	cluster, err = simcluster.Start(ctx, simcluster.Options{Log: os.Stderr, LimitCriticalPods: true,
		Nodes: []simcluster.NodeSpec{{Name: "n1"}, {Name: "n2"}}})
	if err != nil {
		return 0, err
	}
	defer cluster.Stop()
	if err := simcluster.InstallSnapshotAPI(ctx, cluster); err != nil {
		return 0, err
	}
	if err := cluster.ApplyFile(ctx, "../../deploy/crds", "../../deploy/operator.yaml",
		"../../deploy/protection.yaml"); err != nil {
		return 0, err
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme,
		apiextensionsv1.AddToScheme, snapshotv1.AddToScheme} {
		if err := add(s); err != nil {
			return 0, err
		}
	}
	if admin, err = client.New(cluster.AdminConfig(), client.Options{Scheme: s}); err != nil {
		return 0, err
	}
	if operator, err = clientOf(ctx, s, v1alpha1.OperatorNamespace, operatorName); err != nil {
		return 0, err
	}
	if linstor, err = clientOf(ctx, s, v1alpha1.WorkloadNamespace, resources.ControllerName); err != nil {
		return 0, err
	}
	if err := poll(ctx, policiesHold); err != nil {
		return 0, fmt.Errorf("wait for the admission policies: %w", err)
	}
	return m.Run(), nil
}

func clientOf(ctx context.Context, s *runtime.Scheme, namespace, account string) (client.Client, error) {
	config, err := cluster.ServiceAccountConfig(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: s})
}

// poll repeats the check until it passes; its last complaint says why it did not.
func poll(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := machine.Poll(ctx, 100*time.Millisecond, time.Minute, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// policiesHold passes when the API server acts on the policies, which it takes up some time after they were made: in
// the order in which they were made, so that the last one in the file stands for the others.
func policiesHold(ctx context.Context) error {
	var policies admissionv1.ValidatingAdmissionPolicyList
	if err := admin.List(ctx, &policies, client.MatchingLabels{"app.kubernetes.io/name": operatorName}); err != nil {
		return err
	}
	for i := range policies.Items {
		if p := &policies.Items[i]; p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("policy %s is not checked yet", p.Name)
		}
	}
	probes := map[string]client.Object{
		"objects":   configMap("probe", nil),
		"workloads": workload("default"),
	}
	for name, o := range probes {
		if err := acts(name, operator.Create(ctx, o, client.DryRunAll)); err != nil {
			return err
		}
	}
	definition := definitionOf("probes", "probe.example.com")
	return acts("definitions", linstor.Create(ctx, definition, client.DryRunAll))
}

// acts is nil when a policy gave the answer to what it forbids.
func acts(policy string, answer error) error {
	switch {
	case refused(answer):
		return nil
	case answer == nil:
		return fmt.Errorf("policy on %s does not act yet", policy)
	}
	return fmt.Errorf("policy on %s does not act yet: %w", policy, answer)
}

// workload is a Deployment with the operator's label that runs as that ServiceAccount.
func workload(account string) *appsv1.Deployment {
	d := resources.Controller(resources.Params{Cluster: v1alpha1.ClusterName, Spec: &v1alpha1.StorageClusterSpec{}}, "x")
	d.ObjectMeta = metav1.ObjectMeta{Name: "probe", Namespace: d.Namespace, Labels: d.Labels}
	d.Spec.Template.Spec.ServiceAccountName = account
	return d
}
