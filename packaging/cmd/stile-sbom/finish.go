package main

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// prefix is what the paths of the repository's modules begin with.
const prefix = "github.com/stile-lock/stile/"

// finish is the bill with the names, versions and licences that it lacks.
func finish(text []byte, info *debug.BuildInfo, version, at string, licences func(path, version string) ([]string, error)) ([]byte, error) {
	// By directory: what the bill calls a module that is replaced by one.
	ours := map[string]string{}
	for _, d := range info.Deps {
		if d.Replace == nil {
			continue
		}
		if !strings.HasPrefix(d.Path, prefix) {
			return nil, fmt.Errorf("%s is replaced by %s: no bill can tell what that is", d.Path, d.Replace.Path)
		}
		ours[d.Replace.Path] = d.Path
		text = bytes.ReplaceAll(text, fmt.Appendf(nil, "pkg:golang/%s@%s?", d.Replace.Path, d.Replace.Version), fmt.Appendf(nil, "pkg:golang/%s@%s?", d.Path, version))
	}
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		return nil, err
	}
	if bom.Metadata == nil || bom.Metadata.Component == nil || bom.Components == nil {
		return nil, fmt.Errorf("it names no program and what that is made of")
	}
	bom.Metadata.Timestamp = at
	all := []*cdx.Component{bom.Metadata.Component}
	for i := range *bom.Components {
		all = append(all, &(*bom.Components)[i])
	}
	for _, c := range all {
		if path, ok := ours[c.Name]; ok {
			c.Name, c.Version = path, version
			c.ExternalReferences = &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: "https://" + strings.TrimSuffix(prefix, "/")}}
		}
		ids, err := licences(c.Name, c.Version)
		if err != nil {
			return nil, fmt.Errorf("the licence of %s %s: %w", c.Name, c.Version, err)
		}
		c.Licenses = &cdx.Licenses{}
		for _, id := range ids {
			*c.Licenses = append(*c.Licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
	}
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}
