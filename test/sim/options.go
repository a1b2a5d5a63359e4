package sim

import (
	"net/http"
	"time"

	"k8s.io/utils/clock"
)

// Options configures a [World]. The zero value is a world on the real clock with LINSTOR's own delays.
type Options struct {
	// Clock drives every delay. Default: the real clock.
	Clock clock.WithTicker
	// ReconnectEvery is the period of the controller's reconnect loop. Default 10s, as in LINSTOR.
	ReconnectEvery time.Duration
	// ConnectTimeout is how long the controller waits for a TCP connection to a satellite. Default 1s, as in LINSTOR.
	ConnectTimeout time.Duration
	// FirstOnline is the time from the start of a controller, when its API answers, to the first satellite that is
	// ONLINE: see dialer.firstContact. It takes as long after an interface of a node was changed. Default 1.5s, as
	// in LINSTOR.
	FirstOnline time.Duration
	// OfflineAfter is the time from the loss of a satellite to the status OFFLINE. Default 1s. (LINSTOR needs 1 to 2 s
	// after a closed connection and about 6 s after a cut network.)
	OfflineAfter time.Duration
	// FullSyncDelay is the time from CONNECTED to ONLINE. Default 0: at once.
	FullSyncDelay time.Duration
	// EvacuateDelay is the time in which a new replica becomes UpToDate. Default 0: with the next look at the world.
	EvacuateDelay time.Duration
	// MigrationTime is how long a migration, or an import, keeps the database open. Default 0.
	MigrationTime time.Duration
	// ReadLatency delays every request that changes nothing. Default 0.
	ReadLatency time.Duration
	// WriteLatency delays every other request; when it is above zero these requests also wait for each other, as
	// LINSTOR's writers do under its locks. Default 0.
	WriteLatency time.Duration
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.ReconnectEvery <= 0 {
		o.ReconnectEvery = 10 * time.Second
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = time.Second
	}
	if o.FirstOnline <= 0 {
		o.FirstOnline = 1500 * time.Millisecond
	}
	if o.OfflineAfter <= 0 {
		o.OfflineAfter = time.Second
	}
	return o
}

// Fault is what goes wrong with one request. Fields combine: a delay comes first.
type Fault struct {
	// Delay holds the request back, on the world's clock. LINSTOR does not hear of a client that gives up meanwhile: it
	// does what was asked for all the same, and at once.
	Delay time.Duration
	// Status, if not zero, is answered with Body instead of handling the request.
	Status int
	// StatusAfter, if not zero, handles the request and then answers this status with Body: what was asked for is done,
	// and the client hears that it failed.
	StatusAfter int
	// Body is sent with Status or StatusAfter as it is.
	Body string
	// Drop closes the connection before anything is done.
	Drop bool
	// DropAfter handles the request and then closes the connection without a reply.
	DropAfter bool
}

// Record is one request that reached the controller.
type Record struct {
	// Time is when the request arrived, on the world's clock.
	Time   time.Time
	Method string
	Path   string
	// Status is the HTTP status of the answer, 0 if the connection was closed without one.
	Status int
	// Body is the request's body.
	Body []byte
	// Answered is how many bytes the answer's body has.
	Answered int
	// Mutating reports whether the request's method can change anything (not GET, HEAD or OPTIONS).
	Mutating bool
}

func mutating(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}
