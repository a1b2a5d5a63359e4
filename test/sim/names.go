package sim

import (
	"fmt"
	"regexp"
	"strings"
)

// key is LINSTOR's form of a name for comparisons: names differ only if their upper-case forms do.
func key(name string) string { return strings.ToUpper(name) }

var (
	nodeNamePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?` +
		`(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)
	objNamePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	hasLetter      = regexp.MustCompile(`[A-Za-z]`)
)

// validNodeName follows RFC 1123: labels of at most 63 characters, dots between them.
func validNodeName(name string) bool {
	return len(name) >= 2 && len(name) <= 255 && nodeNamePattern.MatchString(name)
}

func validObjectName(name string, shortest, longest int) bool {
	return len(name) >= shortest && len(name) <= longest && objNamePattern.MatchString(name) &&
		hasLetter.MatchString(name)
}

// objectNameFault says what is wrong with the name of an object, in LINSTOR's words.
func objectNameFault(name string, shortest, longest int) string {
	switch {
	case len(name) < shortest:
		return fmt.Sprintf("Name length %d is less than minimum length %d", len(name), shortest)
	case len(name) > longest:
		return fmt.Sprintf("Name length %d is greater than maximum length %d", len(name), longest)
	}
	return "Name contains invalid characters"
}

func validNetIfName(name string) bool    { return validObjectName(name, 3, 32) }
func validStorPoolName(name string) bool { return validObjectName(name, 3, 48) }
