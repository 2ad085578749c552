#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Checks the documentation of plugins and roles with antsibull-docs, on the tree of links below collections/.
set -euo pipefail

cd "$(dirname "$0")/../.."
ANSIBLE_COLLECTIONS_PATH=$PWD/collections:$PWD/.cache/collections exec antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
