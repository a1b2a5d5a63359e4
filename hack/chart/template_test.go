package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/hack/exact"
)

func toText(v any) string { return fmt.Sprint(v) }

const small = `# about
---
# A role.
kind: Role
metadata:
  name: a
  labels: {app.kubernetes.io/name: storagecluster-operator}
rules: []
---
kind: Role
metadata:
  name: b
  labels: {app.kubernetes.io/name: linstor}
`

// TestMake: edits must find their places, and what is LINSTOR's is marked to stay.
func TestMake(t *testing.T) {
	for name, tc := range map[string]struct {
		source  string
		t       template
		want    []string
		refused string
	}{
		"edited": {source: small, t: template{edits: []exact.Edit{{Old: "rules: []", New: "rules: {{ .Values.rules }}"}}},
			want: []string{"rules: {{ .Values.rules }}", "name: b\n  annotations: {helm.sh/resource-policy: keep}\n  labels:"}},
		"conditional": {source: small, t: template{condition: ".Values.x"},
			want: []string{"{{- if .Values.x }}", "{{- end }}"}},
		"a place that is gone": {source: small, t: template{edits: []exact.Edit{{Old: "replicas: 2"}}},
			refused: "found 0 times"},
		"a place that is there twice": {source: small, t: template{edits: []exact.Edit{{Old: "kind: Role"}}},
			refused: "found 2 times"},
		"what a template would act upon": {source: small + "x: {{ y }}\n", refused: "contains {{"},
		"what stays without labels":      {source: "kind: Role\nmetadata:\n  name: c\n", refused: "Role c has neither"},
		"no YAML":                        {source: "kind: [\n", refused: "read a document"},
	} {
		got, err := tc.t.make(tc.source)
		if tc.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: %v, want %q", name, err, tc.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", name, want, got)
			}
		}
		if strings.Contains(got, "name: a\n  annotations") || strings.Contains(got, "# about") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
