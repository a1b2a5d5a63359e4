package sim

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

func getRoot(*call) reply {
	return reply{status: http.StatusOK, contentType: "text/html",
		body: []byte("<html><title>Linstor REST server</title><body>Linstor REST server</body></html>")}
}

// getHealth is 200 without a body. With the database in Kubernetes LINSTOR does not look at it.
func getHealth(c *call) reply {
	if c.db.unreachable && c.db.url != "k8s" {
		return reply{status: http.StatusInternalServerError, contentType: "text/plain",
			body: []byte("Failed to connect to database: " + c.db.url)}
	}
	return reply{status: http.StatusOK, contentType: "text/plain"}
}

type versionJSON struct {
	Version        string `json:"version"`
	GitHash        string `json:"git_hash"`
	BuildTime      string `json:"build_time"`
	RestAPIVersion string `json:"rest_api_version"`
}

func getVersion(c *call) reply {
	v := c.ctl.version
	return c.object(http.StatusOK, versionJSON{
		Version:        v.String(),
		GitHash:        fmt.Sprintf("%040x", v.major<<16|v.minor<<8|v.patch),
		BuildTime:      "2026-06-02T10:46:00+00:00",
		RestAPIVersion: restVersion(v),
	})
}

// restVersion is the version of the REST API: 1.28.0 with LINSTOR 1.34, 1.29.0 with 1.35.
func restVersion(v version) string { return fmt.Sprintf("1.%d.0", v.minor-6) }

type configJSON struct {
	Config map[string]any `json:"config"`
	Debug  map[string]any `json:"debug"`
	Log    map[string]any `json:"log"`
	DB     map[string]any `json:"db"`
	HTTP   map[string]any `json:"http"`
	HTTPS  map[string]any `json:"https"`
	LDAP   map[string]any `json:"ldap"`
}

// getConfig never tells passwords or the database's user.
func getConfig(c *call) reply {
	t := c.ctl.settings.toml
	db := map[string]any{"connection_url": c.ctl.settings.url, "version_check_disabled": t.DB.VersionCheckDisabled}
	setIf(db, "ca_certificate", t.DB.CACertificate)
	setIf(db, "client_certificate", t.DB.ClientCertificate)
	setIf(db, "client_key_pkcs8_pem", t.DB.ClientKeyPKCS8PEM)
	if c.ctl.version.atLeast(1, 34) {
		db["k8s"] = map[string]any{
			"request_retries":      orDefault(t.DB.K8s.RequestRetries, 3),
			"max_rollback_entries": orDefault(t.DB.K8s.MaxRollbackEntries, 100),
		}
	} else {
		etcd := map[string]any{"operations_per_transaction": t.DB.Etcd.OperationsPerTransaction}
		setIf(etcd, "prefix", t.DB.Etcd.Prefix)
		db["etcd"] = etcd
	}
	web := map[string]any{"enabled": orDefault(t.HTTP.Enabled, true), "listen_address": "::", "port": 3370}
	setIf(web, "listen_address", t.HTTP.ListenAddr)
	if t.HTTP.Port != 0 {
		web["port"] = t.HTTP.Port
	}
	log := map[string]any{"print_stack_trace": false, "directory": "/var/log/linstor-controller", "level": c.ctl.logLevel,
		"rest_access_log_path": "rest-access.log", "rest_access_mode": "NO_LOG"}
	setIf(log, "level_linstor", c.ctl.logLinst)
	return c.object(http.StatusOK, configJSON{
		Config: map[string]any{"dir": "/etc/linstor"},
		Debug:  map[string]any{"console_enabled": false},
		Log:    log,
		DB:     db,
		HTTP:   web,
		HTTPS:  map[string]any{"enabled": true, "listen_address": "::", "port": 3371},
		LDAP: map[string]any{"enabled": false, "public_access_allowed": false, "uri": "ldap://localhost",
			"dn": "uid={user}"},
	})
}

func setIf(m map[string]any, name, value string) {
	if value != "" {
		m[name] = value
	}
}

func orDefault[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

type configModifyJSON struct {
	Log struct {
		Level              string `json:"level"`
		LevelLinstor       string `json:"level_linstor"`
		LevelGlobal        string `json:"level_global"`
		LevelLinstorGlobal string `json:"level_linstor_global"`
	} `json:"log"`
}

func putConfig(c *call) reply {
	var body configModifyJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	for _, level := range []string{body.Log.Level, body.Log.LevelGlobal, body.Log.LevelLinstor,
		body.Log.LevelLinstorGlobal} {
		if level != "" && !slices.Contains([]string{"ERROR", "WARN", "INFO", "DEBUG", "TRACE"}, strings.ToUpper(level)) {
			return c.list(http.StatusOK, rcContext{bare: true},
				rcs{failure(codeInvalidConf, "Given loglevel '%s' is invalid", level)})
		}
	}
	for _, level := range []string{body.Log.Level, body.Log.LevelGlobal} {
		if level != "" {
			c.ctl.logLevel = strings.ToUpper(level)
		}
	}
	for _, level := range []string{body.Log.LevelLinstor, body.Log.LevelLinstorGlobal} {
		if level != "" {
			c.ctl.logLinst = strings.ToUpper(level)
		}
	}
	x := rcContext{op: opModify, object: objCtrl}
	return c.list(http.StatusOK, x, rcs{success(codeModified, "Successfully updated controller config")})
}

func getControllerProps(c *call) reply { return c.object(http.StatusOK, c.db.props) }

// postControllerProps is one transaction: the first error undoes all of it.
func postControllerProps(c *call) reply {
	var change propChange
	if r, ok := c.decode(&change, parsedFirst); !ok {
		return r
	}
	x := rcContext{op: opCreate, object: objCtrl, subject: "Controller"}
	props, bad := change.apply(c.db.props, onController, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusCreated, x, rcs{*bad})
	}
	list := deprecate(props, change.OverrideProps, c.ctl.version)
	if value, set := change.OverrideProps["TcpPortAutoRange"]; set {
		list = append(list, success(opModify|codeModified, "The TCP port range was successfully updated to: %s", value))
	}
	for _, k := range slices.Sorted(maps.Keys(change.OverrideProps)) {
		list = append(list, success(codeCreated, "Successfully set property '%s' to value '%s'", k,
			cmp.Or(props[k], change.OverrideProps[k])))
	}
	list = append(list, deletedProps(change.DeleteProps)...)
	if satellitesCare(c.db.props, props) {
		list = append(list, c.ctl.applied(c.db.sortedNodes(), controllerPropsApplied)...)
	}
	c.db.props = props
	return c.list(http.StatusCreated, x, list)
}

// satellitesCare reports whether a change of the controller's properties is one that LINSTOR tells the satellites:
// those of the controller's own working stay with it.
func satellitesCare(before, after map[string]string) bool {
	changed := func(a, b map[string]string) bool {
		for k, v := range a {
			if other, set := b[k]; (!set || other != v) && !ownProps[k] {
				return true
			}
		}
		return false
	}
	return changed(before, after) || changed(after, before)
}

func deletedProps(keys []string) rcs {
	var list rcs
	for _, k := range keys {
		list = append(list, success(opDelete|codeDeleted, "Successfully deleted property '%s'", k))
	}
	return list
}

func deleteControllerProp(c *call) reply {
	change := propChange{DeleteProps: []string{c.req.PathValue("key")}}
	x := rcContext{op: opDelete, object: objCtrl}
	props, bad := change.apply(c.db.props, onController, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	c.db.props = props
	return c.list(http.StatusOK, x, deletedProps(change.DeleteProps))
}

// getControllerPropsInfo is an object by key in LINSTOR, though the API's description speaks of a list.
func getControllerPropsInfo(c *call) reply {
	type propInfo struct {
		Info     string `json:"info"`
		PropType string `json:"prop_type"`
	}
	infos := map[string]propInfo{}
	for k, r := range whitelist {
		if _, known := rule(k, onController, c.ctl.version); known {
			kind := "string"
			if r.normal != nil {
				kind = "boolean"
			}
			infos[k] = propInfo{Info: k, PropType: kind}
		}
	}
	return c.object(http.StatusOK, infos)
}

type exportJSON struct {
	BackupName string `json:"backup_name"`
}

// exportDatabase exists from LINSTOR 1.34 on. The file is on the controller's own disk.
func exportDatabase(c *call) reply {
	if !c.ctl.version.atLeast(1, 34) {
		return notFound(c)
	}
	var body exportJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name := body.BackupName
	if name == "" {
		name = "linstordb-backup-" + c.world.now.UTC().Format("20060102150405")
	}
	return c.list(http.StatusCreated, rcContext{}, rcs{success(0, "Exported database to /var/lib/linstor/%s.json", name)})
}

func getStats(c *call) reply {
	counts := map[string]int{
		"nodes": len(c.db.nodes), "resource-definitions": len(c.db.rscDfns), "resource-groups": 1,
		"error-reports": len(c.ctl.reports), "resources": 0, "storage-pools": 0,
	}
	for _, n := range c.db.nodes {
		counts["storage-pools"] += len(n.pools)
	}
	for _, d := range c.db.rscDfns {
		counts["resources"] += len(d.resources)
	}
	count, known := counts[c.req.PathValue("what")]
	if !known {
		return notFound(c)
	}
	return c.object(http.StatusOK, map[string]int{"count": count})
}

// unixMillis is LINSTOR's form of a time.
func unixMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
