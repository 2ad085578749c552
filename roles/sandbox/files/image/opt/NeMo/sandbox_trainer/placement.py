# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank this process is, among how many, and where they meet: what Slurm's variables say."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from .config import Settings

# Meeting ports lie under the range that Linux gives to outgoing connections (32768 and up).
FIRST_PORT, PORTS = 20000, 12000


@dataclass(frozen=True)
class Placement:
    """A rank's place: its number in all and on its node, and the address where rank 0 listens.

    :param addresses: names or addresses to try, in turn
    :param token: what tells the ranks of this job step from others
    """

    rank: int
    world_size: int
    local_rank: int
    node_rank: int
    addresses: tuple[str, ...]
    port: int
    token: str


def first_host(nodes: str) -> str:
    """The first host of a Slurm node list such as ``gpu[003-004,007],cpu1``; empty for an empty list."""
    match = re.match(r"([^\[,]*)(?:\[(\w+)[^\]]*\])?([^,\[]*)", nodes.strip())
    return "".join(part or "" for part in match.groups()) if match else ""


def port_for(job_id: int, step_id: int) -> int:
    """A port that two steps running at the same time do not share, be they of one job or of jobs with close numbers."""
    return FIRST_PORT + (job_id * 8 + step_id) % PORTS


def placement(environment: Mapping[str, str], settings: Settings) -> Placement:
    """This rank's place, checked against the configuration. Outside of Slurm there is one rank.

    :raises ValueError: when Slurm started other numbers of nodes or tasks than the configuration asks for
    """

    def number(name: str, default: int) -> int:
        text = environment.get(name, "")
        return int(text) if text.isdigit() else default

    tasks, per_node, nodes = number("SLURM_NTASKS", 1), number("SLURM_NTASKS_PER_NODE", 0), number("SLURM_NNODES", 0)
    if per_node and per_node != settings.devices:
        raise ValueError(
            f"You set `devices={settings.devices}` in Lightning, but the number of tasks per node configured in SLURM "
            f"`--ntasks-per-node={per_node}` does not match. HINT: Set `devices={per_node}`."
        )
    if nodes and nodes != settings.num_nodes:
        raise ValueError(
            f"You set `num_nodes={settings.num_nodes}` in Lightning, but the number of nodes configured in SLURM "
            f"`--nodes={nodes}` does not match. HINT: Set `num_nodes={nodes}`."
        )
    if tasks != settings.world_size:
        raise ValueError(
            f"You set `num_nodes={settings.num_nodes}` and `devices={settings.devices}`, which makes "
            f"{settings.world_size} processes, but SLURM started {tasks} (`--ntasks={tasks}`)."
        )
    master = environment.get("MASTER_ADDR", "")
    hosts = next(
        (environment[name] for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
         if environment.get(name)),
        "",
    )  # fmt: skip
    known = [master] if master else [environment.get("SLURM_LAUNCH_NODE_IPADDR", ""), first_host(hosts)]
    job, step = number("SLURM_JOB_ID", 0), number("SLURM_STEP_ID", 0)
    return Placement(
        rank=number("SLURM_PROCID", 0),
        world_size=tasks,
        local_rank=number("SLURM_LOCALID", 0),
        node_rank=number("SLURM_NODEID", 0),
        addresses=tuple(dict.fromkeys(address for address in known if address)) or (socket.gethostname(),),
        port=number("MASTER_PORT", port_for(job, step)),
        token=f"{job}.{step}",
    )
