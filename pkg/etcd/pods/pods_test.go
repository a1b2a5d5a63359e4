package pods_test

import (
	"encoding/json"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

func message(t *testing.T, r guard.Report) string {
	t.Helper()
	r.Configuration.Name = "n1-1"
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRefusal: a member is refused only while its container does not run, and by what the last one said.
func TestRefusal(t *testing.T) {
	lost := message(t, guard.Report{Refusal: seats.Lost, Message: "why", Log: &datadir.Log{Index: 7}})
	for name, tc := range map[string]struct {
		etcd pods.Container
		want seats.Refusal
	}{
		"it waits after a refusal":     {pods.Container{Message: lost}, seats.Lost},
		"it runs after a refusal":      {pods.Container{Running: true, Message: lost}, ""},
		"it waits after etcd's end":    {pods.Container{Message: message(t, guard.Report{})}, ""},
		"it waits after a panic":       {pods.Container{Message: "panic: x"}, ""},
		"it waits for its first start": {pods.Container{}, ""},
	} {
		if got := pods.Read(pods.Published{Etcd: tc.etcd}); got.Refusal != tc.want ||
			got.Refusal != "" && (got.Log.Index != 7 || got.Message != "why") {
			t.Errorf("%s: %q, want %q", name, got.Refusal, tc.want)
		}
	}
}

// TestDisk: what the guard has found last counts, and the log that an earlier look has found does not any more.
func TestDisk(t *testing.T) {
	own, other := datadir.Found{Log: true, Owner: datadir.Owner{Name: "n1-1"}}, datadir.Found{Data: true}
	take := pods.Container{Message: message(t, guard.Report{Log: &datadir.Log{Index: 5}, Found: &own})}
	if got := pods.Read(pods.Published{Take: take}); *got.Disk != own || got.Log.Index != 5 {
		t.Errorf("%+v", got)
	}
	etcd := pods.Container{Message: message(t, guard.Report{Refusal: seats.Found, Found: &other})}
	if got := pods.Read(pods.Published{Take: take, Etcd: etcd}); *got.Disk != other || got.Log != nil {
		t.Errorf("%+v", got)
	}
}

// TestRead: what a pod runs with is read from its annotations and from the report of its init container.
func TestRead(t *testing.T) {
	want := seats.Template{Member: "n1-1", Version: "v3.6.14", Revision: "r"}
	got := pods.Read(pods.Published{UID: "7", Annotations: pods.Annotations(want), Ready: true, Deleted: true,
		Take: pods.Container{Message: message(t, guard.Report{Log: &datadir.Log{Index: 5}})}})
	if got.Template != want || got.UID != "7" || !got.Ready || !got.Terminating || got.Configuration == nil ||
		got.Configuration.Name != "n1-1" || got.Log.Index != 5 || got.Refusal != "" {
		t.Errorf("%+v", got)
	}
	if got := pods.Read(pods.Published{}); got != (seats.Pod{}) {
		t.Errorf("%+v", got)
	}
}
