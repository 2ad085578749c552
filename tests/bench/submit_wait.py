# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submitting and waiting for many trivial jobs, against a bare shell loop, side by side on the sandbox over SSH.

Both sides do the same work over the same SSH: the loop calls sbatch once per job and then asks sacct until all have
ended; ours is a whole `ansible-playbook` with `slurm_job` and `slurm_job_wait`. The last line is one JSON object with
`ratio_100` and `ratio_1000` (ours divided by the loop) and the queries per look. Needs the sandbox to be up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = Path("/opt/dgxc-sandbox")
SHARED = PREFIX / "shared" / "demo-user"

PLAY = """
- name: Submit and wait
  hosts: slurm_login
  gather_facts: false
  vars:
  tasks:
    - name: Submit
      dgxc.workloads.slurm_job:
        jobs: "{{ jobs }}"
        environment_modules: "{{ dgxc_environment_modules }}"
      register: submitted
    - name: Wait
      dgxc.workloads.slurm_job_wait:
        run_dirs: "{{ submitted.jobs | map(attribute='run_dir') }}"
        environment_modules: "{{ dgxc_environment_modules }}"
      register: waited
    - name: Tell
      ansible.builtin.debug:
        msg: "LOOKS {{ waited.looks }} GOOD {{ good | length }}"
      vars:
        good: "{{ waited.jobs | selectattr('verdict', 'equalto', 'succeeded') }}"
"""

LOOP = r"""
set -eu
. /etc/profile.d/modules.sh
export MODULEPATH={modules}
module load slurm
mkdir -p {base} && cd {base}
printf '#!/bin/sh\nexit 0\n' > job.sh
ids=
for i in $(seq {count}); do
    id=$(sbatch --parsable --ntasks=1 --mem=1 --output=/dev/null job.sh)
    ids=$ids,$id
done
while :; do
    ended=$(sacct -X -n -P -o State -j "${{ids#,}}" | grep -c -E 'COMPLETED|FAILED' || true)
    [ "$ended" -ge {count} ] && break
    sleep 1
done
"""


def ssh() -> list[str]:
    """The command that reaches the sandbox's login node."""
    keys = PREFIX / "etc" / "ssh"
    return [
        "ssh", "-F", "/dev/null", "-o", f"UserKnownHostsFile={keys}/known_hosts", "-o", "StrictHostKeyChecking=yes",
        "-o", "IdentitiesOnly=yes", "-i", f"{keys}/client_ed25519", "-p", "17022", "demo-user@127.0.0.1",
    ]  # fmt: skip


def shell_loop(count: int, base: Path) -> float:
    """Seconds of the bare loop for `count` jobs."""
    script = LOOP.format(base=base, count=count, modules=PREFIX / "modulefiles")
    started = time.monotonic()
    subprocess.run([*ssh(), "bash -s"], input=script, text=True, check=True)
    return time.monotonic() - started


def playbook(count: int, base: Path, work: Path) -> tuple[float, int]:
    """Seconds of the playbook for `count` jobs, and its number of looks."""
    jobs = [
        {
            "run_dir": f"{base}/r{number}",
            "name": f"r{number}",
            "script": "job.sh",
            "files": {"job.sh": "#!/bin/sh\nexit 0\n"},
            "options": {"ntasks": 1, "mem": 1, "output": "/dev/null"},
        }
        for number in range(count)
    ]
    play, variables = work / "play.yml", work / "jobs.json"
    play.write_text(PLAY)
    variables.write_text(json.dumps({"jobs": jobs, "count": count, "base": str(base)}))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "inventories/sandbox", str(play)]
    started = time.monotonic()
    done = subprocess.run([*command, "-e", f"@{variables}"], cwd=CHECKOUT, text=True, capture_output=True, check=False)
    seconds = time.monotonic() - started
    told = [line for line in done.stdout.splitlines() if "LOOKS" in line]
    if done.returncode or not told or f"GOOD {count}" not in told[0]:
        sys.exit(f"the playbook did not succeed:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}")
    return seconds, int(told[0].split("LOOKS")[1].split()[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="100,1000", help="numbers of jobs (default: %(default)s)")
    options = parser.parse_args()
    result: dict[str, float] = {}
    name = f"bench-{os.getpid()}"
    with tempfile.TemporaryDirectory() as work:
        for count in (int(text) for text in options.counts.split(",")):
            base = SHARED / name / str(count)
            loop = shell_loop(count, base / "loop")
            ours, looks = playbook(count, base / "ours", Path(work))
            print(f"{count} jobs: shell loop {loop:.1f} s, playbook {ours:.1f} s with {looks} looks")
            result[f"loop_{count}"] = round(loop, 2)
            result[f"playbook_{count}"] = round(ours, 2)
            result[f"ratio_{count}"] = round(ours / loop, 3)
            result[f"looks_{count}"] = looks
    # A look is one squeue and one sacct, whatever the number of jobs; the module counts its own calls.
    result["queries_per_look"] = queries_per_look(SHARED / name)
    shutil.rmtree(SHARED / name, ignore_errors=True)
    print(json.dumps(result))


def queries_per_look(base: Path) -> int:
    """How often squeue and sacct are called for one look at all jobs of the benchmark."""
    folders = [str(path) for path in sorted(base.glob("*/ours/r*"))][:200]
    arguments = json.dumps({"run_dirs": folders, "environment_modules": ["slurm"]})
    ansible = str(Path(sys.executable).parent / "ansible")
    command = [
        ansible,
        "-i",
        "inventories/sandbox",
        "slurm_login",
        "-m",
        "dgxc.workloads.slurm_job_info",
        "-a",
        arguments,
    ]
    done = subprocess.run([*command, "-o"], cwd=CHECKOUT, text=True, capture_output=True, check=True)
    return int(json.loads(done.stdout.split("=>", 1)[1])["queries"])


if __name__ == "__main__":
    main()
