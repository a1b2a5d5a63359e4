package sim

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// downloadReport answers LINSTOR's report for support, from 1.34 on with an export of the database (linstor-server
// 1.34, CtrlSosReportApiCallHandler). Of what else it holds there is only what should not be taken for the export, or
// shown: linstor.toml with the database's password. What satellites add is not simulated.
func downloadReport(c *call) reply {
	wanted := c.filter("nodes")
	if slices.ContainsFunc(c.db.sortedNodes(), func(n *node) bool { return wanted(n.name) }) {
		return notSimulated(c)
	}
	name := "sos_" + c.world.now.UTC().Format("2006-01-02_15-04-05")
	files := [][2]string{{name + "/query-params", c.req.URL.RawQuery}}
	if c.query.Get("include-ctrl") != "false" {
		dir := name + "/_Controller/"
		files = append(files, [2]string{dir, ""}, exportFile(c, dir),
			[2]string{dir + "linstor.toml", fmt.Sprintf("[db]\nuser = %q\npassword = %q\n", c.db.user, c.db.password)})
	}
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), ModTime: c.world.now}
		if strings.HasSuffix(f[0], "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		}
		_ = archive.WriteHeader(header) // a buffer takes everything
		_, _ = archive.Write([]byte(f[1]))
	}
	_, _ = archive.Close(), zip.Close()
	return reply{status: http.StatusOK, contentType: "application/octet-stream", body: body.Bytes(),
		header: http.Header{"Content-Disposition": {"attachment; filename = " + name + ".tar.gz"}}}
}

// exportFile is the export's file, or that of a failed one.
func exportFile(c *call, dir string) [2]string {
	switch {
	case !c.ctl.version.atLeast(1, 34):
		return [2]string{dir + "dbDump", "{}"} // another format
	case c.db.unreachable:
		return [2]string{dir + "dbexport.json.failed", "ErrorReport-" + c.ctl.report("the database does not answer")}
	}
	return [2]string{dir + "dbexport.json", string(c.world.exports.make(c.db, c.ctl.version))}
}
