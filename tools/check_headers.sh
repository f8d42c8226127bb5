#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Check that every header compiles alone, so that the order of includes never matters.
#
#     tools/check_headers.sh [BUILD_DIR]
#
# Generated headers are not checked themselves, but may be included: their folders in BUILD_DIR
# (default: build) are searched. Public headers (include/) must be plain C99.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
cc=${CC:-gcc}
count=0
wrong=0

includes=(-Isrc -Iinclude)
if [ -d "$build" ]; then
	while IFS= read -r dir; do
		includes+=("-I$dir")
	done < <(find "$build" -name '*.h' -not -path '*/meson-private/*' -printf '%h\n' | sort -u)
fi

# compile HEADER FLAG...: does a file that includes nothing but HEADER compile?
compile() {
	local header=$1
	shift
	count=$((count + 1))
	if ! printf '#include "%s"\n' "$header" |
		"$cc" -fsyntax-only -Wall -Wextra -Werror -D_GNU_SOURCE '-DBRIG_VERSION="0"' \
			"${includes[@]}" "$@" -x c -; then
		echo "$header: does not compile alone ($*)"
		wrong=$((wrong + 1))
	fi
}

while IFS= read -r header; do
	compile "${header#src/}" -std=gnu17
done < <(find src -name '*.h' | sort)
while IFS= read -r header; do
	compile "${header#include/}" -std=c99 -pedantic
done < <(find include -name '*.h' 2>/dev/null | sort)

echo "headers: $count compiled alone, $wrong failed"
[ "$wrong" -eq 0 ] && [ "$count" -gt 0 ]
