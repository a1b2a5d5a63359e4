package registration

import "github.com/linstor-dev/storagecluster-operator/pkg/linstor"

// What the tests of this package look at inside of it.
const (
	MostReconnects    = mostReconnects
	PropAllowEviction = propAllowEviction
	ReasonBadAddress  = reasonBadAddress
)

var (
	ReconnectInput = reconnectInput
	InterfaceOf    = interfaceOf
	Register       = register
	Treat          = treat
	Usable         = usable
)

// Switching is what is to be written so that a property is false, or not any more.
func Switching(have map[string]string, property string, wanted, override bool) linstor.Change {
	return switching(have, []switchOff{{property: property, wanted: wanted, override: override}})
}
