#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: docs.sh [FOLDER]
# Checks the documentation of plugins and roles with antsibull-docs, on the tree of links below collections/. With a
# folder, writes the reference of each plugin and role there instead, as HTML.
set -euo pipefail

cd "$(dirname "$0")/../.."
export ANSIBLE_COLLECTIONS_PATH=$PWD/collections:$PWD/.cache/collections
folder=${1:-}

if [[ -z "$folder" ]]; then
    exec antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
fi

source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
antsibull-docs collection --use-current --squash-hierarchy --fail-on-error --dest-dir "$source" dgxc.workloads
rm -rf "$folder"
# Labels of Ansible's own documentation, which is not built here, are no mistakes; ours were checked above.
sphinx-build -q -W -C -D extensions=sphinx_antsibull_ext -D html_theme=alabaster -D project=dgxc.workloads \
    -D suppress_warnings=ref.ref "$source" "$folder"
echo "The reference is in $folder/index.html"
