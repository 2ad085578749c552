# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a reconciliation of many specs takes when there is nothing to do, on the sandbox.

Prints what it measures, and last one JSON object: `seconds` of the playbook, `remote_executions` (modules that ran on
the login node), `specs`. Every spec has one run that succeeded, but for one whose job waits or runs, so that Slurm has
to be asked. The sandbox has to be up.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = Path("/opt/dgxc-sandbox")
USER = "demo-user"
BIN = Path(sys.executable).parent
SPEC = """\
name: {name}
workload: nemo_gpt3
variables: {{nemo_gpt3_max_steps: 100000, nemo_gpt3_val_check_interval: 1000}}
"""


def play(folder: Path, root: Path, *arguments: str) -> tuple[float, str]:
    """Seconds and output of one reconciliation."""
    variables = {
        "dgxc_shared_root": str(root),
        "reconcile_specs": str(folder / "runs"),
    }
    command = [
        str(BIN / "ansible-playbook"), "playbooks/reconcile.yml", "-i", "examples/gitops/inventory",
        "-e", json.dumps(variables), *arguments,
    ]  # fmt: skip
    started = time.monotonic()
    done = subprocess.run(command, cwd=CHECKOUT, text=True, capture_output=True, check=False)
    seconds = time.monotonic() - started
    if done.returncode:
        sys.exit(f"the playbook did not succeed:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def multiply(root: Path, folder: Path) -> None:
    """Give every other spec a run on record that succeeded: copies of the first one's under their names and digests."""
    sys.path.insert(0, str(CHECKOUT / "collections"))
    from ansible_collections.dgxc.workloads.plugins.plugin_utils import _reconcile_collection, _reconcile_specs

    specs = _reconcile_specs.read_specs(str(folder / "runs"), _reconcile_collection.read_schema()).specs
    state = root / "reconcile" / "main"
    (model,) = state.glob("s0/plan-*.json")
    plan = json.loads(model.read_text())
    (run,) = (item["run_dir"] for item in plan["runs"])
    for spec in specs:
        if spec["name"] == "s0":
            continue
        copy = Path(run).with_name(f"{spec['name']}-n2-copy")
        shutil.copytree(run, copy, symlinks=True)
        (copy / "attempt-1" / "result.json").write_text('{"schema": 1, "verdict": "succeeded", "state": "COMPLETED"}')
        target = state / spec["name"]
        target.mkdir()
        runs = [{"name": copy.name, "run_dir": str(copy)}]
        content = {**plan, "name": spec["name"], "digest": spec["digest"], "runs": runs}
        (target / f"plan-{spec['digest'][:12]}-{plan['site'][:12]}.json").write_text(json.dumps(content))
    subprocess.run(["chown", "-R", f"{USER}:", str(root)], check=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specs", type=int, default=50, help="number of specs (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="reconciliations to measure (default: %(default)s)")
    options = parser.parse_args()
    root = PREFIX / "shared" / USER / f"bench-{os.getpid()}"
    root.mkdir()
    shutil.chown(root, USER, USER)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "runs").mkdir()
        try:
            (folder / "runs" / "s0.yml").write_text(SPEC.format(name="s0"))
            print(f"first reconciliation, one new spec: {play(folder, root)[0]:.1f} s")
            for number in range(1, options.specs):
                (folder / "runs" / f"s{number}.yml").write_text(SPEC.format(name=f"s{number}"))
            multiply(root, folder)
            took = []
            for _round in range(options.rounds):
                seconds, output = play(folder, root, "-vvv")
                if f"sandbox: {options.specs} left alone" not in re.sub(" at [0-9a-f]{12}", "", output):
                    sys.exit(f"there was something to do:\n{output[-4000:]}")
                took.append(seconds)
                print(f"{options.specs} specs, nothing to do: {seconds:.1f} s")
            # Each module that runs on a host is one such line, and nothing is run on the controller here.
            executions = sum(1 for line in output.splitlines() if "Using module file" in line)
            result = {
                "seconds": round(min(took), 2),
                "seconds_all": [round(value, 2) for value in took],
                "remote_executions": executions,
                "specs": options.specs,
            }
        finally:
            queue = subprocess.run(
                [str(PREFIX / "bin" / "squeue"), "-h", "-a", "-o", "%A|%Z"], text=True, capture_output=True, check=True
            )
            for line in queue.stdout.splitlines():
                job_id, _bar, place = line.partition("|")
                if place.startswith(f"{root}/"):
                    subprocess.run([str(PREFIX / "bin" / "scancel"), job_id], check=False)
            shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
