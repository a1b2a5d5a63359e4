package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestTheDatabaseIsLookedIntoOnlyBeforeItIsClaimed(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	if s := b.observe(); !s.Database.Checked || !cmp.Equal(s.Database.Nodes, []string{"old"}) {
		t.Errorf("%+v", s.Database)
	}
	b = newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{},
		resources.Claim("linstor", resources.ClaimData{Backend: "k8s"}))
	if s := b.observe(); s.Database.Checked || b.src.probes != 0 || s.Unreadable != nil {
		t.Errorf("claimed: %+v, %v", s.Database, s.Unreadable)
	}
	sql := v1alpha1.StorageClusterSpec{Database: v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db",
		CredentialsSecret: "none"}}}
	b = newBench(t, sql, interceptor.Funcs{})
	if s := b.observe(); !s.Database.Checked || s.Database.Err == nil || b.src.probes != 0 {
		t.Errorf("without credentials: %+v", s.Database)
	}
}

// The database that LINSTOR's data is to be moved into is looked into as long as no pod writes there.
func TestTheNextDatabaseIsLookedInto(t *testing.T) {
	const to = "jdbc:mariadb://db:3306/linstor"
	mover := pod("linstor-move-1", v1alpha1.ComponentRestore, "n01", nil)
	for name, tc := range map[string]struct {
		claim  resources.ClaimData
		pods   []client.Object
		looked bool
	}{
		"somebody has consented":            {resources.ClaimData{MoveTo: to}, nil, true},
		"nobody has consented":              {resources.ClaimData{}, nil, false},
		"somebody has consented to another": {resources.ClaimData{MoveTo: "jdbc:mariadb://db2:3306/linstor"}, nil, false},
		"a pod writes there": {resources.ClaimData{MoveTo: to, Moving: to + "@1"}, []client.Object{mover},
			false},
		"a pod is to write there":             {resources.ClaimData{MoveTo: to, Moving: to + "@1"}, nil, true},
		"a backup is being imported":          {resources.ClaimData{MoveTo: to, Restoring: "manual-a@5a@1"}, nil, false},
		"LINSTOR is being upgraded meanwhile": {resources.ClaimData{MoveTo: to, UpgradeTo: "1.35.3"}, nil, false},
	} {
		tc.claim.Backend, tc.claim.LocalID = "k8s", "local-id"
		b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{},
			append(tc.pods, resources.Claim("linstor", tc.claim))...)
		b.c.Spec.Database.MariaDB = &v1alpha1.SQLDatabase{Host: "db"}
		if s := b.observe(); s.Database.Checked != tc.looked || tc.looked != (b.src.probes == 1) {
			t.Errorf("%s: %+v, %d looks", name, s.Database, b.src.probes)
		}
	}
}

// A database that was emptied and restored while its hold waits for adopt: the answer must not meet the look in
// between.
func TestAnAnswerAboutTheDatabaseLooksAnew(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	b.c.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldForeignLinstorFound,
		Options: []v1alpha1.HoldOption{{Answer: v1alpha1.OptionAdopt}, {Answer: v1alpha1.OptionRetry}}}
	b.observe()
	for _, tc := range []struct {
		answer string
		want   int
	}{{"", 1}, {"h-0:adopt", 1}, {"h-1:retry", 1}, {"h-1:adopt", 2}} {
		b.c.Annotations = map[string]string{v1alpha1.AnnotationResume: tc.answer}
		if b.observe(); b.src.probes != tc.want {
			t.Errorf("with the answer %q: %d looks, want %d", tc.answer, b.src.probes, tc.want)
		}
	}
	b.c.Annotations = nil
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{b.Timing.PollWorking - time.Nanosecond, 2}, {time.Nanosecond, 3}} {
		b.clock.SetTime(b.clock.Now().Add(tc.after))
		if b.observe(); b.src.probes != tc.want {
			t.Errorf("%s later: %d looks, want %d", tc.after, b.src.probes, tc.want)
		}
	}
}
