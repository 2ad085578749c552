# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.filter import image_filters
from ansible_collections.dgxc.workloads.plugins.module_utils import _image_settings

SITE = {"dgxc_slurm_account": "team", "dgxc_slurm_partition": "defq", "dgxc_shared_root": "/s"}
DEFAULTS = {
    "name": "alma", "tag": "24.01", "delivery": "upload", "given": "", "source": "", "registry": "", "folder": "/s/images",
    "file": "alma-24.01.sqsh", "arch": "", "refresh": False, "base": "nvcr.io/nvidia/pytorch:24.01-py3",
    "repository_url": "https://github.com/x/y", "repository_commit": "0" * 40, "repositories": [], "pins": ["peft==0.5.0"],
    "dockerfile": "alma.Dockerfile.j2", "context": {}, "build_args": {}, "build_host": "localhost", "build_folder": "~/x",
    "builder": "classic", "build_network": "", "docker_host": "unix:///x", "build_enroot": "enroot",
    "build_environment": {}, "build_enroot_environment": {}, "registry_ca": "", "enroot": "enroot",
    "enroot_version_check": "major", "enroot_temp_path": "", "enroot_cache_path": "", "enroot_runtime_path": "",
    "enroot_config_path": "", "enroot_environment": {}, "environment_modules": [], "import_in_job": False,
    "import_job_options": {}, "transfer_retries": 3, "timeout": 7200, "claim_timeout": 7200, "stale_timeout": 120,
    "checksum": True, "upload_options": [],
}  # fmt: skip


def plan(**given):
    variables = {f"image_{name}": value for name, value in {**DEFAULTS, **given}.items()}
    return image_filters.image_plan(variables, SITE)


def test_every_default_is_known_and_good():
    assert set(DEFAULTS) == _image_settings.KNOWN
    assert plan()["problems"] == []
    assert plan(reference="x", digest="y", size=1, path="z")["problems"] == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"delivery": "given", "given": "/s/x.sqsh"}, {"path": "/s/x.sqsh", "reference": "/s/x.sqsh"}),
        ({"delivery": "given", "given": "nvcr.io/a/b:1"}, {"path": "", "reference": "nvcr.io#a/b:1"}),
        (
            {"delivery": "registry", "registry": "r.io:5/team"},
            {"path": "", "reference": "r.io:5#team/alma:24.01", "local": "alma:24.01", "pushed": "r.io:5/team/alma:24.01"},
        ),
        (
            {"delivery": "upload"},
            {"path": "/s/images/alma-24.01.sqsh", "reference": "/s/images/alma-24.01.sqsh", "local": "alma:24.01"},
        ),
        (
            {"delivery": "import", "source": "nvcr.io/nvidia/nemo:24.12"},
            {"path": "/s/images/alma-24.01.sqsh", "source": "docker://nvcr.io#nvidia/nemo:24.12", "local": ""},
        ),
        ({"delivery": "import", "registry": "r.io/t"}, {"source": "docker://r.io#t/alma:24.01"}),
    ],
)  # fmt: skip
def test_each_delivery_has_its_names(given, expected):
    found = plan(**given)
    assert found["problems"] == []
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"delivery": "push"}, "image_delivery is 'push': choose one of given, registry, upload, import."),
        ({"delivery": "given"}, "image_given is '': give the path"),
        ({"delivery": "given", "given": "images/x.sqsh"}, "image_given is 'images/x.sqsh': give an absolute path"),
        ({"delivery": "given", "given": "UPPER"}, "image_given: 'UPPER' is not the reference"),
        ({"name": ""}, "image_name is '': name alma, pytorch-vidasr"),
        ({"tag": 24.01}, "image_tag is 24.01: give a tag"),
        ({"delivery": "registry"}, "image_registry is '': the delivery registry needs"),
        ({"delivery": "registry", "registry": "https://r.io"}, "image_registry is 'https://r.io': give host"),
        (
            {"delivery": "import"},
            "image_source is '': give the reference of the image to import, or set image_registry",
        ),
        ({"delivery": "import", "source": "a b"}, "image_source: 'a b' is not"),
        ({"folder": "images"}, "image_folder is 'images': give an absolute path"),
        ({"file": "../x.sqsh"}, "image_file is '../x.sqsh': give a file name that ends in .sqsh"),
        ({"base": ""}, "image_base is '': name the image that alma is built from"),
        ({"base": "A B"}, "image_base: 'A B' is not"),
        ({"repository_commit": "83ee22f"}, "image_repository_commit is '83ee22f': give the full id"),
        ({"pins": ["peft == 0.5"]}, "image_pins is ['peft == 0.5']: give a list"),
        ({"pins": "peft"}, "image_pins is 'peft': give a list"),
        ({"timeout": 0}, "image_timeout is 0"),
        ({"refresh": "perhaps"}, "image_refresh is 'perhaps': give true or false"),
        ({"enroot_version_check": "minor"}, "choose major, exact or none"),
        ({"builder": "kaniko"}, "image_builder is 'kaniko': choose classic"),
        ({"build_args": {"A": 1}}, "image_build_args is {'A': 1}: give a dictionary of texts"),
        ({"delivery": "import", "source": "a", "import_job_options": {"--time": 1}}, "image_import_job_options"),
        ({"nmae": "x"}, "image_nmae is not a variable of this role: write image_name."),
    ],
)
def test_what_cannot_be_is_told(given, problem):
    (found,) = plan(**given)["problems"]
    assert problem in found


def test_all_that_is_wrong_is_told_at_once():
    assert len(plan(name="", tag="", timeout=-1)["problems"]) == 3


def test_a_job_has_the_sites_options_and_the_users_over_them():
    found = plan(
        delivery="import", source="a", import_job_options={"time": "0-01:00:00", "partition": "cpu", "quiet": ""}
    )
    assert found["job_options"] == [
        "--nodes=1", "--ntasks=1", "--job-name=image-import", "--account=team", "--partition=cpu", "--time=0-01:00:00",
    ]  # fmt: skip
    assert "--quiet" in plan(delivery="import", source="a")["job_options"]


def test_the_content_of_a_build():
    content = image_filters.image_content
    same = content("FROM a", {"A": "1", "B": "2"}, {})
    assert same == content("FROM a", {"B": "2", "A": "1"}, {})
    others = [
        content("FROM b", {"A": "1", "B": "2"}, {}),
        content("FROM a", {"A": "1"}, {}),
        content("FROM a", {}, {"f": ""}),
    ]
    assert len({same, *others}) == 4


def test_filters_refuse_what_they_cannot_read():
    for name, arguments in (
        ("image_plan", ([], {})), ("image_content", ({}, {}, {})), ("image_reference", ("UPPER",)),
        ("image_reference", ("a", "podman")), ("image_credentials", ([],)),
    ):  # fmt: skip
        with pytest.raises(AnsibleFilterError):
            image_filters.FilterModule().filters()[name](*arguments)
    assert image_filters.image_reference("nvcr.io/a/b") == "nvcr.io#a/b:latest"
    assert image_filters.image_reference("nvcr.io#a/b", "docker") == "nvcr.io/a/b:latest"
    assert image_filters.image_credentials({"ngc_api_key": "k"})[0]["username"] == "$oauthtoken"
