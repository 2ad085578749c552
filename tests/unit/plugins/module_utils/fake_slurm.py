# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Slurm made of a dictionary, with the faults of a real one, for tests of the submission protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.dgxc.workloads.plugins.module_utils._process import Finished
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import Look
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_parse import AccountingRow, QueueRow
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import ANSWERED, NO_ANSWER

FAILED = "sbatch: error: Batch job submission failed: "


class Killed(BaseException):
    """The process dies here."""


@dataclass
class Job:
    job_id: str
    folder: str
    submitted: float
    visible: float
    state: str = "RUNNING"
    ended: float | None = None


@dataclass
class World:
    """The time, the jobs, and what goes wrong next. Each list of faults is used up from the front."""

    now: float = 10_000.0
    jobs: list[Job] = field(default_factory=list)
    submissions: list[str] = field(default_factory=list)
    sbatch_faults: list[str] = field(default_factory=list)
    look_faults: list[str] = field(default_factory=list)
    delay: float = 0.0
    nodes: list[str] = field(default_factory=lambda: ["n1"])
    unusable: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    dependencies: dict[str, str | None] = field(default_factory=dict)
    calls: int = 0
    queries: int = 0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def create(self, folder: str) -> Job:
        job = Job(str(len(self.jobs) + 1), folder, self.now, self.now + self.delay)
        self.jobs.append(job)
        return job

    def finish(self, state: str = "COMPLETED", only: str = "") -> None:
        self.now += 10
        for job in self.jobs:
            if job.ended is None and job.job_id == (only or job.job_id):
                job.state, job.ended = state, self.now

    # --- what the client offers ---

    def submit(self, script, options, environment, test_only=False):
        if test_only:
            return Finished(0, "", "sbatch: Job 1 to start at ...")
        self.calls += 1
        self.options = dict(options)
        fault = self.sbatch_faults.pop(0) if self.sbatch_faults else "ok"
        folder = options["chdir"]
        if fault == "killed before":
            raise Killed
        if fault in ("ok", "answer lost", "killed after", "banner only"):
            job = self.create(folder)
            self.submissions.append(folder)
            self.dependencies[job.job_id] = options.get("dependency")
        if fault == "killed after":
            raise Killed
        if fault == "ok":
            return Finished(0, job.job_id + "\n", "")
        if fault == "banner only":
            return Finished(0, "Welcome to cluster 7, user 12\n", "")
        self.now += 10
        texts = {
            "answer lost": "Socket timed out on send/recv operation",
            "not sent": "Socket timed out on send/recv operation",
            "no controller": "Unable to contact slurm controller (connect failure)",
            "refused": "Invalid partition name specified",
            "strange": "The flux compensator is out of phase",
        }
        return Finished(1, "", FAILED + texts[fault])

    def look_for(self, wanted, now):
        since = [want.since for want in wanted if want.job_id is None]
        return self.look([want.job_id for want in wanted if want.job_id], min(since) if since else None)

    def look(self, job_ids, since):
        fault = self.look_faults.pop(0) if self.look_faults else "ok"
        look = Look(ANSWERED, ANSWERED)
        self.queries += 2
        if fault in ("queue down", "both down"):
            look.queue_answer = NO_ANSWER
        if fault in ("accounting down", "both down"):
            look.accounting_answer = NO_ANSWER
        if NO_ANSWER in (look.queue_answer, look.accounting_answer):
            look.errors.append("out of order: " + fault)
        for job in self.jobs:
            if job.visible > self.now or (since is None and job.job_id not in job_ids):
                continue
            submit = int(job.submitted)
            if look.queue_answer == ANSWERED and job.ended is None:
                look.queue.append(QueueRow(job.job_id, job.state, submit, submit, [], "None", job.folder))
            if look.accounting_answer == ANSWERED:
                end = None if job.ended is None else int(job.ended)
                look.accounting.append(
                    AccountingRow(
                        job.job_id, job.state, None, 0, 0, 0, 0, submit, submit, end, 5, self.nodes, job.folder, "n"
                    )
                )  # fmt: skip
        return look

    def unusable_nodes(self, nodes):
        return [node for node in nodes if node in self.unusable]

    def cancel(self, job_ids, cluster=None):
        for job in self.jobs:
            if job.job_id in list(job_ids) and job.ended is None:
                job.state, job.ended = "CANCELLED", self.now
        return Finished(0, "", "")

    @property
    def living(self) -> list[Job]:
        return [job for job in self.jobs if job.ended is None]
