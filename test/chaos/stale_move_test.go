package chaos

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestStaleMove: LINSTOR's data was moved to another server, a volume was made since, and an operator starts that is
// shown one kind as it was before all that. LINSTOR, which is started again meanwhile, must not be sent back: neither
// its configuration nor its Deployment may name the first server.
func TestStaleMove(t *testing.T) {
	t.Parallel()
	kinds := staleKinds
	if !full() {
		kinds = []string{"configmaps"} // the claim, which says where the data is
	}
	for _, kind := range kinds {
		if !chaosenv.Part(t, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			e := harness.StartAlone(t, harness.Nodes(2))
			e.Lease = time.Minute
			seen := newViews()
			seen.install(e)
			first, second := harness.PostgreSQL(&e.Administrator), harness.PostgreSQL(&e.Administrator)
			e.Run()
			apply(harness.ThinPool + fmt.Sprintf("  database: {postgresql: {host: 127.0.0.1, port: %d, sslMode: require, "+
				"credentialsSecret: linstor-db}}\n", first.Port))(e)
			e.Eventually("Ready on the first server", func() error { return ready("2/2", "2/2")(e) })
			before := listedAt(e)

			e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Database.PostgreSQL = second })
			e.Resume(e.WaitHold(v1alpha1.HoldUnsupportedChange), v1alpha1.OptionMigrate)
			on := harness.AddressOf(second)
			e.Eventually("Ready on the second server", func() error { return isIn(on)(e) })
			if err := e.Sim.World().Volumes().Create("pvc-since", 1<<20, "ssd", "n1"); err != nil {
				t.Fatal(err)
			}
			e.StopOperator()
			release := seen.travel(kind, before)
			e.Run()
			e.Sim.World().CrashController()
			e.During(staleLong, "LINSTOR's configuration names the second server", func() error {
				var config corev1.Secret
				err := e.Client().Get(e.Ctx, workload(resources.ControllerConfigName), &config)
				if err != nil {
					return err
				}
				if text := string(config.Data["linstor.toml"]); !strings.Contains(text, on) {
					return errors.New("linstor.toml: " + text)
				}
				return nil
			})
			release()
			e.Eventually("the volume is there", func() error { return errors.Join(isIn(on)(e), hasVolume(e, "pvc-since")) })
			injected("stale: " + kind + " after a move")
		})
	}
}

// hasVolume is an error unless LINSTOR knows the volume.
func hasVolume(e *harness.Env, name string) error {
	v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{Resources: true})
	if err != nil {
		return err
	}
	for _, r := range v.Resources {
		if r.Name == name {
			return nil
		}
	}
	return fmt.Errorf("LINSTOR does not know volume %s", name)
}
