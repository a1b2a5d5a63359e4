package hold

// What the tests of this package look at inside of it.
var (
	Listable  = listable
	MessageOf = message
)
