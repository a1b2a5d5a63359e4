package anycluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Kubectl runs kubectl with a kubeconfig, for [Options].
func Kubectl(kubeconfig string) func(context.Context, io.Reader, io.Writer, ...string) (string, error) {
	return func(ctx context.Context, in io.Reader, out io.Writer, args ...string) (string, error) {
		var printed, failure bytes.Buffer
		cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig", kubeconfig}, args...)...)
		cmd.WaitDelay = 5 * time.Second
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &printed, &failure
		if out != nil {
			cmd.Stdout = out
		}
		if err := cmd.Run(); err != nil {
			return printed.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err,
				strings.TrimSpace(failure.String()))
		}
		return printed.String(), nil
	}
}
