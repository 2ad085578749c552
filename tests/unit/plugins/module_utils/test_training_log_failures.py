# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the table of known failures: for each entry lines that show it, and lines that nearly do."""

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_failures import (
    FAILURE_RULES,
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
    ],
    "missing_mount": [
        "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /cm/shared at /run/x/cm/shared: No such file or "
        "directory",
        "slurmstepd: error: pyxis: --container-mounts: source path does not exist: /cm/shared",
        "slurmstepd: error: pyxis: --container-mounts: invalid format: a:b:c:d",
    ],
    "container_not_entered": [
        "srun: unrecognized option '--container-image'",
        "python3: can't open file '/opt/NeMo/examples/nlp/language_modeling/megatron_gpt_pretraining.py': [Errno 2] No",
        "bash: line 1: cd: /opt/NeMo: No such file or directory",
    ],
    "container_start": [
        "slurmstepd: error: pyxis: couldn't start container",
        "slurmstepd: error: pyxis: container start failed with error code: 1",
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
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/x"
    ],
    "hub_unreachable": [
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached",
        "(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /gpt2",
        "huggingface_hub.utils._errors.LocalEntryNotFoundError: An error happened while trying to locate the file",
    ],
    "nccl_interface": ["gpu001:4000:4100 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found"],
    "port_in_use": [
        "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)",
        "RuntimeError: [Errno EADDRINUSE] x",
    ],
    "host_not_resolved": [
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (gpu009, 29500) cannot be retrieved (gai error: -2 - x)",
        "ssh: Could not resolve hostname gpu009: Name or service not known",
    ],
    "rank_missing": [
        "[rank1]:[E ProcessGroupNCCL.cpp:537] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8",
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 15/16 clients joined.",
    ],
    "cuda_out_of_memory": [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "3: RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "torch.OutOfMemoryError: CUDA out of memory.",
    ],
    "gpu_driver": ["RuntimeError: No CUDA GPUs are available", "RuntimeError: Found no NVIDIA driver on your system."],
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
    "permission": ["mkdir: cannot create directory '/run/enroot': Permission denied"],
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
    "slurm_error": ["slurmstepd-io-cpu-09: error: couldn't chdir to `/x'", "srun: error: Something new"],
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


def test_every_entry_reads_as_a_sentence() -> None:
    for rule in FAILURE_RULES:
        for words in (rule.cause, rule.remedy):
            assert words == words.strip()
            assert not words.endswith(".")
            assert words
