// Package exact edits texts that somebody else keeps, at places that must be there: one that was changed meanwhile
// must not go by in silence.
package exact

import (
	"fmt"
	"strings"
)

// Edit puts New in place of Old, which must be there exactly once.
type Edit struct{ Old, New string }

// Apply makes the edits in turn.
func Apply(text string, edits ...Edit) (string, error) {
	for _, e := range edits {
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("found %d times, expected once: %q", n, e.Old)
		}
		text = strings.Replace(text, e.Old, e.New, 1)
	}
	return text, nil
}
