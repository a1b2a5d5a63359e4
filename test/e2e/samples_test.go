package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// sample says what a sample's text asks its reader to prepare, and what comes of it.
type sample struct {
	machine func(i int, n *simcluster.NodeSpec)
	// prepare changes the manifest where it names what is the reader's own, and makes what has to be there before.
	prepare func(e *env, manifest string) string
	// volumes is true if it has StorageClasses, of each of which a volume is tried.
	volumes bool
	// pools are what each node has in the end: "name provider backing" in order.
	pools map[string][]string
	check func(e *env)
}

func onAll(pools ...string) map[string][]string {
	return map[string][]string{"n1": pools, "n2": pools, "n3": pools}
}

// withVolumeGroup makes the volume group that two of the samples take for granted.
func withVolumeGroup(_ int, n *simcluster.NodeSpec) {
	n.Machine.VolumeGroups = []sim.VolumeGroup{{Name: "vg_ssd", SizeKiB: 200 << 20,
		ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 180 << 20}}}}
}

func samples() map[string]sample {
	return map[string]sample{
		"storagecluster.yaml":   {machine: withVolumeGroup, pools: onAll("ssd LVM_THIN vg_ssd/thin"), volumes: true},
		"file.yaml":             {pools: onAll("file FILE_THIN /var/lib/linstor-pools/thin")},
		"lvm-thin-devices.yaml": {pools: onAll("ssd LVM_THIN vg_ssd/thin")},
		"zfs.yaml": {
			machine: func(i int, n *simcluster.NodeSpec) {
				if i > 0 {
					n.Labels["example.com/disk"] = "hdd"
				}
				if i > 1 {
					n.Machine.Disks = n.Machine.Disks[:2] // no spinning disk: the pool is optional
				}
			},
			pools: map[string][]string{"n1": {"fast ZFS_THIN tank/linstor"}, "n2": {"bulk ZFS bulk"}, "n3": nil},
		},
		"postgresql.yaml": {machine: withVolumeGroup, pools: onAll("ssd LVM_THIN vg_ssd/thin"), prepare: preparePostgreSQL,
			check: func(e *env) {
				if !e.Sim.World().Database("k8s").Empty() {
					e.T.Error("LINSTOR wrote to the Kubernetes API although PostgreSQL is its database")
				}
				var secret corev1.Secret
				key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ControllerConfigName}
				if err := e.Client().Get(e.Ctx, key, &secret); err != nil ||
					!strings.Contains(string(secret.Data["linstor.toml"]), "change-me") {
					e.T.Errorf("LINSTOR's configuration with the password is not in a Secret: %v", err)
				}
			}},
	}
}

// TestSamples applies each sample as it is to a cluster that has what the sample's text asks for.
func TestSamples(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "deploy", "samples")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	known := samples()
	for _, entry := range entries {
		if entry.IsDir() {
			continue // objects of other kinds: test/deploy checks those
		}
		t.Run(entry.Name(), func(t *testing.T) {
			s, ok := known[entry.Name()]
			if !ok {
				t.Fatal("no test says what this sample needs")
			}
			manifest, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			s.run(t, string(manifest))
		})
		delete(known, entry.Name())
	}
	for name := range known {
		t.Errorf("the sample %s is gone", name)
	}
}

func (s sample) run(t *testing.T, manifest string) {
	t.Helper()
	ns := harness.Nodes(3)
	for i := range ns {
		if s.machine != nil {
			s.machine(i, &ns[i])
		}
	}
	begin := start
	if s.volumes {
		begin = startWithDriver
	}
	e := begin(t, ns)
	if s.prepare != nil {
		manifest = s.prepare(e, manifest)
	}
	e.Run()
	e.Apply(manifest)
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if got := harness.Condition(c, conditions.Ready); got != "True/Ready" {
		t.Errorf("Ready is %s", got)
	}
	for name, want := range s.pools {
		n, err := e.LinstorNode(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := poolList(n); !slices.Equal(got, want) {
			t.Errorf("pools of %s: %q, want %q", name, got, want)
		}
	}
	if s.check != nil {
		s.check(e)
	}
}

// poolList are a node's pools without the diskless one that every node has.
func poolList(n *linstor.Node) []string {
	var out []string
	for _, p := range n.Pools {
		if p.Provider != "DISKLESS" {
			out = append(out, p.Name+" "+p.Provider+" "+p.Backing)
		}
	}
	slices.Sort(out)
	return out
}

// preparePostgreSQL makes the Secret of the sample's text and puts the address of a stand-in for the server into the
// manifest.
func preparePostgreSQL(e *env, manifest string) string {
	e.T.Helper()
	port := harness.PostgreSQL(&e.Administrator).Port
	const host = "host: postgresql.example.com"
	if strings.Count(manifest, host) != 1 {
		e.T.Fatalf("the sample has no line %q", host)
	}
	return strings.Replace(manifest, host, fmt.Sprintf("host: 127.0.0.1\n      port: %d", port), 1)
}
