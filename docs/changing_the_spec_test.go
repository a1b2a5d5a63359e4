package docs_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
)

var update = flag.Bool("update", false, "write the table of fields instead of comparing with it")

const changingTheSpec = "changing-the-spec.md"

// TestClassesOfFields: the page lists every field as the code classifies it.
func TestClassesOfFields(t *testing.T) {
	page := read(t, changingTheSpec)
	before, rest, begins := strings.Cut(page, "from pkg/phases/specchange/class.go -->\n")
	table, after, ends := strings.Cut(rest, "<!-- END -->")
	if !begins || !ends {
		t.Fatal("the page has no place for the table")
	}
	fields := specchange.Fields()
	slices.SortFunc(fields, func(a, b specchange.Field) int { return strings.Compare(a.Path, b.Path) })
	var want strings.Builder
	want.WriteString("| field | class | preempts in | effect |\n|---|---|---|---|\n")
	for _, f := range fields {
		var in []string
		for _, s := range f.Fixes {
			in = append(in, string(s))
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", f.Path, f.Class, strings.Join(in, ", "), f.Effect)
	}
	if *update {
		text := before + "from pkg/phases/specchange/class.go -->\n" + want.String() + "<!-- END -->" + after
		if err := os.WriteFile(changingTheSpec, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), table); diff != "" {
		t.Errorf("the table is not as the code is; write it with go test ./docs -update (-want +got):\n%s", diff)
	}
	for _, class := range []specchange.Class{specchange.ClassImmediate, specchange.ClassRolling,
		specchange.ClassAtNextAssess, specchange.ClassPreempt, specchange.ClassRefused} {
		if !strings.Contains(before, "| "+string(class)+" | ") {
			t.Errorf("the page does not explain class %s", class)
		}
	}
}
