#!/usr/bin/env python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-test sanity, and the unit tests as ansible-test runs them, on the built and installed tarball.

Neither a container engine nor anything but a package index is needed:

* ansible-test wants its collection below ``ansible_collections`` and in a Git repository, so the tarball is installed
  into a temporary folder and that becomes a repository.
* For its own small environments ansible-test fetches get-pip.py from a server of its project. Where its cache lacks
  that file, a stand-in is put there which does the same with the pip that Python carries (ensurepip) and the package
  index. The file's name follows the pip that this ansible-core pins.
* The environments stay below ~/.ansible/test, so that only the first run is slow. pip has to find its index through a
  configuration file there: ansible-test takes PIP_* and proxies out of the environment.

Arguments are passed on to ``ansible-test sanity``, such as ``--test pylint``; with arguments nothing else is run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import artifact

GET_PIP_STAND_IN = '''\
"""Installs pip, as get-pip.py does, from what Python and the package index offer."""
import os
import subprocess
import sys

# In this process ensurepip would turn pip's configuration off, and with it a configured package index.
subprocess.check_call([sys.executable, "-m", "ensurepip"], stdout=subprocess.DEVNULL)
wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
environment = {name: value for name, value in os.environ.items() if name != "GET_PIP"}
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--quiet"] + wanted, env=environment))
'''


def pinned_pip() -> str:
    """Return the pip version that this ansible-core's ansible-test installs, out of its own source."""
    question = (
        "import os, sys, ansible_test; sys.path.insert(0, os.path.dirname(ansible_test.__file__));"
        "from ansible_test._internal.python_requirements import get_venv_packages;"
        "from types import SimpleNamespace;"
        "print(get_venv_packages(SimpleNamespace(version='%d.%d' % sys.version_info[:2]))['pip'])"
    )
    return subprocess.run(
        [sys.executable, "-c", question], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def provide_get_pip() -> None:
    """Put the stand-in for get-pip.py into ansible-test's cache, unless something is there."""
    cached = Path("~/.ansible/test/cache").expanduser() / f"get_pip_{pinned_pip().replace('.', '_')}.py"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        temporary = cached.with_name(f"{cached.name}.{os.getpid()}")
        temporary.write_text(GET_PIP_STAND_IN)
        temporary.replace(cached)


def runs(interpreter: Path) -> bool:
    """Tell whether an interpreter runs: a version manager puts names on PATH that only answer with an error."""
    return subprocess.run([interpreter, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0


def search_path() -> str:
    """Return a PATH on which each pythonX.Y works, for ansible-test ends at the first one that does not.

    ansible-test compiles and imports the modules with every Python it finds that they may meet on a login node. Those
    that pyenv keeps are offered as well, behind all others.
    """
    folders = [Path(folder) for folder in artifact.environment()["PATH"].split(os.pathsep) if folder]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin"))
    usable = [folder for folder in folders if all(map(runs, folder.glob("python3.[0-9]*[0-9]")))]
    return os.pathsep.join(map(str, usable))


def ansible_test(collection: Path, path: str, *arguments: str) -> bool:
    """Run ansible-test in the collection's folder with a PATH; return whether it succeeded."""
    command = ["ansible-test", *arguments]
    print(f"\n+ {' '.join(command)}", flush=True)
    began = time.monotonic()
    code = subprocess.run(
        command,
        cwd=collection,
        env={**artifact.environment(), "PATH": path},
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode
    print(f"  exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    return code == 0


def main() -> int:
    """Build, install, run; return the exit code."""
    provide_get_pip()
    with tempfile.TemporaryDirectory(prefix="dgxc-sanity-") as folder:
        collection = artifact.install(artifact.build(Path(folder)), Path(folder))
        artifact.run("git", "init", "--quiet", cwd=collection)
        # Its own results must not become something to test.
        (collection / ".git" / "info" / "exclude").write_text("/tests/output/\n")

        path = search_path()
        passed = [ansible_test(collection, path, "sanity", "--python", "default", "--color", "no", *sys.argv[1:])]
        if not sys.argv[1:]:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            passed.append(ansible_test(collection, path, "units", "--venv", "--python", version, "--color", "no"))

    print(f"ansible-test: {sum(passed)} passed, {passed.count(False)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
