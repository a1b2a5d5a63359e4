package main

import (
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// related is an image that OLM's tools copy for clusters without a network.
type related struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// relatedImages are the operator's own image and all of the catalogue, with the registries that they have unless
// spec.images.registry names another. They go by their tags: the catalogue has no digests.
func relatedImages(root fs.FS, own string) ([]related, error) {
	var c struct {
		Releases      []catalogue.Release
		Loaders       []catalogue.Loader
		DefaultLoader string
		Etcd          []catalogue.Etcd
	}
	if err := readYAML(root, "pkg/catalogue/catalogue.yaml", &c); err != nil {
		return nil, err
	}
	images := map[string]bool{}
	add := func(registry string, names ...string) {
		for _, n := range names {
			if n != "" {
				images[registry+"/"+n] = true
			}
		}
	}
	for _, r := range c.Releases {
		add(resources.DefaultRegistry, r.Controller, r.Satellite, r.Reactor, r.Driver.Driver, r.HighAvailability, r.Affinity,
			r.ShutdownGuard)
		add(resources.SidecarRegistry, r.Driver.Provisioner, r.Driver.Attacher, r.Driver.Resizer, r.Driver.Snapshotter,
			r.Driver.Registrar, r.Driver.LivenessProbe)
	}
	for _, l := range c.Loaders {
		add(resources.DefaultRegistry, l.Image)
	}
	add(resources.DefaultRegistry, c.DefaultLoader)
	for _, e := range c.Etcd {
		add(etcdmember.DefaultRegistry, e.Image)
	}
	out := []related{{"operator", own}}
	for _, image := range slices.Sorted(maps.Keys(images)) {
		out = append(out, related{strings.ReplaceAll(image[strings.LastIndex(image, "/")+1:], ":", "-"), image})
	}
	return out, nil
}
