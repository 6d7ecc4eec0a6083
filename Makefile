# The commands of every day; each can be run again at once. CONTRIBUTING.md says what to use for one layer or one test.

RUN_OPTIONS ?= --data sample --preset tiny --dp 1 --tp 2 --out runs/sample --overwrite

.PHONY: run build examples test check-deep clean
.NOTPARALLEL:

run: build
	build/release/adjoin train $(RUN_OPTIONS)

build:
	tools/setup
	tools/build release adjoin_program

examples:
	tools/setup
	tools/build release examples

test:
	tools/setup
	tools/build release all
	ctest --preset release

check-deep:
	tools/setup --checks
	tools/check_deep

clean:
	rm -rf build
