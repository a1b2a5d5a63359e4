package sim

// Keys that the controller takes for its own properties and does not keep under that name.
const (
	propAutoQuorum = "DrbdOptions/auto-quorum"
	propExtCmdWait = "ExtCmdWaitTimeout"
)

// deprecation is what became of a key (linstor-server 1.34, CtrlConfApiCallHandler).
type deprecation struct {
	since   int    // the LINSTOR minor version 1.x
	instead string // what the warning names
	moved   bool   // the value is stored there; else nowhere
}

var deprecated = map[string]deprecation{
	propAutoQuorum: {since: 31, instead: "DrbdOptions/Resource/quorum"},
	propExtCmdWait: {since: 34, instead: "ExtCmd/WaitTimeout", moved: true},
}

// deprecate stores deprecated keys as LINSTOR of the version does, and returns its warnings. Resource groups and
// definitions keep DrbdOptions/auto-quorum as it is, with no effect.
func deprecate(props map[string]string, set map[string]string, v version) (warnings rcs) {
	for _, key := range []string{propAutoQuorum, propExtCmdWait} {
		d := deprecated[key]
		value, given := set[key]
		if !given || !v.atLeast(1, d.since) {
			continue
		}
		delete(props, key)
		if d.moved {
			props[d.instead] = value
		}
		warnings = append(warnings, warning(codeDeprecated, "%s is deprecated, please use %s", key, d.instead))
	}
	return warnings
}
