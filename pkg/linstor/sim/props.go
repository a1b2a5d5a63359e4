package sim

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
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
	"DrbdOptions/auto-verify-algo-allowed-list": "crct10dif-pclmul;crct10dif-generic;sha384-generic;sha512-generic;sha256-generic;md5-generic",
	"defaultDebugSslConnector":                  "DebugSslConnector",
	"defaultPlainConSvc":                        "PlainConnector",
	"defaultSslConSvc":                          "SslConnector",
	"NetCom/PlainConnector/Enabled":             "true",
	"NetCom/PlainConnector/Port":                "3376",
	"NetCom/PlainConnector/Type":                "Plain",
	"NetCom/PlainConnector/BindAddress":         "",
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

// propObject is a kind of object that carries properties.
type propObject int

const (
	onController propObject = 1 << iota
	onNode
	onPool
	onConnection

	anywhere = onController | onNode | onPool | onConnection
)

// propRule is one entry of LINSTOR's whitelist of properties.
type propRule struct {
	on    propObject
	check func(value string) bool
	// normal writes an accepted value as LINSTOR stores it; nil keeps it.
	normal func(value string) string
	// since and before bound the LINSTOR minor versions 1.x that know the key; zero: no bound.
	since, before int
}

func oneOf(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, v) }
}

func anyText(v string) bool { return v != "" }

func matches(pattern string) func(string) bool {
	re := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return re.MatchString
}

func number(low, high int64) func(string) bool {
	return func(v string) bool {
		n, err := strconv.ParseInt(v, 10, 64)
		return err == nil && n >= low && n <= high
	}
}

func isBool(v string) bool { return oneOf("true", "false", "yes", "no")(strings.ToLower(v)) }

func isTrue(v string) bool { return oneOf("true", "yes")(strings.ToLower(v)) }

func trueFalse(v string) string { return strconv.FormatBool(isTrue(v)) }

func yesNo(v string) string {
	if isTrue(v) {
		return "yes"
	}
	return "no"
}

func boolTrueFalse(on propObject) propRule { return propRule{on: on, check: isBool, normal: trueFalse} }
func boolYesNo(on propObject) propRule     { return propRule{on: on, check: isBool, normal: yesNo} }
func text(on propObject) propRule          { return propRule{on: on, check: anyText} }

func numeric(on propObject, low, high int64) propRule {
	return propRule{on: on, check: number(low, high)}
}

func choice(on propObject, values ...string) propRule {
	return propRule{on: on, check: oneOf(values...)}
}

func ports(on propObject) propRule { return propRule{on: on, check: matches(`[0-9]+-[0-9]+`)} }

func quorumValue(v string) bool { return oneOf("off", "majority", "all")(v) || number(1, 32)(v) }

// whitelist holds the keys that LINSTOR knows, as far as a cluster is set up with them.
var whitelist = map[string]propRule{
	propAllowEviction:                                    boolTrueFalse(onController | onNode),
	propEvictAfter:                                       numeric(onController|onNode, 0, 1<<31-1),
	propEvictMax:                                         numeric(onController, 0, 100),
	"DrbdOptions/AutoEvictMinReplicaCount":               numeric(onController|onNode, 1, 32),
	"DrbdOptions/auto-add-quorum-tiebreaker":             boolTrueFalse(onController),
	"DrbdOptions/auto-diskful-allow-cleanup":             boolTrueFalse(onController | onNode),
	"DrbdOptions/auto-diskful":                           numeric(onController|onNode, 0, 1<<31-1),
	"DrbdOptions/auto-verify-algo-disable":               boolTrueFalse(onController | onConnection),
	"DrbdOptions/auto-resync-after-disable":              boolTrueFalse(onController),
	"DrbdOptions/auto-quorum":                            {on: onController, check: oneOf("disabled", "suspend-io", "io-error"), before: 31},
	"DrbdOptions/Resource/quorum":                        {on: onController, check: quorumValue},
	"DrbdOptions/Resource/on-no-quorum":                  choice(onController, "suspend-io", "io-error"),
	"DrbdOptions/Resource/on-no-data-accessible":         choice(onController, "suspend-io", "io-error"),
	"DrbdOptions/Resource/on-suspended-primary-outdated": choice(onController, "disconnect", "force-secondary"),
	"DrbdOptions/Resource/auto-promote":                  boolYesNo(onController),
	"DrbdOptions/Resource/auto-promote-timeout":          numeric(onController, 0, 600),
	"DrbdOptions/Resource/quorum-minimum-redundancy":     {on: onController, check: quorumValue},
	"DrbdOptions/Net/rr-conflict":                        choice(onController|onConnection, "disconnect", "call-pri-lost", "violently", "retry-connect", "auto-discard"),
	"DrbdOptions/Net/protocol":                           choice(onController|onConnection, "A", "B", "C"),
	"DrbdOptions/Net/after-sb-0pri": choice(onController|onConnection, "disconnect", "discard-younger-primary", "discard-older-primary",
		"discard-zero-changes", "discard-least-changes"),
	"DrbdOptions/Net/after-sb-1pri":       choice(onController|onConnection, "disconnect", "consensus", "discard-secondary", "call-pri-lost-after-sb"),
	"DrbdOptions/Net/after-sb-2pri":       choice(onController|onConnection, "disconnect", "call-pri-lost-after-sb"),
	"DrbdOptions/Net/max-buffers":         numeric(onController|onConnection, 32, 131072),
	"DrbdOptions/Net/ping-timeout":        numeric(onController|onConnection, 1, 300),
	"DrbdOptions/Net/ping-int":            numeric(onController|onConnection, 1, 120),
	"DrbdOptions/Net/allow-two-primaries": boolYesNo(onController | onConnection),
	"DrbdOptions/Net/tls":                 boolYesNo(onController | onConnection),
	"DrbdOptions/Net/verify-alg":          text(onController | onConnection),
	"DrbdOptions/Disk/on-io-error":        choice(onController, "pass_on", "call-local-io-error", "detach"),
	"DrbdOptions/Disk/al-extents":         numeric(onController, 67, 65534),
	"DrbdOptions/PeerDevice/c-max-rate":   numeric(onController|onConnection, 0, 4294967295),
	"DrbdOptions/Handlers/quorum-lost":    text(onController),

	propLocalID:                  text(onController),
	"TcpPortAutoRange":           {on: onController | onNode, check: matches(`[0-9]+-[0-9]+`)},
	"TcpPortsBlocked":            {on: onNode, check: anyText, since: 34},
	"MinorNrAutoRange":           ports(onController),
	"SpecStltPortAutoRange":      ports(onController),
	"PeerSlotsNewResource":       numeric(onController, 1, 31),
	"SearchDomain":               text(onController),
	"UpdateCacheInterval":        numeric(onController, 1, 1<<31-1),
	"BalanceResourcesEnabled":    boolTrueFalse(onController | onNode),
	"BalanceResourcesInterval":   numeric(onController, 0, 1<<31-1),
	"defaultPlainConSvc":         text(onController),
	"defaultSslConSvc":           text(onController),
	"defaultDebugSslConnector":   text(onController),
	"REST/AutoHTTPS":             {on: onController, check: isBool, normal: trueFalse, since: 34},
	"REST/disable-http-metrics":  boolTrueFalse(onController),
	"AutoDbExport/Enabled":       {on: onController, check: isBool, normal: trueFalse, since: 35},
	"AutoDbExport/Cron":          {on: onController, check: anyText, since: 35},
	"AutoDbExport/Keep":          {on: onController, check: number(0, 1<<31-1), since: 35},
	"AutoDbExport/Path":          {on: onController, check: anyText, since: 35},
	"AutoDbExport/Compress":      {on: onController, check: isBool, normal: trueFalse, since: 35},
	propAutoplace:                boolTrueFalse(onController | onNode),
	propPrefNic:                  text(onNode | onPool),
	propCurStltConn:              text(onNode),
	"Site":                       text(onNode),
	"Autoplacer/MaxThroughput":   numeric(onPool|onNode, 0, 1<<62),
	"StorPoolName":               text(onNode | onController),
	"StorPoolNameDrbdMeta":       text(onNode | onController),
	"CopyAllSnapsOnEvacuate":     boolTrueFalse(onController | onNode),
	"MaxOversubscriptionRatio":   text(onController | onPool),
	"Autoplacer/PreSelectScript": text(onController),

	"MaxFreeCapacityOversubscriptionRatio":  text(onController | onPool),
	"MaxTotalCapacityOversubscriptionRatio": text(onController | onPool),

	propStorPoolName:                      {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/LvmVg":                    {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/ThinPool":                 {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/ZPool":                    {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/ZPoolThin":                {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/FileDir":                  {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/LvcreateType":             choice(onPool, "linear", "striped", "mirror", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10"),
	"StorDriver/LvcreateOptions":          text(onPool),
	"StorDriver/LvcreateSnapshotOptions":  text(onPool),
	"StorDriver/LvcreatePvSelection":      {on: onPool, check: anyText, since: 34},
	"StorDriver/ZfscreateOptions":         text(onPool),
	"StorDriver/ZfsSnapshotOptions":       text(onPool),
	"StorDriver/SizesCacheTime":           numeric(onPool|onNode|onController, 0, 1<<31-1),
	"StorDriver/WaitTimeoutAfterCreate":   numeric(onPool, 0, 1<<31-1),
	"StorDriver/MaxOversubscriptionRatio": text(onPool),
	"Autoplacer/MinThinFreeSpace":         text(onPool | onController),
}

// freePrefixes are namespaces in which every key is accepted.
var freePrefixes = map[string]propObject{
	"Aux/":               anywhere,
	"EBS/Tags/":          onController | onNode,
	"ExtCmd/":            onController | onNode,
	"NetCom/":            onController,
	"Autoplacer/Weights": onController,
	"Paths/":             onConnection,
	"FileSystem/":        onController,
}

// rule finds the whitelist entry of a key for an object, at a LINSTOR version.
func rule(key string, on propObject, v version) (propRule, bool) {
	for prefix, objects := range freePrefixes {
		if strings.HasPrefix(key, prefix) && len(key) > len(prefix) && objects&on != 0 {
			return propRule{on: objects, check: anyText}, true
		}
	}
	r, known := whitelist[key]
	if !known || r.on&on == 0 ||
		r.since > 0 && !v.atLeast(1, r.since) || r.before > 0 && v.atLeast(1, r.before) {
		return propRule{}, false
	}
	return r, true
}

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
		r, known := rule(k, on, v)
		if !known {
			return nil, unknownProp(on, k)
		}
		if !r.check(value) {
			return nil, badValue(on, k, value)
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
		delete(result, k)
	}
	for _, namespace := range ch.DeleteNamespaces {
		for k := range result {
			if strings.HasPrefix(k, strings.TrimRight(namespace, "/")+"/") {
				delete(result, k)
			}
		}
	}
	return result, nil
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

func badValue(on propObject, k, value string) *rc {
	e := failure(codeInvalidProp, "Invalid property(%s) value: %s", k, value).cause("The value '%s' is not valid for the key '%s'", value, k)
	if on == onController {
		e = failure(codeInvalidProp, "The value '%s' is not valid.", value).details("The value '%s' is not valid for the key '%s'", value, k)
	}
	return &e
}

// messages are LINSTOR's two success entries for a changed set of properties. Both say "created" even on a PUT.
func (ch propChange) messages(object uint64) rcs {
	var list rcs
	if keys := slices.Sorted(maps.Keys(ch.OverrideProps)); len(keys) > 0 {
		list = append(list, success(opCreate|object|codeCreated, "Successfully set property key(s): %s", strings.Join(keys, ", ")))
	}
	if len(ch.DeleteProps) > 0 {
		list = append(list, success(opDelete|object|codeDeleted, "Successfully deleted property key(s): %s", strings.Join(ch.DeleteProps, ", ")))
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
