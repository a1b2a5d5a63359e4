package realnodes

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/anycluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

// testAsAnyCluster runs what "make e2e-real" runs on administrators' clusters. Here, a snapshot has what was in a
// volume when it was last unmounted, so that step is left out.
func testAsAnyCluster(c *cluster) {
	checker := gobin.Compilation{Dir: "../iocheck/program", Package: ".", Out: filepath.Join(c.dir, "iocheck"),
		Flags: []string{"-trimpath"}, Static: true, Log: os.Stderr}
	c.must(checker.Run(c.Ctx))
	report, err := anycluster.Run(c.Ctx, anycluster.Options{Client: c.Client(), Checker: checker.Out, IKnow: true,
		Kubectl: anycluster.Kubectl(c.Sim.Kubeconfig()), Image: standinImage, Patience: 3 * time.Minute, Log: c.T.Output(),
		Skip: []string{"snapshot restored"}, Evacuate: "n3",
		PowerOff: func(_ context.Context, name string) error {
			c.Sim.World().Machine(name).PowerOff()
			err := c.node(name).PowerOff()
			c.volumes.lost(name)
			return err
		},
		PowerOn: func(_ context.Context, name string) error {
			if err := c.node(name).PowerOn(); err != nil {
				return err
			}
			return c.node(name).RouteTo(c.nodes)
		}})
	_, _ = report.WriteTo(c.T.Output())
	c.must(err)
	if !report.Passed() {
		c.T.Error("a step has failed")
	}
}
