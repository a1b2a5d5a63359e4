package argocd

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func scripts(t *testing.T) *Scripts {
	t.Helper()
	s, err := Read(filepath.Join("..", "..", "deploy", "argocd", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// object is a StorageCluster with a spec and a status, in JSON without the braces.
func object(t *testing.T, metadata, spec, status string) map[string]any {
	t.Helper()
	text := `{"metadata":{"name":"linstor","generation":3` + metadata + `},"spec":{` + spec + `}`
	if status != "" {
		text += `,"status":{` + status + `}`
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(text+"}"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// conditions is a status with these conditions True, and two that are not.
func conditions(types ...string) string {
	list := `{"type":"Unlike","status":"False"},{"type":"Unseen","status":"Unknown"}`
	for _, t := range types {
		list += `,{"type":"` + t + `","status":"True"}`
	}
	return `"observedGeneration":3,"message":"so it is","conditions":[` + list + `]`
}

const hold = `,"hold":{"id":"a1b2c3","runbook":"https://example.com/runbook",
	"options":[{"answer":"skip"},{"answer":"retry"}]}`

func TestHealth(t *testing.T) {
	s := scripts(t)
	for name, tc := range map[string]struct{ metadata, status, want, says string }{
		"new":            {"", "", "Progressing", "has not looked"},
		"no conditions":  {"", `"observedGeneration":3`, "Progressing", "has not looked"},
		"an edited spec": {"", strings.Replace(conditions("Ready"), "3", "2", 1), "Progressing", "has not looked"},
		"installing":     {"", conditions("Reconciling"), "Progressing", "so it is"},
		"ready":          {"", conditions("Ready", "Available"), "Healthy", "so it is"},
		"ready, at work": {"", conditions("Ready", "Reconciling"), "Progressing", "so it is"},
		"degraded":       {"", conditions("Ready", "Degraded"), "Degraded", "so it is"},
		"suspended":      {"", conditions("Ready", "Suspended"), "Suspended", "so it is"},
		"a hold": {"", conditions("Stalled", "HumanInterventionRequired") + hold, "Degraded",
			"so it is: https://example.com/runbook"},
		"a hold, suspended": {"", conditions("Suspended", "HumanInterventionRequired") + hold, "Degraded", "so it is"},
		"goes":              {`,"deletionTimestamp":"2026-01-01T00:00:00Z"`, conditions("Ready"), "Progressing", "so it is"},
		"goes, unseen":      {`,"deletionTimestamp":"2026-01-01T00:00:00Z"`, "", "Progressing", "is being deleted"},
	} {
		status, message, err := s.Health(object(t, tc.metadata, "", tc.status))
		if err != nil || status != tc.want || !strings.Contains(message, tc.says) {
			t.Errorf("%s: %s, %q, %v; want %s, %q", name, status, message, err, tc.want, tc.says)
		}
	}
}

func TestActions(t *testing.T) {
	s := scripts(t)
	for name, tc := range map[string]struct {
		spec, status string
		want         []string
	}{
		"plain":                  {"", conditions("Ready"), []string{"suspend"}},
		"suspended":              {`"suspend":true`, conditions("Suspended"), []string{"unsuspend"}},
		"with backups":           {`"backup":{"schedule":"@daily"}`, conditions("Ready"), []string{"suspend", "back-up"}},
		"a hold":                 {"", conditions() + hold, []string{"suspend", "retry"}},
		"a hold without a retry": {"", conditions() + strings.Replace(hold, "retry", "adopt", 1), []string{"suspend"}},
		"new":                    {"", "", []string{"suspend"}},
	} {
		got, err := s.Actions(object(t, "", tc.spec, tc.status))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{"suspend": false, "unsuspend": false, "back-up": false, "retry": false}
		for _, a := range tc.want {
			want[a] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestAct: an action changes its field or annotation, and nothing else.
func TestAct(t *testing.T) {
	s := scripts(t)
	const spec = `"backup":{"schedule":"@daily"}`
	for name, tc := range map[string]struct {
		spec string
		want func(map[string]any)
	}{
		"suspend":   {spec, func(o map[string]any) { o["spec"].(map[string]any)["suspend"] = true }},
		"unsuspend": {spec + `,"suspend":true`, func(o map[string]any) { delete(o["spec"].(map[string]any), "suspend") }},
		"retry": {spec, func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{v1alpha1.AnnotationResume: "a1b2c3:retry"}
		}},
	} {
		before := object(t, "", tc.spec, conditions()+hold)
		got, err := s.Act(name, before)
		if err != nil {
			t.Fatal(err)
		}
		tc.want(before)
		if diff := cmp.Diff(before, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	got, err := s.Act("back-up", object(t, `,"annotations":{"a":"b"}`, spec, ""))
	if err != nil {
		t.Fatal(err)
	}
	annotations := got["metadata"].(map[string]any)["annotations"].(map[string]any)
	id, _ := annotations[v1alpha1.AnnotationBackup].(string)
	if !regexp.MustCompile(`^argocd-[0-9]{10}$`).MatchString(id) || annotations["a"] != "b" {
		t.Errorf("back-up: %v", annotations)
	}
}
