#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: bench.sh SCRIPT...
# Runs each benchmark, keeps its whole output in .cache/bench/, and shows its last line, which is its result.
set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
mkdir -p .cache/bench
passed=0
failed=0

for script in "$@"; do
    log=.cache/bench/$(basename "$script" .py).log
    if python "$script" >"$log" 2>&1; then
        passed=$((passed + 1))
        printf '%s: %s\n' "$script" "$(tail -n 1 "$log")"
    else
        failed=$((failed + 1))
        printf '%s FAILED, whole output in %s:\n' "$script" "$log"
        tail -n 20 "$log"
    fi
done

printf 'benchmarks: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
