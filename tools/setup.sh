#!/usr/bin/env bash
# Installs the Debian packages that are missing, and says nothing when none is.
#
#     tools/setup.sh build    what `make` needs
#     tools/setup.sh test     what `make test` needs
set -eu

fail() { echo "setup: $*" >&2; exit 1; }

# gnuplot draws the pictures; without it the tool says so and prints its tables all the same.  zlib reads .gz;
# PCRE2 and utf8proc read the tokenizers of models that others trained, libpng and libjpeg-turbo their images.
build_packages=(gcc libc6-dev zlib1g-dev libpcre2-dev libutf8proc-dev libpng-dev libjpeg62-turbo-dev make cmake ninja-build gnuplot-nox)
test_packages=(g++ clang libclang-rt-dev libomp-dev llvm libcmocka-dev pkg-config valgrind
               python3 qemu-user)
case $(uname -m) in
x86_64) test_packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross) ;;
aarch64) test_packages+=(gcc-x86-64-linux-gnu libc6-dev-amd64-cross) ;;
esac

case ${1-} in
build) packages=("${build_packages[@]}") commands=(gcc cmake ninja) ;;
test)
    packages=("${build_packages[@]}" "${test_packages[@]}")
    commands=(gcc g++ clang cmake ninja pkg-config valgrind python3)
    ;;
*) fail "'${1-}' is not a set of packages; use build or test" ;;
esac

# Elsewhere than on Debian the programs may have come another way.
if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
    for command in "${commands[@]}"; do
        command -v "$command" > /dev/null ||
            fail "'$command' is missing and there is no apt-get to install it with; install: ${packages[*]}"
    done
    exit 0
fi

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2> /dev/null || true)
missing=()
for package in "${packages[@]}"; do
    grep -qx "$package installed" <<< "$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
        fail "not root and no sudo here; as root run: apt-get install ${missing[*]}"
    as_root=(sudo)
fi

echo "setup: installing ${missing[*]}" >&2
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >&2
}
apt update || echo "setup: 'apt-get update' failed; trying with the package lists at hand" >&2
apt install -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install: ${missing[*]}"
