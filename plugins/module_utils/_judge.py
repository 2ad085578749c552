# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges the variables of a role before anything is touched. Private to this collection.

A value that cannot be used becomes None and a sentence; all sentences are told at once.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils._durations import slurm_duration_to_seconds
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import (
    nearest,
    plain,
    slurm_name_problems,
)

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_TIME_LIMIT = re.compile(r"(?:[0-9]+-)?[0-9]{1,2}:[0-5][0-9]:[0-5][0-9]")
_DECIMAL = re.compile(r"[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?")
COMMIT = re.compile(r"[0-9a-f]{40}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
IMAGE = re.compile(r"[A-Za-z0-9._:/#@+-]+")
SLURM_NAMES = ("account", "partition", "qos", "reservation")


class Judge:
    """The variables of one role, all with the same prefix, such as ``alma_``; names are given without it."""

    def __init__(self, prefix: str, variables: Mapping[str, Any]) -> None:
        self.prefix = prefix
        self._variables = variables
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def value(self, name: str) -> Any:
        """Return a variable as it was given; None if it was not."""
        return self._variables.get(self.prefix + name)

    def say(self, name: str, remedy: str) -> None:
        """Add the sentence about one variable: its name, its value, and what to do."""
        value = self.value(name)
        shown = "not given" if value is None else repr(plain(value))
        self.problems.append("{0}{1} is {2}: {3}.".format(self.prefix, name, shown, remedy))

    def unknown(self, known: Iterable[str]) -> None:
        """Add a sentence for every variable that nothing reads, with the nearest name that something reads."""
        names = {self.prefix + name for name in known}
        for stranger in sorted(set(self._variables) - names):
            near = nearest(stranger, names, 0.6)
            self.problems.append(
                "{0} is not a variable of this role: {1}.".format(
                    stranger, "write " + near if near else "remove it, or look into its README"
                )
            )

    def whole(self, name: str, least: int, most: int, remedy: str) -> int | None:
        """Take a whole number. ``-e name=4`` hands over the text '4', which is as good."""
        number = whole_number(self.value(name))
        if number is None or not least <= number <= most:
            self.say(name, remedy)
            return None
        return number

    def decimal(self, name: str, least: float, most: float, remedy: str) -> float | None:
        """Take a number with or without a fraction; YAML reads 2e-3 as a text, which is as good."""
        value = self.value(name)
        given = isinstance(value, (int, float)) and not isinstance(value, bool)
        written = isinstance(value, str) and _DECIMAL.fullmatch(value.strip())
        number = float(value) if given or written else None
        if number is None or not least <= number <= most:
            self.say(name, remedy)
            return None
        return number

    def text(self, name: str, shape: re.Pattern[str], remedy: str) -> str | None:
        """Take a text that has a shape as a whole."""
        value = self.value(name)
        if not isinstance(value, str) or not shape.fullmatch(value):
            self.say(name, remedy)
            return None
        return str(value)

    def truth(self, name: str) -> bool | None:
        """Take a truth value, also one of the words that Ansible takes for it."""
        value = self.value(name)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _TRUE + _FALSE:
            return value.lower() in _TRUE
        self.say(name, "give true or false")
        return None

    def time_limit(self, name: str) -> str | None:
        """Take a time that Slurm reads as days-hours:minutes:seconds or hours:minutes:seconds."""
        wanted = 'days-hours:minutes:seconds in quotes, such as "0-02:00:00"'
        value = self.time_text(name, wanted)
        if value is None:
            return None
        if _TIME_LIMIT.fullmatch(value) and (slurm_duration_to_seconds(value) or 0) > 0:
            return value
        self.say(name, "write " + wanted)
        return None

    def time_text(self, name: str, wanted: str) -> str | None:
        """Take the text of a time; a number is what YAML makes of a time without quotes."""
        value = self.value(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.say(
                name,
                "YAML reads times such as 2:00:00 without quotes as a number to the base 60 and Slurm reads numbers as"
                " minutes; write {0}".format(wanted),
            )
            return None
        if not isinstance(value, str):
            self.say(name, "write " + wanted)
            return None
        return str(value)

    def slurm_names(self, site: Mapping[str, Any]) -> dict[str, str]:
        """Take account, partition, QOS and reservation; '' where there is none.

        A value that comes from the site as it is has been judged there.
        """
        found = {}
        for name in SLURM_NAMES:
            value = self.value("slurm_" + name)
            if value != site.get("dgxc_slurm_" + name):
                self.problems += slurm_name_problems("{0}slurm_{1}".format(self.prefix, name), value)
            found[name] = str(value or "")
        return found

    def policy(self) -> dict[str, Any]:
        """Take what the role run is told about attempts after the first."""
        resubmit = self.text("resubmit", re.compile("never|on_failure|always"), "give never, on_failure or always")
        most = self.whole("max_attempts", 1, 1000, "give the most attempts with a job as a whole number of at least 1")
        return {"resubmit": resubmit, "max_attempts": most}

    def node_counts(self, name: str) -> list[int]:
        """Take a number of nodes or a list of numbers, each once; an empty list if that cannot be."""
        value = self.value(name)
        counts = [whole_number(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
        good = [count for count in counts if count is not None and 1 <= count <= 9999]
        if not counts or len(good) != len(counts):
            self.say(
                name,
                "give a whole number of nodes, or a list of them for one run each (on the command line: -e"
                " '{{\"{0}{1}\": [2, 4]}}')".format(self.prefix, name),
            )
            return []
        if len(set(good)) != len(good):
            self.say(name, "name each node count once")
            return []
        return good


def whole_number(value: Any) -> int | None:
    """Return a whole number given as such or as a text of digits, else None. True and 4.0 are not numbers of
    anything."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value.strip()):
        return int(value)
    return None
