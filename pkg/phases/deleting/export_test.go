package deleting

// What the tests of this package look at inside of it.
var (
	PodsLeft     = podsLeft
	RemoveLabels = removeLabels
)
