#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: stages.sh STAGE...
# Runs the Makefile's targets one after another, says how long each took, and goes on after a failure, so that one run
# shows all that is wrong. The last line counts the stages; the exit code is 1 when one failed.
set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
make=${MAKE:-make}
passed=0
failed=0
summary=''

for stage in "$@"; do
    printf '\n======== %s ========\n' "$stage"
    began=$SECONDS
    if $make --no-print-directory "$stage"; then
        outcome=passed
        passed=$((passed + 1))
    else
        outcome=FAILED
        failed=$((failed + 1))
    fi
    took=$((SECONDS - began))
    printf -- '-------- %s: %s in %d s\n' "$stage" "$outcome" "$took"
    summary+=$(printf '%-20s %-8s %5d s' "$stage" "$outcome" "$took")$'\n'
done

printf '\n======== summary, %d s ========\n%s' "$SECONDS" "$summary"
printf 'stages: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
