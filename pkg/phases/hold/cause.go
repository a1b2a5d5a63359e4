package hold

// Cause is what is known of the cause of a hold.
type Cause int

// What is known of it.
const (
	// CauseShownByLink: the evidence of the link that is about it says whether it is gone.
	CauseShownByLink Cause = iota
	CauseStays
	CauseGone
)

// CauseGoneIf is CauseGone, or else CauseStays.
func CauseGoneIf(gone bool) Cause {
	if gone {
		return CauseGone
	}
	return CauseStays
}
