package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type resourceGroupJSON struct {
	Name         string            `json:"name,omitempty"`
	Description  string            `json:"description,omitempty"`
	Props        map[string]string `json:"props,omitempty"`
	SelectFilter selectFilter      `json:"select_filter"`
	UUID         string            `json:"uuid,omitempty"`
	PeerSlots    *int              `json:"peer_slots,omitempty"`
}

type resourceGroupModifyJSON struct {
	propChange
	Description  *string       `json:"description"`
	SelectFilter *selectFilter `json:"select_filter"`
	PeerSlots    *int          `json:"peer_slots"`
	SnapNames    []string      `json:"snap_names"`
	CopyAllSnaps bool          `json:"copy_all_snaps"`
}

// groupContext names the operation "create" whatever is done, as LINSTOR does for resource groups (linstor-server
// 1.34, CtrlRscGrpApiCallHandler).
func groupContext(name string) rcContext {
	return rcContext{op: opCreate, object: objRscGrp, refs: map[string]string{"RscGrp": name},
		subject: "Resource group: " + name}
}

func (g *rscGrp) json() resourceGroupJSON {
	return resourceGroupJSON{Name: g.name, Description: g.description, Props: g.props, SelectFilter: g.filter.shown(),
		UUID: g.uuid}
}

func listResourceGroups(c *call) reply {
	match := c.filter("resource_groups")
	var groups []resourceGroupJSON
	for _, g := range c.db.sortedGroups() {
		if match(g.name) && c.matchesProps(g.props) {
			groups = append(groups, g.json())
		}
	}
	return c.object(http.StatusOK, page(c, groups))
}

func unknownGroup(name string) rc {
	return failure(codeNotFoundGroup, "Resource group '%s' not found.", name)
}

// unknownGroupInDetail is what LINSTOR answers where it loads a group to change something.
func unknownGroupInDetail(name string) rc {
	return unknownGroup(name).cause("The specified resource group '%s' could not be found in the database", name).
		correction("Create a resource group with the name '%s' first.", name)
}

func getResourceGroup(c *call) reply {
	name := c.req.PathValue("rg")
	if g := c.db.rscGrps[key(name)]; g != nil {
		return c.object(http.StatusOK, g.json())
	}
	return c.list(http.StatusOK, rcContext{bare: true}, rcs{unknownGroup(name)})
}

func validGroupName(name string) bool { return validObjectName(name, 2, 48) }

func createResourceGroup(c *call) reply {
	var body resourceGroupJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	x := groupContext(body.Name)
	if !validGroupName(body.Name) {
		return c.list(http.StatusCreated, x, rcs{failure(codeInvalidGroupName,
			"The specified resource group name '%s' is invalid.", body.Name).
			cause("Invalid name: %s", objectNameFault(body.Name, 2, 48))})
	}
	if c.db.rscGrps[key(body.Name)] != nil {
		return c.list(http.StatusCreated, x, rcs{failure(codeExistsGroup, "A Resource group: %s already exists.", body.Name).
			cause("The ResourceGroup already exists")})
	}
	if e := checkFilter(body.SelectFilter); e != nil {
		return c.list(http.StatusCreated, x, rcs{*e})
	}
	change := propChange{OverrideProps: body.Props}
	props, bad := change.apply(nil, onRscDfn, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusCreated, x, rcs{*bad})
	}
	g := newGroup(body.Name, c.world.newUUID())
	g.description, g.props, g.filter = body.Description, props, g.filter.applied(body.SelectFilter)
	c.db.rscGrps[key(g.name)] = g
	return c.list(http.StatusCreated, x, append(change.messages(objRscDfn),
		success(codeCreated, "New resource group '%s' created.", g.name).
			details("Resource group '%s' UUID is: %s", g.name, g.uuid).ref("UUID", g.uuid)))
}

// checkFilter refuses a filter that LINSTOR cannot read.
func checkFilter(f selectFilter) *rc {
	var e rc
	switch {
	case f.PlaceCount != nil && *f.PlaceCount < 0:
		e = failure(codeInvalidPlaceCount, "Place count must not be negative")
	case unknownLayer(f.LayerStack) != "":
		e = failure(codeInvalidLayerKind, "Given layer kind '%s' is invalid", unknownLayer(f.LayerStack))
	default:
		return nil
	}
	return &e
}

// modifyResourceGroup changes a group, and at once what that means for its volumes: those with fewer copies than a
// new place_count get more (linstor-server 1.34, CtrlRscGrpApiCallHandler.modifyInTransaction).
func modifyResourceGroup(c *call) reply {
	var body resourceGroupModifyJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name := c.req.PathValue("rg")
	x := groupContext(name)
	g := c.db.rscGrps[key(name)]
	if g == nil {
		return c.list(http.StatusOK, x, rcs{unknownGroupInDetail(name)})
	}
	props, bad := body.apply(g.props, onRscDfn, c.ctl.version)
	if bad == nil && body.SelectFilter != nil {
		bad = checkFilter(*body.SelectFilter)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	notify := !maps.Equal(props, g.props)
	g.props = props
	if body.Description != nil {
		g.description = *body.Description
	}
	list := body.messages(objRscDfn)
	var placed rcs
	if f := body.SelectFilter; f != nil {
		g.filter = g.filter.applied(*f)
		if e := (definer{c}).missingPools(g); e != nil {
			list = append(list, *e)
		}
		if f.PlaceCount != nil {
			notify = true
			placed = deployer{c}.placeMore(g, *f)
		}
	}
	list = append(list, success(codeModified, "Resource group '%s' modified.", g.name).
		details("Resource group '%s' UUID is: %s", g.name, g.uuid).ref("UUID", g.uuid))
	list = append(list, placed...)
	if notify {
		for _, d := range c.db.members(g) {
			list = append(list, deployer{c}.perNode(d, func(n *node) rc {
				return success(codeModified, "Updated Resource definition '%s' on '%s'", d.name, n.name)
			})...)
		}
	}
	return c.list(http.StatusOK, x, list)
}

// missingPools warns about pools of a group that no node has.
func (c definer) missingPools(g *rscGrp) *rc {
	var missing []string
	for _, name := range g.filter.StoragePoolList {
		if c.db.poolDfns[key(name)] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	e := warning(codeNotFoundWarning, "The following configured storage pools do not exist on any node:\n\t%s",
		strings.Join(missing, "\n\t"))
	return &e
}

// placeMore places what the volumes of a group lack to a new place count. What a tie-breaker is does not count.
func (c deployer) placeMore(g *rscGrp, f selectFilter) rcs {
	var list rcs
	for _, d := range c.db.members(g) {
		count := 0
		for _, r := range d.resources {
			if !r.tieBreaker {
				count++
			}
		}
		if count >= *f.PlaceCount {
			continue
		}
		x := autoplaceContext(d.name)
		for _, e := range c.autoplace(d, f, nil) {
			if x.reported(e) {
				e = e.reported(c.call)
			}
			list = append(list, x.complete(e))
		}
	}
	return list
}

// deleteResourceGroup refuses a group that has members, and the default one whether it has any or not.
func deleteResourceGroup(c *call) reply {
	name := c.req.PathValue("rg")
	x := groupContext(name)
	g := c.db.rscGrps[key(name)]
	switch {
	case g == nil:
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "Resource group: %s not found.", name)})
	case g.name == defaultGroup || len(c.db.members(g)) > 0:
		return c.list(http.StatusOK, x, rcs{failure(codeExistsRscDfn,
			"Cannot delete resource group '%s' because it has existing resource definitions.", name)})
	}
	delete(c.db.rscGrps, key(name))
	return c.list(http.StatusOK, x, rcs{success(codeDeleted, "Resource group '%s' deleted.", g.name).
		details("Resource group '%s' UUID was: %s", g.name, g.uuid).ref("UUID", g.uuid)})
}

type volumeGroupJSON struct {
	VolumeNumber *int              `json:"volume_number,omitempty"`
	Props        map[string]string `json:"props,omitempty"`
	UUID         string            `json:"uuid,omitempty"`
	Flags        []string          `json:"flags,omitempty"`
}

func (v *volumeGrp) json() volumeGroupJSON {
	number := v.number
	return volumeGroupJSON{VolumeNumber: &number, Props: v.props, UUID: v.uuid}
}

func volumeGroupContext(op uint64, group string, number int) rcContext {
	return rcContext{op: op, object: objVlmGrp,
		refs:    map[string]string{"RscGrp": group, "VlmGrp": group, "VlmNr": itoa(number)},
		subject: fmt.Sprintf("Resource group: %s, Volume number: %d", group, number)}
}

func listVolumeGroups(c *call) reply {
	name := c.req.PathValue("rg")
	g := c.db.rscGrps[key(name)]
	if g == nil {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{unknownGroup(name)})
	}
	var list []volumeGroupJSON
	for _, nr := range slices.Sorted(maps.Keys(g.volumes)) {
		list = append(list, g.volumes[nr].json())
	}
	return c.object(http.StatusOK, page(c, list))
}

func createVolumeGroup(c *call) reply {
	var body volumeGroupJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name := c.req.PathValue("rg")
	g := c.db.rscGrps[key(name)]
	if g == nil {
		return c.list(http.StatusCreated, volumeGroupContext(opCreate, name, 0), rcs{unknownGroupInDetail(name)})
	}
	number := 0
	for g.volumes[number] != nil {
		number++
	}
	if body.VolumeNumber != nil {
		number = *body.VolumeNumber
	}
	x := volumeGroupContext(opCreate, name, number)
	if g.volumes[number] != nil {
		return c.list(http.StatusCreated, x, rcs{failure(codeExistsVlmGrp,
			"A volume group with the number %d already exists in resource group '%s'.", number, g.name)})
	}
	change := propChange{OverrideProps: body.Props}
	props, bad := change.apply(nil, onVlmDfn, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusCreated, x, rcs{*bad})
	}
	g.volumes[number] = &volumeGrp{number: number, uuid: c.world.newUUID(), props: props}
	return c.list(http.StatusCreated, x, append(change.messages(objVlmDfn), success(codeCreated,
		"New volume group with number '%d' of resource group '%s' created.", number, g.name)))
}

// volumeGroup is the volume group of the path.
func (c definer) volumeGroup() (g *rscGrp, v *volumeGrp, x rcContext, missing rcs) {
	name, nr := c.req.PathValue("rg"), c.req.PathValue("nr")
	number, err := strconv.Atoi(nr)
	x = volumeGroupContext(opModify, name, number)
	if g = c.db.rscGrps[key(name)]; g == nil {
		return nil, nil, x, rcs{unknownGroup(name)}
	}
	if v = g.volumes[number]; v == nil || err != nil {
		return g, nil, x, rcs{failure(codeNotFoundVlmGrp, "Volume group '%s' not found.", nr)}
	}
	return g, v, x, nil
}

func getVolumeGroup(c *call) reply {
	_, v, _, missing := definer{c}.volumeGroup()
	if missing != nil {
		return c.list(http.StatusOK, rcContext{bare: true}, missing)
	}
	return c.object(http.StatusOK, v.json())
}

func modifyVolumeGroup(c *call) reply {
	var body struct {
		propChange
		Flags []string `json:"flags"`
	}
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	g, v, x, missing := definer{c}.volumeGroup()
	if missing != nil {
		return c.list(http.StatusOK, x, missing)
	}
	props, bad := body.apply(v.props, onVlmDfn, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	v.props = props
	return c.list(http.StatusOK, x, append(body.messages(objVlmDfn), success(codeModified,
		"Volume group with number '%d' of resource group '%s' modified.", v.number, g.name)))
}

func deleteVolumeGroup(c *call) reply {
	g, v, x, missing := definer{c}.volumeGroup()
	x.op = opDelete
	if missing != nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "%s not found.", x.subject)})
	}
	delete(g.volumes, v.number)
	return c.list(http.StatusOK, x, rcs{success(codeDeleted, "Volume group with number '%d' of resource group '%s' "+
		"deleted.", v.number, g.name)})
}
