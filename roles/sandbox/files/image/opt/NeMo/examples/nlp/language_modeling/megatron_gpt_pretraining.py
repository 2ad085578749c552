# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPT pre-training at the path where NVIDIA's container has it: small, honest and without a GPU.

The launcher's script runs this once for each rank, as ``python3 -u .../megatron_gpt_pretraining.py
--config-path=DIR --config-name=FILE [key=value ...]``. What it does is described in ``sandbox_trainer``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Many ranks share few cores here. NumPy's thread pools would only get into each other's way; they are sized when NumPy
# is imported, so this comes first.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

# Found only by the path of the line above.
from sandbox_trainer.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
