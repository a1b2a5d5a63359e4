package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

func getRoot(*call) reply {
	return reply{status: http.StatusOK, contentType: "text/html", body: []byte("<html><title>Linstor REST server</title><body>Linstor REST server</body></html>")}
}

// getHealth is 200 without a body. With the database in Kubernetes LINSTOR does not look at it.
func getHealth(c *call) reply {
	if c.db.unreachable && c.db.url != "k8s" {
		return reply{status: http.StatusInternalServerError, contentType: "text/plain", body: []byte("Failed to connect to database: " + c.db.url)}
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
	return c.object(http.StatusOK, configJSON{
		Config: map[string]any{"dir": "/etc/linstor"},
		Debug:  map[string]any{"console_enabled": false},
		Log: map[string]any{"print_stack_trace": false, "directory": "/var/log/linstor-controller", "level": c.ctl.logLevel,
			"level_linstor": c.ctl.logLinst, "rest_access_log_path": "rest-access.log", "rest_access_mode": "NO_LOG"},
		DB:    db,
		HTTP:  web,
		HTTPS: map[string]any{"enabled": true, "listen_address": "::", "port": 3371},
		LDAP:  map[string]any{"enabled": false, "public_access_allowed": false},
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
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
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
	if r, ok := c.decode(&change, http.StatusInternalServerError); !ok {
		return r
	}
	x := rcContext{op: opCreate, object: objCtrl}
	props, bad := change.apply(c.db.props, onController, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusCreated, x, rcs{*bad})
	}
	var list rcs
	for _, k := range slices.Sorted(maps.Keys(change.OverrideProps)) {
		list = append(list, success(codeCreated, "Successfully set property '%s' to value '%s'", k, props[k]))
	}
	list = append(list, deletedProps(change.DeleteProps)...)
	c.db.props = props
	return c.list(http.StatusCreated, x, list)
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
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	name := body.BackupName
	if name == "" {
		name = "linstordb-backup-" + c.world.now.UTC().Format("20060102150405")
	}
	return c.list(http.StatusCreated, rcContext{}, rcs{success(0, "Exported database to /var/lib/linstor/%s.json", name)})
}

// errorReport is a file that LINSTOR writes about a failure.
type errorReport struct {
	NodeName         string `json:"node_name,omitempty"`
	ErrorTime        int64  `json:"error_time"`
	Filename         string `json:"filename,omitempty"`
	Text             string `json:"text,omitempty"`
	Module           string `json:"module,omitempty"`
	Version          string `json:"version,omitempty"`
	Peer             string `json:"peer,omitempty"`
	Exception        string `json:"exception,omitempty"`
	ExceptionMessage string `json:"exception_message,omitempty"`
	OriginFile       string `json:"origin_file,omitempty"`
}

// report writes an error report of the controller and returns its id.
func (c *controller) report(message string) string {
	return c.reportFrom("Controller", "CONTROLLER", "ApiRcException", message)
}

func (c *controller) reportFrom(nodeName, module, exception, message string) string {
	id := fmt.Sprintf("683D2A11-00000-%06d", len(c.reports))
	c.reports = append(c.reports, errorReport{
		NodeName:         nodeName,
		ErrorTime:        c.world.now.UnixMilli(),
		Filename:         "ErrorReport-" + id + ".log",
		Module:           module,
		Version:          c.version.String(),
		Exception:        exception,
		ExceptionMessage: message,
	})
	return id
}

func (r errorReport) id() string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Filename, "ErrorReport-"), ".log")
}

func listErrorReports(c *call) reply {
	since, to := millis(c.query.Get("since")), millis(c.query.Get("to"))
	match := c.filter("node")
	list := []errorReport{}
	for _, r := range c.ctl.reports {
		if !match(r.NodeName) || since != 0 && r.ErrorTime < since || to != 0 && r.ErrorTime > to {
			continue
		}
		if c.query.Get("withContent") == "true" {
			r.Text = r.ExceptionMessage
		}
		list = append(list, r)
	}
	return c.object(http.StatusOK, list)
}

func millis(text string) int64 {
	var ms int64
	if _, err := fmt.Sscan(text, &ms); err != nil {
		return 0
	}
	return ms
}

// getErrorReport answers a list with one element, or none for an unknown id.
func getErrorReport(c *call) reply {
	id := strings.TrimSuffix(strings.TrimPrefix(c.req.PathValue("id"), "ErrorReport-"), ".log")
	list := []errorReport{}
	for _, r := range c.ctl.reports {
		if r.id() == id {
			r.Text = r.ExceptionMessage
			list = append(list, r)
		}
	}
	return c.object(http.StatusOK, list)
}

type reportDeleteJSON struct {
	Since     *int64   `json:"since"`
	To        *int64   `json:"to"`
	Nodes     []string `json:"nodes"`
	Exception string   `json:"exception"`
	Version   string   `json:"version"`
	IDs       []string `json:"ids"`
}

func deleteErrorReports(c *call) reply {
	var body reportDeleteJSON
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	before := len(c.ctl.reports)
	c.ctl.reports = slices.DeleteFunc(c.ctl.reports, body.matches)
	x := rcContext{op: opDelete}
	if before == len(c.ctl.reports) {
		return c.list(http.StatusOK, x, rcs{info(codeNoop, "No error reports deleted.")})
	}
	return c.list(http.StatusOK, x, rcs{success(codeDeleted, "Deleted %d error report(s)", before-len(c.ctl.reports))})
}

func (b reportDeleteJSON) matches(r errorReport) bool {
	switch {
	case b.Since != nil && r.ErrorTime < *b.Since, b.To != nil && r.ErrorTime > *b.To:
		return false
	case len(b.Nodes) > 0 && !slices.ContainsFunc(b.Nodes, func(n string) bool { return key(n) == key(r.NodeName) }):
		return false
	case len(b.IDs) > 0 && !slices.Contains(b.IDs, r.id()):
		return false
	case b.Exception != "" && b.Exception != r.Exception, b.Version != "" && b.Version != r.Version:
		return false
	}
	return true
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
	ms := t.UnixMilli()
	return &ms
}
