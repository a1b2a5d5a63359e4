package sim

import (
	"maps"
	"slices"
	"strings"
)

// defaultGroup is the resource group that every LINSTOR has.
const defaultGroup = "DfltRscGrp"

// rscGrp is a resource group: what volumes of one kind have in common.
type rscGrp struct {
	name, uuid, description string
	props                   map[string]string
	filter                  selectFilter
	volumes                 map[int]*volumeGrp
}

func (g *rscGrp) clone() *rscGrp {
	out := shallow(g)
	out.props, out.filter, out.volumes = maps.Clone(g.props), g.filter.clone(), cloned(g.volumes, (*volumeGrp).clone)
	return out
}

// volumeGrp is a volume group of a resource group.
type volumeGrp struct {
	number int
	uuid   string
	props  map[string]string
}

func (g *volumeGrp) clone() *volumeGrp {
	out := shallow(g)
	out.props = maps.Clone(g.props)
	return out
}

func newGroup(name, uuid string) *rscGrp {
	count := placeCount
	return &rscGrp{name: name, uuid: uuid, props: map[string]string{}, filter: selectFilter{PlaceCount: &count},
		volumes: map[int]*volumeGrp{}}
}

func (d *Database) sortedGroups() []*rscGrp {
	list := make([]*rscGrp, 0, len(d.rscGrps))
	for _, k := range slices.Sorted(maps.Keys(d.rscGrps)) {
		list = append(list, d.rscGrps[k])
	}
	return list
}

// groupOf is the resource group of a definition.
func (d *Database) groupOf(dfn *rscDfn) *rscGrp { return d.rscGrps[key(dfn.group)] }

// members are the definitions of a group.
func (d *Database) members(g *rscGrp) []*rscDfn {
	var list []*rscDfn
	for _, dfn := range d.sortedDfns() {
		if key(dfn.group) == key(g.name) {
			list = append(list, dfn)
		}
	}
	return list
}

// selectFilter is LINSTOR's AutoSelectFilter, for both directions: what a node and a pool must be like to take a copy.
// An absent member leaves the choice to the resource group.
type selectFilter struct {
	PlaceCount           *int           `json:"place_count,omitempty"`
	AdditionalPlaceCount *int           `json:"additional_place_count,omitempty"`
	NodeNameList         []string       `json:"node_name_list,omitempty"`
	StoragePool          string         `json:"storage_pool,omitempty"`
	StoragePoolList      []string       `json:"storage_pool_list,omitempty"`
	StoragePoolDiskless  []string       `json:"storage_pool_diskless_list,omitempty"`
	NotPlaceWithRsc      []string       `json:"not_place_with_rsc,omitempty"`
	NotPlaceWithRscRegex string         `json:"not_place_with_rsc_regex,omitempty"`
	ReplicasOnSame       []string       `json:"replicas_on_same,omitempty"`
	ReplicasOnDifferent  []string       `json:"replicas_on_different,omitempty"`
	XReplicasOnDifferent map[string]int `json:"x_replicas_on_different_map,omitempty"`
	LayerStack           []string       `json:"layer_stack,omitempty"`
	ProviderList         []string       `json:"provider_list,omitempty"`
	DisklessOnRemaining  *bool          `json:"diskless_on_remaining,omitempty"`
	DisklessType         string         `json:"diskless_type,omitempty"`
	OverProvision        *float64       `json:"overprovision,omitempty"`
	PortCount            *int           `json:"port_count,omitempty"`
}

func (f selectFilter) clone() selectFilter {
	f.PlaceCount, f.AdditionalPlaceCount, f.PortCount = shallow(f.PlaceCount), shallow(f.AdditionalPlaceCount),
		shallow(f.PortCount)
	f.DisklessOnRemaining, f.OverProvision = shallow(f.DisklessOnRemaining), shallow(f.OverProvision)
	for _, list := range []*[]string{&f.NodeNameList, &f.StoragePoolList, &f.StoragePoolDiskless, &f.NotPlaceWithRsc,
		&f.ReplicasOnSame, &f.ReplicasOnDifferent, &f.LayerStack, &f.ProviderList} {
		*list = slices.Clone(*list)
	}
	f.XReplicasOnDifferent = maps.Clone(f.XReplicasOnDifferent)
	return f
}

// merged fills what a filter leaves open from another one (linstor-server 1.34, AutoSelectFilterPojo.merge).
func (f selectFilter) merged(base selectFilter) selectFilter {
	f.StoragePoolList = firstList(f.pools(), base.pools())
	f.StoragePool = ""
	f.NodeNameList = firstList(f.NodeNameList, base.NodeNameList)
	f.StoragePoolDiskless = firstList(f.StoragePoolDiskless, base.StoragePoolDiskless)
	f.NotPlaceWithRsc = firstList(f.NotPlaceWithRsc, base.NotPlaceWithRsc)
	f.ReplicasOnSame = firstList(f.ReplicasOnSame, base.ReplicasOnSame)
	f.ReplicasOnDifferent = firstList(f.ReplicasOnDifferent, base.ReplicasOnDifferent)
	f.LayerStack = firstList(f.LayerStack, base.LayerStack)
	f.ProviderList = firstList(f.ProviderList, base.ProviderList)
	if f.PlaceCount == nil {
		f.PlaceCount = base.PlaceCount
	}
	if f.AdditionalPlaceCount == nil {
		f.AdditionalPlaceCount = base.AdditionalPlaceCount
	}
	if f.NotPlaceWithRscRegex == "" {
		f.NotPlaceWithRscRegex = base.NotPlaceWithRscRegex
	}
	if f.XReplicasOnDifferent == nil {
		f.XReplicasOnDifferent = base.XReplicasOnDifferent
	}
	if f.DisklessOnRemaining == nil {
		f.DisklessOnRemaining = base.DisklessOnRemaining
	}
	return f
}

// applied is a filter after a change of it: what the change names replaces what was there, an empty list removes it
// (linstor-server 1.34, AutoSelectorConfig.applyChanges).
func (f selectFilter) applied(change selectFilter) selectFilter {
	out := change.merged(f)
	for _, list := range []struct{ to, named *[]string }{
		{&out.StoragePoolList, &change.StoragePoolList}, {&out.NodeNameList, &change.NodeNameList},
		{&out.ReplicasOnSame, &change.ReplicasOnSame}, {&out.ReplicasOnDifferent, &change.ReplicasOnDifferent},
		{&out.LayerStack, &change.LayerStack}, {&out.ProviderList, &change.ProviderList},
		{&out.NotPlaceWithRsc, &change.NotPlaceWithRsc},
	} {
		if *list.named != nil && len(*list.named) == 0 {
			*list.to = nil
		}
	}
	return out
}

func firstList(a, b []string) []string {
	if len(a) > 0 {
		return a
	}
	return b
}

// pools are the names of the pools, whichever way they were written.
func (f selectFilter) pools() []string {
	if len(f.StoragePoolList) == 0 && f.StoragePool != "" {
		return []string{f.StoragePool}
	}
	return f.StoragePoolList
}

// shown is a filter as LINSTOR shows it: the first pool once more by itself, and layers in upper case.
func (f selectFilter) shown() selectFilter {
	if len(f.StoragePoolList) > 0 {
		f.StoragePool = f.StoragePoolList[0]
	}
	layers := make([]string, 0, len(f.LayerStack))
	for _, l := range f.LayerStack {
		layers = append(layers, strings.ToUpper(l))
	}
	f.LayerStack = layers
	return f
}

// unknownLayer is the first layer that LINSTOR does not know, "" if there is none.
func unknownLayer(layers []string) string {
	for _, l := range layers {
		if !slices.Contains(allLayers, strings.ToUpper(l)) {
			return l
		}
	}
	return ""
}
