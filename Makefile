# Two commands do all the set-up: make demo (the main job) and make test.
# Neither needs root, a device or a C library.

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Pure Go: no C compiler is needed.
export CGO_ENABLED ?= 0
# libusb, another way to meters, is built in where pkg-config finds it; LIBUSB=
# leaves it out.
LIBUSB ?= $(shell pkg-config --exists libusb-1.0 2>/dev/null && command -v $${CC:-cc} >/dev/null && echo yes)

.PHONY: demo test test-usb build cross lint coverage bench fuzz clean

demo: ## a complete campaign on the virtual bench
	$(GO) run ./cmd/joulemark demo

test: ## all tests
	$(GO) vet ./...
	$(GO) test ./...
ifeq ($(LIBUSB),yes)
	CGO_ENABLED=1 $(GO) test -tags libusb ./meters/libusb
endif

test-usb: ## meters on the USB of a kernel in qemu: some minutes, needs qemu-system-x86 and cpio
	$(GO) test ./bench/usb -count=1 -v -timeout 20m -args -usb

build: ## the programs, as bin/joulemark and bin/joulemark-target
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/joulemark-target ./cmd/joulemark-target
ifeq ($(LIBUSB),yes)
	@echo "with libusb, which pkg-config found; make build LIBUSB= makes a static program without it"
	CGO_ENABLED=1 $(GO) build -trimpath -tags libusb -o bin/joulemark ./cmd/joulemark
else
	@echo "without libusb: pkg-config finds no libusb-1.0, or there is no C compiler; HID meters work on Linux all the same"
	$(GO) build -trimpath -o bin/joulemark ./cmd/joulemark
endif

cross: ## joulemark-target for other machines, as bin/joulemark-target-OS-ARCH; arm runs on every Raspberry Pi
	@for p in linux/arm linux/arm64 linux/amd64 linux/386 linux/riscv64 darwin/arm64 windows/amd64; do \
	  echo $$p; CGO_ENABLED=0 GOARM=6 GOOS=$${p%/*} GOARCH=$${p#*/} \
	  $(GO) build -trimpath -ldflags "-s -w" -o bin/joulemark-target-$${p%/*}-$${p#*/} ./cmd/joulemark-target || exit 1; done

lint: ## gofmt, go vet, staticcheck
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
ifeq ($(LIBUSB),yes)
	CGO_ENABLED=1 $(GO) vet -tags libusb ./meters/libusb ./internal/cli
	CGO_ENABLED=1 $(GO) run $(STATICCHECK) -tags libusb ./meters/libusb
endif

coverage: ## do the intervals hold the truth? 300 seeded campaigns a scenario
	$(GO) test ./bench/coverage -count=1 -timeout 40m -run 'TestCoverage|TestForeign' -v -args -campaigns=$${CAMPAIGNS:-300}

bench: ## speed and memory, as ratios within one run on one core; make bench SAMPLES=10000000 SECONDS_LIVE=5 is shorter
	$(GO) test ./meters/fnirsi ./internal/imports -run '^$$' -bench 'DecodeReport|ImportCSV' -cpu 1
	$(GO) test ./internal/imports -run '^$$' -bench ImportPPK2 -cpu 1,2 -args -ppk2-bytes=$${PPK2_BYTES:-200000000}
	$(GO) test ./meters/ppk2 ./bench/ppk2 ./meters/execmeter -run '^$$' -bench . -cpu 1
	$(GO) test ./bench/ppk2 ./meters/execmeter -count=1 -v -run 'RealTime|Fast' -args -seconds=$${SECONDS_LIVE:-60}
	$(GO) test ./bench/speed -run '^$$' -bench . -benchtime 1x -cpu 1 -timeout 30m -args -samples=$${SAMPLES:-100000000}

fuzz: ## each fuzz target for a while: make fuzz FUZZTIME=30s
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test $$p -list '^Fuzz' | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-10s} || exit 1; \
	  done; done

clean:
	rm -rf bin
