# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fits y = 3 x + 1 by gradient descent on all tasks of a Slurm job step together. It needs nothing but Python 3.8."""

import json
import os
import random
import socket
import sys
import time

RANK, RANKS = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
# Rank 0 is on the node where srun was called. A port that follows from the job's number is another one for each job.
HEAD = (os.environ["SLURM_LAUNCH_NODE_IPADDR"], 20000 + int(os.environ["SLURM_JOB_ID"]) % 10000)
STEPS, SAMPLES, RATE = int(sys.argv[1]), 20000, 0.5
if STEPS < 10 or STEPS % 10:
    sys.exit("the number of steps is %d, but must be a multiple of 10" % STEPS)


def meet():
    """Return connections: to all others for rank 0, to rank 0 for the others."""
    if RANK == 0:
        with socket.create_server(("", HEAD[1]), backlog=RANKS) as server:
            return [server.accept()[0].makefile("rw") for _other in range(RANKS - 1)]
    for _second in range(60):
        try:
            return [socket.create_connection(HEAD, timeout=60).makefile("rw")]
        except ConnectionRefusedError:
            time.sleep(1)
    sys.exit("rank 0 does not listen on %s:%d" % HEAD)


def mean_over_ranks(connections, numbers):
    """Return the mean of these numbers over all ranks, the same on each."""
    if RANK > 0:
        print(json.dumps(numbers), file=connections[0], flush=True)
        return json.loads(connections[0].readline())
    everybody = [numbers] + [json.loads(connection.readline()) for connection in connections]
    means = [sum(theirs[index] for theirs in everybody) / RANKS for index in range(len(numbers))]
    for connection in connections:
        print(json.dumps(means), file=connection, flush=True)
    return means


connections = meet()
# The topology gate counts these lines.
print("Process ID: %d of %d" % (RANK, RANKS))

generator = random.Random(RANK)
points = [(x, 3 * x + 1 + generator.gauss(0, 0.1)) for x in (generator.uniform(-1, 1) for _sample in range(SAMPLES))]
slope = offset = 0.0
start = time.monotonic()
for step in range(1, STEPS + 1):
    errors = [(slope * x + offset - y, x) for x, y in points]
    local = [sum(e * x for e, x in errors), sum(e for e, _x in errors), sum(e * e for e, _x in errors)]
    by_slope, by_offset, loss = mean_over_ranks(connections, [total / SAMPLES for total in local])
    slope, offset = slope - RATE * by_slope, offset - RATE * by_offset
    if RANK == 0 and step % 10 == 0:
        # The log gate reads what Hugging Face's Trainer prints: losses, and the bar.
        passed = time.monotonic() - start
        left = passed / step * (STEPS - step)
        clock = "%02d:%02d<%02d:%02d" % (*divmod(int(passed), 60), *divmod(int(left), 60))
        done = "%3d%%|%-10s| %d/%d" % (100 * step // STEPS, "#" * (10 * step // STEPS), step, STEPS)
        print({"loss": round(loss, 4), "epoch": round(step / STEPS, 2)})
        print("%s [%s, %.2fit/s]" % (done, clock, step / passed))
if RANK == 0:
    print({"train_runtime": round(time.monotonic() - start, 2), "train_loss": round(loss, 4), "epoch": 1.0})
    print("y = %.2f x + %.2f" % (slope, offset))
