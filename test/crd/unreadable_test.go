package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestUnreadableObject: an object from before a rule of the schema, which no Go type can take, is told in all places
// where somebody looks; the operator starts beside it, and works on by itself once the value is corrected.
func TestUnreadableObject(t *testing.T) {
	t.Cleanup(func() { _ = installCRD(context.WithoutCancel(t.Context())) })
	storeOldDuration(t, "1d")
	kubectl(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: linstor-storage}\n", "apply", "--server-side", "-f",
		"-")
	probes := startOperator(t)

	eventually(t, "the readiness probe fails", func() error {
		if body, ready := harness.Probe(t, probes+"/readyz/cache"); !ready {
			return fmt.Errorf("the operator did not start: %s", body)
		}
		if body, ready := harness.Probe(t, probes+"/readyz"); ready {
			return fmt.Errorf("ready: %s", body)
		}
		return nil
	})
	eventually(t, "an Event names the field", func() error {
		out := kubectl(t, "", "get", "events", "-A", "-o", "jsonpath={range .items[*]}{.type} {.reason}: {.message}{end}")
		if !strings.Contains(out, "Warning SpecUnreadable: spec.nodes.lostAfter of StorageCluster linstor cannot be read") {
			return fmt.Errorf("events: %s", out)
		}
		return nil
	})
	eventually(t, "kubectl get says so", func() error {
		if out := kubectl(t, "", "get", "storagecluster"); !strings.Contains(out, "SpecUnreadable") ||
			!strings.Contains(out, "Unknown") {
			return fmt.Errorf("printed:\n%s", out)
		}
		return nil
	})

	patch := []byte(`{"spec":{"nodes":{"lostAfter":"24h"}}}`)
	if _, err := clusters.Patch(t.Context(), "linstor", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the operator goes on", func() error {
		body, ready := harness.Probe(t, probes+"/readyz")
		u, err := clusters.Get(t.Context(), "linstor", metav1.GetOptions{})
		if err != nil {
			return err
		}
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		attention, _, _ := unstructured.NestedString(u.Object, "status", "attention")
		if n, _, err := unstructured.NestedInt64(u.Object, "status", "volumes"); err != nil || n != 3 {
			return fmt.Errorf("what LINSTOR had when it was asked last, which guards the deletion, is lost: %v",
				u.Object["status"])
		}
		if !ready || phase == "" || attention == "SpecUnreadable" {
			return fmt.Errorf("phase %q, attention %q, ready: %s", phase, attention, body)
		}
		return nil
	})
}

// storeOldDuration stores a StorageCluster through the schema of before, which left durations to the format of that
// name.
func storeOldDuration(t *testing.T, value string) {
	t.Helper()
	data, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	var old map[string]any
	if err := yaml.Unmarshal(data, &old); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(old, "spec", "versions")
	field := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "nodes", "properties", "lostAfter"}
	if err := unstructured.SetNestedField(versions[0].(map[string]any),
		map[string]any{"type": "string", "format": "duration"}, field...); err != nil {
		t.Fatal(err)
	}
	status := []string{"schema", "openAPIV3Schema", "properties", "status", "properties", "volumes"}
	if err := unstructured.SetNestedField(versions[0].(map[string]any),
		map[string]any{"type": "integer", "format": "int32"}, status...); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(old, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	u := object(t, "nodes: {lostAfter: "+value+"}")
	// Its status is of before as well: volumes was a number.
	kubectl(t, string(raw), "apply", "--server-side", "--force-conflicts", "-f", "-")
	eventually(t, "the schema of before is served", func() error { _, err := tryCreate(t, u); return err })
	create(t, "nodes: {lostAfter: "+value+"}")
	patch := []byte(`{"status":{"volumes":3}}`)
	if _, err := clusters.Patch(t.Context(), "linstor", types.MergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "", "apply", "--server-side", "--force-conflicts", "-f", crdFile)
	eventually(t, "the schema of now is served", func() error {
		other := u.DeepCopy()
		switch _, err := tryCreate(t, other); {
		case err == nil:
			return errors.New("another one was created")
		case !strings.Contains(err.Error(), "write days as hours"):
			return fmt.Errorf("creating another: %w", err)
		default:
			return nil
		}
	})
}

// startOperator runs an operator until the test ends, and returns where its probes are.
func startOperator(t *testing.T) string {
	t.Helper()
	timing := cluster.DefaultTiming()
	timing.PollWorking, timing.PollSteady, timing.Safety = 100*time.Millisecond, time.Second, time.Second
	address := harness.FreeAddress(t)
	mgr, err := operator.New(adminConfig, operator.Options{
		LinstorEndpoint: "http://127.0.0.1:1", MetricsAddress: "0", PprofAddress: "0", ProbeAddress: address, Timing: timing,
		Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("operator: %v", err)
		}
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, _ = clusters.Patch(context.Background(), "linstor", types.MergePatchType, patch, metav1.PatchOptions{})
	})
	return "http://" + address
}

// eventually polls until something holds.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			last = f()
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}
