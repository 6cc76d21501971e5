#!/usr/bin/env bash
# Prints a fenced block of README.md: the one that follows the comment <!-- NAME -->.
#
#     tools/readme-example.sh README.md NAME
set -eu

awk -v marker="<!-- $2 -->" '
    $0 == marker { armed = 1; next }
    armed && /^```/ { if (inside) exit; inside = 1; next }
    inside { print; lines++ }
    END { if (!lines) exit 1 }
' "$1" || { echo "readme-example: $1 has no block after <!-- $2 -->" >&2; exit 1; }
