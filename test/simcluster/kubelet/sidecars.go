package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
)

const (
	// tokenSeconds outlasts any test.
	tokenSeconds = 24 * 3600
	// stopWithin is how long a program has to end by itself.
	stopWithin = 5 * time.Second
	// keptLog is how much of a program's output is kept for its exit.
	keptLog = 4000
)

// realPrograms are the containers that run as processes.
var realPrograms = map[string]bool{csibin.Provisioner: true, csibin.Attacher: true, csibin.Resizer: true,
	csibin.Snapshotter: true}

// processTask is a program that runs as a process of its own.
type processTask struct {
	cmd  *exec.Cmd
	log  string // file
	done chan struct{}
}

// beginProcess starts one of Kubernetes' sidecars with the arguments and variables of its container, the socket mapped
// to the pod's, and the rights of the pod's ServiceAccount.
func (d storage) beginProcess(ctx context.Context, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	env, err := d.files.environment(ctx, pod, c)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := d.podKubeconfig(ctx, pod)
	if err != nil {
		return nil, err
	}
	args := expanded(c.Args, env)
	for i, arg := range args {
		if socket, is := strings.CutPrefix(arg, "--csi-address="); is {
			if !mounts(c, socket) {
				return endedTask{exit{code: 1, message: "the CSI address is in no volume of the pod"}}, nil
			}
			args[i] = "--csi-address=" + d.socketOf(run)
		}
	}
	name := filepath.Join(d.plugins.dir, string(run.uid)[:13]+"-"+c.Name+".log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.Name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	cmd := exec.Command(filepath.Join(d.opts.CSI.Bin, c.Name), append(args, "--kubeconfig="+kubeconfig)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + d.plugins.dir, "TMPDIR=" + d.plugins.dir}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if err := bound.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	t := &processTask{cmd: cmd, log: name, done: make(chan struct{})}
	key := run.key
	go func() {
		_ = cmd.Wait()
		close(t.done)
		d.queue.Add(key)
	}()
	return t, nil
}

func (t *processTask) state() taskState {
	select {
	case <-t.done:
	default:
		return taskState{ready: true}
	}
	content, err := os.ReadFile(t.log)
	if err != nil {
		content = []byte(err.Error())
	}
	if len(content) > keptLog {
		content = content[len(content)-keptLog:]
	}
	code := int32(t.cmd.ProcessState.ExitCode())
	if code < 0 { // by a signal
		code = 137
	}
	return taskState{ended: true, exit: exit{code: code, message: strings.TrimSpace(string(content))}}
}

func (t *processTask) stop(graceful bool) {
	if graceful {
		_ = t.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		timer := time.NewTimer(stopWithin)
		defer timer.Stop()
		select {
		case <-t.done:
			return
		case <-timer.C:
		}
	}
	_ = t.cmd.Process.Kill()
	<-t.done
}

// podKubeconfig writes a file with a token of the pod's ServiceAccount that is bound to the pod.
func (d storage) podKubeconfig(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod.Spec.ServiceAccountName == "" {
		return "", errors.New("the pod has no ServiceAccount")
	}
	seconds := int64(tokenSeconds)
	token, err := d.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name,
				UID: pod.UID}}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request the token of the pod: %w", err)
	}
	file := filepath.Join(d.plugins.dir, string(pod.UID)[:13]+".kubeconfig")
	return file, writeKubeconfig(file, d.opts.Config, token.Status.Token)
}

func writeKubeconfig(file string, config *rest.Config, token string) error {
	const name = "simulated"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, file)
	if err != nil {
		return fmt.Errorf("write a pod's kubeconfig: %w", err)
	}
	return nil
}
