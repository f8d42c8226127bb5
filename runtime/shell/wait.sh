# SPDX-License-Identifier: Apache-2.0
# Waits in a finished box for one program: bash reads this file (BASH_ENV) before its script, and
# goes on to the script when it ends. What it does to the shell is undone: builtins only, and no
# variable, function or descriptor is left. 5 is a stream socket: one frame to brig, a length of 4
# bytes and {"ready":true}; then from brig shell source, ended by NUL (src/route/shell.c).
unset BASH_ENV
# What scripts do, done once: the pages that they need are there then.
eval 'REPLY() { local REPLY=${1##*/} IFS=:; [[ $REPLY == b* ]] && printf "" "$((${#REPLY} + 1))"; }'
for REPLY in "$BASH"; do REPLY "$REPLY" && type -P true >/dev/null; done
unset -f REPLY
. /dev/null
printf '\016\0\0\0{"ready":true}' >&5
IFS= read -r -d '' -u 5 REPLY || exit 125
exec 5<&-
eval "unset REPLY;SECONDS=0;$REPLY"
: bash # a new shell's $_
