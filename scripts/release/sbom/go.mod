// Apart from rscert's module, so that rscert does not depend on CycloneDX.
module github.com/rscert/rscert/scripts/release/sbom

go 1.26.8

require github.com/CycloneDX/cyclonedx-go v0.12.0
