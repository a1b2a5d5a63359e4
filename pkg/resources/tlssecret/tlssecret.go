// Package tlssecret is how the Secrets with certificates are named, and how pods refer to them, whatever the
// certificates are for.
package tlssecret

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Component is the component of all these Secrets, in their label.
const Component = "certificates"

// Part is a part of LINSTOR that has a certificate of its own, which is named like it.
type Part string

// Kind is a kind of connection, whose certificates are signed by authorities of its own: who is trusted there is
// trusted nowhere else.
type Kind struct {
	// Authority is in the names of its authorities.
	Authority string
	// Annotation of a pod says with which certificate and bundle it was started: the hashes of both, with a dot between.
	// A change of it restarts the pods. Labels and annotations of the Secret have no part in it.
	Annotation string
	// Suffix ends the names of the parts' Secrets.
	Suffix string
	// Parts are all parts, in an order that stays the same.
	Parts []Part
}

// Secret is the one that holds the part's certificate, its key and whom it trusts, and nothing of any other.
func (k *Kind) Secret(p Part) string { return string(p) + k.Suffix }

// AuthoritySecret holds the authorities and the key of the one that signs. Nothing mounts it.
func (k *Kind) AuthoritySecret() string { return k.Authority + "-authority" }

// Secrets are those of all parts, behind that of the authorities.
func (k *Kind) Secrets() []string {
	out := []string{k.AuthoritySecret()}
	for _, part := range k.Parts {
		out = append(out, k.Secret(part))
	}
	return out
}

// Of reads the annotation of a pod. ok is false for a pod without one, or one that nobody can read.
func (k *Kind) Of(annotations map[string]string) (leaf, trust string, ok bool) {
	leaf, trust, ok = strings.Cut(annotations[k.Annotation], ".")
	return leaf, trust, ok && leaf != "" && trust != ""
}

// Annotate gives a pod's template the annotation, if it has a certificate.
func (k *Kind) Annotate(r Ref, annotations map[string]string) map[string]string {
	if !r.Locked() {
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[k.Annotation] = r.Is()
	return annotations
}

// Ref is what one part is given. The zero Ref is nothing: its connections are plain.
type Ref struct {
	// Secret holds certificate, key and bundle.
	Secret string
	// Leaf and Trust are their hashes; "" where there is nothing that can be used.
	Leaf, Trust string
}

// Locked reports whether there is a certificate to use.
func (r Ref) Locked() bool { return r.Secret != "" }

// Is is what a pod that was started with it says in its annotation.
func (r Ref) Is() string { return r.Leaf + "." + r.Trust }

const (
	markerPrefix = "made."
	// mostMarkers bounds how many certificates and bundles of before a Secret names. A certificate is made anew every 60
	// days, and each makes its pods anew.
	mostMarkers = 8
)

// Marker is the entry of the Secret which says that it has that certificate and bundle, or later ones. A kubelet may
// have an older copy of the Secret, and would start a pod on that: the pod would run with something else than its
// annotation says until the next renewal. A pod that refers to an entry that is not in the copy waits for a newer one.
func (r Ref) Marker() string { return markerPrefix + r.Is() }

// Markers are these entries for a Secret that gets this certificate and bundle, with those that it has: the container
// of an older pod that is started anew must find its own. Each entry is a number, by which the oldest go.
func (r Ref) Markers(before map[string][]byte) map[string][]byte {
	numbers := map[string]int{}
	last := 0
	for entry, value := range before {
		if n, err := strconv.Atoi(string(value)); err == nil && n > 0 && strings.HasPrefix(entry, markerPrefix) {
			numbers[entry] = n
			last = max(last, n)
		}
	}
	if numbers[r.Marker()] == 0 {
		numbers[r.Marker()] = last + 1
	}
	newest := slices.SortedFunc(maps.Keys(numbers), func(x, y string) int {
		return cmp.Or(cmp.Compare(numbers[y], numbers[x]), cmp.Compare(x, y))
	})
	out := map[string][]byte{}
	for i, entry := range newest {
		if i < mostMarkers || entry == r.Marker() {
			out[entry] = []byte(strconv.Itoa(numbers[entry]))
		}
	}
	return out
}

// Items are entries of the Secret as files of their names, and its marker.
func (r Ref) Items(entries ...string) []corev1.KeyToPath {
	items := []corev1.KeyToPath{{Key: r.Marker(), Path: "made"}}
	for _, entry := range entries {
		items = append(items, corev1.KeyToPath{Key: entry, Path: entry})
	}
	return items
}
