package sim

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// propObject is a kind of object that carries properties.
type propObject int

// propRule is one entry of LINSTOR's whitelist of properties.
type propRule struct {
	on    propObject
	check func(value string) bool
	// normal writes an accepted value as LINSTOR stores it; nil keeps it.
	normal func(value string) string
	// since is the first LINSTOR minor version 1.x that knows the key; zero: all.
	since int
}

func oneOf(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, v) }
}

func anyText(v string) bool { return v != "" }

// ownProps are properties that only the controller itself needs.
var ownProps = map[string]bool{
	propAllowEviction: true, propEvictAfter: true, propEvictMax: true, "DrbdOptions/AutoEvictMinReplicaCount": true,
	"TcpPortAutoRange": true, "MinorNrAutoRange": true, "SpecStltPortAutoRange": true,
}

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
	propAutoQuorum:                                       choice(onController, "disabled", "suspend-io", "io-error"),
	propExtCmdWait:                                       numeric(onController, 0, 1<<31-1),
	"DrbdOptions/Resource/quorum":                        {on: onController, check: quorumValue},
	"DrbdOptions/Resource/on-no-quorum":                  choice(onController, "suspend-io", "io-error"),
	"DrbdOptions/Resource/on-no-data-accessible":         choice(onController, "suspend-io", "io-error"),
	"DrbdOptions/Resource/on-suspended-primary-outdated": choice(onController, "disconnect", "force-secondary"),
	"DrbdOptions/Resource/auto-promote":                  boolYesNo(onController),
	"DrbdOptions/Resource/auto-promote-timeout":          numeric(onController, 0, 600),
	"DrbdOptions/Resource/quorum-minimum-redundancy":     {on: onController, check: quorumValue},
	"DrbdOptions/Net/rr-conflict": choice(onController|onConnection, "disconnect", "call-pri-lost",
		"violently", "retry-connect", "auto-discard"),
	"DrbdOptions/Net/protocol": choice(onController|onConnection, "A", "B", "C"),
	"DrbdOptions/Net/after-sb-0pri": choice(onController|onConnection, "disconnect", "discard-younger-primary",
		"discard-older-primary",
		"discard-zero-changes", "discard-least-changes"),
	"DrbdOptions/Net/after-sb-1pri": choice(onController|onConnection, "disconnect", "consensus",
		"discard-secondary", "call-pri-lost-after-sb"),
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

	"TcpPortAutoRange":           {on: onController | onNode, check: matches(`[0-9]+-[0-9]+`)},
	"TcpPortsBlocked":            {on: onNode, check: anyText, since: 34},
	"MinorNrAutoRange":           ports(onController),
	"SpecStltPortAutoRange":      ports(onController),
	"PeerSlotsNewResource":       numeric(onController, 1, 31),
	"SearchDomain":               text(onController),
	"UpdateCacheInterval":        numeric(onController, 1, 1<<31-1),
	"BalanceResourcesEnabled":    boolTrueFalse(onController | onNode | onRscDfn),
	"BalanceResourcesInterval":   numeric(onController, 0, 1<<31-1),
	"defaultPlainConSvc":         text(onController),
	"defaultSslConSvc":           text(onController),
	"defaultDebugSslConnector":   text(onController),
	"REST/AutoHTTPS":             {on: onController, check: isBool, normal: trueFalse, since: 34},
	"REST/disable-http-metrics":  boolTrueFalse(onController),
	"AutoDbExport/Cron":          {on: onController, check: anyText, since: 35},
	"AutoDbExport/Keep":          {on: onController, check: number(0, 1<<31-1), since: 35},
	"AutoDbExport/Path":          {on: onController, check: anyText, since: 35},
	"AutoDbExport/Compress":      {on: onController, check: isBool, normal: trueFalse, since: 35},
	propAutoplace:                boolTrueFalse(onController | onNode),
	propPrefNic:                  text(onNode | onPool),
	propCurStltConn:              text(onNode),
	"Site":                       text(onNode),
	"Autoplacer/MaxThroughput":   numeric(onPool|onNode, 0, 1<<62),
	"StorPoolName":               text(onNode | onController | onRscDfn | onVlmDfn | onRsc),
	"StorPoolNameDrbdMeta":       text(onNode | onController | onRscDfn | onVlmDfn | onRsc),
	"CopyAllSnapsOnEvacuate":     boolTrueFalse(onController | onNode),
	"MaxOversubscriptionRatio":   text(onController | onPool),
	"Autoplacer/PreSelectScript": text(onController),

	"MaxFreeCapacityOversubscriptionRatio":  text(onController | onPool),
	"MaxTotalCapacityOversubscriptionRatio": text(onController | onPool),

	propStorPoolName:       {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/LvmVg":     {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/ThinPool":  {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/ZPool":     {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/ZPoolThin": {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/FileDir":   {on: onPool, check: matches(`[a-zA-Z0-9_/-]+`)},
	"StorDriver/LvcreateType": choice(onPool, "linear", "striped", "mirror", "raid0", "raid1", "raid4",
		"raid5", "raid6", "raid10"),
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
	"EBS/Tags/":          onController | onNode | onRscDfn | onVlmDfn,
	"ExtCmd/":            onController | onNode,
	"NetCom/":            onController,
	"Autoplacer/Weights": onController,
	"Paths/":             onConnection,
	"FileSystem/":        onController | onRscDfn | onVlmDfn,
}

// rule finds the whitelist entry of a key for an object, at a LINSTOR version.
func rule(key string, on propObject, v version) (propRule, bool) {
	for prefix, objects := range freePrefixes {
		if strings.HasPrefix(key, prefix) && len(key) > len(prefix) && objects&on != 0 {
			return propRule{on: objects, check: func(string) bool { return true }}, true
		}
	}
	if on == onRscDfn && strings.HasPrefix(key, "DrbdOptions/") {
		on = onController // what can be set for all volumes can be set for one
	}
	r, known := whitelist[key]
	if !known || r.on&on == 0 ||
		r.since > 0 && !v.atLeast(1, r.since) {
		return propRule{}, false
	}
	return r, true
}
