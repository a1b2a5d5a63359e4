package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// await waits until the operator has taken the answer, and then until it knows what came of it.
func (c *command) await(ctx context.Context, choice *Choice, before map[string]string) error {
	last, said := &v1alpha1.StorageCluster{}, false
	err := c.cluster.Await(ctx, c.Every, func(ctx context.Context, sc *v1alpha1.StorageCluster) (bool, error) {
		last, said = sc, said || told(sc, choice) // the words stay for a while only
		if taken(sc, choice) {
			return true, nil
		}
		return false, c.refusal(ctx, choice.Hold.ID, before)
	})
	var ignored *ignoredError
	switch {
	case errors.As(err, &ignored):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the operator did not act on the annotation within %s (%w); check whether it is running: "+
			"kubectl -n %s get pods. %s", c.timeout, err, v1alpha1.OperatorNamespace, stays)
	case err != nil:
		return fmt.Errorf("unknown whether the operator has acted on the annotation: %w. %s", err, stays)
	}
	access.Say(c.Out, ended(choice, said || c.announced(ctx, choice)))
	return c.outcome(ctx, last)
}

// stays says what is left of an answer that was not waited for to the end.
const stays = "The annotation remains, and the operator acts on it as soon as it is running. To remove it, run: " +
	"kubectl annotate storagecluster " + v1alpha1.ClusterName + " " + v1alpha1.AnnotationResume + "-"

// ended says what became of the hold. A hold may end by itself at the moment when it is answered, so that only the
// operator's word says that it was the answer.
func ended(choice *Choice, said bool) string {
	switch {
	case said:
		return fmt.Sprintf("Hold %s was resumed with %s.", choice.Hold.ID, choice.Option.Answer)
	case len(choice.Nodes) > 0:
		return fmt.Sprintf("Hold %s has ended for %s.", choice.Hold.ID, strings.Join(choice.Nodes, ", "))
	default:
		return fmt.Sprintf("Hold %s has ended.", choice.Hold.ID)
	}
}

// told reports whether the object says that the hold was ended by this answer.
func told(sc *v1alpha1.StorageCluster, choice *Choice) bool {
	word := holdkind.Resumed(choice.Hold.ID, choice.Option.Answer)
	return strings.Contains(sc.Status.Message, word) || slices.ContainsFunc(sc.Status.History,
		func(t v1alpha1.Transition) bool { return strings.Contains(t.Message, word) })
}

// announced reports whether an Event says so.
func (c *command) announced(ctx context.Context, choice *Choice) bool {
	return slices.ContainsFunc(c.events(ctx), func(ev corev1.Event) bool {
		return strings.Contains(ev.Message, holdkind.Resumed(choice.Hold.ID, choice.Option.Answer))
	})
}

// taken reports whether the operator has followed the answer: the hold has ended, for the nodes that were named, and
// the annotation is gone.
func taken(sc *v1alpha1.StorageCluster, choice *Choice) bool {
	if sc.Annotations[v1alpha1.AnnotationResume] == choice.Token() {
		return false
	}
	for _, h := range Open(&sc.Status) {
		if h.ID != choice.Hold.ID {
			continue
		}
		return len(choice.Nodes) > 0 && !slices.ContainsFunc(choice.Nodes,
			func(n string) bool { return slices.Contains(h.Nodes, n) })
	}
	return true
}

// events are those of the StorageCluster. Not everybody may read Events. Without them a wait in vain ends with its
// timeout.
func (c *command) events(ctx context.Context) []corev1.Event {
	var events corev1.EventList
	if err := c.cluster.List(ctx, &events, client.InNamespace("default"), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.kind": "StorageCluster"})}); err != nil {
		return nil
	}
	return events.Items
}

// ignored are the Events that say of an answer to the hold why it is not followed, by name and version: an Event that
// comes again is counted up.
func (c *command) ignored(ctx context.Context, id string) map[string]string {
	out := map[string]string{}
	for _, ev := range c.events(ctx) {
		if ev.Reason == "ResumeIgnored" && strings.Contains(ev.Message, id) {
			out[ev.Name+" "+ev.ResourceVersion] = ev.Message
		}
	}
	return out
}

// ignoredError is why the operator does not follow an answer.
type ignoredError struct{ message string }

func (e *ignoredError) Error() string { return "the operator ignored the annotation: " + e.message }

// refusal is what the operator has said of this answer; nil if nothing.
func (c *command) refusal(ctx context.Context, id string, before map[string]string) error {
	for event, message := range c.ignored(ctx, id) {
		if _, old := before[event]; !old {
			return &ignoredError{message}
		}
	}
	return nil
}

// settles is how long the operator may take to look at everything again once it has followed an answer.
const settles = 15 * time.Second

// outcome says what the operator does now. It looks at everything again first, and may find the same trouble.
func (c *command) outcome(ctx context.Context, sc *v1alpha1.StorageCluster) error {
	settled, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	err := c.cluster.Await(settled, c.Every, func(_ context.Context, now *v1alpha1.StorageCluster) (bool, error) {
		sc = now
		return sc.Status.Phase != v1alpha1.PhaseAssessing, nil
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	look := c.Look()
	access.Say(c.Out, look.Wrap(strings.TrimSuffix(fmt.Sprintf("The phase is %s: %s", sc.Status.Phase, sc.Status.Message),
		": "), "")...)
	open := Open(&sc.Status)
	if len(open) > 0 {
		access.Say(c.Out, look.Wrap(fmt.Sprintf("Open holds: %s. To show %s, run: kubectl linstor resume", ids(open),
			map[bool]string{true: "it", false: "them"}[len(open) == 1]), "")...)
	}
	return nil
}
