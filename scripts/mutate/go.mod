// The mutation tester is a module of its own: rscert does not depend on it.
module github.com/rscert/rscert/scripts/mutate

go 1.26.8

require github.com/gtramontina/ooze v0.2.0

require (
	github.com/fatih/color v1.14.1 // indirect
	github.com/hexops/gotextdiff v1.0.3 // indirect
	github.com/mattn/go-colorable v0.1.13 // indirect
	github.com/mattn/go-isatty v0.0.17 // indirect
	golang.org/x/sys v0.3.0 // indirect
)
