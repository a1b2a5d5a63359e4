package catalogue

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// maxText bounds what is parsed, in bytes: a ConfigMap can hold 1 MiB, a catalogue is a few KiB.
const maxText = 256 << 10

// maxEntries bounds the releases and the loaders of one text. Each loader becomes a DaemonSet where nodes match it.
const maxEntries = 100

var (
	versionPattern = regexp.MustCompile(`^(0|[1-9]\d{0,3})(\.(0|[1-9]\d{0,3})){2}$`)
	linePattern    = regexp.MustCompile(`^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})$`)
	// A version of DRBD: 9.3.3, 9.3.0-rc.1.
	drbdPattern = regexp.MustCompile(`^\d{1,3}(\.\d{1,5}){1,3}([.~+-][A-Za-z0-9.~+-]{1,20})?$`)
	// An image's path with a tag, a digest, or both. A registry host never matches: the first part has no dot or colon
	// before a slash.
	imagePattern = regexp.MustCompile(`^[a-z0-9]+([_-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*` +
		`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$`)
	// The key is a label's value and the end of a DaemonSet's name.
	keyPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

	databaseKinds = []v1alpha1.DatabaseKind{
		v1alpha1.DatabaseKubernetes, v1alpha1.DatabaseEtcd, v1alpha1.DatabasePostgreSQL, v1alpha1.DatabaseMariaDB,
	}
)

// file is the catalogue's text.
type file struct {
	Releases      []Release `json:"releases,omitempty"`
	Loaders       []Loader  `json:"loaders,omitempty"`
	DefaultLoader string    `json:"defaultLoader,omitempty"`
}

// Extend is the catalogue with what a text in the embedded file's format adds. A release replaces the one with the same
// version, a loader the one with the same key. The text's loaders are tried before the others, so that it can claim an
// operating system that another loader fits as well; defaultLoader replaces the default if it is given. The text may be
// empty. Unknown fields, malformed entries and duplicates are errors, and then nothing of the text is used.
func (c *Catalogue) Extend(text []byte) (*Catalogue, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("catalogue has %d bytes, more than %d", len(text), maxText)
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("parse catalogue: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("check catalogue: %w", err)
	}

	out := &Catalogue{fallback: c.fallback}
	if f.DefaultLoader != "" {
		out.fallback = Loader{Key: GenericKey, Image: f.DefaultLoader}
	}
	if out.fallback.Image == "" {
		return nil, errors.New("check catalogue: defaultLoader is missing")
	}
	out.releases = slices.Clone(f.Releases)
	for _, r := range c.releases {
		if !slices.ContainsFunc(f.Releases, func(n Release) bool { return n.Version == r.Version }) {
			out.releases = append(out.releases, r)
		}
	}
	slices.SortFunc(out.releases, func(a, b Release) int {
		return newer(a.Version, b.Version)
	})
	for _, l := range f.Loaders {
		out.loaders = append(out.loaders, matcher{loader: l, os: regexp.MustCompile(l.OSImage)})
	}
	for _, m := range c.loaders {
		if !slices.ContainsFunc(f.Loaders, func(n Loader) bool { return n.Key == m.loader.Key }) {
			out.loaders = append(out.loaders, m)
		}
	}
	return out, nil
}

// newer orders versions, the newest first. Both are well-formed.
func newer(a, b string) int {
	va, vb := version.MustParseGeneric(a), version.MustParseGeneric(b)
	switch {
	case vb.LessThan(va):
		return -1
	case va.LessThan(vb):
		return 1
	default:
		return 0
	}
}

func (f *file) check() error {
	var errs []error
	if len(f.Releases) > maxEntries || len(f.Loaders) > maxEntries {
		return fmt.Errorf("more than %d releases or loaders", maxEntries)
	}
	seen := map[string]bool{}
	for i, r := range f.Releases {
		if err := r.check(); err != nil {
			errs = append(errs, fmt.Errorf("releases[%d] (version %q): %w", i, r.Version, err))
		}
		if seen[r.Version] {
			errs = append(errs, fmt.Errorf("releases[%d]: version %q is there twice", i, r.Version))
		}
		seen[r.Version] = true
	}
	seen = map[string]bool{}
	for i, l := range f.Loaders {
		if err := l.check(); err != nil {
			errs = append(errs, fmt.Errorf("loaders[%d] (key %q): %w", i, l.Key, err))
		}
		if seen[l.Key] {
			errs = append(errs, fmt.Errorf("loaders[%d]: key %q is there twice", i, l.Key))
		}
		seen[l.Key] = true
	}
	if f.DefaultLoader != "" {
		errs = append(errs, checkImage("defaultLoader", f.DefaultLoader))
	}
	return errors.Join(errs...)
}

func (r Release) check() error {
	var errs []error
	if !versionPattern.MatchString(r.Version) {
		errs = append(errs, errors.New("version is not of the form 1.35.3"))
	}
	if len(r.Databases) == 0 {
		errs = append(errs, errors.New("databases is empty"))
	}
	for _, d := range r.Databases {
		if !slices.Contains(databaseKinds, d) {
			errs = append(errs, fmt.Errorf("databases: %q is none of %q", d, databaseKinds))
		}
	}
	for _, l := range r.UpgradeFrom {
		if !linePattern.MatchString(l) {
			errs = append(errs, fmt.Errorf("upgradeFrom: %q is not of the form 1.34", l))
		}
	}
	errs = append(errs, checkImage("controller", r.Controller), checkImage("satellite", r.Satellite))
	if r.Reactor != "" {
		errs = append(errs, checkImage("reactor", r.Reactor))
	}
	return errors.Join(errs...)
}

func (l Loader) check() error {
	var errs []error
	if !keyPattern.MatchString(l.Key) {
		errs = append(errs, errors.New("key is not a DNS label of at most 40 characters"))
	}
	if l.Key == GenericKey {
		errs = append(errs, fmt.Errorf("key %q is the default loader's: set defaultLoader", GenericKey))
	}
	if l.Key == NoLoaderKey {
		errs = append(errs, fmt.Errorf("key %q stands for no loader: choose another", NoLoaderKey))
	}
	// An empty expression would match every node.
	if l.OSImage == "" {
		errs = append(errs, errors.New("osImage is empty"))
	}
	if _, err := regexp.Compile(l.OSImage); err != nil {
		errs = append(errs, fmt.Errorf("osImage: %w", err))
	}
	if l.DRBD != "" && !drbdPattern.MatchString(l.DRBD) {
		errs = append(errs, fmt.Errorf("drbd: %q is not a version such as 9.3.3", l.DRBD))
	}
	return errors.Join(append(errs, checkImage("image", l.Image))...)
}

func checkImage(field, image string) error {
	if !imagePattern.MatchString(image) {
		return fmt.Errorf("%s: %q is not an image name with a tag or digest and without a registry", field, image)
	}
	return nil
}
