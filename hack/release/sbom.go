package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill is what a program is made of, in CycloneDX's JSON: the modules that Go noted in it, each in the version that
// was built.
func bill(a about, t target, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", t.name(), err)
	}
	var parts []cdx.Component
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := reference(m.Path, m.Version)
		parts = append(parts, cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path,
			Version: m.Version, PackageURL: purl})
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	parts = append(parts, cdx.Component{BOMRef: reference(standard, version), Type: cdx.ComponentTypeLibrary,
		Name: standard, Version: version, PackageURL: reference(standard, version)})
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: a.Time.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: t.name(), Type: cdx.ComponentTypeApplication, Name: t.Program, Version: a.Version,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			Properties: &[]cdx.Property{{Name: "os", Value: t.OS}, {Name: "architecture", Value: t.Arch},
				{Name: "commit", Value: a.Commit}},
		},
	}
	bom.Components = &parts
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// standard is what scanners call Go's own library (pkg:golang/stdlib@1.26.0).
const standard = "stdlib"

// reference is the package URL of a Go module, by which scanners look up known vulnerabilities.
func reference(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
