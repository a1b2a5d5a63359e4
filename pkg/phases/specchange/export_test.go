package specchange

// What the tests of this package look at inside of it.
var (
	IsKeyed       = isKeyed
	IsSection     = isSection
	RefuseVersion = refuseVersion
	WalkSpec      = walkSpec
)
