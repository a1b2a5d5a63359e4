package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/util/workqueue"
)

// mover is a LINSTOR that only exports and imports.
type mover struct {
	importer
	exported  ControllerConfig
	exportErr error
}

func (m *mover) ExportDatabase(_ context.Context, c ControllerConfig) ([]byte, error) {
	if m.exportErr != nil {
		return nil, m.exportErr
	}
	m.exported = c
	return []byte("exported from " + c.TOML), nil
}

// rights is an API server that allows everything, or nothing.
type rights struct {
	kubernetes.Interface
	authorization.AuthorizationV1Interface
	authorization.SubjectAccessReviewInterface
	allowed bool
}

func (r rights) AuthorizationV1() authorization.AuthorizationV1Interface { return r }

func (r rights) SubjectAccessReviews() authorization.SubjectAccessReviewInterface { return r }

func (r rights) Create(context.Context, *authorizationv1.SubjectAccessReview,
	metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	return &authorizationv1.SubjectAccessReview{
		Status: authorizationv1.SubjectAccessReviewStatus{Allowed: r.allowed}}, nil
}

const (
	etcdTOML = "[db]\nconnection_url = \"etcd://e:2379\"\n"
	k8sTOML  = "[db]\nconnection_url = \"k8s\"\n"
	sqlTOML  = "[db]\nconnection_url = \"jdbc:postgresql://db/linstor\"\n"
)

// movePod is a pod that moves LINSTOR's data.
func movePod(command ...string) *corev1.Pod {
	pod := importPod(command...)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "target", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "target"}}}})
	c := &pod.Spec.InitContainers[0]
	c.Name = MoveDatabase
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "target", MountPath: "/target"})
	return pod
}

// moveDriver has what a move needs: both configurations, what the claim says, and whether the pod may use the database
// in Kubernetes.
func moveDriver(t *testing.T, linstor Machines, source, target, moving string, allowed bool) *Driver {
	d := importDriver(t, linstor, "")
	d.files = Files{objects{"linstor": {"linstor.toml": source}, "target": {"linstor.toml": target},
		"claim": {"moving": moving, "restoring": "mark"}}}
	d.client = rights{allowed: allowed}
	return d
}

func TestMoveDatabase(t *testing.T) {
	const notMoved = "the claim does not say that LINSTOR's database is being moved"
	command := []string{"/usr/bin/k8s-await-election", "/bin/sh", "-c", "…", MoveDatabase, "mark", "source"}
	for name, tt := range map[string]struct {
		command        []string
		claim          string
		source, target string
		forbidden      bool
		exports        error
		imports        error
		code           int32
		says           string
	}{
		"moves":           {command: command, claim: "mark", source: etcdTOML, target: k8sTOML},
		"a line of words": {command: command, claim: "mark\n", source: k8sTOML, target: sqlTOML},
		"no election":     {command: command[1:], claim: "mark", source: k8sTOML, target: sqlTOML},
		"needs no rights": {command: command, claim: "mark", source: etcdTOML, target: sqlTOML, forbidden: true},
		"another move":    {command: command, claim: "other", source: etcdTOML, target: sqlTOML, code: 1, says: notMoved},
		"no move":         {command: command, source: etcdTOML, target: sqlTOML, code: 1, says: notMoved},
		"no rights on the source": {command: command, claim: "mark", source: k8sTOML, target: sqlTOML, forbidden: true,
			code: 1, says: "is forbidden"},
		"no rights on the target": {command: command, claim: "mark", source: sqlTOML, target: k8sTOML, forbidden: true,
			code: 1, says: "is forbidden"},
		"the export fails": {command: command, claim: "mark", source: etcdTOML, target: sqlTOML, exports: errors.New("gone"),
			code: 1, says: "linstor-database export-db ended with status 1: gone"},
		"the import fails": {command: command, claim: "mark", source: etcdTOML, target: sqlTOML, imports: errors.New("full"),
			code: 1, says: "linstor-database import-db ended with status 1: full"},
		"another source": {command: append(slices.Clone(command[:6]), "k8s"), claim: "mark", source: etcdTOML,
			target: sqlTOML, code: 1, says: "does not name the database k8s"},
		"another target": {command: append(slices.Clone(command[:5]), "k8s@1", "source"), claim: "k8s@1", source: etcdTOML,
			target: sqlTOML, code: 1, says: "does not name the database k8s"},
		"no mark": {command: command[:5], claim: "mark", code: 127, says: "is not simulated"},
		"an import": {command: []string{"k8s-await-election", "/bin/sh", "-c", "…", ImportDatabase, "mark"}, claim: "mark",
			code: 127, says: "is not simulated"},
	} {
		t.Run(name, func(t *testing.T) {
			linstor := &mover{importer: importer{err: tt.imports}, exportErr: tt.exports}
			named := strings.NewReplacer("mark", urlIn(tt.target)+"@1", "source", urlIn(tt.source))
			d := moveDriver(t, linstor, tt.source, tt.target, named.Replace(tt.claim), !tt.forbidden)
			run := &podRun{dir: t.TempDir()}
			var command []string
			for _, word := range tt.command {
				command = append(command, named.Replace(word))
			}
			got := ended(t, d, run, movePod(command...))
			if !got.ended || got.exit.code != tt.code || !strings.Contains(got.exit.message, tt.says) {
				t.Errorf("%+v, want code %d, %q", got, tt.code, tt.says)
			}
			exported, _ := os.ReadFile(filepath.Join(run.dir, exportFile)) // "" if there is none
			restored, _ := os.ReadFile(filepath.Join(run.dir, restoredFile))
			want := [5]string{}
			if tt.code == 0 {
				from := "exported from " + tt.source
				want = [5]string{from, "restored from " + tt.target, from, "1.34.0", tt.source}
			}
			if tt.imports != nil {
				want[0], want[4] = "exported from "+tt.source, tt.source
			}
			if got := [5]string{string(exported), string(restored), linstor.imported, linstor.version,
				linstor.exported.TOML}; got != want {
				t.Errorf("both files, what was imported, by which version, and the source:\n%q, want\n%q", got, want)
			}
		})
	}
}

// urlIn is the database that a linstor.toml of these tests names.
func urlIn(toml string) string {
	_, rest, _ := strings.Cut(toml, `"`)
	url, _, _ := strings.Cut(rest, `"`)
	return url
}

// TestMoveWaitsForItsFiles: a container with a ConfigMap that is not there is not created.
func TestMoveWaitsForItsFiles(t *testing.T) {
	for _, lacks := range []string{"linstor", "target", "claim"} {
		d := moveDriver(t, nil, etcdTOML, sqlTOML, "mark", true)
		delete(d.files.Objects.(objects), lacks)
		pod := movePod("k8s-await-election", "/bin/sh", "-c", "…", MoveDatabase, "mark", "source")
		begun, err := d.begin(t.Context(), &podRun{dir: t.TempDir()}, pod, &pod.Spec.InitContainers[0])
		if err == nil || !strings.Contains(err.Error(), lacks) {
			t.Errorf("began %+v without %s: %v", begun, lacks, err)
		}
	}
}

func TestCheckMoveNeedsBothFiles(t *testing.T) {
	const config = `{"cluster":"c","mark":"k8s@1","export":"/work/export.json","restored":"/work/restored.json"}`
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--check-move", config}, exportFile},
		{[]string{"--check-move", "move"}, "--check-move: "},
		{[]string{"--check-move"}, "not simulated"},
		{[]string{"--check-import", config}, "not simulated"},
	} {
		d := &Driver{queue: workqueue.NewTypedDelayingQueue[string](), faults: newFaults(func(string) {})}
		begun, err := d.begin(t.Context(), &podRun{dir: t.TempDir()}, &corev1.Pod{},
			&corev1.Container{Name: CheckMove, Args: tt.args})
		if err != nil {
			t.Fatal(err)
		}
		if running, ok := begun.(*programTask); ok {
			<-running.Done()
		}
		if got := begun.state(); !got.ended || got.exit.code != 1 || !strings.Contains(got.exit.message, tt.says) {
			t.Errorf("%q: %+v, want %q", tt.args, got, tt.says)
		}
		d.queue.ShutDown()
	}
}
