package simcluster

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestScale starts as many nodes as SIMCLUSTER_SCALE says (for instance 1000) and logs how long their loader and
// satellite pods take. It is no part of the usual run: it measures.
func TestScale(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("SIMCLUSTER_SCALE"))
	if err != nil {
		t.Skip("SIMCLUSTER_SCALE is not set to a number of nodes")
	}
	var nodes []NodeSpec
	for i := range count {
		nodes = append(nodes, NodeSpec{Name: fmt.Sprintf("node-%04d", i)})
	}
	started := time.Now()
	c, err := Start(t.Context(), Options{Log: os.Stderr, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	t.Logf("%d nodes after %s", count, time.Since(started).Round(time.Millisecond))

	applied := time.Now()
	if err := c.ApplyFile(t.Context(), "testdata/linstor.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"loader", "satellite"} {
		err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
			var set appsv1.DaemonSet
			err := c.Client().Get(ctx, client.ObjectKey{Namespace: byHand, Name: name}, &set)
			return err == nil && int(set.Status.NumberReady) == count, err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d %s pods ready after %s", count, name, time.Since(applied).Round(time.Millisecond))
	}
}
