package simcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/test/inputs"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// tokenSeconds outlasts any test or demonstration.
const tokenSeconds = 24 * 3600

// ServiceAccountConfig returns a client configuration with a fresh token of a ServiceAccount, which must exist: what a
// pod of that ServiceAccount would use.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	seconds := int64(tokenSeconds)
	token, err := c.typed.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request a token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.plane.AnonymousConfig()
	config.BearerToken = token.Status.Token
	return config, nil
}

// ServiceAccountKubeconfig writes ServiceAccountConfig to a kubeconfig file and returns its path.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	config, err := c.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.opts.Dir, namespace+"-"+name+".kubeconfig")
	return path, controlplane.WriteKubeconfig(path, "system:serviceaccount:"+namespace+":"+name, config)
}

// Kubectl runs kubectl as the administrator and returns what it prints on standard output. Its error has what it
// prints on standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	inputs.DeclareArguments(args)
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.BinDir, kubebin.Kubectl), args...)
	// Its own home keeps kubectl's discovery cache apart from the user's and from other clusters'.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+c.opts.Dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	if stdout.Len() == 0 {
		return stderr.String(), nil // "No resources found"
	}
	return stdout.String(), nil
}
