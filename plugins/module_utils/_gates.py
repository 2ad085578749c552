# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a finished run: the gates, and the numbers that a run which passed them all may show.

A run succeeded only if three witnesses agree: Slurm (final state and exit codes), the log (the end was reached, no NaN,
no crash text), and the topology (as many nodes and ranks as asked). Where a run says what it must leave behind, its
output is a fourth. Each gate answers yes, no, or "not known"; one no makes the run failed, and without a no one "not
known" makes it unknown. Unknown is never success.

Comparisons are exact. Where a log prints rounded numbers, "equal" means that the true value may be equal: the printed
value lies within half a unit of its last digit. There are no other tolerances.
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping, Optional, Tuple

from ansible_collections.dgxc.workloads.plugins.module_utils._trainer_state import OutputFacts, pattern_problem
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import (
    STOP_COMPLETED,
    STOP_MAX_STEPS,
    STOP_MAX_TIME,
    Failure,
    LogFacts,
    StepTiming,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_failures import cause_order

SUCCEEDED = "succeeded"
FAILED = "failed"
UNKNOWN = "unknown"

# A step time that is known worse than this (as a fraction of it) is no measurement.
PRECISION_LEAST = 0.1

_LOSS_REMEDY = "lower the learning rate, or check the data and the precision"

# What a gate found so far: the answer, the evidence, the sentence.
_Finding = Tuple[Optional[bool], str, str]


@dataclass
class Gate:
    """One gate. ``passed`` is None when nothing tells; ``message`` is a sentence with a remedy unless it passed."""

    name: str
    passed: bool | None
    evidence: str
    message: str


@dataclass
class Metric:
    """A measured number. ``mean`` is None when the run has no right to one; ``reason`` says why.

    ``count`` values of the steps ``first_step`` to ``last_step`` were averaged; ``source`` says where they come from.
    """

    name: str
    unit: str
    mean: float | None
    standard_deviation: float | None
    count: int
    first_step: int | None
    last_step: int | None
    source: str
    reason: str | None


@dataclass
class Judgement:
    """The verdict on a run: ``succeeded``, ``failed`` or ``unknown``, with its gates and metrics."""

    verdict: str
    gates: list[Gate]
    metrics: dict[str, Metric] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, text and finite numbers: strict JSON."""
        return asdict(self)


# What may be expected of a run, and of its output.
EXPECT_NUMBERS = (
    "nodes",
    "gpus_per_node",
    "ranks",
    "tasks",
    "steps",
    "max_time_seconds",
    "global_batch_size",
    "sequence_length",
    "num_examples",
    "trainable_parameters",
)
OUTPUT_FIELDS = ("files", "trainer_state", "last_epoch", "evaluation")


def expectation_problems(expect: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the expectations of a run, a sentence each; none when all is well."""
    problems = []
    for name, value in expect.items():
        if name == "output":
            problems += _output_problems(value)
        elif name not in EXPECT_NUMBERS:
            problems.append("expect has the unknown entry %r%s" % (name, _near(name, (*EXPECT_NUMBERS, "output"))))
        elif value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
            problems.append("expect.%s is %r, but must be a number of at least 0." % (name, value))
    return problems


def _output_problems(output: Any) -> list[str]:
    if output is None:
        return []
    if not isinstance(output, Mapping):
        return ["expect.output is %r, but must be a dictionary of %s." % (output, ", ".join(OUTPUT_FIELDS))]
    problems = [
        "expect.output has the unknown entry %r%s" % (name, _near(name, OUTPUT_FIELDS))
        for name in output
        if name not in OUTPUT_FIELDS
    ]
    files = output.get("files") or []
    if isinstance(files, str) or not isinstance(files, (list, tuple)):
        problems.append("expect.output.files is %r, but must be a list of paths." % (files,))
        files = []
    state = output.get("trainer_state")
    for pattern in [*files, *([state] if state else [])]:
        wrong = pattern_problem(pattern)
        if wrong:
            problems.append("expect.output: the path %r %s; name one below the attempt's folder." % (pattern, wrong))
    if not state and (output.get("last_epoch") is not None or output.get("evaluation")):
        problems.append("expect.output asks for last_epoch or evaluation, which are read in trainer_state; name that.")
    return problems


def _near(name: object, names: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(str(name), names, n=1)
    return "; did you mean %r?" % near[0] if near else "; it may have %s." % ", ".join(names)


def judge(
    expect: Mapping[str, Any], job: Mapping[str, Any], facts: LogFacts | None, output: OutputFacts | None = None
) -> Judgement:
    """Judge one finished run.

    ``expect`` says what was asked for; an absent or null entry is not checked: ``nodes``, ``gpus_per_node``, ``ranks``,
    ``tasks`` (labels of ``srun --label``), ``steps``, ``max_time_seconds`` (a stop by max_time counts as reaching the
    end), ``global_batch_size``, ``sequence_length``, ``num_examples`` and ``trainable_parameters`` (as Hugging Face's
    Trainer tells them), ``output`` (what has to be in the attempt's folder, see ``_judge_output``). ``job`` is what
    Slurm says about the job, an element of ``slurm_job_info``'s ``jobs``. ``facts`` are those of its log files, None
    when there is no log; ``output`` those of its folder, None when nobody looked.
    """
    gates = [
        _gate("slurm", [_judge_slurm(job)]),
        _gate("log", _judge_log(expect, job, facts)),
        _gate("topology", _judge_topology(expect, job, facts)),
    ]
    if expect.get("output"):
        gates.append(_gate("output", _judge_output(expect, output)))
    if any(gate.passed is False for gate in gates):
        verdict = FAILED
    elif all(gate.passed is True for gate in gates):
        verdict = SUCCEEDED
    else:
        verdict = UNKNOWN
    return Judgement(verdict, gates, _metrics(expect, facts, output, verdict, gates))


def _gate(name: str, findings: list[_Finding]) -> Gate:
    """Join findings: a no beats "not known", which beats yes; the sentences of the winners are told."""
    if any(finding[0] is False for finding in findings):
        passed: bool | None = False
    elif any(finding[0] is None for finding in findings):
        passed = None
    else:
        passed = True
    told = [finding for finding in findings if finding[0] is passed]
    evidence = "; ".join(finding[1] for finding in told if finding[1])
    return Gate(name, passed, evidence, " ".join(finding[2] for finding in told if finding[2]))


# Slurm.


def _judge_slurm(job: Mapping[str, Any]) -> _Finding:
    state = _text(job, "state")
    verdict = _text(job, "verdict")
    exit_code, signal = _number(job, "exit_code"), _number(job, "signal")
    job_id = _text(job, "job_id") or "?"
    evidence = "job %s: state %s, exit code %s:%s" % (
        job_id,
        state or "unknown",
        "?" if exit_code is None else exit_code,
        "?" if signal is None else signal,
    )
    if verdict == "active":
        return None, evidence, "The job is not finished; judge it again when it is."
    if verdict == FAILED:
        said = _text(job, "message") or "Slurm reports the job as failed"
        kind = _text(job, "failure_class")
        return False, evidence, "%s.%s" % (said.rstrip("."), " (%s)" % kind if kind else "")
    if verdict == UNKNOWN:
        return None, evidence, "Slurm does not know the job's end; look it up with sacct -j %s." % job_id
    if not state:
        return None, evidence, "Slurm tells no state of the job; look it up with sacct -j %s." % job_id
    if state != "COMPLETED":
        return False, evidence, "The job ended as %s, not COMPLETED; look at its log." % state
    if exit_code is None or signal is None:
        return None, evidence, "Slurm tells no exit code of the job; look it up with sacct -j %s." % job_id
    if exit_code != 0 or signal != 0:
        return (
            False,
            evidence,
            "The job script ended with exit code %d, signal %d; look at its log." % (exit_code, signal),
        )
    if verdict != SUCCEEDED:
        return None, evidence, "There is no verdict on the job's steps; ask slurm_job_info."
    # The verdict has judged the steps; a message beside a success says that failed ones were to be tolerated.
    said = _text(job, "message")
    return True, "%s; %s" % (evidence, said) if said else evidence, "Slurm completed the job without an error."


# The log.


def _judge_log(expect: Mapping[str, Any], job: Mapping[str, Any], facts: LogFacts | None) -> list[_Finding]:
    if facts is None:
        return [(None, "no log file", "The log was not found; check the paths of the log and the shared storage.")]
    if facts.bytes_read == 0 and facts.log_format == "none" and expect.get("steps") is None:
        return [(True, "empty log", "The log is empty, and nothing was expected in it.")]
    if facts.bytes_read == 0:
        return [(None, "empty log", "The log is empty; look whether the job step started at all.")]
    findings = [_judge_end(expect, job, facts)]
    findings.extend(_judge_crash(job, facts))
    findings.extend(_judge_losses(facts))
    findings.extend(_judge_samples(expect, facts))
    findings.extend(_judge_told(expect, facts))
    return findings


def _judge_end(expect: Mapping[str, Any], job: Mapping[str, Any], facts: LogFacts) -> _Finding:
    """Decide whether the training reached its end, from positive proof only."""
    steps = _number(expect, "steps")
    limit = _float(expect, "max_time_seconds")
    line = facts.stop_line or facts.last_progress_line or ""
    if facts.stop_reason == STOP_MAX_TIME and not (steps is not None and facts.last_step == steps):
        return _judge_stop_by_time(limit, facts, line)
    if steps is None:
        return _judge_end_unasked(expect, facts, line)
    if facts.last_step is None:
        if facts.stop_reason == STOP_MAX_STEPS and facts.stop_steps == steps:
            return True, line, "The training stopped at step %d, as asked." % steps
        return (
            None,
            line,
            (
                "The log shows no training progress, so nothing proves that step %d was reached; "
                "check that the log format is right and that the log is complete." % steps
            ),
        )
    if facts.last_step == steps:
        if facts.stop_steps is not None and facts.stop_steps != steps:
            return (
                False,
                line,
                "The training stopped at max_steps %d, but %d was asked for." % (facts.stop_steps, steps),
            )
        return True, facts.last_progress_line or line, "The last step is %d, as asked." % steps
    if facts.last_step > steps:
        return (
            False,
            line,
            (
                "The log shows step %d, beyond the %d asked for; the log belongs to another run or the "
                "settings were not used." % (facts.last_step, steps)
            ),
        )
    if limit is not None:
        weak = _reached_time(limit, facts)
        if weak is not None and not _ended_badly(job, facts):
            return True, weak, "The training stopped at step %d by max_time, as allowed." % facts.last_step
    total = "" if facts.total_steps in (None, steps) else " (the bar announces %s)" % facts.total_steps
    return (
        False,
        line,
        "The training ended at step %d of %d%s; look for the cause in the log." % (facts.last_step, steps, total),
    )


def _judge_stop_by_time(limit: float | None, facts: LogFacts, line: str) -> _Finding:
    step = "?" if facts.last_step is None else facts.last_step
    if limit is None:
        return (
            False,
            line,
            (
                "The training stopped at step %s by a time limit of the trainer, but no max_time was expected; "
                "raise max_time or lower the number of steps." % step
            ),
        )
    if facts.stop_elapsed_seconds is not None and facts.stop_elapsed_seconds < limit:
        return (
            False,
            line,
            (
                "The training stopped by a time limit after %d seconds, but max_time is %d seconds; the run used other "
                "settings." % (facts.stop_elapsed_seconds, limit)
            ),
        )
    return True, line, "The training stopped at step %s by max_time, as allowed." % step


def _reached_time(limit: float, facts: LogFacts) -> str | None:
    """Return the evidence that max_time was reached when no message says so.

    The trainer checks its limit after each step, so the clock of the last bar plus one step must reach it: the bar's
    clock starts a little after the trainer's.
    """
    if facts.stop_reason is not None or facts.elapsed_seconds is None:
        return None
    reached = facts.elapsed_seconds + (facts.last_step_seconds or 0.0)
    if reached < limit:
        return None
    return "no message of the trainer, but its clock shows %d s of %d s: %s" % (
        facts.elapsed_seconds,
        limit,
        facts.last_progress_line or "",
    )


def _ended_badly(job: Mapping[str, Any], facts: LogFacts) -> bool:
    state = _text(job, "state")
    return state != "COMPLETED" or any(failure.fatal and failure.after_progress for failure in facts.failures)


def _judge_end_unasked(expect: Mapping[str, Any], facts: LogFacts, line: str) -> _Finding:
    if facts.log_format == "none":
        return True, "", "The log holds no known crash text; progress is not checked for this log format."
    if facts.stop_reason in (STOP_MAX_STEPS, STOP_COMPLETED):
        return True, line, "The trainer says that the training is complete."
    if facts.last_step is not None and facts.last_step == facts.total_steps:
        return True, line, "The last step is %d of %d." % (facts.last_step, facts.total_steps)
    limit = _float(expect, "max_time_seconds")
    weak = _reached_time(limit, facts) if limit is not None else None
    if weak is not None:
        return True, weak, "The training stopped by max_time, as allowed."
    if facts.last_step is None:
        return None, line, "The log shows no training progress; check that the log format is right."
    if facts.total_steps is None:
        return None, line, "The log does not say how many steps the training has, so its end is not proved."
    return (
        False,
        line,
        "The training ended at step %d of %d; look for the cause in the log." % (facts.last_step, facts.total_steps),
    )


def _judge_crash(job: Mapping[str, Any], facts: LogFacts) -> list[_Finding]:
    """Crash text counts unless the training is seen to have gone on after it, also after the last step.

    The last step is not the end: the checkpoint is written after it. The log of a requeued job holds what its earlier
    runs left. Where the log's format shows where a run begins, those are told apart by it; in a log of no known format
    Slurm's word on the last run stands.
    """
    if _number(job, "restarts") and facts.log_format == "none":
        return []
    crashes = [failure for failure in facts.failures if failure.fatal and failure.after_progress]
    exception = _exception(facts)
    return [
        (
            False,
            exception.last_line if failure.name == "traceback" and exception is not None else failure.last_line,
            describe_failure(failure),
        )
        for failure in sorted(crashes, key=lambda failure: cause_order(failure.name))
    ]


def _exception(facts: LogFacts) -> Failure | None:
    """Return the Python exceptions that the log names, which say more than that there was a traceback."""
    return next((one for one in facts.failures if one.name == "python_exception" and one.after_progress), None)


def likely_cause(facts: LogFacts | None) -> Failure | None:
    """Return the failure in the log that explains the others best, or None where the log shows none.

    A failure that the training went on after explains nothing.
    """
    seen = [failure for failure in facts.failures if failure.after_progress] if facts is not None else []
    likeliest = min(seen, key=lambda failure: (not failure.fatal, cause_order(failure.name)), default=None)
    if facts is not None and likeliest is not None and likeliest.name in ("worker_failed", "traceback", "task_failed"):
        return _exception(facts) or likeliest
    if facts is not None and (likeliest is None or not likeliest.fatal):
        return _lost_loss(facts) or likeliest
    return likeliest


def _lost_loss(facts: LogFacts) -> Failure | None:
    """Return a loss that is no number as a failure: the training went on, but for nothing."""
    count = facts.nan_count + facts.inf_count
    if not count:
        return None
    line = facts.first_nonfinite_line or ""
    cause = "the loss became %s" % ("NaN" if facts.nan_count else "infinite")
    return Failure("loss_not_finite", True, cause, _LOSS_REMEDY, count, line, line, True)


def describe_failure(failure: Failure) -> str:
    """Return one sentence about a known failure, with the remedy."""
    return "%s%s: %s." % (failure.cause[:1].upper(), failure.cause[1:], failure.remedy)


def _judge_losses(facts: LogFacts) -> list[_Finding]:
    if facts.nan_count or facts.inf_count:
        return [
            (
                False,
                facts.first_nonfinite_line or "",
                "The loss became %s (%d times); %s."
                % ("NaN" if facts.nan_count else "infinite", facts.nan_count + facts.inf_count, _LOSS_REMEDY),
            )
        ]
    if facts.log_format == "nemo" and facts.loss_count == 0:
        # NeMo always prints it. Hugging Face's Trainer does not when logging_steps exceeds the number of steps.
        return [
            (
                None,
                "",
                ("The log shows no loss, so nothing proves that it stayed a number; check that the log is complete."),
            )
        ]
    return []


def _judge_samples(expect: Mapping[str, Any], facts: LogFacts) -> list[_Finding]:
    """Check the number of samples against the batch size, within the printed precision."""
    batch = _number(expect, "global_batch_size")
    if batch is None:
        return []
    if facts.log_format == "huggingface":
        return _judge_settings(expect, batch, facts)
    if facts.log_format != "nemo":
        return []
    step, samples = _range(facts.global_step), _range(facts.consumed_samples)
    if step is None or samples is None:
        return [
            (
                None,
                "",
                (
                    "The last progress line shows no consumed_samples, so the global batch size %d is not proved; "
                    "check that the log is complete." % batch
                ),
            )
        ]
    evidence = "global_step=%s, consumed_samples=%s, global batch size %d" % (
        _printed(facts.global_step),
        _printed(facts.consumed_samples),
        batch,
    )
    if facts.resumed:
        first_step, first_samples = _range(facts.first_global_step), _range(facts.first_consumed_samples)
        if first_step is None or first_samples is None:
            return [(None, evidence, "The log of the resumed training is too short to prove the global batch size.")]
        low = (step[0] - first_step[1]) * batch
        high = (step[1] - first_step[0]) * batch
        if samples[1] - first_samples[0] < low or samples[0] - first_samples[1] > high:
            return [
                (
                    False,
                    evidence,
                    (
                        "The samples did not grow by %d a step since the training was resumed; check global_batch_size."
                        % batch
                    ),
                )
            ]
        return [(True, evidence, "The samples grew by %d a step since the training was resumed." % batch)]
    low, high = (step[0] + 1.0) * batch, (step[1] + 1.0) * batch
    if samples[1] < low or samples[0] > high:
        remedy = "check global_batch_size"
        if facts.resumed is None:
            remedy += ", and whether the training was resumed from a checkpoint"
        return [(False, evidence, "consumed_samples is not (global_step + 1) x %d; %s." % (batch, remedy))]
    return [(True, evidence, "consumed_samples is (global_step + 1) x %d." % batch)]


def _judge_settings(expect: Mapping[str, Any], batch: int, facts: LogFacts) -> list[_Finding]:
    """Check what Hugging Face's Trainer says about itself; at its usual log level it says nothing."""
    return [
        _judge_setting(name, wanted, words, "check nodes, GPUs, batch size and accumulation", facts)
        for name, wanted, words in (
            ("global_batch_size", batch, "total train batch size"),
            ("steps", _number(expect, "steps"), "total optimization steps"),
        )
        if wanted is not None and name in facts.settings
    ]


def _judge_told(expect: Mapping[str, Any], facts: LogFacts) -> list[_Finding]:
    """Check what the trainer has to tell of itself: these expectations are met by its own words only."""
    return [
        _judge_setting(name, wanted, words, remedy, facts)
        for name, wanted, words, remedy in (
            ("num_examples", _number(expect, "num_examples"), "number of examples", "check the data"),
            (
                "trainable_parameters",
                _number(expect, "trainable_parameters"),
                "number of trainable parameters",
                "check the model and the adapter's settings",
            ),
        )
        if wanted is not None
    ]


def _judge_setting(name: str, wanted: int, words: str, remedy: str, facts: LogFacts) -> _Finding:
    seen = facts.settings.get(name)
    if seen is None:
        return (
            None,
            "",
            "The log does not tell the %s, so %d is not proved; let the trainer log at level info." % (words, wanted),
        )
    values = facts.conflicts.get(name)
    if values:
        evidence = "%s = %s" % (words, " and ".join(str(value) for value in values))
        return False, evidence, "The tasks disagree about the %s; they do not train together." % words
    evidence = "%s = %d" % (words, seen)
    if seen == wanted:
        return True, evidence, "The %s is %d, as expected." % (words, wanted)
    return False, evidence, "The %s is %d, but %d was expected; %s." % (words, seen, wanted, remedy)


def _range(printed: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """Return the whole numbers that a printed counter may stand for, as the lowest and the highest.

    The counters are whole numbers, so a precision of half a unit or better means one number.
    """
    if printed is None:
        return None
    value, half_width = float(printed["value"]), float(printed["half_width"])
    if half_width <= 0.5:
        return float(round(value)), float(round(value))
    return value - half_width, value + half_width


def _printed(printed: Mapping[str, Any] | None) -> str:
    return str(printed["text"]) if printed is not None else "?"


# The topology.


def _judge_topology(expect: Mapping[str, Any], job: Mapping[str, Any], facts: LogFacts | None) -> list[_Finding]:
    findings: list[_Finding] = []
    nodes = _number(expect, "nodes")
    ranks = _number(expect, "ranks")
    if nodes is not None:
        findings.append(_judge_nodes(nodes, job))
    if ranks is not None:
        findings.append(_judge_ranks(ranks, nodes, job, facts))
    tasks = _number(expect, "tasks")
    if tasks is not None:
        findings.append(_judge_tasks(tasks, facts))
    if not findings:
        findings.append((True, "", "No nodes and no ranks were expected, so none were checked."))
    return findings


def _judge_nodes(nodes: int, job: Mapping[str, Any]) -> _Finding:
    names = sorted({str(name) for name in job.get("nodes") or []})
    if not names:
        return None, "", "Slurm does not tell the nodes of the job; look it up with sacct -o NodeList."
    evidence = "%d nodes: %s" % (len(names), _shorten(names))
    if len(names) != nodes:
        return False, evidence, "The job ran on %d nodes, but %d were asked for; check --nodes." % (len(names), nodes)
    step = _training_step(job)
    step_nodes = _number(step, "nodes") if step is not None else None
    if step_nodes is not None and step_nodes != nodes:
        return (
            False,
            "%s; step %s: %d nodes" % (evidence, _text(step or {}, "id"), step_nodes),
            ("The job has %d nodes, but its step used %d; check the options of srun." % (nodes, step_nodes)),
        )
    return True, evidence, "The job ran on %d nodes, as asked." % nodes


def _judge_ranks(ranks: int, nodes: int | None, job: Mapping[str, Any], facts: LogFacts | None) -> _Finding:
    if facts is not None and facts.world_sizes:
        return _judge_rank_lines(ranks, facts)
    if facts is not None and facts.process_counts:
        evidence = "processes: %s" % ", ".join(str(count) for count in facts.process_counts)
        if facts.process_counts == [ranks]:
            return True, evidence, "The process group has %d processes, as asked." % ranks
        return (
            False,
            evidence,
            "The process group has %s processes, but %d were asked for; check nodes and GPUs."
            % (" and ".join(str(count) for count in facts.process_counts), ranks),
        )
    derived = _processes_from_settings(facts)
    if derived is not None:
        evidence = "total batch %d = %d x %d a device x %d accumulation steps" % derived
        if derived[1] == ranks:
            return True, evidence, "The batch sizes in the log show %d processes, as asked." % ranks
        return (
            False,
            evidence,
            "The batch sizes in the log show %d processes, but %d were asked for." % (derived[1], ranks),
        )
    step = _training_step(job)
    tasks = _number(step, "tasks") if step is not None else None
    if tasks is None:
        return (
            None,
            "",
            ("Neither the log nor Slurm tells how many ranks took part; look at the log's first lines of every rank."),
        )
    evidence = "no rank lines in the log; Slurm's step %s: %d tasks on %s nodes" % (
        _text(step or {}, "id"),
        tasks,
        _number(step or {}, "nodes"),
    )
    if tasks == ranks:
        return True, evidence, "The job step had %d tasks, as asked (the log names no ranks)." % ranks
    if nodes is not None and tasks == nodes:
        return (
            None,
            evidence,
            (
                "The job step had one task a node, which starts the ranks itself, and the log names no ranks; "
                "let the program log its number of processes."
            ),
        )
    return (
        False,
        evidence,
        "The job step had %d tasks, but %d ranks were asked for; check --ntasks-per-node." % (tasks, ranks),
    )


def _judge_rank_lines(ranks: int, facts: LogFacts) -> _Finding:
    sizes = facts.world_sizes
    evidence = "ranks %s of %s: %s" % (
        facts.ranks,
        " and ".join(str(size) for size in sizes),
        facts.rank_evidence or "",
    )
    if sizes == [1] and ranks > 1:
        return (
            False,
            evidence,
            (
                "%d processes each trained alone (a group of one) instead of %d ranks together; start them with srun "
                "and one task for each GPU, so that the trainer sees Slurm's ranks." % (facts.rank_lines, ranks)
            ),
        )
    if len(sizes) > 1:
        return False, evidence, "The ranks disagree about their number; look for two trainings writing to one log."
    if sizes != [ranks]:
        return (
            False,
            evidence,
            "The training had %d ranks, but %d were asked for; check nodes and GPUs." % (sizes[0], ranks),
        )
    if facts.rank_count == ranks:
        return True, evidence, "All ranks 0 to %d took part, as asked." % (ranks - 1)
    if facts.process_counts == [ranks]:
        # The trainer prints this line only when all of them have met.
        return (
            True,
            "%s; all %d processes registered" % (evidence, ranks),
            ("All %d processes registered, as asked (the log names %d of them)." % (ranks, facts.rank_count)),
        )
    return (
        False,
        evidence,
        "Only %d of %d ranks registered; look for the first error of the missing ones." % (facts.rank_count, ranks),
    )


def _judge_tasks(tasks: int, facts: LogFacts | None) -> _Finding:
    """Check that each task of the job step has said something: its label stands before its lines."""
    if facts is None or not facts.task_count:
        return None, "", "No line of the log has the label of a task; start the step with srun --label."
    evidence = "tasks %s" % facts.tasks
    if facts.tasks == ("0" if tasks == 1 else "0-%d" % (tasks - 1)):
        return True, evidence, "All tasks 0 to %d are in the log, as asked." % (tasks - 1)
    return (
        False,
        evidence,
        "The log shows the tasks %s, but 0 to %d were asked for; look for the first error of the missing ones."
        % (facts.tasks, tasks - 1),
    )


def _processes_from_settings(facts: LogFacts | None) -> tuple[int, int, int, int] | None:
    """Return (total batch, processes, batch of a device, accumulation steps) as Hugging Face's Trainer reports them."""
    if facts is None:
        return None
    total = facts.settings.get("global_batch_size")
    device = facts.settings.get("batch_size_per_device")
    accumulation = facts.settings.get("gradient_accumulation_steps")
    if not total or not device or not accumulation or total % (device * accumulation):
        return None
    return total, total // (device * accumulation), device, accumulation


def _training_step(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the job step with the most tasks; the steps of Slurm itself (batch, extern) are none."""
    numbered = [step for step in _steps(job) if _step_name(step).isdigit()]
    if not numbered:
        return None
    return max(numbered, key=lambda step: _number(step, "tasks") or 0)


# The output.


def _judge_output(expect: Mapping[str, Any], output: OutputFacts | None) -> list[_Finding]:
    """Check what the run left in its folder.

    ``expect.output`` holds ``files`` (patterns, each of which must match a file that is not empty), ``trainer_state``
    (the file of Hugging Face's Trainer), and of that file ``last_epoch`` (the integer part of the last epoch) and
    ``evaluation`` (whether an ``eval_loss`` must be there).
    """
    wanted = expect["output"]
    if output is None:
        return [(None, "", "Nobody looked at the run's output; judge the run where its folder is.")]
    findings: list[_Finding] = []
    for pattern, names in output.files.items():
        if names:
            findings.append((True, "%s: %s" % (pattern, _shorten(names)), "There is %s." % pattern))
        else:
            message = "No file with content matches %s in the attempt's folder; look whether the training saved it."
            findings.append((False, "%s: none" % pattern, message % pattern))
    if wanted.get("trainer_state"):
        findings += _judge_trainer_state(wanted, _number(expect, "steps"), output)
    return findings or [(True, "", "No output was expected, so none was checked.")]


def _judge_trainer_state(wanted: Mapping[str, Any], steps: int | None, output: OutputFacts) -> list[_Finding]:
    state = output.trainer_state
    if state is None:
        return [(False, output.trainer_state_path, output.trainer_state_problem)]
    findings: list[_Finding] = []
    evidence = "trainer_state.json: step %s of %s, epoch %s, evaluations %d" % (
        state.global_step,
        state.max_steps,
        state.last_epoch,
        state.evaluations,
    )
    if steps is not None:
        if state.global_step == steps:
            findings.append((True, evidence, "The trainer's state is that of step %d, as asked." % steps))
        else:
            message = "The trainer's state is that of step %s, but %d was asked for; it belongs to another training."
            findings.append((False, evidence, message % (state.global_step, steps)))
    epoch = _number(wanted, "last_epoch")
    if epoch is not None:
        seen = None if state.last_epoch is None else int(state.last_epoch)
        if seen == epoch:
            findings.append((True, evidence, "The last epoch is %d, as expected." % epoch))
        else:
            message = "The last epoch is %s, but %d was expected; check the data and the number of processes."
            findings.append((False, evidence, message % (state.last_epoch, epoch)))
    if wanted.get("evaluation"):
        if state.evaluation_loss is not None:
            findings.append((True, evidence, "The evaluation's loss is %g." % state.evaluation_loss))
        else:
            message = "The trainer's state has no eval_loss; look whether the evaluation ran."
            findings.append((False, evidence, message))
    return findings or [(True, evidence, "The trainer's state can be read.")]


# Metrics.


def _metrics(
    expect: Mapping[str, Any], facts: LogFacts | None, output: OutputFacts | None, verdict: str, gates: list[Gate]
) -> dict[str, Metric]:
    """Return the numbers of a run by name; without a proved success their mean is None, with the reason."""
    timing = _usable_timing(facts, output)
    failed: str | None = None
    if verdict != SUCCEEDED:
        names = ", ".join(gate.name for gate in gates if gate.passed is not True)
        failed = "the run has not succeeded (gates: %s)" % names
    reason = failed
    if reason is None and timing is None:
        reason = "the log shows no step time after the warm-up"
        if facts is not None and facts.step_timing is not None:
            reason = "the steps are too few and too short for the whole seconds of the bar's clock"
    batch = _number(expect, "global_batch_size")
    length = _number(expect, "sequence_length")
    tokens = batch * length if batch is not None and length is not None else None
    return {
        "seconds_per_step": _metric("seconds_per_step", "s", timing, reason, None, ""),
        "samples_per_second": _metric(
            "samples_per_second",
            "1/s",
            timing,
            reason or (None if batch else "no global batch size is given"),
            batch,
            "global batch size / seconds per step; ",
        ),
        "tokens_per_second": _metric(
            "tokens_per_second",
            "1/s",
            timing,
            reason or (None if tokens else "no global batch size and sequence length are given"),
            tokens,
            "global batch size x sequence length / seconds per step; ",
        ),
        "training_loss": _last_loss(facts, output, failed),
        "evaluation_loss": _evaluation_loss(facts, output, failed),
    }


def _usable_timing(facts: LogFacts | None, output: OutputFacts | None) -> StepTiming | None:
    """Return the step time of the log where it is precise enough, else that of the trainer's whole run.

    A bar's clock has whole seconds: a few short steps leave nothing to divide. The trainer's ``train_runtime`` holds
    the warm-up as well, which its source says.
    """
    timing = facts.step_timing if facts is not None else None
    if timing is not None and timing.half_width <= PRECISION_LEAST * timing.mean:
        return timing
    state = output.trainer_state if output is not None else None
    runtime = state.runtime_seconds if state is not None else None
    steps = state.global_step if state is not None else None
    if runtime is None and facts is not None:
        runtime, steps = facts.summary.get("train_runtime"), facts.last_step
    if not runtime or not steps or facts is None or facts.resumed:
        return None
    mean = runtime / steps
    return StepTiming(mean, None, steps, 1, steps, mean, mean, 0, 0.0, "trainer: train_runtime / steps", False)


def _last_loss(facts: LogFacts | None, output: OutputFacts | None, failed: str | None) -> Metric:
    """Return the last loss of the training: the trainer's own record of it, or the log's."""
    state = output.trainer_state if output is not None else None
    if state is not None and state.losses:
        step, loss = state.losses[-1]
        return _single("training_loss", loss, step, "trainer_state.json: the last loss", failed)
    if facts is not None and facts.last_loss is not None:
        return _single("training_loss", facts.last_loss, facts.last_step, "log: the last loss", failed)
    return _single("training_loss", None, None, "", failed or "the log shows no loss")


def _evaluation_loss(facts: LogFacts | None, output: OutputFacts | None, failed: str | None) -> Metric:
    state = output.trainer_state if output is not None else None
    if state is not None and state.evaluation_loss is not None:
        source = "trainer_state.json: the last eval_loss"
        return _single("evaluation_loss", state.evaluation_loss, state.global_step, source, failed)
    if facts is not None and facts.last_validation_loss is not None:
        source = "log: the last validation loss"
        return _single("evaluation_loss", facts.last_validation_loss, facts.last_step, source, failed)
    return _single("evaluation_loss", None, None, "", failed or "no evaluation was made")


def _single(name: str, value: float | None, step: int | None, source: str, reason: str | None) -> Metric:
    """Return a metric of one value, without a unit."""
    if value is None or reason is not None:
        return Metric(name, "1", None, None, 0, None, None, "", reason)
    return Metric(name, "1", value, None, 1, step, step, source, None)


def _metric(
    name: str, unit: str, timing: StepTiming | None, reason: str | None, amount: int | None, words: str
) -> Metric:
    if timing is None or reason is not None or timing.mean <= 0.0:
        return Metric(name, unit, None, None, 0, None, None, "", reason or "the step time is zero")
    mean, deviation = timing.mean, timing.standard_deviation
    if amount is not None:
        mean = amount / timing.mean
        # To first order, a quotient spreads in proportion.
        deviation = None if deviation is None else mean * deviation / timing.mean
    left_out = "warm-up included"
    if timing.warmup_steps:
        left_out = "the first %s left out" % ("step" if timing.warmup_steps == 1 else "%d steps" % timing.warmup_steps)
    source = "%s%s, %s" % (words, timing.source, left_out)
    if timing.thinned:
        source += ", not all steps read"
    return Metric(name, unit, mean, deviation, timing.count, timing.first_step, timing.last_step, source, None)


# Reading what others give.


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return "" if value is None else str(value)


def _number(record: Mapping[str, Any], key: str) -> int | None:
    value = record.get(key)
    if isinstance(value, bool) or value is None or value == "":
        return None
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("%s is %r, but must be a whole number" % (key, value)) from None


def _float(record: Mapping[str, Any], key: str) -> float | None:
    number = _number(record, key)
    return None if number is None else float(number)


def _steps(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [step for step in job.get("steps") or [] if isinstance(step, Mapping)]


def _step_name(step: Mapping[str, Any]) -> str:
    """Return the part of a step's id after the job id: a number, ``batch`` or ``extern``."""
    return _text(step, "id").rpartition(".")[2]


def _shorten(names: list[str]) -> str:
    shown = names[:8]
    return ", ".join(shown) + (" and %d more" % (len(names) - len(shown)) if len(names) > len(shown) else "")
