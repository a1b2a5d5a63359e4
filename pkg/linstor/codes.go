package linstor

// Return codes of LINSTOR that the operator acts upon: the low 15 bits of a ret_code ([Code]). The numbers are
// LINSTOR's own (linstor-server, ApiConsts).
const (
	CodeSQL         = 100 // the database refused a statement
	CodeSQLRollback = 101 // the database could not roll back

	CodeInvalidProperty = 213 // the key is not whitelisted, or its value is not valid
	CodeInvalidProvider = 224 // the provider kind is unknown
	CodeNodeInUse       = 233 // the node has resources that are in use, or a last copy

	CodeNodeNotFound = 300
	CodePoolNotFound = 310

	CodeNodeExists       = 500
	CodeInterfaceExists  = 505
	CodeStillConnected   = 506 // a node cannot be declared lost while it is connected
	CodePoolExists       = 510 // also: the volume group or zpool of a device pool exists
	CodePassphraseExists = 512

	CodeWrongPassphrase       = 600 // LINSTOR has no code of its own for it and uses FAIL_MISSING_PROPS
	CodeNoInterfaces          = 603 // a node was created without interfaces
	CodeNoSatelliteConnection = 609 // no interface has a port and an encryption type

	CodeMixedPools            = 972
	CodeNotUpToDate           = 974
	CodeEvacuating            = 975
	CodeNotEnoughSpace        = 980
	CodeLayerUnsupported      = 988 // the satellite lacks a layer; every layer while it is not ONLINE
	CodeProviderUnsupported   = 989 // the satellite lacks a provider; every provider while it is not ONLINE
	CodePoolConfiguration     = 990 // the backing storage is missing or unusable; the pool IS registered
	CodeResourceBusy          = 992
	CodeSnapshotsNotSupported = 994
	CodeNotConnected          = 995
	CodeNotEnoughNodes        = 996
	CodeInUse                 = 997
	CodeUnknown               = 998 // an exception that LINSTOR did not expect
	CodeImplementation        = 999
)

const (
	// codeMask selects the code from a ret_code.
	codeMask = 0x7FFF
	// typeMask selects the two bits that tell errors from warnings, infos and successes; both are set in an error.
	typeMask = 0xC000000000000000
)

// retCode is LINSTOR's ret_code: type, operation, object and code in one signed number.
type retCode int64

func (r retCode) isError() bool { return uint64(r)&typeMask == typeMask }
func (r retCode) code() int     { return int(uint64(r) & codeMask) }
