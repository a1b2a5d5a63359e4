package crd

import (
	"strings"
	"testing"
)

// TestScale: kubectl scale sets the number of members of an etcd that the spec has, and chooses no other database.
func TestScale(t *testing.T) {
	t.Cleanup(func() { remove(t) })
	const replicas = "jsonpath={.spec.database.managedEtcd.replicas}"
	kubectl(t, manifest("version: 1.33.2"), "apply", "-f", "-")
	out, err := kubectlCommand(t.Context(), "", "scale", "storagecluster", "linstor", "--replicas=3")
	if err == nil || !strings.Contains(out, "spec.database.managedEtcd is not set") {
		t.Errorf("without managedEtcd: %v\n%s", err, out)
	}
	if got := kubectl(t, "", "get", "lsc", "linstor", "-o", replicas); got != "" {
		t.Errorf("without managedEtcd: %s members", got)
	}
	remove(t)
	for _, etcd := range []string{"{}", "{replicas: 1}", "{dataPath: /mnt/etcd}"} {
		kubectl(t, manifest("version: 1.33.2, database: {managedEtcd: "+etcd+"}"), "apply", "-f", "-")
		kubectl(t, "", "scale", "storagecluster", "linstor", "--replicas=5")
		if got := kubectl(t, "", "get", "lsc", "linstor", "-o", replicas); got != "5" {
			t.Errorf("%s: %s members", etcd, got)
		}
		kubectl(t, "", "patch", "lsc", "linstor", "--type=merge", "-p",
			`{"spec":{"database":{"managedEtcd":{"replicas":3}}}}`)
		remove(t)
	}
	// Neither a patch nor a manifest has to name the directory.
	kubectl(t, manifest("version: 1.33.2"), "apply", "--server-side", "-f", "-")
	kubectl(t, "", "patch", "lsc", "linstor", "--type=merge", "-p", `{"spec":{"database":{"managedEtcd":{}}}}`)
}
