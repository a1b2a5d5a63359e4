package report_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// canary is what must not be in any report.
const canary = "CaNaRy-52c1"

func pod(name, component string, restarts int32) *corev1.Pod {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name,
			Labels: map[string]string{v1alpha1.LabelComponent: component}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Env: []corev1.EnvVar{
			{Name: "DB_PASSWORD", Value: canary}, {Name: "HOME", Value: "/tmp"}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: restarts, State: running}}},
	}
}

func objects() []client.Object {
	meta := func(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	sc := plugintest.Held()
	sc.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": canary}
	node := plugintest.Nodes([]string{"node-1"})[0]
	node.Annotations = map[string]string{"example.com/join-token": canary, v1alpha1.AnnotationMaintenance: "new memory"}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"an image"}}}
	return []client.Object{
		sc, &node,
		&corev1.Secret{ObjectMeta: meta(v1alpha1.WorkloadNamespace, "pass"), Data: map[string][]byte{"k": []byte(canary)}},
		&corev1.ConfigMap{ObjectMeta: meta(v1alpha1.WorkloadNamespace, "linstor-claim"),
			Data:       map[string]string{"localID": "1b1e", "passphraseCheck": canary},
			BinaryData: map[string][]byte{"store": []byte(canary)}},
		&corev1.ConfigMap{ObjectMeta: meta(v1alpha1.WorkloadNamespace, "linstor-controller-config"),
			Data: map[string]string{"linstor.toml": "[db]\n  user = \"linstor\"\n  password = \"" + canary + "\"\n"}},
		&corev1.ConfigMap{ObjectMeta: meta(v1alpha1.WorkloadNamespace, "somebody-else"),
			Data: map[string]string{"whatever": canary}},
		&appsv1.Deployment{ObjectMeta: meta(v1alpha1.OperatorNamespace, "storagecluster-operator"),
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Image: "example.com/operator:v1.2.3", Args: []string{"--token=" + canary}}}}}}},
		pod("linstor-controller-1", "controller", 2), pod("linstor-satellite-1", "satellite", 0),
		plugintest.Warning("w", "BackupFailed", "PUT https://user:"+canary+"@s3.example.com", time.Minute),
	}
}

func run(t *testing.T, s *plugintest.Server, args ...string) (map[string]string, int) {
	t.Helper()
	code := root.Run(t.Context(), s.Env, append([]string{"report", "--file", "-"}, args...))
	if code != exit.Done {
		return nil, code
	}
	return plugintest.Unpack(t, s.Out.Bytes()), code
}

// TestReport: all that helps is there, and nothing that opens something, wherever it was written.
func TestReport(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, objects()...)
	logs := s.Cluster(t)
	logs.Logs = func(_ context.Context, _, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		text := fmt.Sprintf("%s previous=%t\nconnect with password=%s failed\n", pod, o.Previous, canary)
		return io.NopCloser(strings.NewReader(text)), nil
	}
	files, code := run(t, s)
	if code != exit.Done {
		t.Fatalf("code %d: %s", code, s.Err)
	}
	for name, text := range files {
		if strings.Contains(text, canary) {
			t.Errorf("%s has the canary:\n%s", name, text)
		}
	}
	for name, wants := range map[string][]string{
		"README.txt":                        {"No Secrets were read", "storagecluster.yaml", "nodes.yaml"},
		"storagecluster.yaml":               {"kind: StorageCluster", "DeviceNotEmpty"},
		"status.txt":                        {"Hold h-b2f074"},
		"versions.txt":                      {"example.com/operator:v1.2.3", "v0.0.0-test", "v1.37.2", "1.35.3"},
		"nodes.yaml":                        {"node-1", "new memory"},
		"events-default.txt":                {"BackupFailed", "s3.example.com"},
		"linstor-storage/configmaps.yaml":   {"localID: 1b1e", "user = ", "somebody-else", "whatever: «redacted»"},
		"linstor-storage/pods.yaml":         {"linstor-controller-1", "value: /tmp", "DB_PASSWORD"},
		"linstor-operator/deployments.yaml": {"storagecluster-operator", "--token="},
		"logs/linstor-storage/linstor-controller-1/main.log":          {"previous=false", "failed"},
		"logs/linstor-storage/linstor-controller-1/main.previous.log": {"previous=true"},
		"logs/linstor-storage/linstor-satellite-1/main.log":           {"previous=false"},
	} {
		for _, want := range wants {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s: no %q in %q", name, want, files[name])
			}
		}
	}
	if strings.Contains(files["nodes.yaml"], "an image") || strings.Contains(files["nodes.yaml"], "example.com/join") {
		t.Errorf("the node is not trimmed: %s", files["nodes.yaml"])
	}
	for name, text := range files {
		if strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary))) {
			t.Errorf("%s has what is in binaryData", name)
		}
	}
	if !strings.Contains(s.Err.String(), "It does not contain:") || !strings.Contains(s.Err.String(), "crd.yaml") {
		t.Errorf("it does not say that the definition is missing: %s", s.Err)
	}
}

// TestNothingReadable: whoever may read nothing gets a report that says so.
func TestNothingReadable(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no right"))
	faults := plugintest.Faults{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden
		},
	}
	s := plugintest.New(t, nil, faults)
	files, code := run(t, s)
	if code != exit.Done {
		t.Fatalf("code %d: %s", code, s.Err)
	}
	for _, want := range []string{"not allowed to list nodes", "not allowed to list pods in linstor-storage",
		"not allowed to list configmaps in linstor-operator", "not allowed to list events in default"} {
		if !strings.Contains(files["README.txt"], want) {
			t.Errorf("no %q in %s", want, files["README.txt"])
		}
	}
}

// TestBounds: a log is cut to its end, and what the report has no room for is left out and named.
func TestBounds(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, objects()...)
	line := strings.Repeat("x", 1023) + "\n"
	s.Cluster(t).Logs = func(_ context.Context, _, _ string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		if o.TailLines == nil || *o.TailLines != 5000 {
			t.Errorf("asked for %v lines", o.TailLines)
		}
		return io.NopCloser(strings.NewReader("the beginning\n" + strings.Repeat(line, 12<<10) + "the end\n")), nil
	}
	files, code := run(t, s, "--max-mib", "12")
	if code != exit.Done {
		t.Fatalf("code %d: %s", code, s.Err)
	}
	log := files["logs/linstor-storage/linstor-controller-1/main.log"]
	if len(log) > 5<<20 || len(log) < 4<<20 || !strings.HasSuffix(log, "x\nthe end\n") ||
		strings.Contains(log, "beginning") || !strings.HasPrefix(log, line) {
		t.Errorf("a log of %d bytes", len(log))
	}
	if _, there := files["logs/linstor-storage/linstor-satellite-1/main.log"]; there ||
		!strings.Contains(files["README.txt"], "main.log: does not fit into the report") {
		t.Errorf("the report is larger than it may be: %s", files["README.txt"])
	}
}

// TestDeadNodes: a kubelet that is away is asked once, and the pods of its node come last.
func TestDeadNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []client.Object{plugintest.Healthy(3)}
		for i := range 6 {
			p := pod(fmt.Sprintf("satellite-%d", i), "satellite", 0)
			p.Spec.NodeName = fmt.Sprintf("node-%d", i/3)
			if p.Spec.NodeName == "node-0" {
				p.Status.ContainerStatuses[0].Ready = true
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			}
			all = append(all, p)
		}
		s := plugintest.New(t, nil, plugintest.Faults{}, all...)
		var asked []string
		s.Cluster(t).Logs = func(ctx context.Context, _, pod string, _ *corev1.PodLogOptions) (io.ReadCloser, error) {
			if asked = append(asked, pod); pod < "satellite-3" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return io.NopCloser(strings.NewReader("a line\n")), nil
		}
		began := time.Now()
		files, code := run(t, s)
		if code != exit.Done || strings.Join(asked, " ") != "satellite-3 satellite-4 satellite-5 satellite-0" {
			t.Errorf("code %d, asked for %v", code, asked)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %s", took)
		}
		if !strings.Contains(files["README.txt"], "2 more logs of pods on node node-0: the kubelet is not returning logs") {
			t.Error(files["README.txt"])
		}
	})
}

// TestManyPods: in a large cluster those that are not well are read, and not all of the rest.
func TestManyPods(t *testing.T) {
	all := []client.Object{plugintest.Healthy(3), pod("z-broken", "satellite", 7), pod("controller", "controller", 0)}
	for i := range 300 {
		all = append(all, pod(fmt.Sprintf("satellite-%03d", i), "satellite", 0))
	}
	s := plugintest.New(t, nil, plugintest.Faults{}, all...)
	files, code := run(t, s)
	logs := slices.DeleteFunc(slices.Collect(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}), func(name string) bool { return !strings.HasPrefix(name, "logs/") })
	if code != exit.Done || len(logs) != 201 { // 200 pods, one of which has two logs
		t.Errorf("code %d, %d logs", code, len(logs))
	}
	for _, want := range []string{"logs/linstor-storage/z-broken/main.log", "logs/linstor-storage/controller/main.log"} {
		if !slices.Contains(logs, want) {
			t.Errorf("no %s", want)
		}
	}
	if !strings.Contains(files["README.txt"], "logs of 102 more pods") {
		t.Error(files["README.txt"])
	}
}

// TestFile: nobody else reads the archive, and none is overwritten.
func TestFile(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Healthy(3))
	path := filepath.Join(t.TempDir(), "r.tar.gz")
	if code := root.Run(t.Context(), s.Env, []string{"report", "-f", path}); code != exit.Done {
		t.Fatalf("code %d: %s", code, s.Err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if code := root.Run(t.Context(), s.Env, []string{"report", "-f", path}); code != exit.Failed ||
		!strings.Contains(s.Err.String(), "--file") {
		t.Errorf("code %d: %s", code, s.Err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	half := filepath.Join(t.TempDir(), "half.tar.gz")
	if code := root.Run(stopped, s.Env, []string{"report", "-f", half}); code != exit.Failed {
		t.Errorf("code %d of a report that was interrupted", code)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Error("half a report was left")
	}
}
