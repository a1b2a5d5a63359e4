package sim

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// wholeContent has something in every field of all that a database holds.
func wholeContent() *content {
	props := func() map[string]string { return map[string]string{"key": "value"} }
	names := func() []string { return []string{"name"} }
	one, yes, much := 1, true, 1.5
	some := func() *int { return shallow(&one) }
	return &content{
		written: true, schema: version{1, 34, 2}, props: props(), nextMinor: 1000, passphrase: "secret", half: true,
		nodes: map[string]*node{"N": {name: "n", uuid: "u", nodeType: typeSatellite, props: props(), active: "DEFAULT",
			nets:    map[string]*netIf{"DEFAULT": {"default", "10.0.0.1", encPlain, "u", 1}},
			pools:   map[string]*pool{"P": {"p", kindLVM, "u", props(), "shared", true, true, 2, 1}},
			machine: "m", evacuate: true, deleted: true, evicted: true}},
		nodeConns: map[string]*nodeConn{"A|B": {"A", "B", "u", props()}},
		poolDfns:  map[string]*poolDfn{"P": {"p", props(), true}},
		rscDfns: map[string]*rscDfn{"R": {name: "r", uuid: "u", props: props(), group: "g", wanted: names(), layers: names(),
			storageOnly: true, clonedFrom: "O", deleted: true, volume: &volumeDfn{"u", props()}, sizeKiB: 2, filledKiB: 1,
			minor: 1, port: 1, snapshotsTaken: 1,
			resources: map[string]*resource{"N": {node: "N", nodeName: "n", uuid: "u", volumeUUID: "u", volume: props(),
				pool: "p", diskless: true, tieBreaker: true, evacuate: true, deleted: true, asked: true, evicted: true,
				diskState: stateUpToDate, inUse: true, broken: true, unmovable: true, created: time.Unix(1, 0), nodeID: 1,
				migrateFrom: "M", syncing: true, syncedAt: time.Unix(1, 0), shrinks: true, restored: true}},
			snapshots: map[string]*snapshot{"S": {name: "s", uuid: "u", created: time.Unix(1, 0), pools: props(),
				nodes: props(), volumes: map[string]map[string]string{"N": props()}, deleting: map[string]bool{"N": true},
				sequence: 1, dfnProps: props(), volumeProps: props(), sizeKiB: 1, files: map[string]files{"N": props()}}}}},
		rscGrps: map[string]*rscGrp{"G": {name: "g", uuid: "u", description: "d", props: props(),
			volumes: map[int]*volumeGrp{1: {1, "u", props()}},
			filter: selectFilter{PlaceCount: some(), AdditionalPlaceCount: some(), NodeNameList: names(), StoragePool: "p",
				StoragePoolList: names(), StoragePoolDiskless: names(), NotPlaceWithRsc: names(), NotPlaceWithRscRegex: "r",
				ReplicasOnSame: names(), ReplicasOnDifferent: names(), XReplicasOnDifferent: map[string]int{"k": 1},
				LayerStack: names(), ProviderList: names(), DisklessOnRemaining: &yes, DisklessType: "DRBD",
				OverProvision: &much, PortCount: some()}}},
		keyValues: map[string]*keyValueStore{"K": {"k", "u", props()}},
	}
}

// visit calls f with all that can be reached from v, by its path. A time is one value.
func visit(path string, v reflect.Value, f func(path string, v reflect.Value)) {
	f(path, v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(path, v.Elem(), f)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			visit(path+"."+v.Type().Field(i).Name, v.Field(i), f)
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			visit(fmt.Sprintf("%s[%v]", path, each.Key()), each.Value(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(fmt.Sprintf("%s[%d]", path, i), v.Index(i), f)
		}
	default:
	}
}

// TestCloneSharesNothing: a clone has all that the original has, and a change of one does not show in the other.
func TestCloneSharesNothing(t *testing.T) {
	original := wholeContent()
	clone := original.clone()
	if !reflect.DeepEqual(original, clone) {
		t.Errorf("clone %+v, want %+v", clone, original)
	}
	owned := map[uintptr]string{}
	visit("content", reflect.ValueOf(original), func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice:
			if v.Pointer() != 0 {
				owned[v.Pointer()] = path
			}
		default:
		}
		if kind := v.Kind(); v.IsZero() || (kind == reflect.Map || kind == reflect.Slice) && v.Len() == 0 {
			t.Errorf("nothing is in %s, so this test would not notice if it were not cloned", path)
		}
	})
	visit("clone", reflect.ValueOf(clone), func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice:
			if from := owned[v.Pointer()]; from != "" {
				t.Errorf("%s is the original's %s", path, from)
			}
		default:
		}
	})
}
