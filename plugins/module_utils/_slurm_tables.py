# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Slurm's words mean: job states, pending reasons, answers of sbatch and of the query tools, as data.

This file is private to the collection. It holds tables and the look-ups on them, no logic that waits or decides;
`_job_verdict` and `_submission` do that. Sources: Slurm's `slurm_protocol_defs.c` (state words), `job_state_reason.c`
(reasons), `slurm_errno.c` and `sbatch.c` (answers of sbatch), the manual pages of sacct and squeue; what the words mean
for a training job is our judgement, seen on Slurm 22.05 and 24.11 where a comment says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Pattern

# --- Job states -------------------------------------------------------------------------------------------------

#: The job may still run; nothing is decided.
ACTIVE = "active"
#: The job will never run again, as soon as the accounting says so and the queue does not contradict.
FINAL = "final"
#: The job may be requeued: final only once the queue positively no longer lists it for a grace time.
FINAL_ONCE_GONE = "final_once_gone"
#: The job waits for a person; it will not start by itself.
STUCK = "stuck"


@dataclass(frozen=True)
class StateRule:
    """What one state word means for a job that is waited on.

    `finality` is one of ACTIVE, FINAL, FINAL_ONCE_GONE, STUCK. `failure_class` is empty for the one good word,
    COMPLETED, and for words that decide nothing. `retry_sensible` says whether the same job, submitted again unchanged,
    has a fair chance. `advice` is a sentence for the engineer who reads the failure.
    """

    finality: str
    failure_class: str = ""
    retry_sensible: bool = False
    advice: str = ""


STATES: dict[str, StateRule] = {
    "PENDING": StateRule(ACTIVE),
    "RUNNING": StateRule(ACTIVE),
    "SUSPENDED": StateRule(ACTIVE),
    "COMPLETED": StateRule(FINAL),
    "CANCELLED": StateRule(
        FINAL, "cancelled", False, "Somebody cancelled the job; submit again if that was not meant."
    ),
    "FAILED": StateRule(FINAL, "failed", False, "The first error in the log tells why."),
    "TIMEOUT": StateRule(
        FINAL, "timeout", False, "The time limit was reached; raise it, or do less work, or resume from a checkpoint."
    ),
    "DEADLINE": StateRule(FINAL, "deadline", False, "The job's deadline passed before it could end."),
    "OUT_OF_MEMORY": StateRule(
        FINAL, "out_of_memory", False, "The node's memory limit was hit; ask for more memory (mem) or use less."
    ),
    "NODE_FAIL": StateRule(
        FINAL_ONCE_GONE, "node_fail", True, "A node failed; submit again and leave that node out (exclude)."
    ),
    "PREEMPTED": StateRule(
        FINAL_ONCE_GONE, "preempted", True, "A job of higher priority took the nodes; submit again or use another QOS."
    ),
    "BOOT_FAIL": StateRule(
        FINAL_ONCE_GONE, "boot_fail", True, "A node did not boot; submit again and leave that node out (exclude)."
    ),
    "LAUNCH_FAILED": StateRule(
        FINAL_ONCE_GONE, "launch_failed", True, "The node could not start the job; leave that node out (exclude)."
    ),
    "RECONFIG_FAIL": StateRule(FINAL_ONCE_GONE, "launch_failed", True, "A node could not be reconfigured for the job."),
    "REQUEUED": StateRule(
        FINAL_ONCE_GONE,
        "stale_requeue",
        True,
        "The accounting still says REQUEUED, but the queue no longer lists the job: it was cancelled while "
        "being requeued.",
    ),
    "COMPLETING": StateRule(ACTIVE),
    "CONFIGURING": StateRule(ACTIVE),
    "EXPEDITING": StateRule(ACTIVE),
    "RESIZING": StateRule(ACTIVE),
    "REQUEUE_FED": StateRule(ACTIVE),
    "SIGNALING": StateRule(ACTIVE),
    "STAGE_OUT": StateRule(ACTIVE),
    "STOPPED": StateRule(ACTIVE),
    "POWER_UP_NODE": StateRule(ACTIVE),
    "UPDATE_DB": StateRule(ACTIVE),
    "REQUEUE_HOLD": StateRule(
        STUCK, "stuck_pending", False, "The job is held after a requeue: scontrol release JOBID."
    ),
    "SPECIAL_EXIT": StateRule(
        STUCK, "stuck_pending", False, "The job is held after a special exit: scontrol release JOBID."
    ),
    "RESV_DEL_HOLD": StateRule(
        STUCK, "stuck_pending", False, "The job's reservation was deleted; cancel it or give it another reservation."
    ),
    "REVOKED": StateRule(
        FINAL_ONCE_GONE,
        "revoked",
        False,
        "A sibling cluster of the federation took the job: set the cluster, or query with --federation.",
    ),
}

#: Two-letter codes of the states (squeue %t), to read what a site's wrapper may print.
STATE_CODES: dict[str, str] = {
    "PD": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "CD": "COMPLETED",
    "CA": "CANCELLED",
    "F": "FAILED",
    "TO": "TIMEOUT",
    "NF": "NODE_FAIL",
    "PR": "PREEMPTED",
    "BF": "BOOT_FAIL",
    "DL": "DEADLINE",
    "OOM": "OUT_OF_MEMORY",
    "CG": "COMPLETING",
    "SO": "STAGE_OUT",
    "CF": "CONFIGURING",
    "RS": "RESIZING",
    "RQ": "REQUEUED",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "SE": "SPECIAL_EXIT",
    "RD": "RESV_DEL_HOLD",
    "ST": "STOPPED",
    "SI": "SIGNALING",
    "RV": "REVOKED",
}

#: Failures for which a node is to blame: the next attempt leaves it out.
BLAMED_ON_A_NODE = frozenset(["node_fail", "boot_fail", "launch_failed"])

#: sinfo's short words (%t) for a node that takes no job now; a `*` behind a word means that it does not respond.
UNUSABLE_NODE_STATES = frozenset(["down", "drain", "drng", "drained", "fail", "failg", "unk", "boot", "inval"])

#: A word that is not in the table is never success: it is waited on, with a warning, until a limit of the wait.
UNKNOWN_STATE = StateRule(ACTIVE)


def normalise_state(text: str) -> str:
    """The state word in `text`, without the canceller, the `+` of a cut column or a short code.

    `CANCELLED by 1000` gives `CANCELLED`, `OUT_OF_ME+` gives `OUT_OF_MEMORY`, `CD` gives `COMPLETED`. A word that no
    table knows comes back as it is, in capitals; an empty text gives an empty word.
    """
    words = text.strip().split()
    if not words:
        return ""
    word = words[0].upper()
    if word.endswith("+"):
        stem = word[:-1]
        full = [state for state in STATES if state.startswith(stem)]
        if len(full) == 1:
            return full[0]
        word = stem
    return STATE_CODES.get(word, word)


def state_rule(state: str) -> StateRule:
    """The rule for a normalised state word; UNKNOWN_STATE for a word that is not in the table."""
    return STATES.get(state, UNKNOWN_STATE)


# --- Reasons of a pending job -----------------------------------------------------------------------------------

#: The job will start when its turn comes.
WAITING = "waiting"
#: The job may start after somebody repairs a node or a budget; wait, warn, and give up after a limit.
WAITING_WITH_DEADLINE = "waiting_with_deadline"
# STUCK, from above: the job, the account or the site has to be changed first.


@dataclass(frozen=True)
class ReasonRule:
    """What one family of pending reasons means. `grace` (seconds) is how long a STUCK reason is tolerated first."""

    kind: str
    grace: float = 60.0
    advice: str = ""


_HELD = "The job is held; scontrol release JOBID lets it start, scancel JOBID removes it."
_LIMIT = "The job asks for more than this limit allows: ask for less, or use another QOS, account or partition."
_ACCOUNT = (
    "The account or QOS may not be used here: correct dgxc_slurm_account, dgxc_slurm_qos or dgxc_slurm_partition."
)

#: Reasons in the order in which they are tried: (pattern over the normalised reason, rule). Normalised means lower
#: case, no blanks, underscores or parentheses, and without a list of nodes; see `normalise_reason`.
_REASONS: tuple[tuple[str, ReasonRule], ...] = (
    # Stuck: nobody but a person changes that. Partition limits can come from drained nodes, so they get more time.
    (
        r"partitiontimelimit",
        ReasonRule(STUCK, 60.0, "The time limit exceeds the partition's MaxTime: ask for less time."),
    ),
    (r"partitionnodelimit", ReasonRule(STUCK, 600.0, "The node count is outside the partition's limits.")),
    (r"partitionconfig", ReasonRule(STUCK, 600.0, "The partition cannot take the job as it is configured now.")),
    (r"(assoc|qos)max\w*(perjob|pernode|minutesperjob)\w*", ReasonRule(STUCK, 60.0, _LIMIT)),
    (r"(assoc|qos)maxwalldurationperjob\w*", ReasonRule(STUCK, 60.0, _LIMIT)),
    (r"qosmin\w*", ReasonRule(STUCK, 60.0, "The QOS demands more than the job asks for.")),
    (r"maxmemperlimit", ReasonRule(STUCK, 60.0, _LIMIT)),
    (r"badconstraints", ReasonRule(STUCK, 60.0, "No node satisfies the job's constraints.")),
    (r"invalidaccount|accountnotallowed", ReasonRule(STUCK, 60.0, _ACCOUNT)),
    (r"invalidqos|qosnotallowed", ReasonRule(STUCK, 60.0, _ACCOUNT)),
    (r"dependencyneversatisfied", ReasonRule(STUCK, 0.0, "The job it depends on did not end as required: cancel it.")),
    (r"jobheldadmin|jobhelduser|held", ReasonRule(STUCK, 0.0, _HELD)),
    (r"jobholdmaxrequeue", ReasonRule(STUCK, 0.0, "The job was requeued too often and is held. " + _HELD)),
    (r"launchfailedrequeuedheld", ReasonRule(STUCK, 0.0, "The job could not be launched and is held. " + _HELD)),
    (
        r"reservation(deleted|invalid)",
        ReasonRule(STUCK, 60.0, "The reservation is gone: correct dgxc_slurm_reservation."),
    ),
    (r"deadline", ReasonRule(STUCK, 60.0, "The deadline cannot be met any more.")),
    (r"burstbufferoperation", ReasonRule(STUCK, 60.0, "The burst buffer failed; scontrol show job tells more.")),
    # Waiting with a deadline: down nodes, closed partitions, used-up budgets.
    (r"reqnodenotavail,?mayberes\w*", ReasonRule(WAITING)),
    (r"reqnodenotavail.*", ReasonRule(WAITING_WITH_DEADLINE, advice="Nodes that the job needs are down or drained.")),
    (r"partition(down|inactive)", ReasonRule(WAITING_WITH_DEADLINE, advice="The partition is closed at the moment.")),
    (r"nodedown|systemfailure", ReasonRule(WAITING_WITH_DEADLINE, advice="A node that the job needs is down.")),
    (r"(assoc|qos)grp\w*runmin\w*", ReasonRule(WAITING)),
    (
        r"(assoc|qos)grp\w*(minutes|wall)(limit)?",
        ReasonRule(WAITING_WITH_DEADLINE, advice="The group's budget of minutes is used up."),
    ),
    (r"qosusagethreshold", ReasonRule(WAITING_WITH_DEADLINE, advice="The account has used more than its QOS allows.")),
    (r"constraints", ReasonRule(WAITING_WITH_DEADLINE, advice="No node satisfies the constraints at the moment.")),
    # Waiting: the usual reasons of a busy cluster.
    (
        r"none|null|priority|resources|dependency|begintime|licenses|reservation|prolog|cleaning|scheddefer|fedjoblock|"
        r"jobarraytasklimit|assocmaxjobslimit|maxjobsperaccount|maxpowerednodes|maxpoweredupnodes|mpiportsbusy|"
        r"nvidiaimexchannels|nodeconfig|front(end)?down|burstbuffer(stagein|resources)|"
        r"(qos|assoc)?max\w*per(user|account)\w*|qosmaxjobsperuserlimit|(qos|assoc)?max\w*runmins\w*|"
        r"(assoc|qos)grp\w*|blocked|",
        ReasonRule(WAITING),
    ),
)
_REASON_TABLE: list[tuple[Pattern[str], ReasonRule]] = [(re.compile(pattern), rule) for pattern, rule in _REASONS]

#: A reason that no row matches may be new: it is waited on with a deadline and said on the screen.
UNKNOWN_REASON = ReasonRule(WAITING_WITH_DEADLINE, advice="This pending reason is not known to the collection.")


def normalise_reason(text: str) -> str:
    """A pending reason in one spelling, whichever command printed it.

    squeue writes `launch failed requeued held`, scontrol `launch_failed_requeued_held`, `%R` adds parentheses; the list
    of nodes after a colon says where, not what, and is dropped.
    """
    return re.sub(r"[\s_()]", "", text.split(":", 1)[0]).lower()


def reason_rule(text: str) -> ReasonRule:
    """The rule for a pending reason in any spelling; UNKNOWN_REASON when no row of the table matches it whole."""
    reason = normalise_reason(text)
    for pattern, rule in _REASON_TABLE:
        if pattern.fullmatch(reason):
            return rule
    return UNKNOWN_REASON


# --- Answers of sbatch ------------------------------------------------------------------------------------------

#: Nothing was created: the same submission may be repeated after a pause.
TRANSIENT = "transient"
#: The job may exist: look for it before anything else.
AMBIGUOUS = "ambiguous"
#: Refused, and would be refused again.
PERMANENT = "permanent"
#: Refused by a limit that may clear; repeated only when asked for.
POLICY = "policy"
#: Refused by maintenance or configuration that may clear in hours; not repeated.
CONFIGURATION = "configuration"


@dataclass(frozen=True)
class SubmitRule:
    """What one refusal of sbatch means. `advice` is a sentence for the engineer, empty when Slurm's own text
    suffices.
    """

    kind: str
    advice: str = ""


#: (text that the answer contains, rule), tried in this order, compared without regard to case.
SUBMIT_ANSWERS: tuple[tuple[str, SubmitRule], ...] = (
    ("unable to contact slurm controller (connect failure)", SubmitRule(TRANSIENT, "slurmctld cannot be reached.")),
    ("unable to contact slurm controller", SubmitRule(AMBIGUOUS)),
    ("socket timed out on send/recv operation", SubmitRule(AMBIGUOUS)),
    ("zero bytes were transmitted or received", SubmitRule(AMBIGUOUS)),
    ("unexpected message received", SubmitRule(AMBIGUOUS)),
    ("communication connection failure", SubmitRule(TRANSIENT)),
    ("message send failure", SubmitRule(AMBIGUOUS)),
    ("message receive failure", SubmitRule(AMBIGUOUS)),
    ("communication shutdown failure", SubmitRule(AMBIGUOUS)),
    ("connection timed out establishing", SubmitRule(TRANSIENT)),
    ("connection timed out", SubmitRule(AMBIGUOUS)),
    ("kernel reported delayed socket error", SubmitRule(AMBIGUOUS)),
    ("header lengths are longer than data received", SubmitRule(AMBIGUOUS)),
    ("insane message length", SubmitRule(AMBIGUOUS)),
    ("rate limit exceeded", SubmitRule(TRANSIENT)),
    ("backup controller in standby mode", SubmitRule(TRANSIENT)),
    ("controller is in standby mode", SubmitRule(TRANSIENT)),
    ("resource temporarily unavailable", SubmitRule(TRANSIENT)),
    ("maxjobcount limit reached", SubmitRule(TRANSIENT, "The controller holds as many jobs as it may (MaxJobCount).")),
    ("requested nodes are busy", SubmitRule(TRANSIENT)),
    ("required ports are in use", SubmitRule(TRANSIENT)),
    ("process is shutting down and closing all communications", SubmitRule(AMBIGUOUS)),
    ("i/o error writing script/environment to file", SubmitRule(TRANSIENT, "The controller's state disk may be full.")),
    ("slurm internal error", SubmitRule(AMBIGUOUS)),
    (
        "protocol authentication error",
        SubmitRule(
            TRANSIENT, "munge does not agree between this host and the controller: check munged and the clocks."
        ),
    ),
    (
        "invalid authentication credential",
        SubmitRule(
            TRANSIENT, "munge does not agree between this host and the controller: check munged and the clocks."
        ),
    ),
    (
        "authentication credential expired",
        SubmitRule(TRANSIENT, "The clocks of this host and of the controller differ too much (munge)."),
    ),
    ("partition configuration not available now", SubmitRule(CONFIGURATION)),
    ("system submissions disabled", SubmitRule(CONFIGURATION)),
    ("required partition not available", SubmitRule(CONFIGURATION, "The partition is inactive or drained.")),
    ("partition in down state", SubmitRule(CONFIGURATION)),
    ("required node not available", SubmitRule(CONFIGURATION)),
    ("maintenance reservation", SubmitRule(CONFIGURATION)),
    ("requested reservation not usable now", SubmitRule(CONFIGURATION)),
    ("requested reservation is in use", SubmitRule(CONFIGURATION)),
    ("licenses currently unavailable", SubmitRule(CONFIGURATION)),
    (
        "job violates accounting/qos policy",
        SubmitRule(
            POLICY,
            "Either too many jobs of yours are queued now, or this one is too big for the account, QOS or partition.",
        ),
    ),
    ("breached requested qos usage threshold", SubmitRule(POLICY)),
    (
        "unspecified error",
        SubmitRule(PERMANENT, "The site's job_submit filter refused the job; its text stands above."),
    ),
    (
        "invalid partition name specified",
        SubmitRule(PERMANENT, "Correct dgxc_slurm_partition; sinfo lists the partitions."),
    ),
    (
        "no partition specified or system default partition",
        SubmitRule(PERMANENT, "This site has no default partition: set dgxc_slurm_partition."),
    ),
    ("access/permission denied", SubmitRule(PERMANENT)),
    ("user's group not permitted to use this partition", SubmitRule(PERMANENT, "Correct dgxc_slurm_partition.")),
    ("requested nodes not in this partition", SubmitRule(PERMANENT)),
    ("invalid node name specified", SubmitRule(PERMANENT)),
    (
        "requested node configuration is not available",
        SubmitRule(
            PERMANENT, "No node, or too few nodes, can give what is asked; they may also all be down or drained."
        ),
    ),
    ("more processors requested than permitted", SubmitRule(PERMANENT)),
    ("count specification invalid", SubmitRule(PERMANENT)),
    ("job size specification needs to be provided", SubmitRule(PERMANENT)),
    ("job script not specified", SubmitRule(PERMANENT)),
    ("memory required by task is not available", SubmitRule(PERMANENT)),
    (
        "invalid account or account/partition combination",
        SubmitRule(PERMANENT, "Correct dgxc_slurm_account; sacctmgr show associations user=$USER lists yours."),
    ),
    ("invalid or unknown association", SubmitRule(PERMANENT, "Correct dgxc_slurm_account.")),
    ("invalid qos specification", SubmitRule(PERMANENT, "Correct dgxc_slurm_qos.")),
    ("requested time limit is invalid", SubmitRule(PERMANENT, "The time limit is missing or exceeds the partition's.")),
    ("time limit specification required", SubmitRule(PERMANENT)),
    ("invalid time-min specification", SubmitRule(PERMANENT)),
    ("generic resource", SubmitRule(PERMANENT, "sinfo -o '%N %G' shows what the nodes offer.")),
    ("invalid gres specification", SubmitRule(PERMANENT, "Give the GPU type everywhere or nowhere.")),
    ("requested gres option unsupported", SubmitRule(PERMANENT)),
    ("invalid trackable resource", SubmitRule(PERMANENT)),
    ("invalid feature specification", SubmitRule(PERMANENT)),
    ("invalid preferred feature specification", SubmitRule(PERMANENT)),
    ("job --batch option is invalid", SubmitRule(PERMANENT)),
    ("access denied to requested reservation", SubmitRule(PERMANENT, "Correct dgxc_slurm_reservation.")),
    ("requested reservation is invalid", SubmitRule(PERMANENT, "Correct dgxc_slurm_reservation.")),
    ("job dependency problem", SubmitRule(PERMANENT)),
    ("circular job dependency", SubmitRule(PERMANENT)),
    ("invalid job array specification", SubmitRule(PERMANENT)),
    ("invalid license specification", SubmitRule(PERMANENT)),
    ("invalid wckey specification", SubmitRule(PERMANENT)),
    ("invalid mcs_label specified", SubmitRule(PERMANENT)),
    ("invalid --nice value", SubmitRule(PERMANENT)),
    ("invalid user id", SubmitRule(PERMANENT, "The controller does not know the user (LDAP trouble): tell the site.")),
    (
        "invalid group id",
        SubmitRule(PERMANENT, "The controller does not know the group (LDAP trouble): tell the site."),
    ),
    ("unable to resolve user id to user name", SubmitRule(PERMANENT, "LDAP trouble on the controller: tell the site.")),
    ("parameter too long", SubmitRule(PERMANENT)),
    ("without the current working directory", SubmitRule(PERMANENT)),
    ("multiple partition job request not supported", SubmitRule(PERMANENT)),
    ("incompatible versions of client and server code", SubmitRule(PERMANENT)),
    ("requested operation not supported", SubmitRule(PERMANENT)),
    ("requested operation is presently disabled", SubmitRule(PERMANENT)),
    ("presently disabled", SubmitRule(PERMANENT)),
    ("requested topology configuration is not available", SubmitRule(PERMANENT)),
    ("invalid cluster name", SubmitRule(PERMANENT)),
    ("no eligible clusters for federated job", SubmitRule(PERMANENT)),
    ("invalid directive found in batch script", SubmitRule(PERMANENT)),
    ("this does not look like a batch script", SubmitRule(PERMANENT)),
    ("batch script contains dos line breaks", SubmitRule(PERMANENT)),
    (
        "unrecognized option '--container",
        SubmitRule(PERMANENT, "Pyxis is not installed (or not loaded by plugstack.conf) on this host."),
    ),
    ("unrecognized option", SubmitRule(PERMANENT)),
    ("invalid option", SubmitRule(PERMANENT)),
    ("unable to open file", SubmitRule(PERMANENT)),
    ("command not found", SubmitRule(PERMANENT, "Set dgxc_environment_modules or dgxc_slurm_bin_dir.")),
)

#: A text that no row contains may mean anything: the job is looked for, and nothing is submitted again.
UNRECOGNISED = "unrecognised"
UNKNOWN_ANSWER = SubmitRule(UNRECOGNISED)


def submit_rule(text: str) -> SubmitRule:
    """The rule for what a failed sbatch printed (both streams); UNKNOWN_ANSWER when no row of the table is in it."""
    lowered = text.lower()
    for part, rule in SUBMIT_ANSWERS:
        if part in lowered:
            return rule
    return UNKNOWN_ANSWER


#: Limits on what is queued or was used before, in sbatch's answer in small letters: of a policy's limits, those under
#: which the same job is taken later. sbatch prints a limit's name above its refusal, such as AssocMaxSubmitJobLimit,
#: QOSGrpSubmitJobsLimit or MaxSubmitJobsPerAccount. All others are limits on the job, which is too big for ever.
PASSING_LIMITS: tuple[str, ...] = ("submitjob", "usage threshold", "usagethreshold", "maxjobcount limit reached")


def is_passing_limit(text: str) -> bool:
    """Tell whether sbatch refused only what there is beside the job, so that waiting helps."""
    lowered = text.lower()
    return any(part in lowered for part in PASSING_LIMITS)


# --- Answers of squeue, sacct -----------------------------------------------------------------------------------

#: The tool answered; what it did not list, it does not know.
ANSWERED = "answered"
#: The tool could not answer now; nothing follows from it.
NO_ANSWER = "no_answer"
#: This site keeps no accounting; another method is needed for good.
DISABLED = "disabled"

#: (text in the answer of a query that ended with an error, meaning). Any other error is NO_ANSWER.
QUERY_ANSWERS: tuple[tuple[str, str], ...] = (
    ("slurm accounting storage is disabled", DISABLED),
    ("accounting_storage/none", DISABLED),
    # squeue -j with one id that slurmctld has purged or never had: it did look.
    ("invalid job id specified", ANSWERED),
)


def query_meaning(return_code: int, error_text: str) -> str:
    """ANSWERED, NO_ANSWER or DISABLED for how a query ended. The return code alone never decides; its text does."""
    lowered = error_text.lower()
    for part, meaning in QUERY_ANSWERS:
        if part in lowered:
            return meaning
    return ANSWERED if return_code == 0 else NO_ANSWER


# --- Exit codes -------------------------------------------------------------------------------------------------

SIGNAL_NAMES: dict[int, str] = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
}

#: sacct's second number for a job that the node could not launch (no log then), and for one stopped for memory.
LAUNCH_FAILURE_SIGNAL = 53
OUT_OF_MEMORY_SIGNAL = 125


def describe_exit(exit_code: int | None, signal: int | None) -> str:
    """An exit code pair of sacct (`code:signal`) as words, for instance `exit code 1` or `killed by signal 9
    (SIGKILL)`.

    sacct subtracts 128 from a shell's own code for a signal, so a small code may be a signal; a hint says so.
    """
    if signal == LAUNCH_FAILURE_SIGNAL and not exit_code:
        return "exit code 0:53 (the node could not launch the job; its output folder may be missing there)"
    if signal == OUT_OF_MEMORY_SIGNAL:
        return "exit code 0:125 (out of memory)"
    if signal:
        return "killed by signal {} ({})".format(signal, SIGNAL_NAMES.get(signal, "signal"))
    if exit_code is None:
        return "exit code unknown"
    if exit_code in (9, 15):
        return f"exit code {exit_code} (may be 128+{exit_code}, that is {SIGNAL_NAMES[exit_code]})"
    return f"exit code {exit_code}"
