package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// definer is the part of a call that makes and looks up definitions and volumes, and gives them up.
type definer struct{ *call }

type resourceDfnCreateJSON struct {
	ResourceDefinition resourceDfnJSON `json:"resource_definition"`
	DrbdPort           *int            `json:"drbd_port"`
	DrbdSecret         string          `json:"drbd_secret"`
	DrbdPeerSlots      *int            `json:"drbd_peer_slots"`
	DrbdTransportType  string          `json:"drbd_transport_type"`
}

type resourceDfnModifyJSON struct {
	propChange
	DrbdPort      *int     `json:"drbd_port"`
	DrbdPeerSlots *int     `json:"drbd_peer_slots"`
	LayerStack    []string `json:"layer_stack"`
	ResourceGroup string   `json:"resource_group"`
}

func dfnContext(op uint64, name string) rcContext {
	return rcContext{op: op, object: objRscDfn, refs: map[string]string{"RscDfn": name},
		subject: "Resource definition: " + name}
}

// createResourceDfn makes a resource definition. An entry about its properties names no object, as LINSTOR adds them
// before it knows the name.
func createResourceDfn(c *call) reply {
	var body resourceDfnCreateJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	asked := body.ResourceDefinition
	if len(asked.VolumeDefinitions) > 1 {
		return notSimulated(c) // see volumeDfn
	}
	x := dfnContext(opCreate, asked.Name)
	d, list := definer{c}.newDefinition(asked)
	if d == nil {
		return c.list(http.StatusCreated, x, list)
	}
	for _, v := range asked.VolumeDefinitions {
		definer{c}.newVolume(d, v.SizeKiB, v.Props)
		list = append(rcs{success(opCreate|objVlmDfn|codeCreated,
			"Volume definition with number '0' successfully  created in resource definition '%s'.", d.name).
			ref("RscDfn", d.name).ref("VlmNr", "0")}, list...)
	}
	x.refs = nil
	return c.list(http.StatusCreated, x, list)
}

// newDefinition makes a resource definition, or says why not.
func (c definer) newDefinition(asked resourceDfnJSON) (*rscDfn, rcs) {
	if !validObjectName(asked.Name, 2, 48) || key(asked.Name) == "ALL" {
		return nil, rcs{failure(codeInvalidRscName, "The specified resource name '%s' is invalid.", asked.Name).
			cause("Invalid name: %s", objectNameFault(asked.Name, 2, 48))}
	}
	if asked.ResourceGroupName == "" {
		asked.ResourceGroupName = defaultGroup
	}
	group := c.db.rscGrps[key(asked.ResourceGroupName)]
	layers := []string{}
	for _, l := range asked.LayerData {
		layers = append(layers, strings.ToUpper(l.Type))
	}
	change := propChange{OverrideProps: asked.Props}
	props, bad := change.apply(nil, onRscDfn, c.ctl.version)
	switch {
	case c.db.rscDfns[key(asked.Name)] != nil:
		return nil, rcs{failure(codeExistsRscDfn, "A resource definition with the name '%s' already exists", asked.Name).
			cause("The ResourceDefinition already exists")}
	case group == nil:
		return nil, rcs{failure(codeNotFoundGroup, "Resource group '%s' could not be found.", asked.ResourceGroupName)}
	case unknownLayer(layers) != "":
		return nil, rcs{failure(codeInvalidLayerKind, "Given layer kind '%s' is invalid", unknownLayer(layers))}
	case bad != nil:
		return nil, rcs{*bad}
	}
	d := c.db.newDfn(asked.Name, group.name)
	d.props, d.wanted = props, layers
	c.db.rscDfns[key(d.name)] = d
	return d, append(change.messages(objRscDfn), success(opCreate|objRscDfn|codeCreated,
		"New resource definition '%s' created.", d.name).
		details("Resource definition '%s' UUID is: %s", d.name, d.uuid).ref("UUID", d.uuid).ref("RscDfn", d.name))
}

// newDfn is a definition without anything.
func (d *Database) newDfn(name, group string) *rscDfn {
	dfn := &rscDfn{name: name, uuid: d.world.newUUID(), props: map[string]string{}, group: group, minor: d.nextMinor,
		port: 6000 + d.nextMinor, resources: map[string]*resource{}, snapshots: map[string]*snapshot{}}
	d.nextMinor++
	return dfn
}

// modifyResourceDfn stores first. The satellites hear of it only if something is different now, and the first that
// fails ends the answer: what was stored stays (linstor-server 1.34, CtrlRscDfnApiCallHandler.modifyInTransaction).
func modifyResourceDfn(c *call) reply {
	var body resourceDfnModifyJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name := c.req.PathValue("rd")
	x := dfnContext(opModify, name)
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.list(http.StatusOK, x, rcs{unknownDfn(name)})
	}
	props, bad := body.apply(d.props, onRscDfn, c.ctl.version)
	group := c.db.groupOf(d)
	if body.ResourceGroup != "" {
		group = c.db.rscGrps[key(body.ResourceGroup)]
	}
	if bad == nil {
		bad = d.badChange(body, group)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	notify := !maps.Equal(props, d.props) || len(body.LayerStack) > 0 || group.name != d.group
	d.props = props
	if len(body.LayerStack) > 0 {
		d.wanted = body.LayerStack
	}
	moved := group.name != d.group
	d.group = group.name
	list := append(body.messages(objRscDfn), success(codeModified, "Resource definition '%s' modified.", d.name).
		details("Resource definition '%s' UUID is: %s", d.name, d.uuid).ref("UUID", d.uuid))
	if notify {
		list = append(list, deployer{c}.untilFailure(d)...)
	}
	if count := group.filter.PlaceCount; moved && count != nil && len(d.diskfulNodes(c.db)) < *count {
		list = append(list, deployer{c}.autoplace(d, group.filter, nil)...)
	}
	return c.list(http.StatusOK, x, list)
}

// badChange refuses a group that is not there, and layers that are unknown or come too late.
func (d *rscDfn) badChange(body resourceDfnModifyJSON, group *rscGrp) *rc {
	var e rc
	switch {
	case group == nil:
		e = unknownGroupInDetail(body.ResourceGroup)
	case unknownLayer(body.LayerStack) != "":
		e = failure(codeInvalidLayerKind, "Given layer kind '%s' is invalid", unknownLayer(body.LayerStack))
	case len(body.LayerStack) > 0 && len(d.resources) > 0 && !slices.Equal(d.layersFor(body.LayerStack), d.layers):
		e = failure(codeExistsRsc, "Changing the layer stack with already deployed resource is not supported")
	default:
		return nil
	}
	return &e
}

// untilFailure is what the satellites of a definition say, up to the first that fails.
func (c deployer) untilFailure(d *rscDfn) rcs {
	var list rcs
	for _, r := range d.sortedResources() {
		for _, e := range c.toSatellite(placed{d, r}) {
			if e.isError() {
				e.satellite = false // LINSTOR adds its own details where it gives up
				return append(list, e)
			}
			list = append(list, e)
		}
	}
	return list
}

type volumeDfnCreateJSON struct {
	VolumeDefinition struct {
		VolumeNumber *int              `json:"volume_number"`
		SizeKiB      int64             `json:"size_kib"`
		Props        map[string]string `json:"props"`
		Flags        []string          `json:"flags"`
		LayerData    []volumeLayerJSON `json:"layer_data"`
		UUID         string            `json:"uuid"`
	} `json:"volume_definition"`
	DrbdMinor  *int   `json:"drbd_minor_number"`
	Passphrase string `json:"passphrase"`
}

type volumeDfnModifyJSON struct {
	propChange
	SizeKiB *int64   `json:"size_kib"`
	Flags   []string `json:"flags"`
}

// Sizes of volumes in KiB that LINSTOR takes.
const (
	minVolumeKiB = 4
	maxVolumeKiB = 1 << 40
)

func volumeDfnContext(op uint64, dfn string, number int) rcContext {
	return rcContext{op: op, object: objVlmDfn, refs: map[string]string{"RscDfn": dfn, "VlmNr": itoa(number)},
		subject: fmt.Sprintf("Resource definition: %s, Volume number: %d", dfn, number)}
}

func (d *rscDfn) volumeJSON() volumeDfnJSON {
	out := volumeDfnJSON{SizeKiB: d.sizeKiB, Props: d.volume.props, UUID: d.volume.uuid}
	for _, l := range d.layers {
		layer := volumeLayerJSON{Type: l}
		if l == "DRBD" {
			layer.Data = map[string]int{"volume_number": 0, "minor_number": d.minor}
		}
		out.LayerData = append(out.LayerData, layer)
	}
	return out
}

func listVolumeDfns(c *call) reply {
	name := c.req.PathValue("rd")
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.missingDfn(name)
	}
	var list []volumeDfnJSON
	if d.volume != nil {
		list = append(list, d.volumeJSON())
	}
	return c.object(http.StatusOK, page(c, list))
}

func getVolumeDfn(c *call) reply {
	name, nr := c.req.PathValue("rd"), c.req.PathValue("nr")
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.missingDfn(name)
	}
	if d.volume == nil || nr != "0" {
		return c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(codeNotFoundVlmDfn, "Volume definition '%s' not found.", nr)})
	}
	return c.object(http.StatusOK, d.volumeJSON())
}

func createVolumeDfn(c *call) reply {
	var body volumeDfnCreateJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name, asked := c.req.PathValue("rd"), body.VolumeDefinition
	outer := fmt.Sprintf("Volume definitions for resource definition '%s'", name)
	d := c.db.rscDfns[key(name)]
	if d == nil {
		x := rcContext{op: opCreate, object: objVlmDfn, refs: map[string]string{"RscDfn": name}, subject: outer}
		return c.list(http.StatusOK, x, rcs{unknownDfn(name)})
	}
	number := 0
	if d.volume != nil {
		number = 1
	}
	if asked.VolumeNumber != nil {
		number = *asked.VolumeNumber
	}
	x := volumeDfnContext(opCreate, d.name, number)
	subject := x.subject
	x.subject = outer
	if asked.SizeKiB < minVolumeKiB || asked.SizeKiB > maxVolumeKiB {
		return c.list(http.StatusOK, x, rcs{failure(codeInvalidVlmSize,
			"The volume definition with number '%d' of resource definition '%s' has an invalid size of '%d'. Valid sizes "+
				"range from %d to %d.", number, d.name, asked.SizeKiB, minVolumeKiB, int64(maxVolumeKiB)).
			cause("Volume size value %d is out of range [1 - 9223372036854775807] for non-DRBD", asked.SizeKiB).
			details("%s", subject)})
	}
	if number == 0 && d.volume != nil {
		return c.list(http.StatusOK, x, rcs{failure(codeExistsVlmDfn,
			"A volume definition with the number %d already exists in resource definition '%s'.", number, d.name).
			cause("The VolumeDefinition already exists").details("%s", subject)})
	}
	if number != 0 {
		return notSimulated(c) // see volumeDfn
	}
	change := propChange{OverrideProps: asked.Props}
	props, bad := change.apply(nil, onVlmDfn, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	definer{c}.newVolume(d, asked.SizeKiB, props)
	list := append(change.messages(objVlmDfn), success(codeCreated,
		"New volume definition with number '0' of resource definition '%s' created.", d.name))
	return c.list(http.StatusOK, x, append(list, deployer{c}.perNode(d, func(n *node) rc {
		return success(codeCreated, "Created volume 0 of '%s' on '%s'", d.name, n.name)
	})...))
}

// newVolume gives a definition its volume.
func (c definer) newVolume(d *rscDfn, sizeKiB int64, props map[string]string) {
	d.volume = c.db.newVolumeDfn(props)
	d.sizeKiB = sizeKiB
}

// newVolumeDfn is a volume definition with a generation identifier of its own: DRBD takes copies of one generation for
// equal from the start.
func (d *Database) newVolumeDfn(props map[string]string) *volumeDfn {
	v := &volumeDfn{uuid: d.world.newUUID(), props: copyOf(props)}
	v.props["DrbdCurrentGi"] = strings.ToUpper(strconv.FormatInt(0x4A00000000000000+int64(d.world.ids)<<8, 16))
	return v
}
