package main

import "testing"

// written is a map of quantities and a quantity, as controller-gen writes them.
const written = `limits:
  additionalProperties:
    anyOf:
    - type: integer
    - type: string
    pattern: ^(\+|-)?[0-9]+$
    x-kubernetes-int-or-string: true
  maxProperties: 3
size:
  anyOf:
  - type: integer
  - type: string
  pattern: ^(\+|-)?[0-9]+$
  x-kubernetes-int-or-string: true
`

const wanted = `limits:
  additionalProperties:
    anyOf:
    - type: integer
    - type: string
    x-kubernetes-int-or-string: true
  maxProperties: 3
size:
  anyOf:
  - type: integer
  - type: string
  pattern: ^(\+|-)?[0-9]+$
  x-kubernetes-int-or-string: true
`

// TestWithoutPatterns: only quantities in maps lose their pattern, and it is an error if there are none, because users
// would be shown the pattern then.
func TestWithoutPatterns(t *testing.T) {
	got, err := withoutPatterns(written)
	if err != nil || got != wanted {
		t.Errorf("%v:\n%s", err, got)
	}
	if out, err := withoutPatterns(wanted); err == nil {
		t.Errorf("no error, but:\n%s", out)
	}
}
