package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Exec runs a command in a container and returns what it printed, by means of kubectl and with the flags of the
// plugin. in is the command's input; nil for none. Where the command fails, the error is an [ExecError].
func Exec(ctx context.Context, flags *genericclioptions.ConfigFlags, in io.Reader, namespace, pod, container string,
	command ...string) ([]byte, error) {
	all, err := KubectlFlags(flags)
	if err != nil {
		return nil, err
	}
	all = append(all, "-n", namespace, "exec", pod, "-c", container)
	if in != nil {
		all = append(all, "-i")
	}
	cmd := exec.CommandContext(ctx, "kubectl", append(append(all, "--"), command...)...)
	var out, failure bytes.Buffer
	cmd.WaitDelay = execDelay
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &failure
	if err := cmd.Run(); err != nil {
		return nil, &ExecError{Err: err, Said: failure.String()}
	}
	return out.Bytes(), nil
}

// execDelay is how long after its end kubectl's output is waited for. A helper that it has started, such as one for
// credentials, may hold the pipe open for ever.
const execDelay = 5 * time.Second

// ExecError is that of a command that has failed.
type ExecError struct {
	Err error
	// Said is all that it wrote to the error stream.
	Said string
}

// Error has the end of what the command said.
func (e *ExecError) Error() string {
	return fmt.Sprintf("%v: %s", e.Err, text.Tail(strings.Join(strings.Fields(e.Said), " "), 400))
}

func (e *ExecError) Unwrap() error { return e.Err }

// KubectlFlags are the flags with which the plugin was called, for kubectl: it must not look as somebody else, or into
// another cluster. Credentials are not handed on, because others could read them on kubectl's command line; with them
// nothing is run.
func KubectlFlags(f *genericclioptions.ConfigFlags) ([]string, error) {
	if given(f.BearerToken) || given(f.Password) {
		return nil, errors.New("--token and --password cannot be used here: the plugin runs kubectl, and other users " +
			"could read them on the kubectl command line; use a kubeconfig instead")
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
