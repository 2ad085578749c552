# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the table of known failures: for each entry lines that show it, and lines that nearly do."""

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _training_log_failures
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_failures import (
    FAILURE_RULES,
    cause_order,
    classify_line,
)

SHOWN: dict[str, list[str]] = {
    "time_limit": [
        "slurmstepd: error: *** JOB 42221 ON clr1247 CANCELLED AT 2022-04-14T16:20:46 DUE TO TIME LIMIT ***",
        "1: slurmstepd: error: *** STEP 9999.0 ON hpc CANCELLED DUE TO TIME LIMIT ***",
        "| 11/50 [1:55:26<6:49:05, 629.37s/it]slurmstepd: error: *** JOB 1 ON n CANCELLED AT x DUE TO TIME LIMIT ***",
    ],
    "requeued": [
        "slurmstepd: error: *** JOB 5 ON gpu001 CANCELLED AT 2024-03-12T01:36:28 DUE TO JOB REQUEUE ***",
        "slurmstepd: error: *** STEP 5.0 ON gpu001 CANCELLED AT 2024-03-12T01:36:28 DUE TO PREEMPTION ***",
    ],
    "node_failed": [
        "slurmstepd: error: *** STEP 5.0 ON gpu001 CANCELLED AT 2024-03-12T01:36:28 DUE TO NODE FAILURE ***",
        "srun: error: Node failure on gpu003",
    ],
    "cancelled": ["slurmstepd: error: *** STEP 181.0 ON gpu001 CANCELLED AT 2024-03-12T01:36:28 ***"],
    "host_memory": [
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=181.0. Some of your processes may have been killed.",
        "slurmstepd: error: Detected 3 oom_kill events in StepId=181.0.",
        "slurmstepd: error: Exceeded job memory limit",
        "srun: error: gpu001: task 3: Out Of Memory",
    ],
    "image_rate_limit": [
        "slurmstepd: error: pyxis:     [ERROR] URL https://registry-1.docker.io/v2/x returned error code: 429 Too Many",
        "toomanyrequests: You have reached your pull rate limit",
    ],
    "image_unauthorized": [
        "slurmstepd: error: pyxis:     [ERROR] URL https://registry-1.docker.io/v2/a/b returned error code: 401 Unauth",
        "curl: (22) The requested URL returned error: 401 Unauthorized",
    ],
    "image_not_found": [
        "slurmstepd: error: pyxis:     [ERROR] URL https://nvcr.io/v2/a/manifests/b returned error code: 404 Not Found",
        "slurmstepd: error: pyxis:     [ERROR] No such file or directory: /lustre/images/alma-24.01.sqsh",
        "slurmstepd: error: pyxis:     [ERROR] Invalid image reference: docker://dockerd://mlperf-nvidia:minigo",
        "slurmstepd: error: pyxis: failed to import docker image: images/x.sqsh",
        "slurmstepd: error: pyxis:     [ERROR] URL http://m:5000/v2/x/manifests/latest returned error code: 400 Bad",
    ],
    "missing_mount": [
        "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /cm/shared at /run/x/cm/shared: No such file or "
        "directory",
        "slurmstepd: error: pyxis: --container-mounts: source path does not exist: /cm/shared",
        "slurmstepd: error: pyxis: --container-mounts: invalid format: a:b:c:d",
        "srun: error: pyxis: could not add mount entry: /cm/shared:/cm/shared",
        'srun: error: pyxis: mount source must be a relative path, an absolute path, "tmpfs" or "umount"',
    ],
    "container_not_entered": [
        "srun: unrecognized option '--container-image'",
        "python3: can't open file '/opt/NeMo/examples/nlp/language_modeling/megatron_gpt_pretraining.py': [Errno 2] No",
        "bash: line 1: cd: /opt/NeMo: No such file or directory",
        "bash: /attempt/launch.sh: No such file or directory",
        "1: /usr/bin/bash: /attempt/launch.sh: No such file or directory",
        "python3: can't open file '/attempt/train.py': [Errno 2] No such file or directory",
        "srun: error: pyxis: ignoring --container-mounts because neither --container-image nor --container-name is set",
    ],
    "container_start": [
        "slurmstepd: error: pyxis: couldn't start container",
        "slurmstepd: error: pyxis: container start failed with error code: 1",
        "slurmstepd: error: pyxis: couldn't chdir to container cwd: Stale file handle",
        'slurmstepd: error: pyxis: error: a container with name "x" does not exist, and --container-image is not set',
        "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1",
    ],
    "disk_full": [
        "OSError: [Errno 28] No space left on device: '/results/checkpoints'",
        "bash: line 1: echo: write error: No space left on device",
    ],
    "quota": ["OSError: [Errno 122] Disk quota exceeded: '/lustre/fs0/scratch/demo-user/ckpt'"],
    "storage": ["OSError: [Errno 116] Stale file handle", "cat: error reading x: Input/output error"],
    "tokenizer_download": [
        "OSError: Can't load tokenizer for 'gpt2'. If you were trying to load it from 'https://huggingface.co/models'",
        "HTTPError while downloading https://s3.amazonaws.com/models.huggingface.co/bert/gpt2-vocab.json",
    ],
    "hub_unauthorized": [
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/x",
        "OSError: You are trying to access a gated repo.",
        "huggingface_hub.utils._errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1-65)",
    ],
    "hub_unreachable": [
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached",
        "(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /gpt2",
        "huggingface_hub.utils._errors.LocalEntryNotFoundError: An error happened while trying to locate the file",
        "ConnectionError: Couldn't reach 'nateraw/ucf101-subset' on the Hub (ConnectionError)",
        "FileNotFoundError: Couldn't find a module script at /workspace/wer/wer.py. Module 'wer' doesn't exist on the Hub",
    ],
    "nccl_interface": [
        "gpu001:4000:4100 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
        "gpu001:4000:4100 [0] misc/socket.cc:9 NCCL WARN Bootstrap : no NCCL_SOCKET_IFNAME interface found",
        "[trainer0|0]:ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to "
        "find address for: eth0",
    ],
    "port_in_use": [
        "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)",
        "RuntimeError: The server socket has failed to listen on any local network address. port: 12341, useIpv6: 0, "
        "code: -98, name: EADDRINUSE, message: address already in use",
        "RuntimeError: [Errno EADDRINUSE] x",
    ],
    "host_not_resolved": [
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (gpu009, 29500) cannot be retrieved (gai error: -2 - x)",
        "ssh: Could not resolve hostname gpu009: Name or service not known",
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (gpu001, 45458) cannot be retrieved (gai error: -3 - "
        "Temporary failure in name resolution).",
    ],
    "rank_missing": [
        "[rank1]:[E ProcessGroupNCCL.cpp:537] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8",
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 15/16 clients joined.",
        "Epoch 0:   6%|█   | 320/5000 [6:28:43<94:39:17, v_num=95nc][E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=96120, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25624887",
        "[rank7]:[E626 05:14:36 ProcessGroupNCCL.cpp:1743] [PG ID 0 Rank 7] ProcessGroupNCCL's watchdog got stuck for 480",
        "gpu001:13571:13600 [0] misc/socket.cc:484 NCCL WARN socketProgress: Connection closed by remote peer gpu2<42830>",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.9]:21873",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ],
    "cuda_out_of_memory": [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "3: RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "gpu001:45:99 [0] include/alloc.h:160 NCCL WARN Cuda failure 'out of memory'",
        "  what():  CUDA out of memory. Tried to allocate 1.00 GiB",
    ],
    "gpu_driver": [
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: Found no NVIDIA driver on your system.",
        "slurmstepd: error: pyxis:     nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8",
        "RuntimeError: No GPU found. A GPU is needed for quantization.",
    ],
    "cuda_error": ["RuntimeError: CUDA error: an illegal memory access was encountered"],
    "nccl_error": [
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    ],
    "batch_size": [
        "AssertionError: global batch size (512) is not divisible by micro batch size (1) times data parallel"
    ],
    "python_module_missing": ["ModuleNotFoundError: No module named 'nemo'"],
    "wrong_architecture": ["bash: /usr/bin/python3: cannot execute binary file: Exec format error"],
    "command_not_found": ["/var/spool/slurmd/job181/slurm_script: line 12: module: command not found"],
    "permission": ["mkdir: cannot create directory '/scratch/out': Permission denied"],
    "task_failed": [
        "srun: error: gpu001: task 3: Exited with exit code 1",
        "srun: error: gpu[001-002]: tasks 0-3,5: Killed",
    ],
    "step_launch": ["srun: error: Unable to create step for job 181: More processors requested than permitted"],
    "crash_signal": [
        "Segmentation fault (core dumped)",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
    ],
    "traceback": ["Traceback (most recent call last):", "2: Traceback (most recent call last):"],
    "python_exception": ["ValueError: decay must be positive", "[rank3]: torch.cuda.SomethingError: bad"],
    "slurm_error": ["slurmstepd-io-cpu-09: error: couldn't do it", "srun: error: Something new"],
    "killed": [
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 4 (pid: 612) of binary: x",
        "  exitcode  : -9 (pid: 14750)",
        "  traceback : Signal 9 (SIGKILL) received by PID 14750",
        "RuntimeError: DataLoader worker (pid 813) is killed by signal: Killed.",
    ],
    "shared_memory": [
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "RuntimeError: DataLoader worker (pid 32) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory.",
        "1: E0325 20:57:27 2606 api.py:869] failed (exitcode: -7) local_rank: 5 (pid: 2630) of binary: /usr/bin/python",
    ],
    "registry_unreachable": [
        "slurmstepd: error: pyxis:     curl: (6) Could not resolve host: registry-1.docker.io",
        "slurmstepd: error: pyxis:     curl: (35) error:1408F10B:SSL routines:ssl3_get_record:wrong version number",
        "0: curl: (7) Failed to connect to nvcr.io port 443: Connection refused",
    ],
    "mount_denied": [
        "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /home/a/data at /tmp/enroot-data/user-0/x/data: "
        "Permission denied",
    ],
    "container_runtime": [
        "slurmstepd: error: pyxis: enroot-nsenter: failed to create user namespace: Permission denied",
        "slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/enroot': Permission denied",
        "slurmstepd: error: pyxis:     mkdir: cannot create directory \u2018/run/user/1000\u2019: Permission denied",
        "[2024-07-05T10:10:06.901] [321.0] error: pyxis: couldn't mkdir /run/pyxis/100005: No such file or directory",
        "slurmstepd: error: pyxis:     [ERROR] Command not found: nvidia-container-cli, see https://github.com/NVIDIA/"
        "libnvidia-container",
    ],
    "container_entrypoint": [
        "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
        "slurmstepd: error: pyxis: container exited too soon",
    ],
    "checkpoint_write": [
        "RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing file data/3: file",
        "[rank0]: RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 704 vs 598",
        'safetensors_rust.SafetensorError: Error while serializing: IoError(Os { message: "I/O error" })',
    ],
    "hub_offline": [
        "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/api/models/x: offline mode is",
        "ConnectionError: Cannot reach https://huggingface.co/x: offline mode is enabled. To disable it, please unset",
        "huggingface_hub.utils._errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and "
        "outgoing traffic has been disabled.",
    ],
    "head_node_unreachable": [
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to",
        "torch.distributed.DistStoreError: Socket Timeout",
        "RuntimeError: The client socket has failed to connect to any network address of (gpu001, 29500).",
    ],
    "fabric": [
        "gpu003:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<44206> with status=12",
        "gpu003:9821:9920 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer fe80::1%ib0<33397> "
        "with error 4, opcode 32611",
        "gpu003:45:99 [0] ibvwrap.cc:130 NCCL WARN Call to ibv_reg_mr failed",
    ],
    "topology_file": [
        "gpu003:45:99 [0] graph/xml.cc:629 NCCL WARN Could not open XML topology file /cm/shared/etc/ndv4-topo.xml : No",
    ],
    "gpu_shared": [
        "gpu001:45:99 [0] init.cc:902 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 7000",
        "RuntimeError: CUDA error: invalid device ordinal",
    ],
    "loss_diverged": [
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        "RuntimeError: Rank 3, node gpu001, device 3, iteration 17: found NaN in local forward loss calculation",
        "ValueError: Detected nan and/or inf values in `loss`.",
    ],
    "launcher_missing": [
        "/attempt/launch.sh: line 41: accelerate: command not found",
        "0: bash: line 1: torchrun: command not found",
        "slurmstepd: error: execve(): accelerate: No such file or directory",
    ],
    "datasets_version": [
        "TypeError: load_dataset() got an unexpected keyword argument 'use_auth_token'",
    ],
    "program_missing": [
        "slurmstepd: error: execve(): mkdir: No such file or directory",
        "slurmstepd-gpu001: error: execve(): /tmp/slurmd/job2997814/slurm_script: No such file or directory",
    ],
    "read_only": [
        "0: OSError: [Errno 30] Read-only file system: '/home/demo-user/.cache'",
        "mkdir: cannot create directory '/root/.triton': Read-only file system",
    ],
    "work_folder": [
        "slurmstepd: error: couldn't chdir to `/lustre/runs/x': No such file or directory: going to /tmp instead",
        "slurmstepd-io-cpu-09: error: couldn't chdir to `/x'",
    ],
    "git_ownership": ["fatal: detected dubious ownership in repository at '/opt/NeMo'"],
    "worker_failed": [
        "E0325 20:57:27.620000 2606 api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 2630) of binary: /usr/bin/python",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    ],
}

NEARLY: dict[str, list[str]] = {
    "time_limit": [
        "slurm: JOB 1 will be CANCELLED DUE TO TIME LIMIT soon",
        "Time limit reached. Elapsed time is 1:30:00.",
    ],
    "requeued": ["requeue is on", "DUE TO JOB REQUEUE"],
    "node_failed": ["no node failure on this run", "Node failure on is a title"],
    "cancelled": ["CANCELLED AT 5 ***", "the user CANCELLED AT noon"],
    "host_memory": ["zoom room bloom", "We exceeded step 5", "task 3: Out Of Memory"],
    "image_rate_limit": ["URL https://x returned error code: 428 x", "too many requests"],
    "image_unauthorized": ["URL https://x returned error code: 404 Not Found", "401 Unauthorized"],
    "image_not_found": [
        "importing /lustre/images/alma-24.01.sqsh",
        "pyxis: importing docker image: a",
        "error code: 404",
    ],
    "missing_mount": ["enroot-mount: mounted /cm/shared", "using --container-mounts: /a:/b"],
    "container_not_entered": ["cd /opt/NeMo; git rev-parse HEAD", "srun --container-image x"],
    "container_start": ["pyxis: imported docker image: x", "spank: loaded plugin spank_pyxis.so"],
    "disk_full": ["space left on device: 12 GB", "hint: No space left on device is bad"],
    "quota": ["Disk quota exceeded is a message"],
    "storage": ["Stale file handle", "an Input/output example"],
    "tokenizer_download": [
        "loading tokenizer for gpt2",
        "https://s3.amazonaws.com/models.huggingface.co/gpt2-vocab.json",
    ],
    "hub_unauthorized": ["404 Client Error: Not Found for url: https://example.org"],
    "hub_unreachable": ["Downloading from https://huggingface.co/gpt2", "see huggingface.co/models =)"],
    "nccl_interface": ["NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>", "if no socket interface found, set a name"],
    "port_in_use": ["Address is in use", "address already taken"],
    "host_not_resolved": ["resolved host gpu001", "the name or service"],
    "rank_missing": ["all 16/16 clients joined.", "timeout of collective operation"],
    "cuda_out_of_memory": ["if you see CUDA out of memory, lower the batch size", "not out of memory"],
    "gpu_driver": ["CUDA driver version: 12.2"],
    "cuda_error": ["CUDA errors: 0", "Xid is an identifier"],
    "nccl_error": ["NCCL_ASYNC_ERROR_HANDLING=1", "NCCL errors: none"],
    "batch_size": ["global batch size 512", "global_batch_size: 512 divisible by 16"],
    "python_module_missing": ["No module named x was needed"],
    "wrong_architecture": ["Exec format ok"],
    "command_not_found": ["the command not found in the list was run"],
    "permission": ["Permission denied is what we saw", "permission granted"],
    "task_failed": ["srun: task 3: started", "gpu001: task 3: Exited"],
    "step_launch": ["Unable to create steps of a ladder", "srun: launch failed over"],
    "crash_signal": ["no fault", "Segmentation faults are bad"],
    "traceback": ["Traceback follows", "most recent call last"],
    "python_exception": ["there was an Error: x", "validation Error: 3"],
    "slurm_error": ["slurmstepd: pyxis: importing docker image", "srun: job 181 queued"],
    "killed": ["exitcode: -99", "Sending process 153929 closing signal SIGTERM", "Signal 9 (SIGKILL) is not caught"],
    "shared_memory": ["using 24 GB of shared memory", "shared memory limit: 64 GB"],
    "registry_unreachable": ["use curl: (it is small)", "hint: curl: (6) may mean"],
    "mount_denied": ["enroot-mount: mounted /cm/shared", "enroot-mount: reading the mounts of /etc/fstab"],
    "container_runtime": ["enroot-nsenter is there", "using /run/enroot", "see libnvidia-container"],
    "container_entrypoint": ["enroot-switchroot: done"],
    "checkpoint_write": ["built with inline_container.cc", "no SafetensorError was seen"],
    "hub_offline": ["offline mode is off", "OfflineModeIsEnabled is an exception"],
    "head_node_unreachable": ["the client socket has a name", "Socket Timeout is 600 s"],
    "fabric": ["NCCL INFO NET/IB : Using [0]mlx5_0:1/IB", "ibv_reg_mr is fast", "gpu1 NCCL INFO Call to ibv_open"],
    "topology_file": ["NCCL INFO Loading XML topology file /x"],
    "gpu_shared": ["no Duplicate GPU detected here?", "device ordinal 3"],
    "loss_diverged": ["loss scale: 65536", "we never found NaN in 3 years"],
    "launcher_missing": ["accelerate launch --num_machines 2", "deepspeed: 0.11.1", "torchrun not found in docs"],
    "datasets_version": ["the `use_auth_token` argument is deprecated", "load_dataset(use_auth_token=True)"],
    "program_missing": ["execve(): succeeded", "error: execve(): x: Exec format"],
    "read_only": ["Read-only file system is what squashfs is", "mounted as a Read-only file system"],
    "work_folder": ["could chdir to /x", "we couldn't chdir to it"],
    "git_ownership": ["git: ownership is dubious"],
    "worker_failed": ["0 of 8 failed (exitcode: 0)", "ChildFailedError is raised when a child fails"],
}


def test_every_entry_has_samples() -> None:
    names = [rule.name for rule in FAILURE_RULES]
    assert len(set(names)) == len(names)
    assert set(SHOWN) == set(NEARLY) == set(names)


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in SHOWN.items() for line in lines])
def test_a_line_that_shows_a_failure(name: str, line: str) -> None:
    for end in ("", "\n", "\r"):
        rule = classify_line((line + end).encode())
        assert rule is not None
        assert rule.name == name


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in NEARLY.items() for line in lines])
def test_a_line_that_nearly_shows_it(name: str, line: str) -> None:
    rule = classify_line((line + "\n").encode())
    assert rule is None or rule.name != name
    if name != "crash_signal" and "Segmentation" not in line:
        # Nothing fatal may be seen in a harmless line, unless it is named here.
        allowed = {"image_not_found"} if "404 Not Found" in line else set()
        assert rule is None or not rule.fatal or rule.name in allowed


def test_an_exception_that_python_ignores_is_no_crash() -> None:
    line = b"Traceback (most recent call last):\n"
    assert (
        classify_line(line, b"Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n")
        is None
    )
    assert classify_line(line, b"something else\n") is not None


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (["traceback", "task_failed", "cuda_out_of_memory", "worker_failed"], "cuda_out_of_memory"),
        (["rank_missing", "time_limit", "cancelled"], "rank_missing"),
        (["rank_missing", "traceback", "killed", "nccl_error"], "killed"),
        (["container_start", "image_not_found", "image_unauthorized", "task_failed"], "image_unauthorized"),
        (["container_start", "image_not_found", "task_failed"], "image_not_found"),
        (["container_start", "missing_mount", "task_failed"], "missing_mount"),
        (["python_exception", "traceback"], "traceback"),
        (["host_not_resolved", "hub_unreachable", "traceback"], "hub_unreachable"),
        (["slurm_error", "task_failed"], "task_failed"),
    ],
)
def test_the_cause_is_told_from_what_it_brings_along(seen: list[str], cause: str) -> None:
    assert min(seen, key=cause_order) == cause
    assert {rule.name for rule in FAILURE_RULES} >= {*seen, *_training_log_failures._CONSEQUENCES}


def test_every_entry_reads_as_a_sentence() -> None:
    for rule in FAILURE_RULES:
        for words in (rule.cause, rule.remedy):
            assert words == words.strip()
            assert not words.endswith(".")
            assert words
