package plan

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// TestTasksThatLook: one that looks first is told by its name, and of one that looks later the rest is unknown.
func TestTasksThatLook(t *testing.T) {
	r := &record{}
	for _, node := range []string{"n1", "n2"} {
		r.Ensure(work.Task{Key: "first/" + node, Do: func(ctx context.Context) error {
			_, err := api{r}.Node(ctx, node)
			return err
		}})
		r.Ensure(work.Task{Key: "later/" + node, Do: func(ctx context.Context) error {
			if err := (api{r}).RestoreNode(ctx, node); err != nil {
				return err
			}
			_, err := api{r}.Node(ctx, node)
			return err
		}})
		r.Ensure(work.Task{Key: "first/" + node, Do: func(context.Context) error { panic("it is there already") }})
	}
	r.runAll(t.Context())
	var got []string
	for _, w := range r.writes {
		got = append(got, w.what+" "+w.node)
	}
	want := []string{"first n1", "end of the evacuation n1", "first n2", "end of the evacuation n2"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if want := "[what is written to LINSTOR after the first writes for this task: later]"; fmt.Sprint(r.unknown) != want {
		t.Errorf("%v", r.unknown)
	}
}
