// Package versions says which releases of etcd may be run, and which may follow which.
package versions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a release of etcd.
type Version struct{ Major, Minor, Patch int }

// minorsFirstPatch are the minors of etcd 3 that may be run, each from this patch on. A 3.5 before 3.5.26 may lose the
// promotion of a learner when it is upgraded to 3.6, so that members come back that were removed (etcd's blog,
// "zombie members"). 3.6 before 3.6.6 leaves learners behind when a cluster is forced to be new.
var minorsFirstPatch = map[int]int{5: 26, 6: 6, 7: 0}

// Parse reads a version such as "3.6.14" or "v3.6.14". The catalogue, images' tags and etcd itself write it
// differently.
func Parse(text string) (Version, error) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	var n [3]int
	if len(parts) != len(n) {
		return Version{}, fmt.Errorf("%q is not a valid version (example: 3.6.14)", text)
	}
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil || strconv.FormatUint(v, 10) != p {
			return Version{}, fmt.Errorf("%q is not a valid version (example: 3.6.14)", text)
		}
		n[i] = int(v)
	}
	return Version{n[0], n[1], n[2]}, nil
}

// String is without a leading "v".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Compare is negative if v is older than o, 0 if they are the same, and positive if v is newer.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Patch, o.Patch))
}

// Equal reports whether two texts are the same version, however they are written.
func Equal(a, b string) bool {
	x, errA := Parse(a)
	y, errB := Parse(b)
	return errA == nil && errB == nil && x == y
}

// Run returns why a version must not be run; nil if it may.
func Run(text string) error {
	v, err := Parse(text)
	if err != nil {
		return err
	}
	first, ok := minorsFirstPatch[v.Minor]
	if v.Major != 3 || !ok {
		return fmt.Errorf("this operator does not support etcd %s", v)
	}
	if v.Patch < first {
		return fmt.Errorf("etcd %s is too old: for etcd 3.%d, this operator requires %d.%d.%d or later", v, v.Minor, v.Major,
			v.Minor, first)
	}
	return nil
}

// Replace returns why a member of one version must not be replaced by one of another; nil if it may. etcd is upgraded
// one minor at a time, and what a newer one has written an older one need not be able to read.
func Replace(from, to string) error {
	old, err := Parse(from)
	if err != nil {
		return err
	}
	if err := Run(to); err != nil {
		return err
	}
	wanted, _ := Parse(to) // Run has read it
	switch {
	case wanted.Compare(old) < 0:
		return fmt.Errorf("etcd %s is running and cannot be downgraded to %s", old, wanted)
	case wanted.Major != old.Major || wanted.Minor > old.Minor+1:
		return fmt.Errorf("etcd %s is running, and %s is more than one minor release ahead", old, wanted)
	case wanted.Minor > old.Minor && Run(from) != nil:
		return fmt.Errorf("etcd %s is running and is too old to be upgraded to %s: %w", old, wanted, Run(from))
	}
	return nil
}

// Next is the version to run after from on the way to a wanted one: the wanted one itself, or else the newest of the
// known releases that may follow from and is not newer. The error says why there is none.
func Next(from, wanted string, known []string) (string, error) {
	err := Replace(from, wanted)
	if err == nil {
		return wanted, nil
	}
	old, oldErr := Parse(from)
	goal, goalErr := Parse(wanted)
	if oldErr != nil || goalErr != nil || Run(wanted) != nil {
		return "", err
	}
	best, next := Version{}, ""
	for _, k := range known {
		v, e := Parse(k)
		if e == nil && Replace(from, k) == nil && v.Compare(old) > 0 && v.Compare(goal) < 0 && v.Compare(best) > 0 {
			best, next = v, k
		}
	}
	if next == "" {
		return "", err
	}
	return next, nil
}

// Member is what is known of one of a cluster.
type Member struct {
	// Planned is what it is to run, Ran what it has run last, Storage the release whose form its database has; "" for
	// what is not known.
	Planned, Ran, Storage string
}

// Plan is the version that all members are to run next on the way to a wanted one, after they have run others: what is
// next for one must not be too old for another.
func Plan(members []Member, wanted string, known []string) (string, error) {
	members = slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Ran == "" })
	target, err := wanted, Run(wanted)
	for _, m := range members {
		next, e := Next(m.Ran, wanted, known)
		if err = cmp.Or(err, e); e == nil && Older(next, target) {
			target = next
		}
	}
	for _, m := range members {
		if err == nil {
			err = Replace(m.Ran, target)
		}
	}
	if err != nil {
		return "", err
	}
	return target, nil
}

// Edge returns which version members are to stay at before they begin with the minor of another one; "" if it is no
// newer minor, or if a member has begun with it already. There is no way back from it once all run it. They must not
// begin while the database of one is rising, which has not the form of the minor that the member runs.
func Edge(members []Member, target string, known []string) (stay string, rising bool) {
	newest := ""
	for _, m := range members {
		if Minor(target) == "" || Minor(m.Planned) == Minor(target) || Minor(m.Ran) == Minor(target) {
			return "", false
		}
		if Older(newest, m.Ran) {
			newest = m.Ran
		}
		rising = rising || m.Storage != "" && Minor(m.Storage) != Minor(m.Ran)
	}
	if i := slices.IndexFunc(known, func(k string) bool { return Equal(k, newest) }); i >= 0 {
		newest = known[i] // written as there
	}
	return newest, rising
}

// Minor is that of a version, such as "3.6"; "" for a text that is none.
func Minor(text string) string {
	v, err := Parse(text)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// Older reports whether a is an older version than b. A text that is no version is the oldest.
func Older(a, b string) bool {
	x, _ := Parse(a)
	y, _ := Parse(b)
	return x.Compare(y) < 0
}
