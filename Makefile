# A thin front: CMakePresets.json holds the builds, tools/ the scripts.
#
#     make            set up, build build/linnet and, where nvcc is found, the GPU plug-in
#     make run        set up, build the tool, let the model in models/ write a page and ten thousand tokens more,
#                     and show what a token costs it, and attention alone, as a text grows
#     make test       set up, build with gcc, run every test, install and lint (STAGES="gcc lint" for some of it)
#     make check      set up, then what takes longer: clang, sanitizers, valgrind, fuzzing, the other architecture
#     make fuzz       SECONDS=60: changed files for all that reads files, in place of the minute of make check
#     make bench      verify and time the suite on this machine
#     make install    PREFIX=/usr/local, DESTDIR= as usual
#     make clean
PREFIX ?= /usr/local
STAGES ?=
SECONDS ?= 60

all: configure
	@cmake --build --preset release

configure:
	@tools/setup.sh build
	@cmake --preset release --log-level=WARNING > /dev/null

run: configure
	@cmake --build --preset release --target linnet_tool
	@tools/run.sh

test check:
	@tools/setup.sh test
	@tools/test.sh $(or $(STAGES),$@)

fuzz:
	@tools/setup.sh test
	@tools/fuzz.sh $(SECONDS)

bench: all
	@build/linnet bench

install: all
	cmake --install build --prefix "$(PREFIX)"

clean:
	rm -rf build

help:
	@sed -n '3,/^[^#]/s/^#   //p' Makefile

.PHONY: all configure run test check fuzz bench install clean help
