package csidriver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/LINBIT/golinstor/client"
	"github.com/LINBIT/golinstor/devicelayerkind"
	"github.com/google/uuid"
)

const (
	parameterPrefix = Name + "/"
	propertyPrefix  = "property." + Name + "/"
	// metadataPrefix is that of what csi-provisioner tells of the claim.
	metadataPrefix = "csi.storage.k8s.io/"
	// remoteAccess is where a volume's context keeps the policy.
	remoteAccess = parameterPrefix + "remote-access-policy"
)

// class is what the parameters of a StorageClass ask for.
type class struct {
	group       string
	placeCount  int32
	pools       []string
	layers      []devicelayerkind.DeviceLayerKind
	onSame      []string
	onDifferent []string
	fsType      string
	// remote: pods may be anywhere, and not only where a copy is.
	remote bool
	props  map[string]string
}

// parseClass reads the parameters. Keys count without their case and without the driver's prefix; those with another
// prefix are somebody else's (linstor-csi 1.12, pkg/volume/parameter.go).
func parseClass(parameters map[string]string, namespace string) (class, error) {
	c := class{placeCount: 1, props: map[string]string{},
		layers: []devicelayerkind.DeviceLayerKind{devicelayerkind.Drbd, devicelayerkind.Storage}}
	remote := ""
	for _, name := range sortedKeys(parameters) {
		value := parameters[name]
		switch property, is := strings.CutPrefix(name, propertyPrefix); {
		case is:
			c.props[property] = value
			continue
		case strings.HasPrefix(name, "DrbdOptions/"):
			c.props[name] = value
			continue
		}
		key := strings.ToLower(name)
		own := strings.TrimPrefix(key, strings.ToLower(parameterPrefix))
		if own == key && strings.Contains(key, "/") && key != metadataPrefix+"fstype" {
			continue
		}
		if own == "allowremotevolumeaccess" {
			remote = value
			continue
		}
		if err := c.set(own, name, value, namespace); err != nil {
			return class{}, err
		}
	}
	replicated := slices.Contains(c.layers, devicelayerkind.Drbd) || slices.Contains(c.layers, devicelayerkind.Nvme)
	c.remote = replicated
	if remote != "" {
		var err error
		if c.remote, err = strconv.ParseBool(remote); err != nil {
			return class{}, invalid("allowRemoteVolumeAccess is %q: this driver knows true and false only", remote)
		}
	}
	c.group = cmp.Or(c.group, c.derivedGroup())
	return c, nil
}

func (c *class) set(key, name, value, namespace string) error {
	switch key {
	case "storagepool":
		c.pools = strings.Fields(value)
	case "autoplace", "placementcount":
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			return invalid("%s is %q: a number from 1 on is wanted", name, value)
		}
		c.placeCount = int32(n)
	case "resourcegroup":
		c.group = value
	case "layerlist":
		c.layers = nil
		for _, layer := range strings.Fields(value) {
			kind := devicelayerkind.DeviceLayerKind(strings.ToUpper(layer))
			if !slices.Contains([]devicelayerkind.DeviceLayerKind{devicelayerkind.Drbd, devicelayerkind.Storage,
				devicelayerkind.Luks, devicelayerkind.Nvme, devicelayerkind.Cache, devicelayerkind.Writecache}, kind) {
				return invalid("%s names the layer %q, which does not exist", name, layer)
			}
			c.layers = append(c.layers, kind)
		}
	case "replicasonsame":
		c.onSame = properties(value, namespace)
	case "replicasondifferent":
		c.onDifferent = properties(value, namespace)
	case metadataPrefix + "fstype", "fstype":
		c.fsType = value
	default:
		return invalid("%q is no parameter of this driver", name)
	}
	return nil
}

// properties gives names of properties their namespace, unless they say that it is another.
func properties(value, namespace string) []string {
	var out []string
	for _, p := range strings.Fields(value) {
		if !strings.HasPrefix(p, "Aux/") {
			p = namespace + "/" + p
		}
		out = append(out, p)
	}
	return out
}

// filter is what the class asks of LINSTOR's placer.
func (c class) filter() client.AutoSelectFilter {
	f := client.AutoSelectFilter{PlaceCount: c.placeCount, StoragePoolList: c.pools, ReplicasOnSame: c.onSame,
		ReplicasOnDifferent: c.onDifferent}
	for _, l := range c.layers {
		f.LayerStack = append(f.LayerStack, string(l))
	}
	return f
}

// derivedGroup names the resource group of a class that names none: equal classes have the same.
func (c class) derivedGroup() string {
	content, err := json.Marshal(map[string]any{"filter": c.filter(), "props": c.props})
	if err != nil {
		panic(fmt.Sprintf("encode strings: %v", err)) // cannot happen
	}
	return "sc-" + uuid.NewSHA1(uuid.NameSpaceOID, content).String()
}

// resourceName is a name that LINSTOR takes: up to 48 letters, digits, hyphens and underlines, of which the first is
// no digit.
var resourceName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{1,47}$`)

// nameFor is the name of the resource definition for a volume.
func nameFor(volume string) string {
	if resourceName.MatchString(volume) && strings.ContainsAny(strings.ToLower(volume), "abcdefghijklmnopqrstuvwxyz") &&
		!strings.EqualFold(volume, "all") {
		return volume
	}
	return "vol-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(volume)).String()
}
