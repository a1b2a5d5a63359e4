package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Linstor runs LINSTOR's own client and returns what it printed.
type Linstor func(ctx context.Context, args ...string) ([]byte, error)

// Bounds of a look into LINSTOR: of one call, and of all together. Whoever wants to switch a node off does not wait
// for ever to learn about it.
const (
	callTime = 30 * time.Second
	lookTime = 3 * time.Minute
)

// inPod runs LINSTOR's client in the controller's pod, as the runbooks do, with kubectl and the flags of the plugin.
// That works where LINSTOR's API is locked, too, and takes the right to run commands in pods.
func inPod(flags *genericclioptions.ConfigFlags) Linstor {
	return func(ctx context.Context, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		all, err := kubectlFlags(flags)
		if err != nil {
			return nil, err
		}
		all = append(all, "-n", v1alpha1.WorkloadNamespace, "exec", "deploy/linstor-controller", "-c",
			"linstor-controller", "--", "linstor")
		cmd := exec.CommandContext(ctx, "kubectl", append(all, args...)...)
		var out, failure bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &failure
		if err := cmd.Run(); err != nil {
			said := strings.Join(strings.Fields(failure.String()), " ")
			return nil, fmt.Errorf("run LINSTOR's client: %w: %s", err, text.Head(said, 200))
		}
		return out.Bytes(), nil
	}
}

// kubectlFlags are the flags with which the plugin was called, for kubectl: it must not look as somebody else, or into
// another cluster. Credentials are not handed on, because others could read them on kubectl's command line; with them
// there is no look.
func kubectlFlags(f *genericclioptions.ConfigFlags) ([]string, error) {
	if given(f.BearerToken) || given(f.Password) {
		return nil, errors.New("kubectl would have to run LINSTOR's client, and --token and --password are not handed on " +
			"to it, where others could read them: use a kubeconfig")
	}
	var out []string
	for _, flag := range []struct {
		name  string
		value *string
	}{{"kubeconfig", f.KubeConfig}, {"context", f.Context}, {"cluster", f.ClusterName}, {"user", f.AuthInfoName},
		{"server", f.APIServer}, {"as", f.Impersonate}, {"as-uid", f.ImpersonateUID},
		{"certificate-authority", f.CAFile}, {"client-certificate", f.CertFile}, {"client-key", f.KeyFile},
		{"tls-server-name", f.TLSServerName}, {"request-timeout", f.Timeout}, {"proxy-url", f.ProxyURL}} {
		if given(flag.value) && (flag.name != "request-timeout" || *flag.value != "0") { // 0 is what it is anyway
			out = append(out, "--"+flag.name+"="+*flag.value)
		}
	}
	for _, flag := range []struct {
		name   string
		values *[]string
	}{{"as-group", f.ImpersonateGroup}, {"as-user-extra", f.ImpersonateUserExtra}} {
		if flag.values == nil {
			continue
		}
		for _, value := range *flag.values {
			out = append(out, "--"+flag.name+"="+value)
		}
	}
	if f.Insecure != nil && *f.Insecure {
		out = append(out, "--insecure-skip-tls-verify")
	}
	return out, nil
}

func given(s *string) bool { return s != nil && *s != "" }
