package realnodes

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// usePlugin runs the kubectl plugin's commands that read logs, or run a program in the operator's pod: simulated
// kubelets can do neither.
func usePlugin(c *cluster) {
	dir := c.T.TempDir()
	wanted := filepath.Join(dir, "storagecluster.yaml")
	newer := strings.Replace(spec, oldVersion, newVersion, 1)
	c.must(os.WriteFile(wanted, []byte(harness.Manifest(newer)), 0o600))
	report := filepath.Join(dir, "report.tar.gz")
	for _, command := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status"}, exit.Done, "Ready"},
		{[]string{"plan", "-f", wanted}, exit.Done, newVersion},
		{[]string{"disks"}, exit.Done, "n3"},
		{[]string{"report", "--file", report}, exit.Done, "README.txt"},
	} {
		code, said := c.plugin(command.args...)
		if code != command.code || !strings.Contains(said, command.says) {
			c.T.Errorf("kubectl linstor %s: exit code %d, expected %d; %q expected in\n%s", strings.Join(command.args, " "),
				code, command.code, command.says, said)
		}
	}
	archive, err := os.ReadFile(report)
	c.must(err)
	files := plugintest.Unpack(c.T.(*testing.T), archive) //nolint:forcetypeassert // it is no benchmark
	logs := 0
	for name, content := range files {
		if strings.HasPrefix(name, "logs/linstor-operator/") && content != "" {
			logs++
		}
	}
	if logs == 0 {
		c.T.Errorf("the report has no log of the operator: %v", slices.Sorted(maps.Keys(files)))
	}
}

// plugin runs the plugin without a terminal, and returns its exit code and what it prints.
func (c *cluster) plugin(args ...string) (code int, said string) {
	var out bytes.Buffer
	streams := access.Streams{Width: 80}
	streams.In, streams.Out, streams.ErrOut = strings.NewReader(""), &out, &out
	env := access.NewEnv(streams, "v0.1.0")
	code = root.Run(c.Ctx, env, append([]string{"--kubeconfig", c.Sim.Kubeconfig()}, args...))
	return code, out.String()
}
