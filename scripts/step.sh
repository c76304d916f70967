#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: step.sh "what this does" command [argument...]
# Says what is being done, does it, and says how long it took; keeps the command's exit code.
title=$1
shift
printf '==> %s\n' "$title"
began=$(date +%s)
"$@"
code=$?
took=$(($(date +%s) - began))
if [ "$code" -eq 0 ]; then
    printf '    done in %d s: %s\n' "$took" "$title"
else
    printf '    FAILED after %d s: %s\n' "$took" "$title" >&2
fi
exit "$code"
