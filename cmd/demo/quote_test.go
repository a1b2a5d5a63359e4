package main

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommandLine gives each command line to a shell, which must find the arguments in it.
func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"patch", "storagecluster", "linstor", "--type", "merge", "-p", `{"spec":{"version":"1.35.3"}}`},
		{"taint", "node", "node-2", "example.com/retired=:NoSchedule"},
		{"annotate", "storage.linstor.dev/resume=h-1:retry@node1,node2"},
		{"it's", "$HOME", "a b", "*", "~", "", "a\nb", "<hold id>", "#x", "1;2"},
	} {
		line := commandLine("printf", append([]string{`%s\0`}, args...)...)
		out, err := exec.Command("sh", "-c", line).Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var want string
		for _, a := range args {
			want += a + "\x00"
		}
		if diff := cmp.Diff(want, string(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	if got, want := commandLine("kubectl", "get", "-o", "wide"), "kubectl get -o wide"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
