# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the unit tests of a checkout import the collection by its full name.

Below an installed collection ansible-test has done so already, and there is no folder collections/.
"""

from __future__ import annotations

import sys
from pathlib import Path

_COLLECTIONS = Path(__file__).resolve().parents[2] / "collections"

if _COLLECTIONS.is_dir() and str(_COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(_COLLECTIONS))
