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
                echo $SLURM_PROCID $(hostname) $CUDA_VISIBLE_DEVICES $(id -un)'"""
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--container-image=/no/such.sqsh", "No such file or directory: /no/such.sqsh"),
        ("--container-image=IMAGE --container-mounts=/nosuch:/x", "source path does not exist: /nosuch"),
        ("--container-image=IMAGE --container-mounts=:/x", "--container-mounts: invalid format: :/x"),
        (
            "--container-image=IMAGE --container-mounts=/tmp:x",
            "mount target must be a relative path or an absolute path",
        ),
        (
            "--container-image=IMAGE --container-mounts=data:/x",
            "mount source must be a relative path, an absolute path",
        ),
        ("--container-image=IMAGE --container-mounts=", "--container-mounts: argument required"),
        ("--container-image=IMAGE --container-workdir=/nosuch", "couldn't chdir to /nosuch"),
        ("--container-image=IMAGE --container-name=a:b", '--container-name: flag must be "auto"'),
        ("--container-image=IMAGE --container-env=A,,B", "--container-env: invalid format: A,,B"),
        ("--container-image=IMAGE --container-image=/x", "--container-image specified multiple times"),
        (
            "--container-image=IMAGE --container-mount-home --no-container-mount-home",
            "both --container-mount-home and --no-container-mount-home were specified",
        ),
        ("--container-name=nobody", 'a container with name "pyxis_nobody" does not exist'),
    ],
)
def test_refusals(sandbox, options, message):
    done = srun(sandbox, options.replace("IMAGE", str(sandbox.image)))
    assert done.returncode == 1
    assert re.search(r"error: pyxis: .*" + re.escape(message), done.stderr)


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
        "bash -c 'echo \"[$LANG] $OTHER $PATH $PYXIS_VERSION\"'"
    )
    assert done.stdout == "[] kept /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin 0.24.0\n"
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
    assert srun(sandbox, f"{image} --container-remap-root", "id -u").stdout == "0\n"


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
        ("enroot import docker://UPPER", 1, "[ERROR] Invalid image reference: docker://UPPER"),
        ("enroot import -o ~/x.sqsh docker://nosuch.invalid#a/b:1", 1, "[INFO] Querying registry for permission grant"),
        ("enroot create /nosuch.sqsh", 1, "[ERROR] No such file or directory: /nosuch.sqsh"),
        ("enroot create /etc/passwd", 1, "[ERROR] Invalid image format: /etc/passwd"),
        ("enroot create -n a/b IMAGE", 1, "[ERROR] Invalid argument: a/b"),
        ("enroot remove -f nosuch", 1, "[ERROR] No such file or directory: HOME/.local/share/enroot/nosuch"),
        ("enroot version", 0, ""),
    ],
)
def test_enroot(sandbox, command, code, message):
    def fill(text):
        return text.replace("IMAGE", str(sandbox.image)).replace("HOME", str(sandbox.home))

    done = sandbox.ssh(fill(command))
    assert done.returncode == code
    assert fill(message) in done.stderr


def test_enroot_keeps_containers(sandbox):
    script = f"""
        enroot create --name kept {sandbox.image} && enroot list && enroot create --name kept {sandbox.image}
        enroot remove --force kept && enroot list"""
    done = sandbox.ssh(script)
    assert done.stdout == "kept\n"
    assert f"[ERROR] File already exists: {sandbox.home}/.local/share/enroot/kept" in done.stderr
