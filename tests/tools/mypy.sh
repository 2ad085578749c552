#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# mypy reads the plugins under the name they are imported by, which they have only below collections/.
set -euo pipefail

cd "$(dirname "$0")/../.."
collection=collections/ansible_collections/dgxc/workloads

mapfile -t files < <(find "$collection"/plugins/{module_utils,plugin_utils,filter,action,modules} -name '*.py' 2>/dev/null | sort)
if ((${#files[@]} == 0)); then
    echo "mypy: there are no plugins"
    exit 0
fi
MYPYPATH=collections exec mypy "${files[@]}"
