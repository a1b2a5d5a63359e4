package step

// What the tests of this package look at inside of it.
const (
	ConfirmWithin = confirmWithin
)
