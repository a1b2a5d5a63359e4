package csidriver

import (
	"context"
	"fmt"
	"reflect"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
)

// reconcileGroup makes the class's resource group what the class says: G rg; if it is not there POST rg, POST
// volume-groups, G rg; if it differs PUT rg, G rg. The numbers and lists of the placer are set back; properties are
// added, and one that has another value is an error.
func (d *Driver) reconcileGroup(ctx context.Context, c class) error {
	groups := d.linstor.ResourceGroups
	have, err := groups.Get(ctx, c.group)
	if notFound(err) {
		err = groups.Create(ctx, client.ResourceGroup{Name: c.group})
		if err == nil || client.IsApiCallError(err, linstor.FailExistsRscGrp) { // another claim of the class came first
			err = groups.CreateVolumeGroup(ctx, c.group, client.VolumeGroup{})
		}
		if err == nil || client.IsApiCallError(err, linstor.FailExistsVlmGrp) {
			have, err = groups.Get(ctx, c.group)
		}
	}
	if err != nil {
		return fmt.Errorf("make the resource group: %w", err)
	}
	change, differs, err := c.groupChange(have)
	if err != nil || !differs {
		return err
	}
	if err := groups.Modify(ctx, c.group, change); err != nil {
		return fmt.Errorf("change the resource group: %w", err)
	}
	if _, err := groups.Get(ctx, c.group); err != nil {
		return fmt.Errorf("read the resource group back: %w", err)
	}
	return nil
}

// groupChange is what makes the group what the class says. What the class leaves open stays as it is.
func (c class) groupChange(have client.ResourceGroup) (client.ResourceGroupModify, bool, error) {
	var change client.ResourceGroupModify
	want, has := c.filter(), have.SelectFilter
	filter := &change.SelectFilter
	if want.PlaceCount != has.PlaceCount {
		filter.PlaceCount = want.PlaceCount
	}
	for _, list := range []struct {
		want, has []string
		change    *[]string
	}{
		{want.StoragePoolList, has.StoragePoolList, &filter.StoragePoolList},
		{want.LayerStack, has.LayerStack, &filter.LayerStack},
		{want.ReplicasOnSame, has.ReplicasOnSame, &filter.ReplicasOnSame},
		{want.ReplicasOnDifferent, has.ReplicasOnDifferent, &filter.ReplicasOnDifferent},
	} {
		if len(list.want) > 0 && !reflect.DeepEqual(list.want, list.has) {
			*list.change = list.want
		}
	}
	for _, key := range sortedKeys(c.props) {
		switch value, there := have.Props[key]; {
		case !there:
			if change.OverrideProps == nil {
				change.OverrideProps = map[string]string{}
			}
			change.OverrideProps[key] = c.props[key]
		case value != c.props[key]:
			return change, false, fmt.Errorf("the property %s of resource group %s is %q, and the class asks for %q", key,
				c.group, value, c.props[key])
		}
	}
	return change, !reflect.DeepEqual(change, client.ResourceGroupModify{}), nil
}
