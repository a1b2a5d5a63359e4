package linstor

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDiff(t *testing.T) {
	const list, unkept, noted = PropKeys, PropUnkept, `{"version":"1.35.3","properties":{"b":"2"}}`
	for _, tc := range []struct {
		name       string
		have, want map[string]string
		change     Change
	}{
		{name: "nothing wanted, nothing there"},
		{name: "strangers stay", have: map[string]string{"a": "1", "Aux/b": "2"}},
		{
			name: "first time", have: map[string]string{"a": "1"}, want: map[string]string{"b": "2", "c": "3"},
			change: Change{Set: map[string]string{"b": "2", "c": "3", list: `["b","c"]`}},
		},
		{
			name: "as wanted", have: map[string]string{"a": "1", "b": "2", list: `["b"]`}, want: map[string]string{"b": "2"},
		},
		{
			name: "changed by somebody", have: map[string]string{"b": "x", list: `["b"]`}, want: map[string]string{"b": "2"},
			change: Change{Set: map[string]string{"b": "2"}},
		},
		{
			name: "deleted by somebody", have: map[string]string{list: `["b"]`}, want: map[string]string{"b": "2"},
			change: Change{Set: map[string]string{"b": "2"}},
		},
		{
			name: "a stranger's key is taken over", have: map[string]string{"b": "2"}, want: map[string]string{"b": "2"},
			change: Change{Set: map[string]string{list: `["b"]`}},
		},
		{
			name: "no longer wanted", have: map[string]string{"a": "1", "b": "2", "c": "3", list: `["b","c"]`},
			want:   map[string]string{"c": "3"},
			change: Change{Set: map[string]string{list: `["c"]`}, Delete: []string{"b"}},
		},
		{
			name: "no longer wanted and gone", have: map[string]string{"c": "3", list: `["b","c"]`},
			want:   map[string]string{"c": "3"},
			change: Change{Set: map[string]string{list: `["c"]`}},
		},
		{
			name: "nothing wanted any more", have: map[string]string{"a": "1", "b": "2", list: `["b"]`},
			change: Change{Delete: []string{"b", list}},
		},
		{
			name: "unreadable list owns nothing", have: map[string]string{"a": "1", list: `b,c`},
			want:   map[string]string{"c": "3"},
			change: Change{Set: map[string]string{"c": "3", list: `["c"]`}},
		},
		{
			name: "keys with any character", have: map[string]string{list: `["x,y"]`, "x,y": "1"},
			want:   map[string]string{"Aux/\"[,": "1"},
			change: Change{Set: map[string]string{"Aux/\"[,": "1", list: `["Aux/\"[,"]`}, Delete: []string{"x,y"}},
		},
		{
			name: "booleans as LINSTOR stores them",
			have: map[string]string{"a": "True", "b": "yes", "c": "false", list: `["a","b","c"]`},
			want: map[string]string{"a": "true", "b": "True", "c": "no"},
		},
		{
			name: "other booleans differ", have: map[string]string{"a": "True", list: `["a"]`},
			want:   map[string]string{"a": "no"},
			change: Change{Set: map[string]string{"a": "no"}},
		},
		{
			name: "free-form values are kept by the letter", have: map[string]string{"Aux/a": "True", list: `["Aux/a"]`},
			want:   map[string]string{"Aux/a": "true"},
			change: Change{Set: map[string]string{"Aux/a": "true"}},
		},
		{
			name: "the list itself cannot be wanted", have: map[string]string{list: `["` + list + `"]`},
			want:   map[string]string{list: "x"},
			change: Change{Delete: []string{list}},
		},
		{
			name: "not kept before", have: map[string]string{list: `["b","c"]`, unkept: noted},
			want: map[string]string{"b": "2", "c": "3"}, change: Change{Set: map[string]string{"c": "3"},
				Unkept: map[string]string{"b": "2"}},
		},
		{
			name: "another value than the one that was not kept", have: map[string]string{list: `["b"]`, unkept: noted},
			want: map[string]string{"b": "4"}, change: Change{Set: map[string]string{"b": "4"}, Delete: []string{unkept}},
		},
		{
			name: "not kept by another version", want: map[string]string{"b": "2"},
			have:   map[string]string{list: `["b"]`, unkept: `{"version":"1.34.2","properties":{"b":"2"}}`},
			change: Change{Set: map[string]string{"b": "2"}, Delete: []string{unkept}},
		},
		{
			name: "what was not kept is not wanted any more", have: map[string]string{list: `["b"]`, unkept: noted},
			change: Change{Delete: []string{unkept, list}},
		},
		{
			name: "a note that cannot be read", have: map[string]string{list: `["b"]`, unkept: "b"},
			want:   map[string]string{"b": "2"},
			change: Change{Set: map[string]string{"b": "2"}, Delete: []string{unkept}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Diff(tc.have, tc.want, "1.35.3")
			if diff := cmp.Diff(tc.change, got); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
			if got.Empty() != (len(tc.change.Set)+len(tc.change.Delete) == 0) {
				t.Errorf("Empty = %t for %v", got.Empty(), got)
			}
		})
	}
}

func (c Change) applied(have map[string]string) map[string]string {
	have = maps.Clone(have)
	if have == nil {
		have = map[string]string{}
	}
	maps.Copy(have, c.Set)
	for _, k := range c.Delete {
		delete(have, k)
	}
	return have
}

// TestDiffConverges: one change suffices, whatever was there and in whatever order wishes came, and strangers' keys
// survive.
func TestDiffConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"a", "b", "c", "Aux/a", "Aux/,\"", "DrbdOptions/x"})
		value := rapid.SampledFrom([]string{"1", "yes", "True", "false", ""})
		have := rapid.MapOf(rapid.SampledFrom([]string{"s1", "s2", "Aux/s3"}), value).Draw(t, "strangers")
		strangers := maps.Clone(have)
		for _, want := range rapid.SliceOfN(rapid.MapOf(key, value), 1, 4).Draw(t, "wishes") {
			have = Diff(have, want, "1.35.3").applied(have)
			if again := Diff(have, want, "1.35.3"); !again.Empty() {
				t.Fatalf("after the change, another is due: %+v", again)
			}
			managed := 0
			for k, v := range want {
				if !SameValue(k, have[k], v) {
					t.Fatalf("%s = %q, want %q", k, have[k], v)
				}
				managed++
			}
			for k, v := range strangers {
				if have[k] != v {
					t.Fatalf("the stranger's key %s = %q, was %q", k, have[k], v)
				}
			}
			if managed > 0 {
				managed++ // the list
			}
			if len(have) != len(strangers)+managed {
				t.Fatalf("properties %v, want the %d strangers and %d of ours", have, len(strangers), managed)
			}
		}
	})
}
