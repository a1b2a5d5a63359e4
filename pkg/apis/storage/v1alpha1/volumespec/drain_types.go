package volumespec

// DrainGuardMode says whether the operator guards nodes against being drained at the wrong time.
// +kubebuilder:validation:Enum=Auto;None
type DrainGuardMode string

// Modes of the drain guard.
const (
	// DrainGuardAuto: nodes are drained one at a time, and only while every volume keeps an up-to-date copy.
	DrainGuardAuto DrainGuardMode = "Auto"
	// DrainGuardNone: nothing is made for it, and what was made goes.
	DrainGuardNone DrainGuardMode = "None"
)

// ShutdownGuardMode says whether hosts let go of suspended volumes when they shut down.
// +kubebuilder:validation:Enum=Auto;None
type ShutdownGuardMode string

// Modes of the shutdown guard.
const (
	// ShutdownGuardAuto: where the platform has systemd.
	ShutdownGuardAuto ShutdownGuardMode = "Auto"
	// ShutdownGuardNone: nowhere. A unit that was left stays until the host has restarted.
	ShutdownGuardNone ShutdownGuardMode = "None"
)
