package controller

import (
	"errors"
	"io"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// errNoCertificate keeps the controller as it is: one that is made without a certificate would be open to everybody.
var errNoCertificate = errors.New("the controller is waiting for its certificates")

// errListener keeps a controller without stores as it is for a moment.
var errListener = errors.New("LINSTOR's debug listener is being disabled before the controller gets certificates " +
	"for its satellites")

// runsLocked reports whether a controller's pod still has a locked API. Its clients find it as long as it runs,
// whatever the spec says meanwhile.
func runsLocked(s *cluster.Facts) bool {
	return slices.ContainsFunc(s.Kube.ControllerPods, cluster.PodLocked)
}

// silent says, as the end of a message, what it may mean that a locked controller closes each connection without a
// word: it neither sends an alert nor logs a line of its own, be it that it refuses a client's certificate, or that it
// cannot read its stores (linstor-server 1.34, GrizzlyHttpService; run with 1.34.0-rc.1).
func silent(s *cluster.Snapshot) string {
	if !errors.Is(s.Linstor.Err, io.EOF) || !s.ServesLocked() {
		return ""
	}
	return "; if LINSTOR closes connections immediately, it either rejects the operator's certificate or cannot read " +
		"its key stores: search the log of its pod for GRIZZLY0013, and check Secret " +
		apitls.Kind.Secret(apitls.Controller)
}
