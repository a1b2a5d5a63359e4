package simcluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventually fails the test unless the check passes within a minute; the check's last complaint says why.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

func podsOf(ctx context.Context, app string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := cluster.Client().List(ctx, &pods, client.InNamespace(byHand), client.MatchingLabels{"app": app})
	return pods.Items, err
}

func podOn(ctx context.Context, app, node string) (*corev1.Pod, error) {
	pods, err := podsOf(ctx, app)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Spec.NodeName == node && pods[i].DeletionTimestamp == nil {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("no %s pod on node %s", app, node)
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func allReady(app string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := podsOf(ctx, app)
		if err != nil {
			return err
		}
		count := 0
		for i := range pods {
			if ready(&pods[i]) {
				count++
			}
		}
		if count != want || len(pods) != want {
			return fmt.Errorf("%d of %d %s pods are ready, want %d", count, len(pods), app, want)
		}
		return nil
	}
}

func linstor(t *testing.T, method, path, body string, want int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, cluster.LinstorURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != want {
		t.Fatalf("%s %s: %s, want %d: %s", method, path, resp.Status, want, content)
	}
	return content
}

func online(name string) func(context.Context) error {
	return func(context.Context) error {
		if status, flags := cluster.World().NodeStatus(name); status != "ONLINE" {
			return fmt.Errorf("LINSTOR node %s is %q %v", name, status, flags)
		}
		return nil
	}
}

func registerNode(t *testing.T, name string) {
	t.Helper()
	linstor(t, http.MethodPost, "/v1/nodes", fmt.Sprintf(
		`{"name":%q,"type":"Satellite","net_interfaces":[`+
			`{"name":"default","address":%q,"satellite_port":3366,"satellite_encryption_type":"PLAIN"}]}`,
		name, nodeAddress(t, name)), http.StatusCreated)
}

func nodeAddress(t *testing.T, name string) string {
	t.Helper()
	var node corev1.Node
	if err := cluster.Client().Get(t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		t.Fatal(err)
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	t.Fatalf("node %s has no address", name)
	return ""
}
