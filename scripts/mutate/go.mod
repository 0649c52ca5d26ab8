// The mutation tester is a module of its own: rscert does not depend on it.
module github.com/rscert/rscert/scripts/mutate

go 1.26.8

require github.com/gtramontina/ooze v0.2.0
