package optional

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestState(t *testing.T) {
	some, none := schema.GroupVersion{Group: "some", Version: "v1"}, schema.GroupVersion{Group: "none", Version: "v1"}
	apis := APIs{some: {"A", "B"}, none: nil}
	for name, c := range map[string]struct {
		gv    schema.GroupVersion
		kinds []string
		want  State
	}{
		"all kinds":            {some, []string{"A", "B"}, Served},
		"one kind":             {some, []string{"B"}, Served},
		"whatever it has":      {some, nil, Served},
		"one kind is missing":  {some, []string{"A", "C"}, Absent},
		"a group without any":  {none, []string{"A"}, Absent},
		"nothing is there":     {none, nil, Absent},
		"nobody has looked":    {schema.GroupVersion{Group: "some", Version: "v2"}, []string{"A"}, Unknown},
		"nobody knows nothing": {schema.GroupVersion{}, nil, Unknown},
	} {
		if got := apis.State(c.gv, c.kinds...); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := APIs(nil).State(some, "A"); got != Unknown {
		t.Errorf("before the first look: %q", got)
	}
}
