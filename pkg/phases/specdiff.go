package phases

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// working is whether the phase is one of the chain's: work has begun that can be finished.
func (s *Snapshot) working() bool { return slices.Contains(fsm.Chain(), fsm.State(s.Phase())) }

// SpecWaits is whether a change of the spec waits for the end of the work in progress, which goes on with the accepted spec.
// That ends in any case: a phase that does not come to its end in time takes the change up as well.
func (s *Snapshot) SpecWaits() bool {
	if !s.working() || s.Target == nil || !s.SpecPending() {
		return false
	}
	return !s.preempted() && s.refuse() == nil // that it cannot be done is told at once
}

// preempted is whether a change may put right what the phase works on: a field has a part in the phase's own link, or in an
// earlier one that is not satisfied any more.
func (s *Snapshot) preempted() bool {
	state := fsm.State(s.Phase())
	var open []fsm.State
	for _, l := range Links() {
		if l.State() == state {
			break
		}
		if !l.Evidence(s).OK() {
			open = append(open, l.State())
		}
	}
	open = append(open, state)
	diff := SpecDiff(s.Target.Spec, NewTarget("", WorkingSpec(s.Cluster, s.WantedVersion()), s.Target.Release, s.Cluster).Spec)
	fields := SpecFields()
	return slices.ContainsFunc(diff, func(path string) bool {
		i := slices.IndexFunc(fields, func(f SpecField) bool { return f.Path == path })
		return i < 0 || slices.ContainsFunc(open, func(o fsm.State) bool { return fields[i].In(o) == ClassPreempt })
	})
}

// SpecDiff lists the paths of the fields that differ, sorted; a path is as in SpecFields.
func SpecDiff(a, b *v1alpha1.StorageClusterSpec) []string {
	changed := map[string]bool{}
	walkSpec("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), func(path string, a, b reflect.Value) {
		if !equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
			changed[path] = true
		}
	})
	var out []string
	for path := range changed {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// specTypes is the package whose types are looked into; types of others are single fields.
var specTypes = reflect.TypeFor[v1alpha1.StorageClusterSpec]().PkgPath()

// walkSpec visits every field of two values of one type side by side. A pointer that is nil is looked at as if it pointed to
// an empty value, and an entry that one list lacks as an empty entry.
func walkSpec(path string, a, b reflect.Value, visit func(path string, a, b reflect.Value)) {
	t := a.Type()
	switch {
	case t.Kind() == reflect.Pointer && isSection(t.Elem()):
		walkSpec(path, pointee(a), pointee(b), visit)
	case t.Kind() == reflect.Slice && isKeyed(t.Elem()):
		for _, name := range append(keysOf(a), keysOf(b)...) {
			walkSpec(path+"[]", entry(a, name), entry(b, name), visit)
		}
	case t.Kind() == reflect.Slice:
		visit(path+"[]", a, b)
	case isSection(t):
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			walkSpec(strings.TrimPrefix(path+"."+name, "."), a.Field(i), b.Field(i), visit)
		}
	default:
		visit(path, a, b)
	}
}

// isSection is whether a type has fields of its own to be looked at.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == specTypes && t.NumField() > 0
}

// isKeyed is whether a list of that type is keyed by name.
func isKeyed(t reflect.Type) bool {
	f, ok := reflect.StructField{}, false
	if t.Kind() == reflect.Struct && t.PkgPath() == specTypes {
		f, ok = t.FieldByName("Name")
	}
	return ok && f.Tag.Get("json") == "name"
}

func pointee(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

func keysOf(list reflect.Value) []string {
	var out []string
	for i := range list.Len() {
		out = append(out, list.Index(i).FieldByName("Name").String())
	}
	return out
}

func entry(list reflect.Value, name string) reflect.Value {
	for i := range list.Len() {
		if e := list.Index(i); e.FieldByName("Name").String() == name {
			return e
		}
	}
	return reflect.Zero(list.Type().Elem())
}
