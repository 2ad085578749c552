# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual environments that are complete or not there. Private to this collection.

The path that others use is a link to a folder beside it. A build happens in a folder of its own, and the link turns to
it in one step when everything is installed. So a build that was cut off is never used, two builds at once do not meet,
and scripts in ``bin`` carry the right path, which a renamed folder would break.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    NOT_FOUND,
    TIMED_OUT,
    Finished,
    Run,
    cleaned,
    last_line,
    login_environment,
)

STAMP = "dgxc-workloads.json"
STAMP_SCHEMA = 1
ABANDONED_BUILD_SECONDS = 24 * 3600

_MARK = "--dgxc-workloads-python--"
_ASK_VERSION = "import sys; sys.stdout.write('{0}%d.%d.%d %s' % (sys.version_info[:3] + (sys.executable,)))".format(
    _MARK
)
_VERSION = re.compile(r"[0-9]+\.[0-9]+")


class EnvironmentFailure(Exception):
    """Why a virtual environment cannot be made; the text is a sentence for the user."""


class Wish(NamedTuple):
    """A virtual environment as asked for. Versions are ``major.minor`` texts or empty; paths are absolute."""

    path: str
    python: str
    requirements: list[str]
    requirements_file: str
    minimum: str
    below: str
    setting: str  # the variable a message tells the user to set


class Outcome(NamedTuple):
    """What was done: ``action`` is unchanged, created or replaced."""

    action: str
    before: dict[str, Any]
    after: dict[str, Any]

    @property
    def changed(self) -> bool:
        return self.action != "unchanged"


def wish_problem(wish: Wish) -> str | None:
    """Return the sentence that says what is wrong with the wish itself, or None."""
    setting = "workspace_virtual_environments[{0}]".format(wish.path or "?")
    if not os.path.isabs(wish.path) or os.path.normpath(wish.path) != wish.path:
        return "{0}.path is {1!r}: give an absolute path without '..', '.' or a '/' at its end.".format(
            setting, wish.path
        )
    if not wish.python or any(character.isspace() for character in wish.python):
        return "{0} is {1!r}: give the name or the absolute path of a Python.".format(wish.setting, wish.python)
    for name, value in (("python_minimum", wish.minimum), ("python_below", wish.below)):
        if value and not _VERSION.fullmatch(value):
            return '{0}.{1} is {2!r}: give a version like "3.8", in quotes.'.format(setting, name, value)
    for requirement in wish.requirements:
        if not requirement.strip() or requirement.startswith("-") or "\n" in requirement:
            return (
                "{0}.requirements contains {1!r}: give one requirement of pip for each entry, without options; options"
                " belong into a requirements_file.".format(setting, requirement)
            )
    if not wish.requirements and not wish.requirements_file:
        return "{0} has neither requirements nor a requirements_file: name what is to be installed.".format(setting)
    return None


def version_problem(version: str, wish: Wish, others: Sequence[str]) -> str | None:
    """Return the sentence about a Python outside the wanted range, naming one of the others that would do, or None."""
    found = _numbers(version)
    if (not wish.minimum or found >= _numbers(wish.minimum)) and (not wish.below or found[:2] < _numbers(wish.below)):
        return None
    wanted = " and ".join(
        part
        for part in (
            "{0} or newer".format(wish.minimum) if wish.minimum else "",
            "older than {0}".format(wish.below) if wish.below else "",
        )
        if part
    )
    remedy = (
        "set {0} to {1}, which this host has".format(wish.setting, others[0])
        if others
        else "set {0} to such a Python, or add the environment module that brings one (for example python39) to"
        " dgxc_environment_modules".format(wish.setting)
    )
    return "{0} is {1!r}, which is Python {2}, but what is to be installed needs {3}: {4}.".format(
        wish.setting, wish.python, version, wanted, remedy
    )


class VirtualEnvironments:
    """Makes virtual environments. Everything outside comes in through the constructor."""

    def __init__(
        self,
        run: Run,
        environment: Mapping[str, str],
        environment_modules: Sequence[str] = (),
        timeout: float = 1800,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._run = run
        self._outer = dict(environment)
        self._environment_modules = list(environment_modules)
        self._timeout = timeout
        self._clock = clock
        self._inner: dict[str, str] | None = None

    def _environment(self) -> dict[str, str]:
        # A login shell takes its time; an unchanged environment does not need one.
        if self._inner is None:
            self._inner = cleaned(login_environment(self._run, self._outer, self._environment_modules))
        return self._inner

    def ensure(self, wish: Wish, check_mode: bool = False) -> Outcome:
        """Make the environment if it is not there as wanted. An unchanged one costs one start of its Python.

        :raises EnvironmentFailure: no suitable Python, a file in the way, or pip fails.
        """
        wanted = self._wanted(wish, check_mode)
        found = self._found(wish.path)
        # The version is not asked for but found; a range that has been narrowed since may exclude it.
        version = str(found.pop("python_version", ""))
        fits = bool(_VERSION.match(version)) and version_problem(version, wish, ()) is None
        if found == wanted and fits and self._works(wish.path):
            return Outcome("unchanged", found, found)
        if os.path.lexists(wish.path) and not os.path.islink(wish.path):
            raise EnvironmentFailure(
                "{0} is not a virtual environment that this collection made: move it away or"
                " choose another path.".format(wish.path)
            )
        python, version = self._python(wish)
        action = "replaced" if os.path.lexists(wish.path) else "created"
        if not check_mode:
            self._build(wish, {**wanted, "python_version": version}, python)
        return Outcome(action, found, wanted)

    def _wanted(self, wish: Wish, check_mode: bool) -> dict[str, Any]:
        lines = list(wish.requirements)
        digest = ""
        if wish.requirements_file:
            try:
                with open(wish.requirements_file, "rb") as stream:
                    digest = hashlib.sha256(stream.read()).hexdigest()
            except OSError as error:
                if not (check_mode and isinstance(error, FileNotFoundError)):
                    raise EnvironmentFailure(
                        "The requirements file {0} cannot be read: {1}.".format(wish.requirements_file, error.strerror)
                    ) from error
                # A rehearsal before the first clone: the file comes with it.
                digest = "not there yet"
        return {
            "schema": STAMP_SCHEMA,
            "python": wish.python,
            "environment_modules": self._environment_modules,
            "requirements": sorted(lines),
            "requirements_file_sha256": digest,
        }

    @staticmethod
    def _found(path: str) -> dict[str, Any]:
        try:
            with open(os.path.join(path, STAMP), encoding="utf-8") as stream:
                stamp = json.load(stream)
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _works(self, path: str) -> bool:
        """Tell whether the environment's Python still starts; a removed or updated base Python breaks it."""
        python = os.path.join(path, "bin", "python")
        if self._run([python, "-I", "-c", ""], cleaned(self._outer), None, 60).code == 0:
            return True
        # It may need the libraries that an environment module brings.
        return (
            bool(self._environment_modules)
            and self._run([python, "-I", "-c", ""], self._environment(), None, 60).code == 0
        )

    def _ask(self, python: str) -> tuple[str, str] | None:
        answer = self._run([python, "-I", "-c", _ASK_VERSION], self._environment(), None, 60)
        _banner, mark, rest = answer.out.partition(_MARK)
        if answer.code != 0 or not mark:
            return None
        version, _blank, executable = rest.partition(" ")
        return version, executable

    def _python(self, wish: Wish) -> tuple[str, str]:
        """Return path and version of the Python asked for, once it is known to be of a version that will do."""
        path = self._environment().get("PATH", os.defpath)
        command = shutil.which(wish.python, path=path)
        answer = self._ask(command) if command else None
        if answer is None:
            others = self._others(wish)
            raise EnvironmentFailure(
                "{0} is {1!r}, but there is no such Python on this host: {2}.".format(
                    wish.setting,
                    wish.python,
                    "set it to {0}".format(others[0])
                    if others
                    else "install it, give its absolute path, or add the environment module that brings it to"
                    " dgxc_environment_modules",
                )
            )
        version, executable = answer
        if version_problem(version, wish, ()):
            raise EnvironmentFailure(version_problem(version, wish, self._others(wish)) or "")
        return executable, version

    def _others(self, wish: Wish) -> list[str]:
        """Return other Pythons on the PATH that would do, the newest first."""
        found = []
        for minor in range(20, 5, -1):
            command = shutil.which("python3.{0}".format(minor), path=self._environment().get("PATH", os.defpath))
            answer = self._ask(command) if command else None
            if command and answer and version_problem(answer[0], wish, ()) is None:
                found.append(command)
        return found

    def _build(self, wish: Wish, wanted: Mapping[str, Any], python: str) -> None:
        parent, name = os.path.split(wish.path)
        os.makedirs(parent, exist_ok=True)
        self._sweep(parent, name)
        seen = self._target(wish.path)
        folder = tempfile.mkdtemp(prefix=_build_prefix(name), dir=parent)
        try:
            self._install(wish, python, folder)
            os.chmod(folder, 0o755)
            with open(os.path.join(folder, STAMP), "w", encoding="utf-8") as stream:
                json.dump(wanted, stream, indent=2, sort_keys=True)
                stream.flush()
                os.fsync(stream.fileno())
            now = self._target(wish.path)
            if now != seen and self._found(wish.path) == wanted:
                # Somebody else made the same meanwhile and may be using it already.
                shutil.rmtree(folder, ignore_errors=True)
                return
            link = folder + ".link"
            # Relative, so that the link holds where the same storage is mounted under another name.
            os.symlink(os.path.basename(folder), link)
            os.replace(link, wish.path)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if now and os.path.basename(now) == now and now.startswith(_build_prefix(name)):
            # What the link pointed to was ours, and nothing finds it any more.
            shutil.rmtree(os.path.join(parent, now), ignore_errors=True)

    @staticmethod
    def _target(path: str) -> str | None:
        """Return what a link says, or None if there is none."""
        try:
            return os.readlink(path)
        except OSError:
            return None

    def _install(self, wish: Wish, python: str, folder: str) -> None:
        environment = self._environment()
        made = self._run([python, "-m", "venv", folder], environment, None, self._timeout)
        if made.code != 0:
            text = made.out + made.err
            if "ensurepip" in text:
                raise EnvironmentFailure(
                    "{0} ({1}) cannot make virtual environments because it lacks 'ensurepip': install the package that"
                    " brings it (python3-venv on Debian and Ubuntu), or set {0} to another Python.".format(
                        wish.setting, python
                    )
                )
            raise EnvironmentFailure(
                "'{0} -m venv' failed: {1}.".format(python, last_line(text).rstrip(".") or "no message")
            )
        command = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--no-input", "--progress-bar=off"]
        command += ["--disable-pip-version-check", *wish.requirements]
        if wish.requirements_file:
            command += ["--requirement", wish.requirements_file]
        # Without the folder of the requirements file as working folder, relative lines in it would point elsewhere.
        place = os.path.dirname(wish.requirements_file) if wish.requirements_file else None
        answer = self._run(command, environment, place, self._timeout)
        if answer.code != 0:
            raise EnvironmentFailure(pip_sentence(answer, wish, self._timeout))

    def _sweep(self, parent: str, name: str) -> None:
        """Remove what killed builds left behind, once it is old enough to be nobody's. Never what the link points
        to."""
        current = os.path.realpath(os.path.join(parent, name))
        for entry in os.listdir(parent):
            candidate = os.path.join(parent, entry)
            if not entry.startswith(_build_prefix(name)) or os.path.realpath(candidate) == current:
                continue
            try:
                if self._clock() - os.lstat(candidate).st_mtime <= ABANDONED_BUILD_SECONDS:
                    continue
                if os.path.islink(candidate):
                    os.unlink(candidate)
                else:
                    shutil.rmtree(candidate, ignore_errors=True)
            except OSError:
                continue


def pip_sentence(answer: Finished, wish: Wish, timeout: float) -> str:
    """Say in one sentence why pip failed and what may help."""
    text = answer.err + "\n" + answer.out
    errors = [line.strip() for line in text.splitlines() if line.strip().startswith("ERROR:")]
    cause = (errors[-1] if errors else last_line(text)).replace("ERROR: ", "").rstrip(".") or "no message"
    if answer.code == TIMED_OUT:
        cause = "it took longer than {0:.0f} s".format(timeout)
        remedy = "check the network of the login node, or raise workspace_timeout"
    elif answer.code == NOT_FOUND:
        remedy = "run again"
    elif "No space left" in text or "quota exceeded" in text.lower():
        remedy = "make room on the file system of {0}".format(os.path.dirname(wish.path))
    elif any(
        sign in text for sign in ("NewConnectionError", "ConnectTimeout", "Name or service not known", "ProxyError")
    ):
        remedy = "let the login node reach a package index (pip's own configuration file and variables are respected)"
    elif "No matching distribution" in text or "Could not find a version" in text:
        remedy = "correct the requirement, or use a package index that has it for this Python"
    elif any(sign in text for sign in ("gcc", "Python.h", "error: command")):
        remedy = "install a C compiler and this Python's headers, or use a Python for which there are wheels"
    else:
        remedy = "correct the requirements"
    return "pip cannot install into {0}: {1}. To go on, {2}.".format(wish.path, cause, remedy)


def _build_prefix(name: str) -> str:
    return ".{0}.build-".format(name)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
