# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known failures in the logs of training jobs: what they look like, what they mean, what to do.

A table, no logic. For one line of a log the first matching entry counts, so the precise entries stand before the
general ones. ``tokens`` are fixed byte strings for a fast search; a line is compared with ``pattern`` only when it
contains one of them. ``fatal`` entries are crash text: after them the process group does not go on. The others are
hints that explain a failure which something else has proved.

A failed run shows several of them, because one failure brings others with it: the ranks that are left complain about
the one that died, and srun about all of them. ``cause_order`` says which of them to believe first.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Pattern


class FailureRule(NamedTuple):
    """One known failure."""

    name: str
    fatal: bool
    tokens: tuple[bytes, ...]
    pattern: Pattern[bytes]
    cause: str
    remedy: str


def _rule(name: str, fatal: bool, tokens: tuple[bytes, ...], pattern: bytes, cause: str, remedy: str) -> FailureRule:
    return FailureRule(name, fatal, tokens, re.compile(pattern), cause, remedy)


FAILURE_RULES: tuple[FailureRule, ...] = (
    # Slurm ended the job.
    _rule(
        "time_limit",
        True,
        (b"DUE TO TIME LIMIT",),
        rb"error: \*\*\* (?:JOB|STEP) .{0,300}DUE TO TIME LIMIT",
        "Slurm ended the job at its time limit",
        "raise the time limit, or lower max_time or the number of steps so that the training ends before it",
    ),
    _rule(
        "requeued",
        True,
        (b"DUE TO JOB REQUEUE", b"DUE TO PREEMPTION"),
        rb"error: \*\*\* (?:JOB|STEP) .{0,300}DUE TO (?:JOB REQUEUE|PREEMPTION)",
        "Slurm took the nodes away: the job was preempted or requeued",
        "wait for the requeued job, or submit again with a qos that is not preempted",
    ),
    _rule(
        "node_failed",
        True,
        (b"DUE TO NODE FAILURE", b"Node failure on"),
        rb"error: (?:\*\*\* (?:JOB|STEP) .{0,300}DUE TO NODE FAILURE|Node failure on )",
        "a node of the job failed",
        "submit again and exclude the node that is named",
    ),
    _rule(
        "cancelled",
        True,
        (b"CANCELLED AT ",),
        rb"error: \*\*\* (?:JOB|STEP) .{0,300}CANCELLED AT \S+ \*\*\*",
        "the job or its step was cancelled",
        "look for an earlier error in the log; without one, a person or a policy cancelled the job",
    ),
    _rule(
        "host_memory",
        True,
        (b"oom", b"xceeded ", b"Out Of Memory"),
        rb"error: Detected \d+ oom[-_ ]kill event|error: Exceeded (?:job|step) memory limit"
        rb"|error: .{0,120}: tasks? [\d,-]+: Out Of Memory",
        "a process used more host memory than the job was given",
        "ask for all memory of the node (mem=0), or use fewer data loader workers",
    ),
    _rule(
        "killed",
        True,
        (b"exitcode: -9", b"exitcode  : -9", b"Signal 9 (SIGKILL)", b"killed by signal: Killed"),
        rb"failed \(exitcode: -9\)|exitcode  : -9 |Signal 9 \(SIGKILL\) received"
        rb"|worker .{0,80} is killed by signal: Killed",
        "a process of the training was killed from outside, most often by the kernel for lack of host memory",
        "ask for all memory of the node (mem=0), and use fewer data loader workers; dmesg on the node names the reason",
    ),
    _rule(
        "shared_memory",
        True,
        (b"shared memory", b"killed by signal: Bus error", b"exitcode: -7"),
        rb"insufficient shared memory|out of shared memory|killed by signal: Bus error|failed \(exitcode: -7\)"
        rb"|unable to (?:open|mmap|allocate) shared memory",
        "the shared memory of the node or the container (/dev/shm) is too small",
        "use fewer data loader workers, or have /dev/shm of the nodes enlarged",
    ),
    # The image and the container.
    _rule(
        "image_rate_limit",
        True,
        (b"returned error code: 429", b"toomanyrequests"),
        rb"returned error code: 429|toomanyrequests",
        "the registry refused the image because of too many downloads",
        "import the image once to a .sqsh file on shared storage and use its path",
    ),
    _rule(
        "image_unauthorized",
        True,
        (b"returned error code: 40", b"401 Unauthorized"),
        rb"URL \S{1,600} returned error code: 40[13]|(?i:curl|error).{0,200}\b401 Unauthorized",
        "the registry refused to give the image to the nodes",
        "add the registry's credentials for Enroot, and write the image as registry#path:tag, not registry/path:tag",
    ),
    _rule(
        "registry_unreachable",
        True,
        (b"curl: (",),
        rb"(?:pyxis: .{0,40}|^\s*(?:\d{1,6}: ?)?\s*|\[ERROR\] )curl: \((?:5|6|7|28|35|52|56|60)\) ",
        "a node could not reach the registry of the image",
        "import the image once to a .sqsh file on shared storage and use its path, or write the image as"
        " registry#path:tag if the name of another registry is shown",
    ),
    _rule(
        "image_not_found",
        True,
        (b"returned error code: 40", b".sqsh", b"Invalid image", b"failed to import docker image"),
        rb"URL \S{1,600} returned error code: 40[04]|(?i:error).{0,200}No such file or directory: \S{1,600}\.sqsh"
        rb"|\[ERROR\] Invalid image (?:reference|format)|pyxis: failed to import docker image",
        "the container image could not be read or imported",
        "check the image's name; a .sqsh file needs an absolute path on storage that the nodes see",
    ),
    _rule(
        "mount_denied",
        True,
        (b"enroot-mount: ",),
        rb"enroot-mount: failed to mount: .{0,600}: Permission denied",
        "a folder to be mounted into the container may not be entered on a node",
        "check owner and mode of the folder and of those above it, and whether root is squashed on that file system",
    ),
    _rule(
        "missing_mount",
        True,
        (b"enroot-mount: ", b"source path does not exist", b"--container-mounts: ", b"mount entry", b"pyxis: mount "),
        rb"enroot-mount: failed to mount: |pyxis: --container-mounts: (?:source path does not exist|invalid format"
        rb"|argument required)|pyxis: could not add mount entry|pyxis: mount (?:source|target) must be",
        "a folder to be mounted into the container is missing on a node, or its mount is written wrongly",
        "check that every source of container_mounts exists on all compute nodes",
    ),
    _rule(
        "container_not_entered",
        True,
        (b"--container-", b"/opt/NeMo", b"/attempt/"),
        rb"(?:unrecognized|invalid) option '?-{2}container-|pyxis: ignoring --\S{1,40} because neither --container-"
        rb"|can't open file '/(?:opt/NeMo|attempt/)|/opt/NeMo\S{0,300}: No such file or directory"
        rb"|^\s*(?:\d{1,6}: ?)?\s*(?:\S{0,30}bash|sh|python\S{0,5}): .{0,40}/attempt/\S{0,200}: No such file or"
        rb" directory",
        "the command ran outside the container: Pyxis is not active on this cluster or the image was not given",
        "ask for Pyxis on the nodes (srun --help must list --container-image) and check the image setting",
    ),
    _rule(
        "container_runtime",
        True,
        (b"enroot-", b"/run/enroot", b"/run/pyxis", b"/run/user/", b"enroot list", b"libnvidia-container"),
        rb"enroot-nsenter: failed to |cannot create directory .{0,3}/run/(?:enroot|user)|couldn't mkdir /run/pyxis"
        rb"|enroot list -f\S{0,2} did not produce|Command not found: nvidia-container-cli|enroot-aufs2ovlfs: ",
        "Enroot or Pyxis is not set up as it should be on a node",
        "tell the administrators of the cluster; the line names what is missing",
    ),
    _rule(
        "container_entrypoint",
        True,
        (b"enroot-switchroot: ", b"container exited too soon"),
        rb"enroot-switchroot: failed to execute: |pyxis: container exited too soon",
        "the image holds no shell or its entry point ends the container",
        "check the image; --no-container-entrypoint starts it without its entry point",
    ),
    _rule(
        "container_start",
        True,
        (b"pyxis: ", b"spank"),
        rb"error: pyxis: (?:couldn't (?:start container|chdir to |join |get container )|failed to (?:start container"
        rb"|create container filesystem)|container start (?:failed|error)|error: a container with name"
        rb"|container was not started)|error: spank: required plugin \S{1,100}pyxis\S{0,40} ",
        "the container could not be started on a node",
        "read the Enroot lines before this one; they name the reason",
    ),
    # Storage.
    _rule(
        "disk_full",
        True,
        (b"No space left on device",),
        rb"(?i:error|errno|cannot|failed|write|enroot|mksquashfs).{0,400}No space left on device",
        "a file system is full",
        "free space on shared storage, /tmp or the container's cache, and keep fewer checkpoints",
    ),
    _rule(
        "quota",
        True,
        (b"isk quota exceeded",),
        rb"(?i:error|errno|cannot|failed|write|enroot|mksquashfs).{0,400}Disk quota exceeded",
        "your quota on a file system is used up",
        "free space or ask for more, and keep fewer checkpoints",
    ),
    _rule(
        "checkpoint_write",
        True,
        (b"inline_container.cc", b"SafetensorError"),
        rb"inline_container\.cc:\d+\].{0,40}(?:PytorchStreamWriter failed writing|unexpected pos)"
        rb"|SafetensorError: .{0,80}I/O error",
        "a checkpoint could not be written, most often because the disk is full or the quota is used up",
        "look at free space and quota of the run's folder, and keep fewer checkpoints",
    ),
    _rule(
        "read_only",
        True,
        (b"Read-only file system",),
        rb"(?i:error|errno|cannot|failed).{0,400}Read-only file system",
        "the program wrote to a folder that is read-only where it ran, such as a home folder that a container lacks",
        "mount a folder for it, or lead its cache elsewhere (HF_HOME, TORCH_EXTENSIONS_DIR, TRITON_CACHE_DIR)",
    ),
    _rule(
        "storage",
        True,
        (b"tale file handle", b"nput/output error", b"Transport endpoint is not connected"),
        rb"(?i:error|errno|cannot|failed).{0,400}(?:Stale file handle|Input/output error"
        rb"|Transport endpoint is not connected)",
        "shared storage did not answer on a node",
        "submit again and exclude the node; tell the administrators when it happens twice",
    ),
    # The hub and the tokenizer: before the general network entries, whose words they contain.
    _rule(
        "tokenizer_download",
        True,
        (b"load tokenizer for", b"models.huggingface.co"),
        rb"Can't load tokenizer for |(?:Error|error|failed|403|404).{0,400}models\.huggingface\.co"
        rb"|models\.huggingface\.co.{0,400}(?:Error|error|failed|403|404)",
        "the tokenizer's files could not be downloaded",
        "put vocab.json and merges.txt on shared storage and name them, or set TRANSFORMERS_OFFLINE=0",
    ),
    _rule(
        "hub_offline",
        True,
        (b"offline mode is enabled", b"outgoing traffic has been disabled", b"OfflineModeIsEnabled"),
        rb"offline mode is enabled|outgoing traffic has been disabled|OfflineModeIsEnabled: ",
        "a model, data set or metric is not in the cache, and downloads are switched off",
        "download it beforehand into the cache that the job mounts, or let the job download it (offline: false)",
    ),
    _rule(
        "hub_unauthorized",
        True,
        (b" Client Error", b"GatedRepoError", b"RepositoryNotFoundError", b"gated repo", b"restricted. You must"),
        rb"40[13] Client Error.{0,200}huggingface\.co|(?:GatedRepoError|RepositoryNotFoundError): "
        rb"|(?:trying|error|Error).{0,100}gated repo|Access to model .{0,200}restricted\. You must",
        "the model hub refused the model or data set",
        "accept its terms on the hub and give a token",
    ),
    _rule(
        "hub_unreachable",
        True,
        (b"huggingface.co", b"LocalEntryNotFoundError", b"Couldn't reach ", b"ouldn't find a module script"),
        rb"couldn't connect to 'https://huggingface\.co|(?:Max retries exceeded|ConnectionError|ConnectTimeout"
        rb"|ProxyError|SSLError|ReadTimeout|Connection reset|Network is unreachable|Failed to resolve).{0,400}"
        rb"huggingface\.co"
        rb"|huggingface\.co.{0,400}(?:Max retries exceeded|[Tt]imed out|Network is unreachable|Failed to resolve)"
        rb"|LocalEntryNotFoundError: |Error: Couldn't (?:reach|find a module script)",
        "a node could not reach the model hub",
        "download models and data beforehand to shared storage and mount that folder, or open the network",
    ),
    # Start of the process group.
    _rule(
        "nccl_interface",
        True,
        (b"interface found", b"neither AF_INET", b"Unable to find address for: ", b"Unable to find interface"),
        rb"(?:NCCL WARN|Bootstrap ?:).{0,80}no (?:socket|\S{1,40} )? ?interface found"
        rb"|ncclSocketInit: connecting to address .{0,80}neither AF_INET"
        rb"|(?:enforce fail|Error).{0,200}Unable to find (?:address|interface) for: ",
        "NCCL found no network interface of the wanted name",
        "set NCCL_SOCKET_IFNAME (GLOO_SOCKET_IFNAME without GPUs) in the fabric to an interface that exists on the"
        " nodes and has an address (ip -o addr), or unset it",
    ),
    _rule(
        "port_in_use",
        True,
        (b"ddress already in use", b"EADDRINUSE"),
        rb"Address already in use|EADDRINUSE",
        "the port of the process group is taken on the first node",
        "choose another MASTER_PORT, best one derived from the job id",
    ),
    _rule(
        "head_node_unreachable",
        True,
        (b"client socket has", b"Socket Timeout"),
        rb"(?:DistNetworkError|DistStoreError|RuntimeError|TimeoutError): (?:The client socket has (?:timed out|failed"
        rb" to connect)|Socket Timeout)",
        "a node could not reach the first node's port, or the first node gave up before the others came",
        "check that MASTER_ADDR and MASTER_PORT are those of the job's first node and that the network lets them"
        " through; look for an earlier error of rank 0",
    ),
    _rule(
        "host_not_resolved",
        True,
        (b"gai error", b"Name or service not known", b"failure in name resolution"),
        rb"cannot be retrieved \(gai error|Name or service not known|[Tt]emporary failure in name resolution",
        "a host name could not be resolved",
        "take MASTER_ADDR from the job's node list (scontrol show hostnames) and check name resolution on the nodes",
    ),
    _rule(
        "rank_missing",
        True,
        (
            b"clients joined",
            b"collective operation timeout",
            b"monitoredBarrier",
            b"watchdog got stuck",
            b"losed by remote peer",
            b"losed by peer",
            b"ncclRemoteError",
        ),
        rb"(?:[Tt]imed out|[Tt]imeout).{0,200}\d+/\d+ clients joined|Watchdog caught collective operation timeout"
        rb"|Rank \d+ failed to pass monitoredBarrier|ProcessGroupNCCL's watchdog got stuck"
        rb"|NCCL WARN .{0,120}Connection closed by remote peer|gloo/\S{1,200}\] Connection (?:closed|reset) by peer"
        rb"|ncclRemoteError: ",
        "at least one rank stopped or never came, and the others waited for it in vain",
        "look for the first error of any rank, in all logs; start srun with --kill-on-bad-exit=1",
    ),
    _rule(
        "fabric",
        True,
        (b"NET/IB", b"ibv_"),
        rb"NCCL WARN NET/IB\w? ?: Got completion from peer .{0,80}with (?:status=|error )[1-9]"
        rb"|NCCL WARN .{0,40}Call to ibv_\w+ failed",
        "the InfiniBand or RoCE connection between two nodes failed",
        "check the fabric's settings against those of the cluster; the same nodes twice mean a broken link, so exclude"
        " them and tell the administrators",
    ),
    _rule(
        "topology_file",
        False,
        (b"XML topology file",),
        rb"NCCL WARN Could not open XML topology file",
        "NCCL did not find its topology file, so it runs with a guess that may be slow",
        "mount the folder of NCCL_TOPO_FILE into the container; the fabric holds both together",
    ),
    # The GPU.
    _rule(
        "gpu_shared",
        True,
        (b"Duplicate GPU detected", b"invalid device ordinal"),
        rb"Duplicate GPU detected : rank|CUDA error: invalid device ordinal",
        "more processes were started on a node than it has GPUs, or two of them on the same one",
        "start one process for each GPU: compare gpus_per_node with the GPUs that the node has",
    ),
    _rule(
        "cuda_out_of_memory",
        True,
        (b"out of memory",),
        rb"(?:OutOfMemoryError|RuntimeError|AcceleratorError): CUDA (?:error: )?out of memory|OutOfMemoryError: CUDA"
        rb"|NCCL WARN Cuda failure (?:\d+ )?'out of memory'|what\(\):  CUDA (?:error: )?out of memory",
        "a GPU ran out of memory",
        "lower the micro batch size, or use more tensor or pipeline parallelism or activation checkpointing",
    ),
    _rule(
        "gpu_driver",
        True,
        (
            b"CUDA driver version",
            b"No CUDA GPUs are available",
            b"NVIDIA driver on your system",
            b"unsatisfied condition: ",
            b"No GPU found",
            b"nvidia-container-cli: ",
        ),
        rb"CUDA driver version is insufficient|No CUDA GPUs are available|NVIDIA driver on your system is too old"
        rb"|Found no NVIDIA driver on your system|unsatisfied condition: cuda|nvidia-container-cli: \w+ error"
        rb"|Error: No GPU found",
        "the process saw no usable GPU",
        "check that GPUs were asked for (gpus_per_node) and that the image's CUDA fits the driver on the nodes",
    ),
    _rule(
        "cuda_error",
        True,
        (b"CUDA error: ", b"uncorrectable ECC", b"Xid "),
        rb"(?:RuntimeError|AcceleratorError|what\(\)).{0,100}CUDA error: |uncorrectable ECC error|NVRM: Xid ",
        "a GPU or a kernel on it failed",
        "submit again and exclude the node; the same error on another node is an error in the program",
    ),
    _rule(
        "nccl_error",
        True,
        (b"NCCL error", b"ncclSystemError", b"ncclInternalError", b"ncclUnhandled", b"ncclRemoteError"),
        rb"NCCL error in: |RuntimeError: NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError"
        rb"|ncclRemoteError",
        "communication between the GPUs failed",
        "run once with NCCL_DEBUG=INFO and look at the first NCCL WARN line; check the fabric settings",
    ),
    # The program.
    _rule(
        "loss_diverged",
        True,
        (b"loss scale already at minimum", b"found NaN in", b"nan and/or inf"),
        rb"Current loss scale already at minimum|found NaN in (?:local|the )|Detected nan and/or inf values",
        "the loss or its gradients became NaN or infinite",
        "lower the learning rate, use bf16 instead of fp16 where the GPU has it, or check the data",
    ),
    _rule(
        "launcher_missing",
        True,
        (b"accelerate", b"torchrun", b"deepspeed"),
        rb": (?:accelerate|torchrun|deepspeed): (?:command )?not found|execve\(\): (?:accelerate|torchrun|deepspeed): ",
        "the program that starts the training is not where the command ran: not in the image, or outside the container",
        "check the image, and that the log shows the container being entered",
    ),
    _rule(
        "datasets_version",
        True,
        (b"use_auth_token",),
        rb"TypeError: .{0,200}unexpected keyword argument 'use_auth_token'",
        "the image holds a release of the datasets library that this script cannot use",
        "build the image with datasets<3",
    ),
    _rule(
        "batch_size",
        True,
        (b"global batch size", b"global_batch_size"),
        rb"(?:Error.{0,100})?global[ _]batch[ _]size.{0,60} (?:is )?not divisible by ",
        "the global batch size does not divide among the data parallel ranks",
        "choose a number of nodes so that the global batch size is a multiple of micro batch size x data parallel size",
    ),
    _rule(
        "python_module_missing",
        True,
        (b"No module named",),
        rb"(?:ModuleNotFoundError|ImportError): No module named ",
        "a Python package is missing where the command ran",
        "check that the command runs in the container and that the image holds the package",
    ),
    _rule(
        "wrong_architecture",
        True,
        (b"Exec format error",),
        rb"Exec format error",
        "the image was built for another processor architecture",
        "build or import the image for the architecture of the compute nodes",
    ),
    _rule(
        "program_missing",
        True,
        (b"execve(): ", b"execve: "),
        rb"error: execve\(?\)?: ?\S{1,300}: (?:No such file or directory|Permission denied)",
        "a program that a step should start is missing on the node, or outside the container that holds it",
        "check the path, that shared storage is mounted on the nodes, and that the step enters its container",
    ),
    _rule(
        "work_folder",
        False,
        (b"couldn't chdir to", b"couldn't change dir to"),
        rb"error: couldn't (?:chdir|change dir) to ",
        "the working folder of the job does not exist on a node, so the step ran in another one",
        "check that shared storage is mounted on all compute nodes under the same path",
    ),
    _rule(
        "git_ownership",
        False,
        (b"dubious ownership",),
        rb"detected dubious ownership in repository",
        "Git refuses a repository that belongs to another user, as inside a container that runs as root",
        "nothing to do unless the program needs the answer: git config --global --add safe.directory PATH in the image",
    ),
    _rule(
        "command_not_found",
        False,
        (b"ommand not found",),
        rb": command not found\s*$|\[ERROR\] Command not found: ",
        "a command does not exist where it was called",
        "check the environment modules and the image",
    ),
    _rule(
        "permission",
        False,
        (b"ermission denied",),
        rb"(?i:error|errno|cannot|can't|failed|bash|srun).{0,300}Permission denied",
        "a file or folder may not be used by this user on a node",
        "check owner and mode of the path, and whether root is squashed on that file system",
    ),
    _rule(
        "task_failed",
        True,
        (b": task ", b": tasks "),
        rb"srun: error: \S{1,300}: tasks? [\d,-]{1,300}: (?:Exited with exit code|Killed|Terminated|Aborted"
        rb"|Segmentation fault|Bus error|Floating point|launch failed|Exited with signal|Illegal instruction)",
        "a task of the job step ended with an error",
        "look for the first error of that task in the log",
    ),
    _rule(
        "step_launch",
        True,
        (b"nable to create step", b"ask launch", b" launch failed", b"nable to confirm allocation"),
        rb"srun: error: (?:Unable to (?:create step|confirm allocation)|Task launch for |task \d+ launch failed)",
        "Slurm could not start the job step",
        "compare the step's nodes, tasks and GPUs with those of the job",
    ),
    _rule(
        "worker_failed",
        True,
        (b"failed (exitcode: ", b"ChildFailedError"),
        rb"failed \(exitcode: -?[1-9]\d*\) local_rank: |multiprocessing\.errors\.ChildFailedError",
        "a training process ended with an error, and its launcher ended the others",
        "look for the first traceback of that rank, in both logs",
    ),
    _rule(
        "crash_signal",
        True,
        (b"Segmentation fault", b"Bus error", b"core dumped", b"terminate called"),
        rb"Segmentation fault\b|Bus error\b|\(core dumped\)|terminate called (?:after throwing|without an active)",
        "a process crashed",
        "look at the lines before; a bus error usually means that /dev/shm is too small",
    ),
    _rule(
        "traceback",
        True,
        (b"Traceback (most recent call last)",),
        rb"Traceback \(most recent call last\)",
        "the program ended with a Python exception",
        "read the last line of the traceback in the log",
    ),
    _rule(
        "python_exception",
        False,
        (b"Error: ", b"Exception: "),
        rb"^\s*(?:\d{1,6}: ?)?\s*(?:\[\w{1,12}\]: ?)?(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception): ",
        "the program raised a Python exception",
        "read the message; the traceback above it names the place",
    ),
    _rule(
        "slurm_error",
        False,
        (b"srun: error: ", b"slurmstepd"),
        rb"srun: error: |slurmstepd(?:-\S{1,100})?: error: ",
        "Slurm reported an error on a node",
        "read the message",
    ),
)

# What other failures bring with them, the most telling first: none of these is the cause where another is seen.
_CONSEQUENCES = (
    "hub_unreachable",
    "image_not_found",
    "container_start",
    "host_not_resolved",
    "head_node_unreachable",
    "killed",
    "cuda_error",
    "fabric",
    "crash_signal",
    "nccl_error",
    "rank_missing",
    "time_limit",
    "requeued",
    "node_failed",
    "worker_failed",
    "traceback",
    "step_launch",
    "task_failed",
    "cancelled",
    "work_folder",
    "command_not_found",
    "permission",
    "topology_file",
    "git_ownership",
    "python_exception",
    "slurm_error",
)


def cause_order(name: str) -> int:
    """Return the rank of an entry among the causes of one failed run: the smallest is the likeliest cause."""
    return 1 + _CONSEQUENCES.index(name) if name in _CONSEQUENCES else 0


# In the order of the table. One flat list, because it is walked for every line that says "error".
_RULE_OF_TOKEN = tuple((token, rule) for rule in FAILURE_RULES for token in rule.tokens)

# An exception in a destructor or at exit is reported this way and changes nothing.
HARMLESS_BEFORE_TRACEBACK = (b"Exception ignored in", b"Exception ignored from")


def classify_line(line: bytes, previous_line: bytes = b"") -> FailureRule | None:
    """Return the first entry of the table that this line shows, or None.

    ``previous_line`` tells an exception that Python ignores from one that ends the program.
    """
    for token, rule in _RULE_OF_TOKEN:
        if token in line and rule.pattern.search(line) is not None:
            if rule.name == "traceback" and any(text in previous_line for text in HARMLESS_BEFORE_TRACEBACK):
                return None
            return rule
    return None


def all_tokens() -> list[bytes]:
    """Return every fixed string of the table once."""
    return sorted({token for rule in FAILURE_RULES for token in rule.tokens})
