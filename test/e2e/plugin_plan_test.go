package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// planned runs "kubectl linstor plan" with a manifest; "" for the stored object.
func planned(e *env, manifest string, args ...string) (code int, out, said string) {
	e.T.Helper()
	return judged(e, "plan", manifest, args...)
}

// judged runs a command of the plugin for which the operator judges a manifest, "" for the stored object. The
// operator's part of it runs in this process: simulated kubelets run no commands.
func judged(e *env, command, manifest string, args ...string) (code int, out, said string) {
	e.T.Helper()
	args = append([]string{command}, args...)
	if manifest != "" {
		path := filepath.Join(e.T.TempDir(), "storagecluster.yaml")
		if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
			e.T.Fatal(err)
		}
		args = append(args, "-f", path)
	}
	return pluginWith(e, func(p *access.Env) {
		connect := p.Connect
		p.Connect = func() (*access.Cluster, error) {
			c, err := connect()
			if err == nil {
				c.Plan, c.Disks = inProcess(e.Plan), inProcess(e.Disks)
			}
			return c, err
		}
	}, args...)
}

// inProcess is what the operator's program would print.
func inProcess[T any](judge func(context.Context, *v1alpha1.StorageCluster) (*T, error)) func(context.Context,
	[]byte) ([]byte, error) {
	return func(ctx context.Context, manifest []byte) ([]byte, error) {
		wanted, err := operator.ReadManifest(ctx, bytes.NewReader(manifest))
		if err != nil {
			return nil, err
		}
		said, err := judge(ctx, wanted)
		if err != nil {
			return nil, err
		}
		return json.Marshal(said)
	}
}

// TestPluginPlan plans edits of a cluster at rest. None of them writes anything, to Kubernetes or to LINSTOR.
func TestPluginPlan(t *testing.T) {
	e := start(t, harness.Nodes(4))
	e.Run()
	current := harness.Manifest("  version: 1.33.3\n  nodes: {network: {mode: Host}, properties: {Aux/site: a}}" +
		harness.ThinPool)
	e.Apply(current)
	e.ready("4/4", "4/4")
	edit := func(from, to string) string {
		t.Helper()
		if !strings.Contains(current, from) {
			t.Fatalf("no %q in %s", from, current)
		}
		return strings.Replace(current, from, to, 1)
	}
	comeToRest(e)
	before := e.Get()
	mark := e.AuditMark()
	e.Sim.World().ResetRequests()

	for _, tc := range []struct {
		name, manifest string
		code           int
		wants          []string
	}{
		{"nothing", current, exit.Done, []string{"nothing would change"}},
		{"the stored object", "", exit.Done, []string{"nothing would change"}},
		{"an upgrade", edit("1.33.3", "1.35.3"), exit.Done, []string{"version 1.33.3 → 1.35.3", "Upgrading",
			"LINSTOR will be upgraded from 1.33.3 to 1.35.3"}},
		{"a withdrawn version", edit("1.33.3", "1.34.2"), exit.WouldBeRefused, []string{"LINSTOR 1.34.2 is withdrawn",
			"fixed in 1.35.3", "back to 1.33.3"}},
		{"an unknown version", edit("1.33.3", "9.9.9"), exit.WouldBeRefused, []string{"Rejected by operator",
			"UnsupportedChange", "does not support LINSTOR 9.9.9", "option retry"}},
		{"the network's mode", edit("mode: Host", "mode: Pod"), exit.WouldBeRefused, []string{
			"changing Host to Pod would leave"}},
		{"an invalid value", edit("site: a}", "site: a}, minReady: 0"), exit.WouldBeRefused, []string{
			"Rejected by API server", "spec.nodes.minReady"}},
		{"an unknown field", edit("  version:", "  verzion:"), exit.WouldBeRefused, []string{"Rejected by API server",
			"verzion"}},
		{"resources of the satellites", edit("mode: Host}", "mode: Host}, satellite: {resources: {limits: {memory: 1Gi}}}"),
			exit.Done, []string{"Restart satellites (4 pods", "one first, then up to 1 at a time",
				"change DaemonSet linstor-satellite"}},
		{"a pool on disks", current + "  - name: hot\n    lvm: {volumeGroup: vg_hot}\n" +
			"    devices: {match: [{serial: \"S4EV*\"}]}\n", exit.Done, []string{
			"storagePools[hot] new: {devices: {match:", "StoragePools", "hot", "S4EV"}},
		{"no node is picked", edit("mode: Host}",
			"mode: Host}, removalPolicy: Remove, nodeSelector: {example.com/storage: \"no\"}"), exit.Done, []string{
			"Nodes leave 4 nodes", "TooManyNodesLeaving", "removalPolicy Remove"}},
		{"certificates", edit("  version:", "  tls: {mode: Managed}\n  version:"), exit.Done, []string{
			"Restart satellites (4 pods", "LINSTOR controller (1 pod", "create Secret linstor-satellite-netcom-tls"}},
		{"a backup", edit("{name: linstor}",
			"{name: linstor, annotations: {storage.linstor.dev/backup: now}}"), exit.Done, []string{
			"the edit would be accepted", "annotation storage.linstor.dev/backup would be set"}},
		{"a property of the nodes", edit("site: a", "site: b"), exit.Done, []string{"Aux/site=b"}},
	} {
		code, out, said := planned(e, tc.manifest)
		if code != tc.code {
			t.Errorf("%s: code %d: %s%s", tc.name, code, out, said)
		}
		contains(e, strings.ReplaceAll(out, "│", " "), tc.wants...)
	}
	if code, out, _ := planned(e, edit("site: a", "site: b"), "--exit-code", "-o", "json"); code != exit.WouldChange {
		t.Errorf("--exit-code: %d", code)
	} else {
		var p result.Plan
		if err := json.Unmarshal([]byte(out), &p); err != nil || p.Outcome != result.Changes || len(p.Fields) != 1 {
			t.Errorf("%v: %s", err, out)
		}
	}
	expectNothingWritten(e, mark, before)
}

// expectNothingWritten checks that neither what planned nor the operator has written anything since the mark, dry runs
// aside.
func expectNothingWritten(e *env, mark int, before *v1alpha1.StorageCluster) {
	e.T.Helper()
	all, err := e.Sim.AuditEvents()
	if err != nil {
		e.T.Fatal(err)
	}
	dry, planned := 0, 0
	for _, ev := range all[mark:] {
		switch {
		case strings.HasPrefix(ev.UserAgent, harness.PlanAgent):
			planned++
			if ev.Mutating() {
				e.T.Errorf("a plan has sent %s %s", ev.Verb, ev.RequestURI)
			}
		case !ev.Mutating() || !strings.HasPrefix(ev.UserAgent, access.Owner):
		case strings.Contains(ev.RequestURI, "dryRun=All"):
			dry++
		default:
			e.T.Errorf("the plugin has sent %s %s", ev.Verb, ev.RequestURI)
		}
	}
	if dry == 0 || planned == 0 {
		e.T.Errorf("%d dry runs, %d requests of plans", dry, planned)
	}
	if w := e.Writes(mark); len(w) > 0 {
		e.T.Errorf("the operator has written meanwhile: %s", harness.Tally(w))
	}
	for _, w := range e.Sim.World().Writes() {
		e.T.Errorf("LINSTOR was written to: %s %s", w.Method, w.Path)
	}
	if after := e.Get(); after.ResourceVersion != before.ResourceVersion {
		e.T.Errorf("the StorageCluster has changed: %s, %s", before.ResourceVersion, after.ResourceVersion)
	}
}
