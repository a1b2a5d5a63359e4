package specchange

import "reflect"

// What the tests of this package look at inside of it.
var (
	IsKeyed       = isKeyed
	IsSection     = isSection
	RefuseVersion = refuseVersion
)

// WalkSpec visits fields by their paths in Fields.
func WalkSpec(path string, a, b reflect.Value, visit func(path string, a, b reflect.Value)) {
	walkSpec(path, a, b, func(at string, a, b reflect.Value) { visit(classPath(at), a, b) })
}
