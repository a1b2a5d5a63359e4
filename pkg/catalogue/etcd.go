package catalogue

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// Etcd is a version of etcd that the operator can run for LINSTOR.
type Etcd struct {
	// Version is etcd's, such as 3.6.14.
	Version string `json:"version"`
	// Image is the image's name with a tag or digest and without a registry. Its program is /usr/local/bin/etcd.
	Image string `json:"image"`
	// OnRequest has it run only where the spec names it: no cluster begins with it by itself.
	OnRequest bool `json:"onRequest,omitempty"`
}

func (e Etcd) check() error {
	return errors.Join(faultIf(!versionPattern.MatchString(e.Version), "version must be of the form 3.6.14"),
		checkImage("image", e.Image))
}

// Etcd are the versions of etcd in the catalogue, the newest first.
func (c *Catalogue) Etcd() []Etcd { return slices.Clone(c.etcd) }

// FirstEtcd is the version of etcd that a cluster begins with where the spec names none; "" if there is none.
func (c *Catalogue) FirstEtcd() string {
	i := slices.IndexFunc(c.etcd, func(e Etcd) bool { return !e.OnRequest })
	if i < 0 {
		return ""
	}
	return c.etcd[i].Version
}

// mergeEtcd are the versions of both, of which the first ones count where a version is in both.
func mergeEtcd(first, second []Etcd) []Etcd {
	out := slices.Clone(first)
	for _, e := range second {
		if !slices.ContainsFunc(out, func(o Etcd) bool { return o.Version == e.Version }) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Etcd) int {
		order, _ := version.MustParseGeneric(b.Version).Compare(a.Version) // both are well-formed
		return order
	})
	return out
}
