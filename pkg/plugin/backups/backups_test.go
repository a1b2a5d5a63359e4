package backups_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// cluster is one whose backups go to a bucket.
func cluster() *v1alpha1.StorageCluster {
	c := plugintest.Healthy(3)
	c.Spec.Backup.S3 = &backupspec.S3Spec{Endpoint: "https://s3.example.com", Bucket: "my-backups", Prefix: "linstor"}
	return c
}

func claim() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "linstor-claim"},
		Data: map[string]string{"localID": "1b1e8c6e"}}
}

// answers lets the operator do something with the status once a backup was asked for.
func answers(follow func(*v1alpha1.StorageCluster)) plugintest.Faults {
	return plugintest.Faults{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		if err := c.Patch(ctx, o, p, opts...); err != nil {
			return err
		}
		sc := &v1alpha1.StorageCluster{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), sc); err != nil {
			return err
		}
		follow(sc)
		return c.Status().Update(ctx, sc)
	}}
}

func takes(sc *v1alpha1.StorageCluster) {
	name := sc.Annotations[v1alpha1.AnnotationBackup]
	sc.Status.Backup.Requested = name
	sc.Status.Backup.Last = &backupspec.Backup{ID: "manual-" + name, Taken: plugintest.Before(0), Linstor: "1.35.3",
		Bytes: 4711, ResourceDefinitions: 12, Verified: backupspec.VerifyParse}
}

func fails(sc *v1alpha1.StorageCluster) {
	sc.Status.Backup.Current = &backupspec.CurrentBackup{ID: "manual-" + sc.Annotations[v1alpha1.AnnotationBackup],
		Since: plugintest.Before(0), Attempts: 1, Message: "there is no bucket my-backups"}
}

// refuses ends the request, as before an upgrade of a LINSTOR that cannot be backed up.
func refuses(sc *v1alpha1.StorageCluster) {
	sc.Status.Backup.Request = &backupspec.Request{Name: sc.Annotations[v1alpha1.AnnotationBackup], Linstor: "1.33.3",
		Refused: "backup manual-mine is not taken: LINSTOR is too old"}
}

func TestBackup(t *testing.T) {
	suspended, none, busy, known, old := cluster(), cluster(), cluster(), cluster(), cluster()
	old.Annotations = map[string]string{v1alpha1.AnnotationBackup: "mine"}
	refuses(old)
	suspended.Spec.Suspend = true
	none.Spec.Backup = nil
	busy.Annotations = map[string]string{v1alpha1.AnnotationBackup: "other"}
	known.Status.Backup.Requested = "mine"
	for name, c := range map[string]struct {
		cluster *v1alpha1.StorageCluster
		args    string
		follow  func(*v1alpha1.StorageCluster)
		code    int
		says    []string
	}{
		"taken": {cluster(), "--name before-the-move", takes, exit.Done, []string{
			"manual-before-the-move, taken at 2026-11-27T12:00:00Z", "12 volumes, 4711 bytes",
			"s3://my-backups/linstor/1b1e8c6e/20261127T120000Z-manual-before-the-move.json.gz"}},
		"named by the time": {cluster(), "", takes, exit.Done, []string{"manual-20261127t120000z"}},
		"fails": {cluster(), "--name mine --timeout 60ms", fails, exit.Failed,
			[]string{"attempt 1 failed: there is no bucket", "the request remains"}},
		"nobody there": {cluster(), "--name mine --timeout 60ms", func(*v1alpha1.StorageCluster) {}, exit.Failed,
			[]string{"check whether it is running"}},
		"not configured":        {none, "--name mine", takes, exit.Failed, []string{"spec.backup is not set"}},
		"suspended":             {suspended, "--name mine", takes, exit.Failed, []string{"spec.suspend"}},
		"another one":           {busy, "--name mine", takes, exit.Failed, []string{"manual-other has been requested but"}},
		"taken already":         {known, "--name mine", takes, exit.Failed, []string{"has already been taken"}},
		"it ends":               {cluster(), "--name mine", refuses, exit.Failed, []string{"LINSTOR is too old"}},
		"it has ended":          {old, "--name mine", takes, exit.Failed, []string{"is not taken: LINSTOR is too old"}},
		"another one has ended": {old, "--name yours", takes, exit.Done, []string{"manual-yours, taken at"}},
		"no name":               {cluster(), "--name Mine!", takes, exit.Usage, []string{"lowercase letters"}},
		"an empty name":         {cluster(), "--name=", takes, exit.Usage, []string{"lowercase letters"}},
		"another one came later": {cluster(), "--name mine", func(sc *v1alpha1.StorageCluster) {
			takes(sc)
			sc.Status.Backup.Last.ID = "scheduled-20261127120001"
		}, exit.Done, []string{"manual-mine was taken, but the status already shows a later backup"}},
		"list": {cluster(), "list", takes, exit.Done, []string{"Backups are stored in s3://my-backups/linstor/1b1e8c6e/ " +
			"at https://s3.example.com", "scheduled-20261127090000", "Next: 2026-11-27T15:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := plugintest.New(t, nil, answers(c.follow), c.cluster, claim())
			code := root.Run(t.Context(), s.Env, append([]string{"backup"}, strings.Fields(c.args)...))
			said := strings.Join(strings.Fields(s.Out.String()+" "+s.Err.String()), " ")
			if code != c.code {
				t.Errorf("code %d: %s", code, said)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in %s", want, said)
				}
			}
		})
	}
}

// TestMistyped: a command that is mistyped takes no backup.
func TestMistyped(t *testing.T) {
	for _, word := range []string{"ls", "lsit", "mine"} {
		sc := cluster()
		s := plugintest.New(t, nil, answers(takes), sc)
		code := root.Run(t.Context(), s.Env, []string{"backup", word})
		now := &v1alpha1.StorageCluster{}
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(sc), now); err != nil {
			t.Fatal(err)
		}
		if code != exit.Usage || len(now.Annotations) > 0 {
			t.Errorf("%s: code %d, annotations %v", word, code, now.Annotations)
		}
	}
}

// TestBrokenConnection: looks that fail do not end the wait; where none can succeed any more, it says what stays.
func TestBrokenConnection(t *testing.T) {
	resource := schema.GroupResource{Group: "storage.linstor.dev", Resource: "storageclusters"}
	for name, c := range map[string]struct {
		fault error
		code  int
		says  string
	}{
		"a restart": {apierrors.NewServiceUnavailable("the API server restarts"), exit.Done, "manual-mine, taken at "},
		"no right any more": {apierrors.NewForbidden(resource, v1alpha1.ClusterName, nil), exit.Failed,
			"The request remains"},
	} {
		faults, asked := answers(takes), false
		patch := faults.Patch
		faults.Patch = func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			asked = true
			return patch(ctx, w, o, p, opts...)
		}
		failed := 0
		faults.Get = func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if asked && failed < 2 {
				failed++
				return c.fault
			}
			return w.Get(ctx, key, o, opts...)
		}
		s := plugintest.New(t, nil, faults, cluster(), claim())
		code := root.Run(t.Context(), s.Env, []string{"backup", "--name", "mine"})
		if said := s.Out.String() + s.Err.String(); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: code %d: %s", name, code, said)
		}
	}
}
