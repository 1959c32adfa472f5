# Targets of ggufkit. `make test` needs Go alone and no network once the modules are there;
# `make oracle` and `make e2e` need data from elsewhere and fail, never skip, without it.

GO          ?= go
PYTHON      ?= python3
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PLATFORMS   := linux/amd64 linux/arm64 windows/amd64 darwin/arm64

# Reference data of the established programs (make oracle), and the folder of real models (make models, make e2e).
ORACLE         ?= ../shared/oracle
GGUFKIT_MODELS ?= models

export CGO_ENABLED := 0
export GOFLAGS     := -mod=readonly $(GOFLAGS)

.PHONY: build demo test race noasm oracle models e2e bench-models bench-peers check lint cross asm clean

build: ## the program, as bin/ggufkit
	$(GO) build -trimpath -o bin/ggufkit ./cmd/ggufkit

demo: build ## the whole job on the demo checkpoint, under a minute
	sh testdata/gen/demo.sh

test: ## everything that needs no data from elsewhere
	$(GO) test -timeout 30m ./...

race: ## the race detector, where goroutines share memory; needs a C compiler
	CGO_ENABLED=1 $(GO) test -race ./internal/par
	CGO_ENABLED=1 $(GO) test -race -run 'Mul|Attention' ./internal/kernel
	CGO_ENABLED=1 $(GO) test -race -run 'FastSplits|Sequences|Chunks|Generate' ./infer

noasm: ## the portable twins of the assembly, by themselves
	$(GO) test -tags noasm ./internal/kernel ./quantize/... ./infer

oracle: ## against the reference data in $(ORACLE)
	@test -d '$(ORACLE)' || { echo "ORACLE: there is no folder $(ORACLE); set ORACLE to the reference data" >&2; exit 1; }
	ORACLE='$(abspath $(ORACLE))' $(GO) test -tags oracle -timeout 30m ./...

models: ## fetch the real models into $(GGUFKIT_MODELS)
	$(PYTHON) testdata/gen/models.py '$(GGUFKIT_MODELS)'

e2e: ## with real models; needs `make models` first, and root for the test with a full disk
	@test -d '$(GGUFKIT_MODELS)' || { echo "GGUFKIT_MODELS: there is no folder $(GGUFKIT_MODELS); run 'make models'" >&2; exit 1; }
	GGUFKIT_MODELS='$(abspath $(GGUFKIT_MODELS))' ORACLE='$(abspath $(ORACLE))' $(GO) test -timeout 30m -tags e2e ./...

RAND1B := $(GGUFKIT_MODELS)/rand1b

bench-models: build $(RAND1B)-Q4_K_M.gguf $(RAND1B)-Q8_0.gguf $(RAND1B)-Q4_0.gguf ## random models of a thousand million weights, to measure speed with (5 GB)

$(RAND1B)/model.safetensors: testdata/gen/random_llama.go
	$(GO) run testdata/gen/random_llama.go '$(RAND1B)'

$(RAND1B)-%.gguf: $(RAND1B)/model.safetensors
	bin/ggufkit convert '$(RAND1B)' -o '$@' --type $*

# Peers to measure beside: paths of llama-bench, built for the same instruction set, and of llama-perplexity; any may be left out.
LLAMA   ?=
IK      ?=
PERPLEXITY ?=
THREADS ?= 1,2
MODELS  ?= $(RAND1B)-Q4_K_M.gguf $(RAND1B)-Q8_0.gguf $(RAND1B)-Q4_0.gguf \
	$(GGUFKIT_MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf $(GGUFKIT_MODELS)/gemma-3-270m-q4_k_m.gguf

bench-peers: build ## measure beside other programs: make bench-peers LLAMA=path/to/llama-bench IK=path/to/llama-bench PERPLEXITY=path/to/llama-perplexity
	$(GO) run ./internal/benchpeers -llama '$(LLAMA)' -ik '$(IK)' -perplexity '$(PERPLEXITY)' -threads '$(THREADS)' $(MODELS)

check: lint cross ## format, vet, rules, every platform, the module files
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:" $$unformatted >&2; exit 1; }
	$(GO) vet ./... && $(GO) vet -tags 'oracle e2e' ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod verify
	$(GO) mod tidy -diff

lint: ## the rules of internal/lint
	$(GO) test -count=1 ./internal/lint

cross: ## builds and vets for every platform
	@for p in $(PLATFORMS); do echo "vet $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./... || exit 1; done

asm: ## write the assembly of internal/kernel anew; nothing may change
	rm -f internal/kernel/*_amd64.s internal/kernel/stubs_amd64.go
	cd internal/kernel/_asm && $(GO) vet . && $(GO) run .

clean:
	rm -rf bin
