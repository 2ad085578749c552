#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: collections.sh PYTHON
# Provides the collections that this one needs (collections/requirements.yml) below .cache/collections, once, from the
# package index alone: the package `ansible` carries them. PYTHON names an interpreter with pip. People who reach Ansible
# Galaxy run `ansible-galaxy collection install -r collections/requirements.yml` instead.
set -euo pipefail

readonly package=ansible==12.3.0
readonly collections=(community/docker community/library_inventory_filtering_v1)

python=${1:?usage: collections.sh PYTHON}
cd "$(dirname "$0")/../.."
target=.cache/collections
stamp="$package ${collections[*]}"

if [[ -f "$target/.stamp" && "$(cat "$target/.stamp")" == "$stamp" ]]; then
    exit 0
fi

echo "Taking ${collections[*]} out of $package ..."
mkdir -p .cache
new=$(mktemp -d .cache/collections.XXXXXX)
trap 'rm -rf "$new"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$new" "$package" || {
    echo "ERROR: $package cannot be downloaded: the package index must be reachable." >&2
    exit 1
}
"$python" - "$new" "${collections[@]}" <<'PROGRAM'
import pathlib, sys, zipfile

folder, *names = sys.argv[1:]
(wheel,) = pathlib.Path(folder).glob("ansible-*.whl")
with zipfile.ZipFile(wheel) as archive:
    wanted = tuple(f"ansible_collections/{name}/" for name in names)
    archive.extractall(folder, [name for name in archive.namelist() if name.startswith(wanted)])
wheel.unlink()
PROGRAM
printf '%s\n' "$stamp" >"$new/.stamp"
rm -rf "$target"
mv "$new" "$target"
chmod 755 "$target"
