package volumespec

// DrainGuardMode sets whether the operator guards nodes against drains at the wrong time.
// +kubebuilder:validation:Enum=Auto;None
type DrainGuardMode string

// Modes of the drain guard.
const (
	// DrainGuardAuto: nodes are drained one at a time, and only while every volume keeps an up-to-date replica.
	DrainGuardAuto DrainGuardMode = "Auto"
	// DrainGuardNone: no drain guards; existing ones are removed.
	DrainGuardNone DrainGuardMode = "None"
)

// ShutdownGuardMode sets whether hosts release suspended volumes at shutdown.
// +kubebuilder:validation:Enum=Auto;None
type ShutdownGuardMode string

// Modes of the shutdown guard.
const (
	// ShutdownGuardAuto: on platforms with systemd.
	ShutdownGuardAuto ShutdownGuardMode = "Auto"
	// ShutdownGuardNone: on no hosts. An existing unit remains until the host restarts.
	ShutdownGuardNone ShutdownGuardMode = "None"
)
