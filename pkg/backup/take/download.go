package take

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

const (
	// nobody is the name of no node: a node's name has at least two characters (LINSTOR 1.34, NodeName.MIN_LENGTH).
	nobody = "-"
	// exportFile is the export in LINSTOR's report, from 1.34 on, and failedFile is there in its place if it failed.
	exportFile = "_Controller/dbexport.json"
	failedFile = exportFile + ".failed"
)

// shapeOfReport is that of the name of an error report. Nothing else of what LINSTOR writes about a failure is
// repeated.
var shapeOfReport = regexp.MustCompile(`^ErrorReport-[0-9A-Fa-f-]{1,60}$`)

// download writes an export of LINSTOR's database to w. LINSTOR 1.34 has no request that returns one: POST
// controller/database/export leaves it in a file of the controller's pod. Its report for support, though, contains
// the same export, taken in the same way (CtrlSosReportApiCallHandler.dbDump), and can be downloaded. With the name
// of no node it is about the controller alone. LINSTOR keeps a copy of the report in its log directory.
func download(ctx context.Context, c *Config, w io.Writer) error {
	query := url.Values{"nodes": {nobody}, "since": {strconv.FormatInt(time.Now().UnixMilli(), 10)}} // no old logs
	address := strings.TrimSuffix(c.Linstor, "/") + "/v1/sos-report/download?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("LINSTOR responded with %s", response.Status)
	}
	return extract(response.Body, w)
}

// client is one that LINSTOR lets in. It follows no redirect: a LINSTOR that takes only those with a certificate sends
// everybody else away by one.
func (c *Config) client() (*http.Client, error) {
	transport := http.DefaultTransport
	if dir := c.Certificates; dir != "" {
		own, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			// the cause might quote the key
			return nil, fmt.Errorf("the client certificate for LINSTOR in %s cannot be loaded", dir)
		}
		trusted, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			return nil, fmt.Errorf("read the CA certificates for LINSTOR: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(trusted) {
			return nil, fmt.Errorf("%s/ca.crt contains no CA certificates for LINSTOR", dir)
		}
		transport = &http.Transport{TLSHandshakeTimeout: 10 * time.Second, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{own}}}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}, nil
}

// extract finds the export in a report.
func extract(report io.Reader, w io.Writer) error {
	zip, err := gzip.NewReader(report)
	if err != nil {
		return fmt.Errorf("decompress the report: %w", err)
	}
	found := false
	text := limit.Reader(zip, limit.New("LINSTOR's decompressed report", export.Most))
	files := tar.NewReader(text)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the report: %w", err)
		}
		switch _, name, _ := strings.Cut(path.Clean(header.Name), "/"); {
		case name == failedFile:
			return fmt.Errorf("LINSTOR could not export its database%s", nameOfReport(files))
		case name == exportFile && found:
			return errors.New("the report contains two exports")
		case name == exportFile:
			if _, err := io.Copy(w, files); err != nil { //nolint:gosec // the report is bounded
				return fmt.Errorf("read the report: %w", err)
			}
			found = true
		}
	}
	if _, err := io.Copy(io.Discard, text); err != nil { // the end holds the checksum
		return fmt.Errorf("read the report to its end: %w", err)
	}
	if !found {
		return errors.New("LINSTOR's report contains no export: LINSTOR versions before 1.34 cannot export their database " +
			"while they are running")
	}
	return nil
}

// nameOfReport names the error report about a failed export.
func nameOfReport(r io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(r, 100))
	if name := strings.TrimSpace(string(text)); err == nil && shapeOfReport.MatchString(name) {
		return "; see its error report " + strings.TrimPrefix(name, "ErrorReport-")
	}
	return ""
}
