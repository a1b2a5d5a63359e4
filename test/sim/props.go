package sim

import (
	"maps"
	"net"
	"slices"
	"strings"
)

// Property keys that the simulator itself reads or writes.
const (
	propLocalID       = "Cluster/LocalID"
	propCurStltConn   = "CurStltConnName"
	propNodeUname     = "NodeUname"
	propPrefNic       = "PrefNic"
	propStorPoolName  = "StorDriver/StorPoolName"
	propAllowEviction = "DrbdOptions/AutoEvictAllowEviction"
	propEvictAfter    = "DrbdOptions/AutoEvictAfterTime"
	propEvictMax      = "DrbdOptions/AutoEvictMaxDisconnectedNodes"
	propAutoplace     = "AutoplaceTarget"
)

// seedProps is what a fresh database holds; its values are not normalised (linstor-server 1.34).
var seedProps = map[string]string{
	propAllowEviction:                           "True",
	"DrbdOptions/auto-add-quorum-tiebreaker":    "True",
	"DrbdOptions/auto-diskful-allow-cleanup":    "True",
	"DrbdOptions/auto-resync-after-disable":     "true",
	"DrbdOptions/Resource/on-no-quorum":         "io-error",
	"DrbdOptions/auto-verify-algo-allowed-list": "crct10dif;crc32c;sha384;sha512;sha256;sha1;md5;windrbd",
	"defaultDebugSslConnector":                  "DebugSslConnector",
	"defaultPlainConSvc":                        "PlainConnector",
	"defaultSslConSvc":                          "", // until there is a keystore
	"NetCom/PlainConnector/Enabled":             "true",
	"NetCom/PlainConnector/Port":                "3376",
	"NetCom/PlainConnector/Type":                "Plain",
	"NetCom/PlainConnector/BindAddress":         "",
	"NetCom/SslConnector/BindAddress":           "",
	"NetCom/SslConnector/Enabled":               "true",
	"NetCom/SslConnector/Port":                  "3377",
	"NetCom/SslConnector/Type":                  "SSL",
	"NetCom/SslConnector/KeyStore":              "ssl/keystore.jks",
	"NetCom/SslConnector/KeyStorePasswd":        "linstor",
	"NetCom/SslConnector/KeyPasswd":             "linstor",
	"NetCom/SslConnector/TrustStore":            "ssl/certificates.jks",
	"NetCom/SslConnector/TrustStorePasswd":      "linstor",
	"NetCom/SslConnector/SslProtocol":           "TLSv1.2",
	"NetCom/DebugSslConnector/Enabled":          "true",
	"NetCom/DebugSslConnector/Port":             "3373",
	"NetCom/DebugSslConnector/Type":             "SSL",
	"NetCom/DebugSslConnector/KeyStore":         "ssl/keystore.jks",
	"NetCom/DebugSslConnector/TrustStore":       "ssl/certificates.jks",
	"NetCom/DebugSslConnector/SslProtocol":      "TLSv1.2",
	"NetCom/DebugSslConnector/BindAddress":      "::0",
	"NetCom/DebugSslConnector/KeyPasswd":        "linstor",
	"NetCom/DebugSslConnector/KeyStorePasswd":   "linstor",
	"NetCom/DebugSslConnector/TrustStorePasswd": "linstor",
}

const (
	onController propObject = 1 << iota
	onNode
	onPool
	onConnection
	onRscDfn // resource definitions and groups
	onVlmDfn // volume definitions and groups
	onRsc
	onVlm

	anywhere = onController | onNode | onPool | onConnection | onRscDfn | onVlmDfn | onRsc | onVlm
)

// propChange is the part that all modifying bodies share.
type propChange struct {
	OverrideProps    map[string]string `json:"override_props"`
	DeleteProps      []string          `json:"delete_props"`
	DeleteNamespaces []string          `json:"delete_namespaces"`
}

// apply returns the properties after the change. The first bad key or value stops it, and nothing is changed.
func (ch propChange) apply(props map[string]string, on propObject, v version) (map[string]string, *rc) {
	result := maps.Clone(props)
	if result == nil {
		result = map[string]string{}
	}
	for _, k := range slices.Sorted(maps.Keys(ch.OverrideProps)) {
		value := ch.OverrideProps[k]
		if value == nullText {
			e := failure(codeInvalidProp, "Invalid value: null")
			return nil, &e
		}
		r, known := rule(k, on, v)
		if !known {
			return nil, unknownProp(on, k)
		}
		if !r.check(value) {
			return nil, badValue(on, k, value, r)
		}
		if r.normal != nil {
			value = r.normal(value)
		}
		result[k] = value
	}
	for _, k := range ch.DeleteProps {
		if _, known := rule(k, on, v); !known {
			return nil, undeletableProp(on, k)
		}
	}
	ch.deleteFrom(result)
	return result, nil
}

func (ch propChange) deleteFrom(props map[string]string) {
	for _, k := range ch.DeleteProps {
		delete(props, k)
	}
	for _, namespace := range ch.DeleteNamespaces {
		for k := range props {
			if strings.HasPrefix(k, strings.TrimRight(namespace, "/")+"/") {
				delete(props, k)
			}
		}
	}
}

func unknownProp(on propObject, k string) *rc {
	e := failure(codeInvalidProp, "Invalid property key: %s", k).cause("The key '%s' is not whitelisted.", k)
	if on == onController {
		e = failure(codeInvalidProp, "The key '%s' is not whitelisted", k)
	}
	return &e
}

func undeletableProp(on propObject, k string) *rc {
	e := failure(codeInvalidProp, "Invalid property key").cause("The key '%s' is not whitelisted.", k)
	if on == onController {
		e = failure(codeInvalidProp, "The key '%s' is not whitelisted", k)
	}
	return &e
}

func badValue(on propObject, k, value string, r propRule) *rc {
	e := failure(codeInvalidProp, "Invalid property(%s) value: %s", k,
		value).cause("The value '%s' is not valid for the key '%s'", value, k)
	if on == onController {
		e = failure(codeInvalidProp, "The value '%s' is not valid.", value)
	}
	hint := "This value has to match [a-zA-Z0-9_/-]+."
	if r.normal != nil {
		hint = "This value must be either 'yes', 'no', 'true' or 'false'."
	}
	e = e.details("%s", hint)
	return &e
}

// messages are LINSTOR's two success entries for a changed set of properties. Both say "created" even on a PUT.
func (ch propChange) messages(object uint64) rcs {
	var list rcs
	if keys := slices.Sorted(maps.Keys(ch.OverrideProps)); len(keys) > 0 {
		list = append(list, success(opCreate|object|codeCreated, "Successfully set property key(s): %s",
			strings.Join(keys, ",")))
	}
	if len(ch.DeleteProps) > 0 {
		list = append(list, success(opDelete|object|codeDeleted, "Successfully deleted property key(s): %s",
			strings.Join(ch.DeleteProps, ",")))
	}
	return list
}

// prefNicError refuses a preferred interface that the node does not have.
func prefNicError(n *node, change propChange) *rc {
	nic, set := change.OverrideProps[propPrefNic]
	if !set || n.nets[key(nic)] != nil {
		return nil
	}
	e := failure(codeInvalidProp, "The network interface '%s' of node '%s' does not exist!", nic, n.name)
	return &e
}

// parseIP accepts literal addresses only.
func parseIP(text string) (string, bool) {
	ip := net.ParseIP(text)
	if ip == nil {
		return "", false
	}
	return formatIP(ip), true
}
