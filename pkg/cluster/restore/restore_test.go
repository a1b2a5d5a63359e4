package restore

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestOf(t *testing.T) {
	deleted := func(c *v1alpha1.StorageCluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	for name, tc := range map[string]struct {
		asked  string
		claim  resources.ClaimData
		change func(*v1alpha1.StorageCluster)
		want   store.ID
		begun  bool
		says   string
	}{
		"nothing":              {},
		"asked for":            {asked: "manual-a", want: "manual-a"},
		"done":                 {asked: "manual-a", claim: resources.ClaimData{Restored: "manual-a"}},
		"another one was done": {asked: "manual-a", claim: resources.ClaimData{Restored: "manual-b"}, want: "manual-a"},
		"under way":            {claim: resources.ClaimData{Restoring: "manual-a@5a"}, want: "manual-a", begun: true},
		"under way, asked for": {asked: "manual-a", claim: resources.ClaimData{Restoring: "manual-a@5a"}, want: "manual-a",
			begun: true},
		"another one is wanted": {asked: "manual-b", claim: resources.ClaimData{Restoring: "manual-a@5a"}, want: "manual-b"},
		"no ID":                 {asked: "a", says: "is not a valid backup ID"},
		"no ID, under way": {asked: "a", claim: resources.ClaimData{Restoring: "manual-a@5a"}, want: "manual-a", begun: true,
			says: "is not a valid backup ID"},
		"very long": {asked: "manual-" + strings.Repeat("a", 1<<20), says: "is not a valid backup ID"},
		"no store": {asked: "manual-a", change: func(c *v1alpha1.StorageCluster) { c.Spec.Backup = nil },
			says: "spec.backup is not set"},
		"no store, under way": {claim: resources.ClaimData{Restoring: "manual-a@5a"}, want: "manual-a", begun: true,
			change: func(c *v1alpha1.StorageCluster) { c.Spec.Backup = nil }},
		"being deleted": {asked: "manual-a", change: deleted, says: "being deleted"},
		"being deleted, under way": {asked: "manual-a", claim: resources.ClaimData{Restoring: "manual-a@5a"},
			change: deleted, want: "manual-a", begun: true, says: "being deleted"},
		"an upgrade is taken back": {claim: takenBack("", ""), want: "upgrade-1-2-x"},
		"an upgrade is taken back, another backup is asked for": {asked: "manual-b", claim: takenBack("", ""),
			want: "upgrade-1-2-x", says: "rolled back to 1"},
		"an upgrade is taken back, under way": {claim: takenBack("upgrade-1-2-x@5a", ""), want: "upgrade-1-2-x",
			begun: true},
		"its import fails, and another backup is asked for": {asked: "manual-b",
			claim: takenBack("upgrade-1-2-x@5a", ""), want: "manual-b"},
		"an upgrade is taken back, being deleted": {claim: takenBack("", ""), change: deleted},
		"an upgrade is taken back, under way, being deleted": {claim: takenBack("upgrade-1-2-x@5a", ""), change: deleted,
			want: "upgrade-1-2-x", begun: true},
		"an upgrade was taken back": {claim: takenBack("", "done")},
		"upgrade": {asked: "manual-a", claim: resources.ClaimData{UpgradeTo: "1.35.3"},
			says: "upgraded to 1.35.3"},
	} {
		c := &v1alpha1.StorageCluster{}
		c.Spec.Backup = &backupspec.BackupSpec{}
		c.Annotations = map[string]string{v1alpha1.AnnotationRestore: tc.asked}
		if tc.change != nil {
			tc.change(c)
		}
		tc.claim.LocalID = "1b1e"
		o := Of(c, tc.claim)
		if o == nil {
			o = &Order{Importing: Backup{ID: "none"}}
		}
		if o.ID != tc.want || o.UnderWay() != tc.begun {
			t.Errorf("%s: %+v", name, o)
		}
		why := Obstacle(c, tc.claim)
		if (why != "") != (tc.says != "") || !strings.Contains(why, tc.says) || len(why) > 500 {
			t.Errorf("%s: %.600q, want %q", name, why, tc.says)
		}
	}
	c := &v1alpha1.StorageCluster{Spec: v1alpha1.StorageClusterSpec{Backup: &backupspec.BackupSpec{}}}
	c.Annotations = map[string]string{v1alpha1.AnnotationRestore: "manual-a"}
	if Of(c, resources.ClaimData{}) != nil || !strings.Contains(Obstacle(c, resources.ClaimData{}), "not been recorded") {
		t.Error("of a database that is not known")
	}
}

// takenBack is the claim of an upgrade that is taken back.
func takenBack(restoring, done string) resources.ClaimData {
	c := resources.ClaimData{Version: "1", UpgradeTo: "2", UpgradeBackup: "upgrade-1-2-x", RolledBack: "1>2",
		Restoring: restoring}
	if done != "" {
		rollback.End(&c)
	}
	return c
}

func TestConsent(t *testing.T) {
	for _, c := range []Consent{{Backup{"manual-a", "5a"}, ""}, {Backup{"scheduled-20261126t080000z", "5a"}, "d1"}} {
		if got, ok := ParseConsent(c.String()); !ok || got != c {
			t.Errorf("%+v is read as %+v", c, got)
		}
	}
	mark := Backup{"manual-a", "5a"}.Mark(time.Unix(1, 0))
	if b, ok := parse(mark); !ok || b != (Backup{"manual-a", "5a"}) || mark == b.Mark(time.Unix(2, 0)) {
		t.Errorf("mark %q", mark)
	}
	for _, text := range []string{"", "manual-a", "manual-a@5a", "manual-a:d1"} {
		if got, ok := ParseConsent(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
