package chaos

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/endstate"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// awaitState waits until a run has come to the end of an undisturbed one.
func awaitState(e *harness.Env, want string) {
	e.T.Helper()
	watch := machine.StartStopwatch()
	e.EventuallyEvery(lookEvery, "the end of the undisturbed run", func() error {
		state, err := endstate.Of(e.Ctx, e.Sim)
		if err == nil && state != want {
			err = fmt.Errorf("end states differ (-want +got):\n%s",
				cmp.Diff(strings.Split(want, "\n"), strings.Split(state, "\n")))
		}
		if err != nil && watch.Elapsed() > e.Patience/4 {
			e.T.Fatal(err)
		}
		return err
	})
}
