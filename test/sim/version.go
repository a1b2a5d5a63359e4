package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// version is a LINSTOR version without its suffix: LINSTOR itself ignores "-rc.1" and the like when it compares.
type version struct{ major, minor, patch int }

func parseVersion(text string) (version, error) {
	core, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	core, _, _ = strings.Cut(core, "+")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return version{}, fmt.Errorf("version %q is not major.minor.patch", text)
	}
	var numbers [3]int
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return version{}, fmt.Errorf("version %q is not major.minor.patch: %w", text, err)
		}
		numbers[i] = n
	}
	return version{numbers[0], numbers[1], numbers[2]}, nil
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch) }

// newerThan compares all of the version.
func (v version) newerThan(o version) bool {
	return cmp.Or(cmp.Compare(v.major, o.major), cmp.Compare(v.minor, o.minor), cmp.Compare(v.patch, o.patch)) > 0
}

// atLeast compares major and minor alone: LINSTOR's features and schemas come with minor releases.
func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}
