package access

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// kubectl puts a program of that name first in PATH, which runs this script.
func kubectl(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestExec(t *testing.T) {
	kubectl(t, `printf '%s\n' "$*"; cat`)
	f := genericclioptions.NewConfigFlags(true)
	out, err := Exec(t.Context(), f, strings.NewReader("typed"), "ns", "pod", "c", "run", "-x")
	if want := "-n ns exec pod -c c -i -- run -x\ntyped"; err != nil || string(out) != want {
		t.Errorf("%s: %v", out, err)
	}
	kubectl(t, "echo first >&2; seq 1 300 >&2; echo last >&2; exit 3")
	_, err = Exec(t.Context(), f, nil, "ns", "pod", "c", "run")
	failed := (*ExecError)(nil)
	if !errors.As(err, &failed) || !strings.HasPrefix(failed.Said, "first") || len(err.Error()) > 500 ||
		!strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "last") {
		t.Errorf("%v", err)
	}
}

// TestExecEnds although a program that kubectl has started holds its output open.
func TestExecEnds(t *testing.T) {
	kubectl(t, "sleep 30 &\nsleep 30")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := Exec(ctx, genericclioptions.NewConfigFlags(true), nil, "ns", "pod", "c"); err == nil ||
		time.Since(begin) > 20*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}

// behindKubectl is a cluster with an operator's pod, which is reached by the program kubectl.
func behindKubectl() *Cluster {
	pod := operatorPod("op-a", corev1.ConditionTrue)
	pod.Labels = map[string]string{"app.kubernetes.io/name": "storagecluster-operator"}
	return &Cluster{Client: fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(&pod).Build()}
}

// TestThePodIsAsked: the manifest goes in, and what the operator prints comes out.
func TestThePodIsAsked(t *testing.T) {
	kubectl(t, `printf '%s\n' "$*"; cat`)
	out, err := behindKubectl().askInPod(t.Context(), genericclioptions.NewConfigFlags(true), questionPlan,
		[]byte("manifest"))
	if want := "-n linstor-operator exec op-a -c operator -i -- /operator --leader-elect --catalogue=/c --plan=-\n" +
		"manifest"; err != nil || string(out) != want {
		t.Errorf("%s: %v", out, err)
	}
	kubectl(t, "exec sleep 30")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := behindKubectl().askInPod(ctx, genericclioptions.NewConfigFlags(true), questionDisks, nil); err == nil ||
		!strings.Contains(err.Error(), "--timeout") {
		t.Errorf("%v", err)
	}
}

// TestAnOlderOperator: the first line of what it says counts, and all its flags follow.
func TestAnOlderOperator(t *testing.T) {
	for _, question := range []string{questionPlan, questionDisks} {
		var usage bytes.Buffer
		old := flag.NewFlagSet("/operator", flag.ContinueOnError)
		old.SetOutput(&usage)
		for i := range 50 {
			old.Bool(fmt.Sprintf("flag-%d", i), false, "what this flag does, in a line of the usual length")
		}
		if err := old.Parse([]string{"--" + question + "=-"}); err == nil {
			t.Fatal("it knows the flag")
		}
		said := filepath.Join(t.TempDir(), "said")
		if err := os.WriteFile(said, usage.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		kubectl(t, "cat "+said+" >&2; exit 2")
		_, err := behindKubectl().askInPod(t.Context(), genericclioptions.NewConfigFlags(true), question, nil)
		if err == nil || !strings.Contains(err.Error(), "is older than this plugin") ||
			strings.Contains(err.Error(), "flag-49") {
			t.Errorf("%v", err)
		}
	}
}

// TestFlagsForKubectl: commands in pods are run as the same user, in the same cluster, or not at all.
func TestFlagsForKubectl(t *testing.T) {
	f := genericclioptions.NewConfigFlags(true)
	*f.KubeConfig, *f.Impersonate, *f.ImpersonateGroup = "a", "b", []string{"c", "d"}
	*f.CertFile, *f.KeyFile, *f.TLSServerName, *f.Insecure = "e", "f", "g", true
	got, err := KubectlFlags(f)
	if want := "--kubeconfig=a --as=b --client-certificate=e --client-key=f --tls-server-name=g --as-group=c " +
		"--as-group=d --insecure-skip-tls-verify"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%v %v", got, err)
	}
	*f.BearerToken = "secret"
	if got, err := KubectlFlags(f); err == nil || len(got) > 0 || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v %v", got, err)
	}
}
