package disks

// What the tests of this package look at inside of it.
const UnknownGroup = unknownGroup

var (
	Anywhere       = anywhere
	Content        = content
	EntryMatches   = entryMatches
	Glob           = glob
	Inventory      = inventory
	Names          = names
	ParseInventory = parseInventory
	Refusal        = refusal
)
