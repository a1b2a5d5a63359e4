package controller

// What the tests of this package look at inside of it.
const (
	PropertiesKey   = propertiesKey
	ReasonTidyingUp = reasonTidyingUp
)

var (
	DerivesTo        = derivesTo
	NewerVersion     = newerVersion
	OldConfiguration = oldConfiguration
	PassphraseCheck  = passphraseCheck
)
