# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-ins for Pyxis's srun and for enroot answer as the real ones do."""

from __future__ import annotations

import re

import pytest


def srun(sandbox, options: str, command: str = "true"):
    return sandbox.ssh(f"srun --nodes=1 {options} {command}")


def test_two_nodes_of_eight_tasks(sandbox):
    script = f"""
        srun --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --exclusive --mem=0 \
            --container-image {sandbox.image} --container-mounts {sandbox.shared}:/data,/etc:/mnt/etc:ro \
            --no-container-mount-home bash -c '
                cd /opt/NeMo && git rev-parse HEAD > /dev/null && python3 -c "import numpy, yaml" &&
                test -d /data/images && ! touch /mnt/etc/x 2> /dev/null && ! touch /x 2> /dev/null && touch /tmp/x &&
                echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $(id -un)'"""
    done = sandbox.ssh(script)
    assert done.returncode == 0, done.stderr
    lines = sorted(line.split() for line in done.stdout.splitlines())
    assert sorted(int(line[0]) for line in lines) == list(range(16))
    assert len({line[1] for line in lines}) == 2
    assert {line[2] for line in lines} == {"0,1,2,3,4,5,6,7"}
    assert {line[3] for line in lines} == {sandbox.user}


def test_tasks_of_a_node_share_one_container(sandbox):
    done = sandbox.ssh(
        f"srun --nodes=2 --ntasks-per-node=3 --container-image={sandbox.image} --container-writable bash -c "
        "'touch /shared.$SLURM_PROCID /tmp/shared.$SLURM_PROCID; sleep 2; ls -d /shared.* /tmp/shared.* | wc -l'"
    )
    assert done.stdout.split() == ["6"] * 6, done.stderr


def test_what_a_container_leaves_is_removed_after_the_job(sandbox):
    script = f"""
        job=$(srun -N1 --container-image={sandbox.image} --container-writable bash -c 'echo $SLURM_JOB_ID')
        folders="{sandbox.prefix}/var/containers/$(id -u)/steps/$job.*"
        for try in $(seq 60); do [ -e $folders ] || break; sleep 0.5; done
        echo $job; ls -d $folders"""
    done = sandbox.ssh(script)
    assert done.stdout.strip().isdigit(), done.stdout + done.stderr


MOUNTS = "--container-image=IMAGE --container-mounts="
SOURCE = 'mount source must be a relative path, an absolute path, "tmpfs" or "umount"'
TARGET = "mount target must be a relative path or an absolute path"


@pytest.mark.parametrize(
    ("options", "lines", "named"),
    [
        (f"{MOUNTS}:/x", ["--container-mounts: invalid format: :/x"], "--container-mounts argument: :/x"),
        (f"{MOUNTS}/tmp:", ["--container-mounts: invalid format: /tmp:"], "--container-mounts argument: /tmp:"),
        (f"{MOUNTS}/tmp:x", [TARGET, "could not add mount entry: /tmp:x"], "--container-mounts argument: /tmp:x"),
        (f"{MOUNTS}data:/x", [SOURCE, "could not add mount entry: data:/x"], "--container-mounts argument: data:/x"),
        (MOUNTS, ["--container-mounts: argument required"], "--container-mounts argument: "),
        ("--container-image=", ["--container-image: argument required"], "--container-image argument: "),
        (
            "--container-image=IMAGE --container-image=/x",
            ["--container-image specified multiple times"],
            "--container-image argument: /x",
        ),
        (
            "--container-image=IMAGE --container-name=a:b",
            ['--container-name: flag must be "auto", "create", "exec" or "no_exec"'],
            "--container-name argument: a:b",
        ),
        (
            "--container-image=IMAGE --container-env=A,,B",
            ["--container-env: invalid format: A,,B"],
            "--container-env argument: A,,B",
        ),
        (
            "--container-image=IMAGE --container-mount-home --no-container-mount-home",
            ["both --container-mount-home and --no-container-mount-home were specified"],
            "--no-container-mount-home argument: (null)",
        ),
        (
            "--container-image=IMAGE --container-readonly --container-writable",
            ["both --container-writable and --container-readonly were specified"],
            "--container-writable argument: (null)",
        ),
    ],
)
def test_a_bad_option_is_refused_before_there_is_a_job(sandbox, options, lines, named):
    done = srun(sandbox, options.replace("IMAGE", str(sandbox.image)))
    assert done.returncode == 255
    assert done.stderr.splitlines() == [
        *(f"srun: error: pyxis: {line}" for line in lines),
        f"srun: error: Invalid {named}",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--container-image", "option '--container-image' requires an argument"),
        ("--container-writable=yes true", "option '--container-writable' doesn't allow an argument"),
        ("--container-bogus=1 true", "unrecognized option '--container-bogus=1'"),
    ],
)
def test_a_command_line_that_cannot_be_read(sandbox, words, message):
    done = sandbox.ssh(f"srun {words}")
    assert done.returncode == 255
    assert done.stderr == f'/usr/bin/srun: {message}\nTry "srun --help" for more information\n'


def test_a_bad_variable_is_named_and_does_nothing(sandbox):
    done = sandbox.ssh(f"PYXIS_CONTAINER_MOUNTS=data:/x srun -N1 --container-image={sandbox.image} echo fine")
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert f"srun: error: pyxis: {SOURCE}" in done.stderr.splitlines()
    assert srun(sandbox, f"--container-image={sandbox.image}", "test -w /opt").returncode == 1
    done = sandbox.ssh(f"PYXIS_CONTAINER_READONLY=no srun -N1 --container-image={sandbox.image} touch /x")
    assert done.returncode == 0, done.stderr


SPANK = ["spank: required plugin spank_pyxis.so: task_init() failed with rc=-1", "Failed to invoke spank plugin stack"]
CHILD = "pyxis: child N failed with error code: "
LOG = "pyxis: printing enroot log file:"
BY_ANOTHER = "pyxis: container was not started successfully by another task"


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            "--container-image=/no/such.sqsh",
            [
                f"{CHILD}1",
                "pyxis: failed to create container filesystem for image: /no/such.sqsh",
                LOG,
                "pyxis:     [ERROR] No such file or directory: /no/such.sqsh",
                *SPANK,
                f"{CHILD}1",
            ],
        ),
        (
            "--container-image=nosuch.invalid#a/b:1",
            [
                f"{CHILD}6",
                "pyxis: failed to import docker image: nosuch.invalid#a/b:1",
                LOG,
                "pyxis:     [INFO] Querying registry for permission grant",
                "pyxis:     curl: (6) Could not resolve host: nosuch.invalid",
                *SPANK,
                f"{CHILD}1",
            ],
        ),
        (
            f"{MOUNTS}/nosuch:/x",
            [
                "pyxis: --container-mounts: source path does not exist: /nosuch",
                "pyxis: couldn't create enroot start configuration script",
                LOG,
                "pyxis:     [INFO] Extracting squashfs filesystem...",
                BY_ANOTHER,
                *SPANK,
            ],
        ),
        (
            f"{MOUNTS}./nosuch:/x",
            [
                "pyxis: container start failed with error code: 1",
                LOG,
                "pyxis:     enroot-mount: failed to mount: ./nosuch at ROOT/x: No such file or directory",
                BY_ANOTHER,
                *SPANK,
            ],
        ),
        (
            "--container-image=IMAGE --container-workdir=/nosuch",
            ["pyxis: couldn't chdir to /nosuch: No such file or directory", *SPANK],
        ),
        (
            "--container-name=nobody",
            [
                'pyxis: error: a container with name "pyxis_nobody" does not exist, and --container-image is not set',
                *SPANK,
            ],
        ),
    ],
)
def test_a_container_that_cannot_be_had(sandbox, options, lines):
    done = srun(sandbox, f"--nodelist=gpu002 {options}".replace("IMAGE", str(sandbox.image)))
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("slurmstepd")]
    said = [re.sub("child [0-9]+ ", "child N ", re.sub(" at /[^ ]*/root/x", " at ROOT/x", line)) for line in said]
    assert said == [f"slurmstepd-gpu002: error: {line}" for line in lines]
    assert "srun: error: gpu002: task 0: Exited with exit code 1" in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("options", "once", "each"),
    [
        ("--container-image=/no/such.sqsh", "failed to create container filesystem", 1),
        (f"{MOUNTS}./nosuch:/x", "container start failed with error code: 1", 2),
        ("--container-name=nobody", "does not exist, and --container-image is not set", 0),
    ],
)
def test_only_the_first_task_of_a_node_says_why(sandbox, options, once, each):
    done = srun(sandbox, f"--ntasks=2 {options}".replace("IMAGE", str(sandbox.image)))
    assert done.returncode == 1
    assert done.stderr.count(once) == 1, done.stderr
    assert done.stderr.count(BY_ANOTHER) == each, done.stderr
    assert done.stderr.count(SPANK[0]) == 2, done.stderr


def test_relative_path_is_taken_for_an_image_of_docker_hub(sandbox):
    """Only what begins with a dot or a slash is a path; the rest goes to the registry, which cannot have it."""
    done = sandbox.ssh(f"cd {sandbox.image.parent}; srun -N1 --container-image={sandbox.image.name} true")
    assert done.returncode == 1
    assert f"pyxis: failed to import docker image: {sandbox.image.name}" in done.stderr
    assert "Querying registry for permission grant" in done.stderr
    done = sandbox.ssh(f"cd {sandbox.image.parent}; srun -N1 --container-image=./{sandbox.image.name} echo fine")
    assert done.stdout == "fine\n", done.stderr


def test_truncated_image(sandbox):
    done = sandbox.ssh(
        f"head -c 1000000 {sandbox.image} > ~/cut.sqsh; srun -N1 --container-image=$HOME/cut.sqsh true; "
        "code=$?; rm ~/cut.sqsh; exit $code"
    )
    assert done.returncode == 1
    assert "pyxis: failed to create container filesystem for image" in done.stderr
    assert "FATAL ERROR" in done.stderr


def test_a_replaced_image_is_unpacked_anew(sandbox):
    """The copy that is kept belongs to the file's content, not to its name."""
    script = """
        mkdir ~/image && cd ~/image && cp -L --parents /bin/cat $(ldd /bin/cat | grep -o '/[^ ]*') .
        for text in one two; do
            echo $text > text; rm -f ~/x.sqsh; mksquashfs . ~/x.sqsh -quiet -no-progress > /dev/null
            srun -N1 --container-image=$HOME/x.sqsh /bin/cat /text
        done
        rm -rf ~/image ~/x.sqsh"""
    done = sandbox.ssh(script)
    assert done.stdout.split() == ["one", "two"], done.stderr


def test_exit_codes_and_signals_are_those_of_the_command(sandbox):
    assert srun(sandbox, f"--container-image={sandbox.image}", "bash -c 'exit 7'").returncode == 7
    done = srun(sandbox, f"--container-image={sandbox.image}", "bash -c 'kill -TERM $$'")
    assert (done.returncode, "Terminated" in done.stderr) == (143, True)
    done = srun(sandbox, f"--container-image={sandbox.image}", "nosuchcommand")
    assert done.returncode == 2
    assert "execve(): nosuchcommand: No such file or directory" in done.stderr


def test_a_signal_reaches_a_command_that_handles_it(sandbox):
    """A wrapper that stays between would die of the signal, and Slurm would take the task for ended."""
    script = f"""
        srun -N1 --container-image={sandbox.image} bash -c \
            'trap "echo saving; sleep 1; echo saved; exit 3" TERM; echo ready; while :; do sleep 0.1; done' > ~/out &
        for try in $(seq 100); do grep -q ready ~/out && break; sleep 0.1; done
        scancel --signal=TERM --user=$USER --state=RUNNING
        wait $!; code=$?; cat ~/out; rm ~/out; exit $code"""
    done = sandbox.ssh(script)
    assert done.stdout.split() == ["ready", "saving", "saved"]
    assert done.returncode == 3


def test_environment(sandbox):
    done = sandbox.ssh(
        f"export LANG=xx OTHER=kept PATH=$PATH:/host; srun -N1 --container-image={sandbox.image} "
        "bash -c 'echo \"[$LANG] $OTHER $PATH [$PYXIS_VERSION]\"'"
    )
    path = f"{sandbox.prefix}/training/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert done.stdout == f"[] kept {path} []\n"
    done = sandbox.ssh(
        f"export LANG=C.UTF-8 PATH=$PATH:/host; srun -N1 --container-image={sandbox.image} --container-env=LANG,PATH "
        "bash -c 'echo $LANG; echo $PATH'"
    )
    assert done.stdout.splitlines()[0] == "C.UTF-8"
    assert done.stdout.splitlines()[1].endswith(":/host")


def test_home_and_root(sandbox):
    image = f"--container-image={sandbox.image}"
    assert srun(sandbox, f"{image} --container-mount-home", "test -e $HOME/.bash_profile").returncode == 0
    assert srun(sandbox, f"{image} --no-container-mount-home", "test -e $HOME/.bash_profile").returncode == 1
    assert srun(sandbox, f"{image} --container-remap-root", "bash -c 'id -u; echo $HOME; pwd'").stdout == (
        "0\n/root\n/root\n"
    )


def test_folder_and_host_name(sandbox):
    """The image has no /etc/rc, so a task starts at home. The node's name is that of this machine."""
    image = f"--container-image={sandbox.image}"
    assert srun(sandbox, image, "bash -c 'echo $HOME; pwd'").stdout == f"{sandbox.home}\n" * 2
    assert srun(sandbox, f"{image} --container-workdir=/opt", "pwd").stdout == "/opt\n"
    assert srun(sandbox, image, "hostname").stdout == srun(sandbox, "", "hostname").stdout


def test_named_container_is_kept(sandbox):
    name = "--nodelist=gpu001 --container-name=kept"
    script = f"""
        srun -N1 {name} --container-image={sandbox.image} --container-writable bash -c 'echo text > /kept' &&
        srun -N1 {name} cat /kept; srun -N1 {name}:create --container-image={sandbox.image} true
        rm -rf {sandbox.prefix}/var/containers/$(id -u)/data-gpu001/pyxis_kept"""
    done = sandbox.ssh(script)
    assert done.stdout == "text\n"
    assert '"create" flag was passed to --container-name but the container already exists' in done.stderr


def test_options_without_a_container_do_nothing(sandbox):
    done = srun(sandbox, "--container-mounts=/tmp:/x", "echo fine")
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert "ignoring --container-mounts because neither --container-image nor --container-name is set" in done.stderr


def test_other_options_are_those_of_srun(sandbox):
    done = sandbox.ssh(
        f"srun -N 1 -n2 -l --time 1 -J name --output=none.txt --container-image={sandbox.image} echo x; "
        "sleep 1; cat none.txt; rm none.txt"
    )
    assert sorted(done.stdout.split()) == ["0:", "1:", "x", "x"], done.stderr
    assert "--container-image" in sandbox.ssh("srun --help").stdout
    assert sandbox.ssh("srun --nosuch true").returncode != 0


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("enroot import -o IMAGE docker://ubuntu", 1, "[ERROR] File already exists: IMAGE"),
        ("enroot import ftp://x", 1, "[ERROR] Invalid argument: ftp://x"),
        ("enroot import docker://a/UPPER", 1, "[ERROR] Invalid image reference: docker://a/UPPER"),
        ("enroot import -o ~/x.sqsh docker://nosuch.invalid#a/b:1", 6, "[INFO] Querying registry for permission grant"),
        ("enroot import -o ~/x.sqsh docker://localhost:9#a/b:1", 7, "curl: (7) Failed to connect to localhost port 9"),
        ("enroot create /nosuch.sqsh", 1, "[ERROR] No such file or directory: /nosuch.sqsh"),
        ("enroot create /etc/passwd", 1, "[ERROR] Invalid image format: /etc/passwd"),
        ("enroot create -n a/b IMAGE", 1, "[ERROR] Invalid argument: a/b"),
        ("enroot remove -f nosuch", 1, "[ERROR] No such file or directory: HOME/.local/share/enroot/nosuch"),
        ("enroot version", 0, ""),
        ("enroot version x", 0, ""),
        ("enroot help", 0, ""),
        ("enroot", 1, ""),
        ("enroot frobnicate", 1, ""),
    ],
)
def test_enroot(sandbox, command, code, message):
    def fill(text):
        return text.replace("IMAGE", str(sandbox.image)).replace("HOME", str(sandbox.home))

    done = sandbox.ssh(fill(command))
    assert done.returncode == code
    assert fill(message) in done.stderr
    assert message or not done.stderr
    assert bool(done.stdout) == (not message)


def test_enroot_asks_before_it_removes(sandbox):
    script = f"""
        enroot create --name asked {sandbox.image} 2> /dev/null
        enroot remove asked; echo $?; echo n | enroot remove asked; echo $?; enroot list
        echo y | enroot remove asked; echo $?; enroot list"""
    done = sandbox.ssh(script)
    assert done.stdout.split() == ["1", "0", "asked", "0"]
    assert done.stderr == ""


def test_enroot_keeps_containers(sandbox):
    script = f"""
        enroot create --name kept {sandbox.image} && enroot list && enroot create --name kept {sandbox.image}
        enroot remove --force kept && enroot list"""
    done = sandbox.ssh(script)
    assert done.stdout == "kept\n"
    assert f"[ERROR] File already exists: {sandbox.home}/.local/share/enroot/kept" in done.stderr
