# Two commands do all the set-up: make demo (the main job) and make test.
# Neither needs root, a device or a C library.

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Pure Go everywhere: no C compiler is needed.
export CGO_ENABLED ?= 0

.PHONY: demo test build lint coverage bench fuzz clean

demo: ## a complete campaign on the virtual bench
	$(GO) run ./cmd/joulemark demo

test: ## all tests
	$(GO) vet ./...
	$(GO) test ./...

build: ## the program, as bin/joulemark
	$(GO) build -trimpath -o bin/joulemark ./cmd/joulemark

lint: ## gofmt, go vet, staticcheck
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

coverage: ## do the intervals hold the truth? 300 seeded campaigns a scenario
	$(GO) test ./bench/coverage -count=1 -timeout 40m -run 'TestCoverage|TestForeign' -v -args -campaigns=$${CAMPAIGNS:-300}

bench: ## speed and memory, as ratios within one run on one core; make bench SAMPLES=10000000 is shorter
	$(GO) test ./meters/fnirsi ./internal/imports -run '^$$' -bench 'DecodeReport|ImportCSV' -cpu 1
	$(GO) test ./internal/imports -run '^$$' -bench ImportPPK2 -cpu 1 -args -ppk2-bytes=$${PPK2_BYTES:-200000000}
	$(GO) test ./bench/speed -run '^$$' -bench . -benchtime 1x -cpu 1 -timeout 30m -args -samples=$${SAMPLES:-100000000}

fuzz: ## each fuzz target for a while: make fuzz FUZZTIME=30s
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test $$p -list '^Fuzz' | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-10s} || exit 1; \
	  done; done

clean:
	rm -rf bin
