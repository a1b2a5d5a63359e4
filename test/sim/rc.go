package sim

import (
	"fmt"
	"maps"
	"net/http"
)

// Bits of a return code. A code is a signed 64-bit number: two bits of severity, two of operation, five of object and
// fifteen of the code proper (LINSTOR REST API).
const (
	maskError uint64 = 0xC000000000000000
	maskWarn  uint64 = 0x8000000000000000
	maskInfo  uint64 = 0x4000000000000000

	opCreate uint64 = 0x1000000
	opModify uint64 = 0x2000000
	opDelete uint64 = 0x3000000
	opBits   uint64 = 0x3000000

	objNode     uint64 = 0x3C0000
	objRscDfn   uint64 = 0x380000
	objRsc      uint64 = 0x340000
	objNodeConn uint64 = 0x280000
	objNetIf    uint64 = 0x1C0000
	objPool     uint64 = 0x140000
	objCtrl     uint64 = 0x100000
	objPhysical uint64 = 0x4C0000
	objVlm      uint64 = 0x2C0000
	objVlmDfn   uint64 = 0x300000
	objSnapshot uint64 = 0x0C0000
	objRscGrp   uint64 = 0x440000
	objVlmGrp   uint64 = 0x480000
	objBits     uint64 = 0x7C0000

	codeBits uint64 = 0x7FFF
)

// Codes proper, as far as the simulator answers them.
const (
	codeCreated            = 1
	codeDeleted            = 2
	codeModified           = 3
	codePassphraseAccepted = 4
	codeAuthenticated      = 9

	codeInvalidNodeName   = 200
	codeInvalidNodeType   = 201
	codeInvalidRscName    = 202
	codeInvalidVlmNr      = 205
	codeInvalidVlmSize    = 206
	codeInvalidPoolName   = 208
	codeInvalidNetName    = 209
	codeInvalidNetAddr    = 210
	codeInvalidNetPort    = 211
	codeInvalidNetType    = 212
	codeInvalidProp       = 213
	codeDeprecated        = 4000
	codeInvalidEncType    = 217
	codeInvalidSnapName   = 218
	codeInvalidPlaceCount = 219
	codeInvalidStorDriver = 221
	codeInvalidLayerKind  = 224 // also answered for an unknown provider kind
	codeInvalidLayerStack = 225
	codeInvalidProvider   = 227
	codeInvalidVlmSizes   = 228
	codeInvalidConf       = 230
	codeNodeHasUsedRsc    = 233
	codeInvalidGroupName  = 237

	codeNotFoundNode     = 300
	codeNotFoundRscDfn   = 301
	codeNotFoundRsc      = 302
	codeNotFoundVlmDfn   = 303
	codeNotFoundVlm      = 304
	codeNotFoundNetIf    = 305
	codeNotFoundNodeConn = 306
	codeNotFoundPoolDfn  = 309
	codeNotFoundPool     = 310
	codeNotFoundDfltPool = 311
	codeNotFoundSnapDfn  = 313
	codeNotFoundSnapshot = 315
	codeNotFoundKVS      = 316
	codeNotFoundGroup    = 317
	codeNotFoundVlmGrp   = 318

	codeExistsNode       = 500
	codeExistsRscDfn     = 501
	codeExistsRsc        = 502
	codeExistsVlmDfn     = 503
	codeExistsNetIf      = 505
	codeStillConnected   = 506 // "node connection exists" reused by LINSTOR for lost on a connected node
	codeExistsPool       = 510
	codeExistsPassphrase = 512
	codeExistsSnapshot   = 514
	codeExistsGroup      = 522
	codeExistsVlmGrp     = 523

	codeMissingProps  = 600 // also a wrong master passphrase
	codeMissingNetcom = 603
	codeNoStltConn    = 609

	codeNotUpToDate  = 974
	codeNoSpace      = 980
	codeNoLayer      = 988
	codeNoProvider   = 989
	codePoolConfig   = 990
	codeNoSnapshots  = 994
	codeDisconnected = 995
	codeNoPlace      = 996
	codeInUse        = 997
	codeUnknownError = 998

	codeNotConnected    = 1002
	codeStltNotUpdated  = 1003
	codeNoStltDefined   = 1004
	codeAlreadyDeployed = 1006
	codeNodeEvicted     = 1017
	codeNotEvacuating   = 1020
	codeSameSize        = 1023
	codeNotFoundWarning = 3000

	codeNameMismatch = 10001
	codeNotSpawned   = 10000
	codeNoop         = 10007
	codeRscIsThere   = 10008

	codeParseError uint64 = 0x0FFFFFFFFFFFFFFD
)

// rc is one entry of an ApiCallRc list.
type rc struct {
	RetCode        int64             `json:"ret_code"`
	Message        string            `json:"message,omitempty"`
	Cause          string            `json:"cause,omitempty"`
	Details        string            `json:"details,omitempty"`
	Correction     string            `json:"correction,omitempty"`
	ErrorReportIDs []string          `json:"error_report_ids,omitempty"`
	ObjRefs        map[string]string `json:"obj_refs,omitempty"`
	CreatedAt      string            `json:"created_at,omitempty"`

	satellite bool // see fromSatellite
}

func newRC(severity, code uint64, format string, args ...any) rc {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	return rc{RetCode: int64(severity | code), Message: message}
}

func success(code uint64, format string, args ...any) rc { return newRC(0, code, format, args...) }
func failure(code uint64, format string, args ...any) rc {
	return newRC(maskError, code, format, args...)
}
func warning(code uint64, format string, args ...any) rc {
	return newRC(maskWarn, code, format, args...)
}
func info(code uint64, format string, args ...any) rc { return newRC(maskInfo, code, format, args...) }

func (e rc) cause(format string, args ...any) rc {
	e.Cause = fmt.Sprintf(format, args...)
	return e
}

func (e rc) details(format string, args ...any) rc {
	e.Details = fmt.Sprintf(format, args...)
	return e
}

func (e rc) correction(format string, args ...any) rc {
	e.Correction = fmt.Sprintf(format, args...)
	return e
}

func (e rc) ref(name, value string) rc {
	e.ObjRefs = maps.Clone(e.ObjRefs)
	if e.ObjRefs == nil {
		e.ObjRefs = map[string]string{}
	}
	e.ObjRefs[name] = value
	return e
}

// fromSatellite marks an entry that a satellite made: LINSTOR hands it on without details about the call's object.
func (e rc) fromSatellite() rc {
	e.satellite = true
	return e
}

// reported gives an entry an error report of the controller.
func (e rc) reported(c *call) rc {
	e.ErrorReportIDs = []string{c.ctl.report(e.Message)}
	return e
}

func (e rc) isError() bool { return uint64(e.RetCode)&maskError == maskError }
func (e rc) code() uint64  { return uint64(e.RetCode) & codeBits }

// rcContext is what LINSTOR knows about the call that an entry belongs to. It completes entries that lack a part.
type rcContext struct {
	op, object uint64
	refs       map[string]string
	// subject describes the object in the details of errors, for example "Node: n1".
	subject string
	// bare leaves return codes without operation and object, as LINSTOR's lookups and early checks do.
	bare bool
	// caught is set where LINSTOR turns an exception into an answer before it gets to what adds details and error
	// reports.
	caught bool
}

// describes reports whether LINSTOR adds the object's description to the details of an entry: to errors, and to
// warnings that nothing was done (linstor-server 1.34, ResponseConverter.addContext).
func (x rcContext) describes(e rc) bool {
	if x.subject == "" || x.bare || x.caught || e.satellite {
		return false
	}
	return e.isError() || e.code() == codeNotFoundWarning || e.code() == codeNoStltDefined
}

// reported reports whether LINSTOR writes an error report about an entry, and names it: about what it did not expect
// and what was not valid, but not where a user merely named what is missing, or is there already.
func (x rcContext) reported(e rc) bool {
	if !e.isError() || !x.describes(e) || x.object == objCtrl {
		return false
	}
	code := e.code()
	missing, there := code >= 300 && code <= 399,
		code >= 500 && code <= 599 && code != codeStillConnected &&
			(code != codeExistsSnapshot || x.object == objSnapshot)
	return !missing && !there && code != codeNoPlace && code != codeInvalidVlmSize
}

func (x rcContext) complete(e rc) rc {
	bits := uint64(e.RetCode)
	if !x.bare && bits != maskError|codeParseError {
		if bits&opBits == 0 {
			bits |= x.op
		}
		if bits&objBits == 0 {
			bits |= x.object
		}
	}
	e.RetCode = int64(bits)
	for name, value := range x.refs {
		if _, set := e.ObjRefs[name]; !set {
			e = e.ref(name, value)
		}
	}
	if x.describes(e) {
		if e.Details == "" {
			e.Details = x.subject
		} else if e.Details != x.subject {
			e.Details += "\n" + x.subject
		}
	}
	return e
}

// rcs is the ApiCallRc list of one reply. It must never be nil in a reply: an empty list is `[]`.
type rcs []rc

// httpStatus maps a list to the status of the reply: that of the first error, else the status that the end point
// answers on success (linstor-server, ApiCallRcRestUtils).
func (l rcs) httpStatus(onSuccess int) int {
	for _, e := range l {
		if !e.isError() {
			continue
		}
		switch code := e.code(); {
		case uint64(e.RetCode) == maskError|codeParseError:
			return http.StatusInternalServerError
		case code >= 300 && code <= 399:
			return http.StatusNotFound
		case code >= 400 && code <= 499:
			return http.StatusForbidden
		default:
			return http.StatusInternalServerError
		}
	}
	return onSuccess
}
