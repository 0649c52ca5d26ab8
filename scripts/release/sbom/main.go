// Command sbom writes the bill of materials of a Go program in the format CycloneDX. Its usage is 'sbom PROGRAM VERSION
// DOCUMENT'. It lists the modules that the compiler recorded in the program. Two calls write the same bytes, because
// the document has no serial number and its time is $SOURCE_DATE_EPOCH.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"log"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sbom: ")
	if len(os.Args) != 4 {
		log.Fatal("want PROGRAM VERSION DOCUMENT")
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func write(program, version, document string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	if len(info.Deps) == 0 {
		return errors.New(program + ": names no modules")
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("$SOURCE_DATE_EPOCH is not a number of seconds")
	}
	digest := sha256.Sum256(text)
	main := module(info.Main.Path, version)
	main.Type = cyclonedx.ComponentTypeApplication
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: time.Unix(seconds, 0).UTC().Format(time.RFC3339), Component: &main}
	components := []cyclonedx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	uses := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		components = append(components, module(resolved(m)))
		uses = append(uses, components[len(components)-1].BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	f, err := os.Create(document)
	if err != nil {
		return err
	}
	defer f.Close()
	encoder := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return f.Close()
}

// resolved returns the module that was built, which is m or its replacement.
func resolved(m *debug.Module) (path, version string) {
	if m.Replace != nil {
		m = m.Replace
	}
	return m.Path, m.Version
}

func module(path, version string) cyclonedx.Component {
	// The purl specification requires Go's paths in lower case.
	purl := "pkg:golang/" + strings.ToLower(path) + "@" + version
	return cyclonedx.Component{
		BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl,
	}
}
