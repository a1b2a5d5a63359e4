// Package catalogue holds the LINSTOR releases that the operator can run: their container images, the databases that
// each can use, the releases it can be upgraded from, and which module loader fits which operating system.
//
// The catalogue is one YAML file that is compiled into the operator, so that an operator's version fixes what it
// installs. A ConfigMap can extend it with newer releases or with loaders for other operating systems; what it holds
// is checked as strictly as the embedded file, because image names and keys end up in objects that run privileged.
package catalogue

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Keys that no loader of the list has: that of the loader for operating systems that no other loader fits, and the one
// where no loader runs, because something else brings DRBD onto the node.
const (
	GenericKey  = "generic"
	NoLoaderKey = "none"
)

//go:embed catalogue.yaml
var embedded []byte

// Release is a LINSTOR version that the operator can run.
type Release struct {
	// Version is LINSTOR's version, such as 1.35.3.
	Version string `json:"version"`
	// Databases are the kinds of databases that this version can use.
	Databases []v1alpha1.DatabaseKind `json:"databases"`
	// UpgradeFrom are the release lines, such as 1.34, from which LINSTOR's migrations lead here.
	UpgradeFrom []string `json:"upgradeFrom"`
	// Withdrawn says, as a clause, what is wrong with a release that no cluster shall be moved to and none gets by
	// default. Clusters that run it keep it. Default: nothing is known.
	Withdrawn string `json:"withdrawn,omitempty"`
	// Controller, Satellite and Reactor are image names with a tag or digest and without a registry. Reactor, which
	// exports DRBD's metrics, may be empty: then satellites run without it.
	Controller string `json:"controller"`
	Satellite  string `json:"satellite"`
	Reactor    string `json:"reactor,omitempty"`
	// Driver are the images of the CSI driver that goes with the release. One that a ConfigMap leaves out is that of the
	// newest release that is compiled in.
	Driver DriverImages `json:"driver,omitzero"`
	// HighAvailability is the image of the high-availability controller that goes with the release. One that a ConfigMap
	// leaves out is that of the newest release that is compiled in.
	HighAvailability string `json:"highAvailability,omitempty"`
	// Affinity is the image of the affinity controller that goes with the release. One that a ConfigMap leaves out is
	// that of the newest release that is compiled in.
	Affinity string `json:"affinity,omitempty"`
	// ShutdownGuard is the image of drbd-shutdown-guard. A release that a ConfigMap gives none runs without it:
	// satellites wait for each of their images.
	ShutdownGuard string `json:"shutdownGuard,omitempty"`
}

// Withdrawal says that the release is withdrawn, and why; "" if it is not.
func (r Release) Withdrawal() string {
	if r.Withdrawn == "" {
		return ""
	}
	return fmt.Sprintf("LINSTOR %s is withdrawn: %s", r.Version, r.Withdrawn)
}

// DriverImages are the images of the CSI driver and of the programs of Kubernetes' storage project that run beside it:
// names with a tag or digest and without a registry.
type DriverImages struct {
	Driver        string `json:"driver"`
	Provisioner   string `json:"provisioner"`
	Attacher      string `json:"attacher"`
	Resizer       string `json:"resizer"`
	Snapshotter   string `json:"snapshotter"`
	Registrar     string `json:"registrar"`
	LivenessProbe string `json:"livenessProbe"`
}

func (d DriverImages) check() error {
	return errors.Join(checkImage("driver.driver", d.Driver), checkImage("driver.provisioner", d.Provisioner),
		checkImage("driver.attacher", d.Attacher), checkImage("driver.resizer", d.Resizer),
		checkImage("driver.snapshotter", d.Snapshotter), checkImage("driver.registrar", d.Registrar),
		checkImage("driver.livenessProbe", d.LivenessProbe))
}

// fillFrom gives a release what its entry may leave out, as the newest of others has it.
func (r *Release) fillFrom(others []Release) {
	if len(others) == 0 {
		return
	}
	r.HighAvailability = cmp.Or(r.HighAvailability, others[0].HighAvailability)
	r.Affinity = cmp.Or(r.Affinity, others[0].Affinity)
	if r.Driver == (DriverImages{}) {
		r.Driver = others[0].Driver
	}
}

// CanUpgradeFrom reports whether a cluster that runs version from can be moved to this release. Neither a downgrade
// nor the same version is an upgrade: LINSTOR's migrations cannot be undone.
func (r Release) CanUpgradeFrom(from string) bool {
	old, err := version.ParseGeneric(from)
	if err != nil || !old.LessThan(version.MustParseGeneric(r.Version)) {
		return false
	}
	return slices.Contains(r.UpgradeFrom, fmt.Sprintf("%d.%d", old.Major(), old.Minor()))
}

// Loader is a container image that loads the DRBD kernel module on nodes with one family of operating systems.
type Loader struct {
	// Key is the value of the Node label storage.linstor.dev/os.
	Key string `json:"key"`
	// OSImage is a regular expression on Node.status.nodeInfo.osImage; empty for the default loader.
	OSImage string `json:"osImage"`
	// Image is the image's name with a tag or digest and without a registry.
	Image string `json:"image"`
	// DRBD is the version of the module that the image brings. Default: the image's tag without the leading v.
	DRBD string `json:"drbd,omitempty"`
}

// Version is the version of the module that the image brings, such as 9.3.3; "" if neither the entry nor its tag says
// it.
func (l Loader) Version() string {
	if l.DRBD != "" {
		return l.DRBD
	}
	name, _, _ := strings.Cut(l.Image, "@")
	_, tag, _ := strings.Cut(name, ":")
	if v := strings.TrimPrefix(tag, "v"); drbdPattern.MatchString(v) {
		return v
	}
	return ""
}

// Catalogue holds releases and loaders. It does not change; Extend makes a new one.
type Catalogue struct {
	releases []Release // newest first
	loaders  []matcher // in the order in which they are tried
	fallback Loader
	etcd     []Etcd // newest first
}

type matcher struct {
	loader Loader
	os     *regexp.Regexp
}

// Embedded is the catalogue that is compiled into the operator.
var Embedded = sync.OnceValue(func() *Catalogue {
	c, err := (&Catalogue{}).Extend(embedded)
	if err != nil {
		// The file is part of the binary and a test reads it, so that this cannot happen to a user.
		panic(fmt.Sprintf("embedded catalogue: %v", err))
	}
	return c
})

// Newest is the newest version in the catalogue that is not withdrawn; "" if it has none.
func (c *Catalogue) Newest() string {
	i := slices.IndexFunc(c.releases, func(r Release) bool { return r.Withdrawn == "" })
	if i < 0 {
		return ""
	}
	return c.releases[i].Version
}

// Release is the release with exactly that version.
func (c *Catalogue) Release(v string) (Release, bool) {
	i := slices.IndexFunc(c.releases, func(r Release) bool { return r.Version == v })
	if i < 0 {
		return Release{}, false
	}
	r := c.releases[i]
	r.Databases = slices.Clone(r.Databases)
	r.UpgradeFrom = slices.Clone(r.UpgradeFrom)
	return r, true
}

// Versions are all versions in the catalogue, the newest first.
func (c *Catalogue) Versions() []string {
	out := make([]string, len(c.releases))
	for i, r := range c.releases {
		out[i] = r.Version
	}
	return out
}

// LoaderFor is the first loader that fits a Node's status.nodeInfo.osImage, or else the default loader.
func (c *Catalogue) LoaderFor(osImage string) Loader {
	for _, m := range c.loaders {
		if m.os.MatchString(osImage) {
			return m.loader
		}
	}
	return c.fallback
}

// maxText bounds what is parsed, in bytes: a ConfigMap can hold 1 MiB, a catalogue is a few KiB.
const maxText = 256 << 10

// maxFault bounds what is said of a text that is refused, in characters: a parser may repeat all of it.
const maxFault = 4000

// maxWithdrawn bounds what is said of a withdrawn release, in bytes: it becomes a part of messages.
const maxWithdrawn = 500

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
		v1alpha1.DatabaseKubernetes, v1alpha1.DatabaseEtcd, v1alpha1.DatabaseManagedEtcd, v1alpha1.DatabasePostgreSQL,
		v1alpha1.DatabaseMariaDB,
	}
)

type file struct {
	Releases      []Release `json:"releases,omitempty"`
	Loaders       []Loader  `json:"loaders,omitempty"`
	DefaultLoader string    `json:"defaultLoader,omitempty"`
	Etcd          []Etcd    `json:"etcd,omitempty"`
}

// Extend is the catalogue with what a text in the embedded file's format adds. A release replaces the one with the
// same version, a loader the one with the same key. The text's loaders are tried before the others, so that it can
// claim an operating system that another loader fits as well; defaultLoader replaces the default if it is given. A
// version of etcd replaces the same one. The text may be empty. Unknown fields, malformed entries and duplicates are
// errors, and then nothing of the text is used.
func (c *Catalogue) Extend(text []byte) (*Catalogue, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the catalogue size of %d bytes exceeds the limit of %d", len(text), maxText)
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("parse catalogue: %.*s", maxFault, err.Error())
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("check catalogue: %.*s", maxFault, err.Error())
	}

	out := &Catalogue{fallback: c.fallback, etcd: mergeEtcd(f.Etcd, c.etcd)}
	if f.DefaultLoader != "" {
		out.fallback = Loader{Key: GenericKey, Image: f.DefaultLoader}
	}
	if out.fallback.Image == "" {
		return nil, errors.New("check catalogue: defaultLoader is missing")
	}
	out.releases = slices.Clone(f.Releases)
	for i := range out.releases {
		out.releases[i].fillFrom(c.releases)
	}
	for _, r := range c.releases {
		if !slices.ContainsFunc(f.Releases, func(n Release) bool { return n.Version == r.Version }) {
			out.releases = append(out.releases, r)
		}
	}
	slices.SortFunc(out.releases, func(a, b Release) int {
		order, _ := version.MustParseGeneric(b.Version).Compare(a.Version) // both are well-formed
		return order
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

func (f *file) check() error {
	var errs []error
	if max(len(f.Releases), len(f.Loaders), len(f.Etcd)) > maxEntries {
		return fmt.Errorf("more than %d releases, loaders or etcd versions", maxEntries)
	}
	seen := map[string]bool{}
	checkOne := func(list string, i int, key, value string, err error) {
		errs = append(errs, faultIf(err != nil, "%s[%d] (%s %q): %w", list, i, key, value, err),
			faultIf(seen[list+value], "%s[%d]: %s %q appears twice", list, i, key, value))
		seen[list+value] = true
	}
	for i, r := range f.Releases {
		checkOne("releases", i, "version", r.Version, r.check())
	}
	for i, l := range f.Loaders {
		checkOne("loaders", i, "key", l.Key, l.check())
	}
	for i, e := range f.Etcd {
		checkOne("etcd", i, "version", e.Version, e.check())
	}
	if f.DefaultLoader != "" {
		errs = append(errs, checkImage("defaultLoader", f.DefaultLoader))
	}
	return errors.Join(errs...)
}

func (r Release) check() error {
	errs := []error{
		faultIf(!versionPattern.MatchString(r.Version), "version must be of the form 1.35.3"),
		faultIf(len(r.Databases) == 0, "databases is empty"),
	}
	for _, d := range r.Databases {
		errs = append(errs, faultIf(!slices.Contains(databaseKinds, d), "databases: %q must be one of %q", d, databaseKinds))
	}
	for _, l := range r.UpgradeFrom {
		errs = append(errs, faultIf(!linePattern.MatchString(l), "upgradeFrom: %q must be of the form 1.34", l))
	}
	errs = append(errs, faultIf(len(r.Withdrawn) > maxWithdrawn || strings.Contains(r.Withdrawn, "\n"),
		"withdrawn must be a single line of at most %d bytes", maxWithdrawn),
		checkImage("controller", r.Controller), checkImage("satellite", r.Satellite))
	if r.Reactor != "" {
		errs = append(errs, checkImage("reactor", r.Reactor))
	}
	if r.HighAvailability != "" {
		errs = append(errs, checkImage("highAvailability", r.HighAvailability))
	}
	if r.Affinity != "" {
		errs = append(errs, checkImage("affinity", r.Affinity))
	}
	if r.ShutdownGuard != "" {
		errs = append(errs, checkImage("shutdownGuard", r.ShutdownGuard))
	}
	if r.Driver != (DriverImages{}) {
		errs = append(errs, r.Driver.check())
	}
	return errors.Join(errs...)
}

func (l Loader) check() error {
	_, unreadable := regexp.Compile(l.OSImage)
	return errors.Join(
		faultIf(!keyPattern.MatchString(l.Key), "key must be a DNS label of at most 40 characters"),
		faultIf(l.Key == GenericKey, "key %q is reserved for the default loader: set defaultLoader instead", GenericKey),
		faultIf(l.Key == NoLoaderKey, "key %q is reserved for nodes without a loader: choose another key", NoLoaderKey),
		faultIf(l.OSImage == "", "osImage is empty"), // an empty expression would match every node
		faultIf(unreadable != nil, "osImage: %w", unreadable),
		faultIf(l.DRBD != "" && !drbdPattern.MatchString(l.DRBD), "drbd: %q must be a version such as 9.3.3", l.DRBD),
		checkImage("image", l.Image),
	)
}

func checkImage(field, image string) error {
	return faultIf(!imagePattern.MatchString(image),
		"%s: %q must be an image name with a tag or digest, but without a registry", field, image)
}

// faultIf is an error if something is wrong, else nil.
func faultIf(wrong bool, format string, args ...any) error {
	if wrong {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// Newer reports whether a is a newer version than b; false if one of them is none.
func Newer(a, b string) bool {
	v, err := version.ParseGeneric(a)
	w, err2 := version.ParseGeneric(b)
	return err == nil && err2 == nil && w.LessThan(v)
}
