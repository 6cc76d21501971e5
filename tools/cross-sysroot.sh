#!/usr/bin/env bash
# Unpacks cmocka, zlib, PCRE2 and utf8proc for another architecture into a folder, for cross-compiled tests.
#
#     tools/cross-sysroot.sh x86_64|aarch64 FOLDER
#
# apt works on a state of its own under FOLDER: the system learns of no foreign architecture and no
# package is installed.  When FOLDER is complete there is nothing to do.
set -eu

fail() { echo "cross-sysroot: $*" >&2; exit 1; }

case ${1-} in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "'${1-}' is not an architecture; use x86_64 or aarch64" ;;
esac
[ -n "${2-}" ] || fail "no folder given; it is the second argument"
[ -e "$2/complete" ] && [ -L "$2/lib" ] && [ -e "$2/usr/include/utf8proc.h" ] && exit 0

rm -rf "$2"
mkdir -p "$2/apt/lists/partial" "$2/apt/archives/partial"
folder=$(cd "$2" && pwd)
touch "$folder/apt/status"

apt=(-qq -o "APT::Architecture=$arch" -o "APT::Architectures=$arch"
     -o "APT::Sandbox::User=$(id -un)" -o "APT::Update::Post-Invoke-Success="
     -o "Dir::State=$folder/apt" -o "Dir::State::status=$folder/apt/status"
     -o "Dir::Cache=$folder/apt")

apt-get "${apt[@]}" update >&2 || fail "apt-get could not fetch the package lists of $arch"
# The package of a library is named after its ABI, so ask for the name.
library_of() { # package with the headers, expression for the library's
    local name
    name=$(apt-cache "${apt[@]}" depends "$1" | awk -v like="$2" '$1 == "Depends:" && $2 ~ like { print $2 }')
    [ -n "$name" ] || fail "no $1 for $arch found; can the package sources of this machine be reached?"
    echo "$name"
}
library=$(library_of libcmocka-dev libcmocka) pcre2=$(library_of libpcre2-dev '^libpcre2-8')
utf8proc=$(library_of libutf8proc-dev libutf8proc)
packages=(libcmocka-dev "$library" zlib1g-dev zlib1g libpcre2-dev "$pcre2" libutf8proc-dev "$utf8proc")
(cd "$folder/apt/archives" && apt-get "${apt[@]}" download "${packages[@]}" >&2) ||
    fail "apt-get could not download ${packages[*]} for $arch"
for package in "$folder"/apt/archives/*.deb; do
    dpkg -x "$package" "$folder"
done
# Debian 12 has some libraries in /lib, 13 has all in /usr/lib: there the linker's links and the loader's are one folder.
if [ -d "$folder/lib" ]; then
    cp -a "$folder/lib/." "$folder/usr/lib/"
    rm -rf "$folder/lib"
fi
ln -s usr/lib "$folder/lib"
# A header's folder of the architecture is not searched here, nor is a link read as of this folder.
find "$folder"/usr/include/*-linux-gnu -name '*.h' -exec mv -t "$folder/usr/include" {} + 2> /dev/null || true
find "$folder" -type l -lname '/*' -exec sh -c 'ln -sf "$0$(readlink "$1")" "$1"' "$folder" {} \;
rm -rf "$folder/apt"
touch "$folder/complete"
