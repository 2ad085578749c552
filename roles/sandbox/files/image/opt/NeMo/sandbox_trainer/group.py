# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks of a training as one group that adds up numbers: a star of TCP connections with rank 0 in the middle.

A star needs the fewest switches between processes, which is what counts where many ranks share few cores.
Sums are taken in the order of the ranks, so that a run can be repeated to the last bit.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import time
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .placement import Placement

# How long ranks may take to appear: the containers of a job do not all start at the same time.
MEETING_SECONDS = 300.0
# How long a silent but connected rank is waited for; PyTorch's default.
SILENCE_SECONDS = 1800.0

_HELLO = struct.Struct("!16sII")
_WELCOME = b"welcome\n"


class LostRank(RuntimeError):
    """Another rank ended or cannot be reached."""


class Group:
    """The connected ranks. ``with Group(placement) as group`` meets, and parts at the end."""

    def __init__(self, placement: Placement) -> None:
        self.rank, self.size = placement.rank, placement.world_size
        self._placement = placement
        self._peers: dict[int, socket.socket] = {}

    def __enter__(self) -> Group:
        if self.size > 1:
            if self.rank == 0:
                self._gather()
            else:
                self._peers[0] = self._join()
        for peer in self._peers.values():
            peer.settimeout(SILENCE_SECONDS)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for peer in self._peers.values():
            peer.close()

    def all_reduce(self, values: NDArray[Any]) -> None:
        """Replace ``values``, on all ranks, by their sum over the ranks. All ranks give arrays of one shape and type.

        :raises LostRank: when a rank went away
        """
        data = values.data.cast("B")
        if self.rank:
            self._send(0, data)
            self._receive(0, data)
            return
        part = np.empty_like(values)
        buffer = part.data.cast("B")
        for rank in range(1, self.size):
            self._receive(rank, buffer)
            values += part
        for rank in range(1, self.size):
            self._send(rank, data)

    def _hello(self) -> bytes:
        return _HELLO.pack(hashlib.sha256(self._placement.token.encode()).digest()[:16], self.rank, self.size)

    def _gather(self) -> None:
        """Rank 0: wait for all others. Strangers, such as a rank of another job, are turned away.

        :raises OSError: when the port is taken
        :raises LostRank: when not all came in time
        """
        deadline = time.monotonic() + MEETING_SECONDS
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("", self._placement.port))
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"{error.strerror}: the server socket has failed to listen on port {self._placement.port}; "
                    f"set MASTER_PORT to a free one",
                ) from error
            listener.listen(self.size)
            while len(self._peers) < self.size - 1:
                left = deadline - time.monotonic()
                listener.settimeout(max(left, 0.001))
                try:
                    peer, _address = listener.accept()
                    peer.settimeout(max(left, 0.001))
                    token, rank, size = _HELLO.unpack(_read(peer, _HELLO.size))
                except TimeoutError as error:
                    raise LostRank(
                        f"[Rank 0] only {len(self._peers) + 1}/{self.size} ranks joined in {MEETING_SECONDS:.0f} s"
                    ) from error
                except (OSError, EOFError):
                    continue
                if token != self._hello()[:16] or size != self.size or rank in self._peers:
                    peer.close()
                    continue
                peer.sendall(_WELCOME)
                self._peers[rank] = peer

    def _join(self) -> socket.socket:
        """Other ranks: knock at rank 0's door until it opens.

        :raises LostRank: when it does not open in time
        """
        deadline = time.monotonic() + MEETING_SECONDS
        pause = 0.05
        why: Exception | None = None
        while time.monotonic() < deadline:
            for address in self._placement.addresses:
                try:
                    peer = socket.create_connection((address, self._placement.port), timeout=10)
                    # Rank 0 may still be waiting for others, but it answers each at once.
                    peer.sendall(self._hello())
                    if _read(peer, len(_WELCOME)) == _WELCOME:
                        return peer
                    peer.close()
                except (OSError, EOFError) as error:
                    why = error
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        places = ", ".join(self._placement.addresses)
        raise LostRank(
            f"[Rank {self.rank}] cannot reach rank 0 at {places} port {self._placement.port}: {why}"
        ) from why

    def _send(self, rank: int, data: memoryview) -> None:
        try:
            self._peers[rank].sendall(data)
        except OSError as error:
            raise self._lost(rank) from error

    def _receive(self, rank: int, buffer: memoryview) -> None:
        peer, done = self._peers[rank], 0
        try:
            while done < len(buffer):
                count = peer.recv_into(buffer[done:])
                if not count:
                    raise self._lost(rank)
                done += count
        except OSError as error:
            raise self._lost(rank) from error

    def _lost(self, rank: int) -> LostRank:
        return LostRank(
            f"[Rank {self.rank}] lost rank {rank}: a remote process exited prematurely or its network failed"
        )


def _read(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise EOFError("connection closed")
        data += more
    return data
