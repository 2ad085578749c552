# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small launcher: renders and submits the training stage of a Hydra configuration.

``python3 launcher_scripts/main.py [--config-dir DIR --config-name NAME] [overrides ...]``

It is called, answers and fails as NVIDIA's NeMo launcher does for training; README.md lists the differences.
"""

from __future__ import annotations

import math
import sys

import hydra
from nemo_launcher.training import TrainingStage
from omegaconf import DictConfig, OmegaConf

# The arithmetic that the configuration files may use.
OmegaConf.register_new_resolver("multiply", lambda x, y: x * y, replace=True)
OmegaConf.register_new_resolver("divide_ceil", lambda x, y: math.ceil(x / y), replace=True)
OmegaConf.register_new_resolver("divide_floor", lambda x, y: math.floor(x / y), replace=True)


@hydra.main(config_path="conf", config_name="config", version_base="1.2")
def main(cfg: DictConfig) -> None:
    """Run each stage of ``cfg.stages`` and leave the command line beside what it wrote.

    :raises NotImplementedError: for any stage but ``training``
    """
    for name in cfg.stages:
        if name != "training":
            raise NotImplementedError(
                f"stages: this small launcher has no stage {name!r}; set stages=[training] or use the real launcher"
            )
        stage = TrainingStage(cfg)
        stage.run()
        (stage.folder / "launcher_cmd.log").write_text(" \\\n  ".join(sys.argv), encoding="utf-8")


if __name__ == "__main__":
    main()
