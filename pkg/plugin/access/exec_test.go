package access

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
)

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
