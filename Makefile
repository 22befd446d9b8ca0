# Every target works from a fresh clone with Go, git and make.
#
#   make build    the binaries, into bin/
#   make demo     see it work, in under a minute
#   make fence-demo   updates lost to paused holders, without a guard and with one: ROUNDS= (200), some 4 s each
#   make run      a node to try by hand
#   make sim      the cluster simulator: SEED= (0) RUNS= (2000)
#   make failover-report   how long nobody is served, at each kind of failure
#   make conformance   certify the node, the Go client and the examples, into bin/conformance/
#   make mutants  every scenario against every wrong server and client, as tables in bin/
#   make test     every test of every module
#   make race     the same under the race detector
#   make verify   format, vet, tidy, generated files, the workspace
#   make stilevet is the Go client used right? Over every module; a part of verify
#   make stilevet-elsewhere   the same analyzers over well-known modules, where they must find nothing
#   make fuzz     each fuzz target for FUZZTIME (60s)
#   make bench    benchmarks of the codec, the lock table and the client
#   make bench-smoke     every workload of the benchmark for a moment: is each answer right?
#   make bench-compare   Stile beside an echo server, Redis and etcd: BENCH= (--rounds 5 …)
#   make snapshot everything that a release has, unpublished, into dist/
#   make snapshot-test   that, and a look at all of it: contents, programs, installs, a second build
#   make image    the container image, with docker: IMAGE= (stile)
#   make release-check   what a stranger does with a release, on one that is not published

GO       ?= go
FUZZTIME ?= 60s
SEED     ?= 0
RUNS     ?= 2000
ROUNDS   ?= 200
MODULES  := protocol features server client client/fence/fencetest client/examples conformance tools bench packaging deploy browser

# Modules whose tests build and run the programs of others. Go does not see that
# these have changed, and would show the result of an earlier run.
RUN_OTHERS := client/fence/fencetest client/examples conformance tools browser
ANEW        = $(if $(filter $(1),$(RUN_OTHERS)),-count=1)

# The modules that a release has, with all that these require (RELEASING.md).
RELEASED   := server client conformance tools
GORELEASER  = STILE_COMMIT=$(COMMIT) STILE_BUILT=$(BUILT) STILE_EPOCH=$(EPOCH) \
	$(GO) run github.com/goreleaser/goreleaser/v2@v2.15.1
IMAGE      ?= stile

# What --version says. A checkout without git builds too.
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
BUILT   := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD 2>/dev/null)
EPOCH   := $(shell git log -1 --format=%ct HEAD 2>/dev/null)
INFO    := github.com/stile-lock/stile/server/buildinfo
CLI     := github.com/stile-lock/stile/tools/cmd/stile/cli
LDFLAGS := -X $(INFO).commit=$(COMMIT) -X $(INFO).built=$(BUILT) $(if $(VERSION),-X $(INFO).version=$(VERSION)) \
	-X $(CLI).commit=$(COMMIT) $(if $(VERSION),-X $(CLI).release=$(VERSION)) \
	-X main.commit=$(COMMIT) $(if $(VERSION),-X main.release=$(VERSION))

.DEFAULT_GOAL := build
.PHONY: build demo fence-demo run test race verify fmt tidy generate fuzz bench clean sim failover-report conformance mutants \
	bench-smoke bench-compare stiled dist-extras snapshot snapshot-test image image-release release release-tag release-check \
	stilevet stilevet-elsewhere

build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./server/cmd/stiled ./tools/cmd/stile ./tools/cmd/stilevet \
	  ./conformance/cmd/stile-conformance ./bench/cmd/...

demo: build
	$(GO) run ./tools/cmd/stile-demo -stiled bin/stiled

fence-demo: build
	$(GO) run ./client/fence/fencetest/cmd/fence-demo --stiled bin/stiled --rounds $(ROUNDS)

run: build
	@echo 'A node is about to listen on 127.0.0.1:5625. In another terminal:'
	@echo
	@if command -v nc >/dev/null; then echo '    nc 127.0.0.1 5625'; \
	else echo "    exec 3<>/dev/tcp/127.0.0.1/5625; cat <&3 & cat >&3      # in bash"; fi
	@echo
	@echo 'and type, for instance:'
	@echo
	@echo '    A door 0 60        wait for the key "door", and hold it for at most 60 seconds'
	@echo '    R door TOKEN       give it back: TOKEN is the number in the answer'
	@echo
	@echo 'Ctrl+C ends it here (make then says "Interrupt", and that is all right).'
	@echo
	@bin/stiled

sim:
	cd server && $(GO) run ./sim/cmd/stile-sim -seed $(SEED) -runs $(RUNS)

failover-report: build
	$(GO) run ./tools/cmd/stile-failover -stiled bin/stiled

conformance:
	cd conformance && $(GO) test -count=1 -v -timeout 20m ./certify -args -certificates ../../bin/conformance

mutants:
	@set -e; mkdir -p bin; for half in server client cluster; do \
	  (cd conformance && $(GO) test -count=1 -timeout 60m ./mutants/$$half -args -matrix -table ../../../bin/mutants-$$half.md); \
	done

# The first pass checks the invariants after every step. The second is of what
# that pass has to leave out: a checked build allocates.
test:
	@set -e; $(foreach m,$(MODULES),echo "== $m"; (cd $m && $(GO) test $(call ANEW,$m) -tags invariants ./...);) true
	cd bench/etcd && GOWORK=off $(GO) test ./...
	@set -e; for m in $(MODULES); do \
	  echo "== $$m, allocations"; (cd $$m && $(GO) test -run Alloc ./...); \
	done
	@command -v redis-server >/dev/null || \
	  echo '*** SKIPPED: the tests against Redis. To run them: apt-get install redis-server'
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  echo '*** SKIPPED: the tests against PostgreSQL. To run them: apt-get install postgresql'
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || \
	  echo '*** SKIPPED: the page of the admin server. To try it: apt-get install chromium'

race:
	@set -e; $(foreach m,$(MODULES),echo "== $m"; (cd $m && $(GO) test $(call ANEW,$m) -race -tags invariants ./...);) true

verify: stilevet
	@unformatted=$$(gofmt -l $(MODULES)); \
	if [ -n "$$unformatted" ]; then echo "make fmt would change:"; echo "$$unformatted"; exit 1; fi
	@set -e; for m in $(MODULES); do \
	  echo "== $$m"; (cd $$m && $(GO) vet ./... && $(GO) vet -tags invariants ./... && GOWORK=off $(GO) mod tidy -diff); \
	done
	cd bench/etcd && GOWORK=off $(GO) vet ./... && GOWORK=off $(GO) mod tidy -diff
	cd protocol && $(GO) run ./internal/gencodes -check && $(GO) run ./internal/genvectors -check
	@for m in $(MODULES); do \
	  grep -qx "	./$$m" go.work || { echo "go.work has no line ./$$m"; exit 1; }; \
	done

stilevet:
	$(GO) build -trimpath -o bin/ ./tools/cmd/stilevet
	@set -e; for m in $(MODULES); do \
	  echo "== $$m, stilevet"; (cd $$m && $(GO) vet -vettool='$(CURDIR)/bin/stilevet' ./...); \
	done
	cd bench/etcd && GOWORK=off $(GO) vet -vettool='$(CURDIR)/bin/stilevet' ./...

# It downloads these modules, which nobody else needs.
stilevet-elsewhere:
	cd tools && $(GO) run ./vet/internal/elsewhere

fmt:
	gofmt -w $(MODULES)

tidy:
	@set -e; for m in $(MODULES); do (cd $$m && GOWORK=off $(GO) mod tidy); done

generate:
	cd protocol && $(GO) generate ./...

fuzz:
	@set -e; cd protocol && for f in $$(grep -ho 'func Fuzz[A-Za-z]*' *_test.go | cut -c6-); do \
	  $(GO) test -run XXX -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x .; \
	done

bench:
	cd protocol && $(GO) test -run XXX -bench . -benchmem .
	cd server && $(GO) test -run XXX -bench . -benchmem ./lockspace
	cd client && $(GO) test -run XXX -bench . -benchmem .

bench-smoke: build
	bin/stile-bench-compare --smoke

# The driver of etcd is a module of its own, outside the workspace: nobody else
# carries what it depends on.
bench-compare: build
	-cd bench/etcd && GOWORK=off $(GO) build -trimpath -o ../../bin/ ./cmd/...
	bin/stile-bench-compare --json bin/bench-compare.json $(BENCH)
# The node alone, small, for GOOS and GOARCH: what the image has.
stiled:
	cd server && $(GO) build -trimpath -buildvcs=false -ldflags '-s -w $(LDFLAGS)' -o ../bin/stiled ./cmd/stiled

# What packages have beside the programs. stile makes its own. REF is the tag or
# the commit that documents link to.
dist-extras: build
	rm -rf bin/extras
	cd packaging && $(GO) run ./cmd/stile-extras -out ../bin/extras -date '$(BUILT)' \
	  -version '$(or $(VERSION),$(COMMIT))' -ref '$(or $(REF),$(COMMIT))' \
	  -own ../bin/stile ../bin/stiled ../bin/stile-conformance

snapshot:
	$(GORELEASER) release --snapshot --clean

snapshot-test: snapshot
	cd packaging && $(GO) test -count=1 -v -timeout 30m ./snapshot -args -dist ../../dist

image:
	docker build -f packaging/docker/Dockerfile -t $(IMAGE) .

# The next three are of a release, of TAG, see RELEASING.md.
release-tag:
	$(GO) run ./tools/cmd/stile-release tag -version '$(TAG)' $(RELEASED)

release:
	GORELEASER_CURRENT_TAG='$(TAG)' $(GORELEASER) release --clean

image-release:
	docker buildx build -f packaging/docker/Dockerfile --platform linux/amd64,linux/arm64 --push \
	  --build-arg VERSION='$(TAG)' -t 'ghcr.io/stile-lock/stile:$(TAG)' -t ghcr.io/stile-lock/stile:latest .

release-check:
	$(GO) run ./tools/cmd/stile-release check $(RELEASED)

clean:
	rm -rf bin dist
