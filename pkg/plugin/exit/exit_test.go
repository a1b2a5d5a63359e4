package exit

import (
	"errors"
	"fmt"
	"testing"
)

func TestCodes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		text string
	}{
		"nothing":         {nil, Done, ""},
		"any error":       {errors.New("no"), Failed, "no"},
		"wrong use":       {Usagef("%d arguments", 3), Usage, "3 arguments"},
		"wrapped":         {fmt.Errorf("node n1: %w", Refusedf("nothing changed")), Refused, "node n1: nothing changed"},
		"said everything": {Silent(NotWell), NotWell, ""},
	} {
		if got := Code(c.err); got != c.code {
			t.Errorf("%s: code %d, want %d", name, got, c.code)
		}
		if got := Text(c.err); got != c.text {
			t.Errorf("%s: text %q, want %q", name, got, c.text)
		}
	}
}
