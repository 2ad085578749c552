# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables: every word, reason and answer that is named in Slurm's source has the meaning that the protocol needs."""

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _slurm_tables as tables

STATES = [
    ("CANCELLED by 1000", "CANCELLED"),
    ("CANCELLED by 0", "CANCELLED"),
    ("CANCELLED+", "CANCELLED"),
    ("OUT_OF_ME+", "OUT_OF_MEMORY"),
    ("completed", "COMPLETED"),
    ("CD", "COMPLETED"),
    ("OOM", "OUT_OF_MEMORY"),
    ("RE+", "RE"),  # cut so short that several states begin so
    ("EXPEDITING", "EXPEDITING"),
    ("FOO_BAR", "FOO_BAR"),
    ("?", "?"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "state"), STATES)
def test_a_state_is_read_without_its_additions(text, state):
    assert tables.normalise_state(text) == state


def test_only_completed_is_a_success():
    final = {word for word, rule in tables.STATES.items() if rule.finality in (tables.FINAL, tables.FINAL_ONCE_GONE)}
    assert {word for word in final if not tables.STATES[word].failure_class} == {"COMPLETED"}


@pytest.mark.parametrize("word", ["FOO_BAR", "?", "", "RE"])
def test_an_unknown_word_never_ends_a_wait(word):
    assert tables.state_rule(word).finality == tables.ACTIVE


@pytest.mark.parametrize("word", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED"])
def test_a_word_that_a_requeue_may_follow_is_final_only_once_the_job_is_gone(word):
    rule = tables.STATES[word]
    assert rule.finality == tables.FINAL_ONCE_GONE
    assert rule.retry_sensible


@pytest.mark.parametrize("word", ["TIMEOUT", "CANCELLED", "FAILED", "OUT_OF_MEMORY", "DEADLINE"])
def test_a_failure_that_would_happen_again_is_not_retried(word):
    assert not tables.STATES[word].retry_sensible


STUCK = [
    "PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "AssocMaxWallDurationPerJobLimit",
    "AssocMaxNodePerJobLimit", "AssocMaxCpuMinutesPerJobLimit", "AssocMaxGRESPerJob", "QOSMaxNodePerJobLimit",
    "QOSMaxWallDurationPerJobLimit", "QOSMaxCpuPerNode", "QOSMinGRES", "QOSMinCpuNotSatisfied", "MaxMemPerLimit",
    "BadConstraints", "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "DependencyNeverSatisfied",
    "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue", "ReservationDeleted", "ReservationInvalid", "DeadLine",
    "BurstBufferOperation", "launch failed requeued held", "(launch failed requeued held)", "launch_failed_requeued_held",
]  # fmt: skip
WAITING = [
    "None", "", "(null)", "Priority", "Resources", "(Resources)", "Dependency", "BeginTime", "Licenses", "Reservation",
    "Prolog", "Cleaning", "SchedDefer", "FedJobLock", "JobArrayTaskLimit", "QOSMaxJobsPerUserLimit",
    "AssocMaxJobsLimit", "MaxJobsPerAccount", "QOSMaxGRESPerUser", "QOSMaxNodePerUserLimit", "MaxGRESPerAccount",
    "QOSGrpCpuRunMinutesLimit", "AssocGrpGRES", "AssocGrpCpuLimit", "AssocGrpMemLimit", "AssocGrpNodeLimit",
    "AssocGrpJobsLimit", "QOSGrpGRES", "QOSGrpNodeLimit", "BurstBufferStageIn", "BurstBufferResources",
    "MaxPoweredUpNodes", "MpiPortsBusy", "NvidiaImexChannels", "ReqNodeNotAvail, May be reserved for other job",
    "ReqNodeNotAvail, Reserved for maintenance",
]  # fmt: skip
WAITING_WITH_DEADLINE = [
    "ReqNodeNotAvail, UnavailableNodes:gpu[1-4]", "ReqNodeNotAvail", "PartitionDown", "PartitionInactive", "NodeDown",
    "SystemFailure", "AssocGrpCPUMinutesLimit", "QOSGrpGRESMinutes", "AssocGrpWallLimit", "QOSGrpWallLimit",
    "QOSUsageThreshold", "Constraints", "SomethingNew",
]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "kind"),
    [(reason, tables.STUCK) for reason in STUCK]
    + [(reason, tables.WAITING) for reason in WAITING if not reason.endswith("maintenance")]
    + [(reason, tables.WAITING_WITH_DEADLINE) for reason in [*WAITING_WITH_DEADLINE, WAITING[-1]]],
)
def test_a_pending_reason_has_its_class_in_any_spelling(reason, kind):
    assert tables.reason_rule(reason).kind == kind


ANSWERS = [
    ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", "transient"),
    ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (send failure)", "ambiguous"),
    ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", "ambiguous"),
    ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", "ambiguous"),
    ("sbatch: error: Batch job submission failed: Slurm backup controller in standby mode", "transient"),
    ("sbatch: error: Batch job submission failed: Rate limit exceeded, please retry later", "transient"),
    ("sbatch: error: Batch job submission failed: Authentication credential expired", "transient"),
    ("sbatch: error: Batch job submission failed: Connection timed out establishing", "transient"),
    ("sbatch: error: Batch job submission failed: Connection timed out reading", "ambiguous"),
    ("sbatch: error: Batch job submission failed: Invalid partition name specified", "permanent"),
    ("sbatch: error: no gpus for you\nsbatch: error: Batch job submission failed: Unspecified error", "permanent"),
    ("sbatch: unrecognized option '--container-image=/x.sqsh'", "permanent"),
    ("sbatch: error: Batch script contains DOS line breaks (\\r\\n)", "permanent"),
    ("Batch job submission failed: Job violates accounting/QOS policy (job submit limit, ...)", "policy"),
    ("Batch job submission failed: Partition in DOWN state", "configuration"),
    ("Batch job submission failed: Etwas ganz anderes", "unrecognised"),
    ("", "unrecognised"),
]


@pytest.mark.parametrize(("text", "kind"), ANSWERS)
def test_an_answer_of_sbatch_has_its_class(text, kind):
    assert tables.submit_rule(text).kind == kind


POLICY = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, ...)"


@pytest.mark.parametrize(
    ("limit", "passes"),
    [
        ("AssocGrpSubmitJobsLimit", True),
        ("AssocMaxSubmitJobLimit", True),
        ("QOSGrpSubmitJobsLimit", True),
        ("QOSMaxSubmitJobPerUserLimit", True),
        ("MaxSubmitJobsPerAccount", True),
        ("QOSMaxWallDurationPerJobLimit", False),
        ("QOSMaxNodePerJobLimit", False),
        ("QOSGrpGRES", False),
        ("QOSMinGRES", False),
        ("job_submit/lua: name a GPU type", False),
    ],
)
def test_a_limit_on_what_is_queued_passes_and_one_on_the_job_does_not(limit, passes):
    text = f"sbatch: error: {limit}\n{POLICY}"
    assert tables.submit_rule(text).kind == tables.POLICY
    assert tables.is_passing_limit(text) is passes
    assert not tables.is_passing_limit(POLICY)


@pytest.mark.parametrize("said", ["MaxJobCount limit reached", "Requested account has breached requested QOS usage "
                                  "threshold"])  # fmt: skip
def test_other_limits_that_pass(said):
    text = f"sbatch: error: Batch job submission failed: {said}"
    assert tables.submit_rule(text).kind in (tables.POLICY, tables.TRANSIENT)
    assert tables.is_passing_limit(text)


QUERIES = [
    (0, "", tables.ANSWERED),
    (1, "slurm_load_jobs error: Invalid job id specified", tables.ANSWERED),
    (1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", tables.NO_ANSWER),
    (1, "sacct: error: Problem talking to the database: Connection refused", tables.NO_ANSWER),
    (1, "Slurm accounting storage is disabled", tables.DISABLED),
    (1, "", tables.NO_ANSWER),
]


@pytest.mark.parametrize(("code", "text", "meaning"), QUERIES)
def test_a_query_tells_nothing_unless_it_answered(code, text, meaning):
    assert tables.query_meaning(code, text) == meaning


EXITS = [
    ((0, 0), "exit code 0"),
    ((1, 0), "exit code 1"),
    ((0, 9), "killed by signal 9 (SIGKILL)"),
    ((0, 15), "killed by signal 15 (SIGTERM)"),
    ((9, 0), "exit code 9 (may be 128+9, that is SIGKILL)"),
    ((0, 125), "exit code 0:125 (out of memory)"),
    ((None, None), "exit code unknown"),
]


@pytest.mark.parametrize(("pair", "text"), EXITS)
def test_an_exit_code_is_told_in_words(pair, text):
    assert tables.describe_exit(*pair) == text


def test_a_launch_failure_is_told_from_a_signal():
    assert "could not launch" in tables.describe_exit(0, 53)
