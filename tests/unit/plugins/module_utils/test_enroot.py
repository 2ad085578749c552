# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _enroot


@pytest.mark.parametrize(
    ("said", "registry", "expected"),
    [
        ("[ERROR] URL https://nvcr.io/v2/ returned error code: 401 Unauthorized", "nvcr.io", "check image_ngc_api_key"),
        ("[ERROR] URL https://r/v2/ returned error code: 401 Unauthorized", "r.io", "image_registry_username and"),
        ("unauthorized: authentication required", "r.io", "(401)"),
        ("[ERROR] URL https://r/v2/ returned error code: 403 Forbidden", "r.io", "denied access (403)"),
        ("denied: requested access to the resource is denied", "registry-1.docker.io", "image_dockerhub_username"),
        ("[ERROR] URL https://r/v2/ returned error code: 404 Not Found", "r.io", "knows no such image or tag (404)"),
        ("manifest unknown: manifest unknown", "r.io", "(404)"),
        ("toomanyrequests: You have reached your pull rate limit", "registry-1.docker.io", "100 in six hours"),
        ("[ERROR] URL https://r/v2/ returned error code: 429", "nvcr.io", "too many requests (429): wait some minutes"),
        ("returned error code: 413 Request Entity Too Large", "r.io", "no layer of this size (413)"),
        ("returned error code: 503 Service Unavailable", "r.io", "an error of its own (503)"),
        ("curl: (60) SSL certificate problem: unable to get local issuer certificate", "r.io", "image_registry_ca"),
        ("x509: certificate signed by unknown authority", "r.io", "is not trusted"),
        ("curl: (6) Could not resolve host: r.io", "r.io", "cannot be looked up"),
        ("curl: (7) Failed to connect to r.io port 443", "r.io", "does not answer"),
        ("[ERROR] Could not parse digest information from https://r", "r.io", "update Enroot"),
        ("[ERROR] Command not found: jq", "r.io", "lacks the program jq"),
        ("bash: line 9: enroot: command not found", "r.io", "lacks the program enroot"),
        ("mkdir: cannot create directory '/run/enroot': Permission denied", "r.io", "image_enroot_runtime_path"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "", "use image_delivery import"),
        ("Error response from daemon: No command specified", "", "add a line such as CMD"),
        ("tar: ./x: Cannot mknod: Operation not permitted", "r.io", "image_enroot_temp_path"),
        ("[INFO] x\n[ERROR] Something new", "r.io", "enroot import failed on login: [ERROR] Something new"),
        ("", "r.io", "it said nothing"),
    ],
)
def test_what_was_said_becomes_a_sentence(said, registry, expected):
    sentence = _enroot.explain(said, "", registry, "login")
    assert expected in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("said", "output", "expected"),
    [
        ("", "DGXC-NO-SPACE cache 1000000 5000000 /home/u/.cache/enroot",
         "Enroot's cache on login is /home/u/.cache/enroot and has 1.0 GB free of the 5.1 GB that may be needed. Free some,"
         " or set image_enroot_cache_path"),
        ("tar: x: Cannot write: No space left on device",
         "DGXC-FULL cache 900 0 /c\nDGXC-FULL temp 3 0 /t\nDGXC-FULL target 99 0 /i",
         "The space ran out during the import, most likely in Enroot's temporary folder /t on login"),
        ("tar: /i/x: No space left on device", "DGXC-FULL temp 3 0 /t\nDGXC-FULL target 99 0 /i", "the image's folder /i"),
        ("write error: Disk quota exceeded", "DGXC-FULL target 99 0 /i", "The disk quota was exceeded"),
        ("write error: No space left on device", "", "enroot import failed"),
    ],
)  # fmt: skip
def test_the_place_that_is_full_is_named(said, output, expected):
    assert expected in _enroot.explain(said, output, "r.io", "login")


def test_versions_are_compared():
    assert _enroot.compare_versions("3.4.1", "login", "3.4.1", "here", "exact") == ("", "")
    problem, _warning = _enroot.compare_versions("3.4.1", "login", "4.0.1", "here", "major")
    assert "Enroot is 3.4.1 on login and 4.0.1 on here: install version 3.4.1 there" in problem
    assert _enroot.compare_versions("3.4.1", "login", "4.0.1", "here", "none") == ("", "")
    assert _enroot.compare_versions("3.4.1", "login", "3.5.0", "here", "exact")[0]
    problem, warning = _enroot.compare_versions("3.4.1", "login", "3.5.0", "here", "major")
    assert not problem
    assert "best between equal versions" in warning


@pytest.mark.parametrize(("kibibytes", "text"), [(0, "0 B"), (1, "1.0 KB"), (20e6, "20 GB"), (4e6, "4.1 GB")])
def test_amounts(kibibytes, text):
    assert _enroot.amount(kibibytes) == text


class Place:
    """A machine with an enroot of ours."""

    def __init__(self, folder, body):
        self.folder = folder
        program = folder / "enroot"
        program.write_text(f"#!/bin/bash\n[ $1 = version ] && echo 4.1.2 && exit\n{body}\n")
        program.chmod(0o755)

    def run(self, *need, source="docker://r#a:1", **environment):
        kept = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        command = ["bash", "-c", _enroot.SCRIPT, "x", str(self.folder / "out"), source, *(need or ("0", "0", "0")), "",
                   str(self.folder / "enroot")]  # fmt: skip
        return subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@needs_bash
def test_the_script_runs_enroot_with_a_runtime_folder(tmp_path):
    done = Place(tmp_path, 'echo "$ENROOT_RUNTIME_PATH $*"').run()
    assert done.returncode == 0, done.stderr
    assert _enroot.version_of(done.stdout) == "4.1.2"
    runtime = f"{tmp_path}/enroot-runtime-{os.getuid()}"
    assert f"{runtime} import --output {tmp_path}/out -- docker://r#a:1" in done.stdout
    assert os.stat(runtime).st_mode & 0o777 == 0o700
    assert os.path.isdir(tmp_path / ".cache" / "enroot")


@needs_bash
def test_the_script_leaves_a_runtime_folder_that_works(tmp_path):
    done = Place(tmp_path, 'echo "<$ENROOT_RUNTIME_PATH>"').run(XDG_RUNTIME_DIR=str(tmp_path))
    assert "<>" in done.stdout
    (tmp_path / "enroot.conf").write_text("# x\nENROOT_RUNTIME_PATH   /run/enroot/user-$(id -u)\n")
    done = Place(tmp_path, 'echo "<$ENROOT_RUNTIME_PATH>"').run(ENROOT_SYSCONF_PATH=str(tmp_path))
    assert "<>" in done.stdout


@needs_bash
@pytest.mark.parametrize(
    ("need", "purpose"),
    [(("9" * 12, "0", "0"), "cache"), (("0", "9" * 12, "0"), "cache"), (("0", "0", "9" * 12), "cache")],
)
def test_the_script_adds_up_what_shares_a_file_system(tmp_path, need, purpose):
    done = Place(tmp_path, "echo imported").run(*need)
    (place,) = _enroot.places_of(done.stdout, _enroot.SPACE_MARK)
    assert done.returncode == 75
    assert (place.purpose, place.need) == (purpose, int("9" * 12))
    assert "imported" not in done.stdout


@needs_bash
def test_the_script_looks_where_the_site_says(tmp_path):
    (tmp_path / "enroot.conf").write_text(f"ENROOT_TEMP_PATH {tmp_path}/t-${{USER}}\nENROOT_CACHE_PATH {tmp_path}/c\n")
    done = Place(tmp_path, "exit 3").run(ENROOT_SYSCONF_PATH=str(tmp_path), USER="me")
    places = _enroot.places_of(done.stdout, _enroot.FULL_MARK)
    assert done.returncode == 3
    assert [place.path for place in places] == [f"{tmp_path}/c", f"{tmp_path}/t-me", str(tmp_path)]


@needs_bash
def test_the_script_has_no_cache_for_docker(tmp_path):
    done = Place(tmp_path, "exit 1").run(source="dockerd://a:1")
    assert [place.purpose for place in _enroot.places_of(done.stdout, _enroot.FULL_MARK)] == ["temp", "target"]


@needs_bash
def test_the_script_takes_everything_with_it(tmp_path):
    place = Place(tmp_path, f'touch {tmp_path}/out; trap "touch {tmp_path}/tidied" EXIT; sleep 60')
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = ["bash", "-c", _enroot.SCRIPT, "x", str(tmp_path / "out"), "dockerd://a", "0", "0", "0", "",
               str(place.folder / "enroot")]  # fmt: skip
    process = subprocess.Popen(command, env=kept, start_new_session=True, stdout=subprocess.DEVNULL)
    for _number in range(500):
        if (tmp_path / "out").exists():
            break
        process.poll()
        subprocess.run(["sleep", "0.02"], check=True)
    process.terminate()
    assert process.wait(20) == 143
    assert not (tmp_path / "out").exists()


@needs_bash
@pytest.mark.parametrize(("version", "source"), [("4.1.2", "docker://r#a:1@sha256:0"), ("3.4.1", "docker://r#a:1")])
def test_the_script_takes_the_digest_where_enroot_does(tmp_path, version, source):
    place = Place(tmp_path, 'echo "last ${@: -1}"')
    program = tmp_path / "enroot"
    program.write_text(program.read_text().replace("4.1.2", version))
    command = ["bash", "-c", _enroot.SCRIPT, "x", str(tmp_path / "out"), "docker://r#a:1", "0", "0", "0", "", str(program),
               "docker://r#a:1@sha256:0"]  # fmt: skip
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
    assert f"last {source}\n" in done.stdout
    assert _enroot.source_of(done.stdout) == source
    done = place.run(source="docker://r#a@sha256:0")
    assert done.returncode == (0 if version == "4.1.2" else 76)
    assert _enroot.too_old(done.stdout) == ("" if version == "4.1.2" else "3.4.1")
