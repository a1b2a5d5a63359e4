package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill is what a program is made of, in CycloneDX's JSON: the modules that Go noted in it, each in the version that was
// built.
func bill(a about, t target, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read what %s is made of: %w", t.name(), err)
	}
	var parts []cdx.Component
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, cdx.Component{BOMRef: reference(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path,
			Version: m.Version, PackageURL: reference(m.Path, m.Version)})
	}
	version := info.GoVersion
	parts = append(parts, cdx.Component{BOMRef: reference("std", version), Type: cdx.ComponentTypeLibrary, Name: "std",
		Version: version, PackageURL: reference("std", version)})
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

// reference is the package URL of a Go module, which scanners look known vulnerabilities up by.
func reference(path, version string) string { return "pkg:golang/" + path + "@" + version }
