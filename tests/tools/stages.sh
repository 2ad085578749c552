#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: [BESIDE='STAGE...'] stages.sh STAGE...
# Runs the Makefile's targets one after another, says how long each took, and goes on after a failure, so that one run
# shows all that is wrong. Those in BESIDE run with the lowest priority while the first of the others does, which mostly
# waits; their output follows at its end. The last line counts the stages; the exit code is 1 when one failed.
set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
make=${MAKE:-make}
read -r -a beside <<<"${BESIDE:-}"
passed=0
failed=0
summary=''
logs=$(mktemp -d)

# A killed run leaves nothing behind that still works.
trap 'trap - TERM; rm -rf "$logs"; kill 0 2>/dev/null' INT TERM
trap 'rm -rf "$logs"' EXIT

# Runs a stage and tells its outcome in a file: 'passed SECONDS' or 'FAILED SECONDS'.
run_stage() {
    local stage=$1 outcome=passed began=$SECONDS
    shift
    "$@" "$make" --no-print-directory "$stage" || outcome=FAILED
    printf '%s %d\n' "$outcome" "$((SECONDS - began))" >"$logs/$stage.outcome"
}

count_stage() {
    local stage=$1 outcome took
    read -r outcome took <"$logs/$stage.outcome" || { outcome=FAILED took=0; }
    if [[ "$outcome" == passed ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    printf -- '-------- %s: %s in %d s\n' "$stage" "$outcome" "$took"
    summary+=$(printf '%-20s %-8s %5d s' "$stage" "$outcome" "$took")$'\n'
}

background=''
if ((${#beside[@]})); then
    # What both sides need is made before they part.
    "$make" --no-print-directory venv-test || exit 1
    printf 'Beside the first stage run: %s\n' "${beside[*]}"
    for name in "${beside[@]}"; do
        run_stage "$name" nice -n 19 >"$logs/$name.log" 2>&1
        printf -- '-------- %s has ended\n' "$name"
    done &
    background=$!
fi

for stage in "$@"; do
    printf '\n======== %s ========\n' "$stage"
    run_stage "$stage"
    count_stage "$stage"
    [[ -n "$background" ]] || continue
    wait "$background"
    background=''
    for name in "${beside[@]}"; do
        printf '\n======== %s ========\n' "$name"
        cat "$logs/$name.log"
        count_stage "$name"
    done
done

printf '\n======== summary, %d s ========\n%s' "$SECONDS" "$summary"
printf 'stages: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
