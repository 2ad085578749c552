# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Enroot is called and what its answers mean. Private to this collection."""

from __future__ import annotations

import re
from typing import NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import version_tuple

# Lines that our script says for us, apart from what Enroot says.
VERSION_MARK = "DGXC-ENROOT-VERSION"
SOURCE_MARK = "DGXC-SOURCE"
OLD_MARK = "DGXC-OLD"
SPACE_MARK = "DGXC-NO-SPACE"
FULL_MARK = "DGXC-FULL"

# Enroot's folders, and the shares of a compressed image that each has to hold: the cache keeps the layers as they come,
# the temporary folder unpacks them, and an image has its data uncompressed (mksquashfs -noD), which is Enroot's
# default.
CACHE_SHARE, TEMP_SHARE, TARGET_SHARE = 1.1, 3.0, 3.0

# Runs where the image is made: on the login node, or on a node in a job. $1 image file, $2 source, $3 to $5 KiB needed
# in cache, temporary folder and target, $6 architecture or nothing, $7 program, $8 the source with digest or nothing.
SCRIPT = (
    r"""
set -u
target=$1 source=$2 arch=$6 enroot=$7
configured() {
    local text
    text=$(awk -v name="$1" '$1 == name {$1 = ""; sub(/^ +/, ""); print; exit}' \
        "${ENROOT_SYSCONF_PATH:-/etc/enroot}/enroot.conf" 2> /dev/null)
    [ -n "$text" ] && eval "printf %s \"$text\""
}
job=
# More than once: a shell that is about to wait for a command overhears the first time.
finish() {
    trap '' TERM INT
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -TERM 0
        sleep 0.3
        [ -n "$job" ] && kill -0 "$job" 2> /dev/null || break
    done
    [ -z "$job" ] || kill -KILL "$job" 2> /dev/null
    wait
    rm -f -- "$target"
    exit 143
}
trap finish TERM INT
version=$("$enroot" version) || exit
echo "VERSION_MARK $version"
# From 4.0 on Enroot takes a digest, so that what is recorded is what is imported, wherever the tag moves.
if [ "${version%%.*}" -ge 4 ] 2> /dev/null; then
    source=${8:-$source}
else
    case $source in *@sha256:*) echo "OLD_MARK $version"; exit 76 ;; esac
fi
echo "SOURCE_MARK $source"
# A plain SSH session or a job often has no XDG_RUNTIME_DIR, or one that is not there.
if [ -z "${ENROOT_RUNTIME_PATH:-}" ] && [ -z "$(configured ENROOT_RUNTIME_PATH)" ] &&
   ! { [ -n "${XDG_RUNTIME_DIR:-}" ] && [ -w "$XDG_RUNTIME_DIR" ]; }; then
    export ENROOT_RUNTIME_PATH="${TMPDIR:-/tmp}/enroot-runtime-$(id -u)"
fi
temp=${ENROOT_TEMP_PATH:-$(configured ENROOT_TEMP_PATH)}
temp=${temp:-${TMPDIR:-/tmp}}
cache=${ENROOT_CACHE_PATH:-$(configured ENROOT_CACHE_PATH)}
cache=${cache:-${XDG_CACHE_HOME:-$HOME/.cache}/enroot}
case $source in docker://*) places="cache temp target" ;; *) places="temp target" ;; esac
(umask 077; mkdir -p -- ${ENROOT_RUNTIME_PATH:+"$ENROOT_RUNTIME_PATH"} "$temp" "$cache") || exit
place_of() { case $1 in cache) echo "$cache" ;; temp) echo "$temp" ;; *) dirname -- "$target" ;; esac; }
free_in() { df -Pk -- "$1" | awk 'NR == 2 {print $4, $1}'; }
wanted() { case $1 in cache) echo "$3" ;; temp) echo "$4" ;; *) echo "$5" ;; esac; }
for place in $places; do
    read -r free device <<< "$(free_in "$(place_of "$place")")"
    # What shares a file system shares its space.
    need=0
    for other in $places; do
        read -r _ device_of_other <<< "$(free_in "$(place_of "$other")")"
        [ "$device_of_other" = "$device" ] && need=$((need + $(wanted "$other" x "$3" "$4" "$5")))
    done
    if [ -n "$free" ] && [ "$free" -lt "$need" ]; then
        echo "SPACE_MARK $place $free $need $(place_of "$place")"
        exit 75
    fi
done
"$enroot" import ${arch:+--arch "$arch"} --output "$target" -- "$source" &
job=$!
wait "$job"
status=$?
if [ $status -ne 0 ]; then
    for place in $places; do
        read -r free _ <<< "$(free_in "$(place_of "$place")")"
        echo "FULL_MARK $place $free 0 $(place_of "$place")"
    done
fi
exit $status
""".replace("VERSION_MARK", VERSION_MARK)
    .replace("SOURCE_MARK", SOURCE_MARK)
    .replace("OLD_MARK", OLD_MARK)
    .replace("SPACE_MARK", SPACE_MARK)
    .replace("FULL_MARK", FULL_MARK)
)


class Place(NamedTuple):
    """A folder that the script looked at: what it is for, free and needed KiB, and its path."""

    purpose: str
    free: int
    need: int
    path: str


# How each place is set by the user.
_SETTINGS = {
    "cache": ("Enroot's cache", "image_enroot_cache_path"),
    "temp": ("Enroot's temporary folder", "image_enroot_temp_path"),
    "target": ("the image's folder", "image_folder"),
}
_REPLIES = re.compile(r"returned error code: (\d{3})|The requested URL returned error: (\d{3})")


def version_of(output: str) -> str:
    """Return the version that the script told, or nothing."""
    found = re.search(r"(?m)^{0} (\S+)".format(VERSION_MARK), output)
    return found[1] if found else ""


def source_of(output: str) -> str:
    """Return the source that the script handed to Enroot, or nothing."""
    found = re.search(r"(?m)^{0} (\S+)".format(SOURCE_MARK), output)
    return found[1] if found else ""


def too_old(output: str) -> str:
    """Return the version of an Enroot that does not take the digest it was to take, or nothing."""
    found = re.search(r"(?m)^{0} (\S+)".format(OLD_MARK), output)
    return found[1] if found else ""


def places_of(output: str, mark: str) -> list[Place]:
    """Return the places that the script told."""
    lines = re.findall(r"(?m)^{0} (\w+) (\d+) (\d+) (.+)$".format(mark), output)
    return [Place(purpose, int(free), int(need), path) for purpose, free, need, path in lines]


def amount(kibibytes: float) -> str:
    """Return an amount of space as people say it."""
    size, unit = float(kibibytes) * 1024, "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return "{0:.0f} {1}".format(size, unit) if size >= 10 or unit == "B" else "{0:.1f} {1}".format(size, unit)


def no_space(place: Place, where: str, what_for: str = "import") -> str:
    """Return the sentence about a place that is too small."""
    what, setting = _SETTINGS[place.purpose]
    return (
        "There is not enough space for the {0}: {1} on {2} is {3} and has {4} free of the {5} that may be needed. "
        "Free some,"
        " or set {6} to another folder.".format(
            what_for, what, where, place.path, amount(place.free), amount(place.need), setting
        )
    )


def explain(said: str, output: str, registry: str, where: str) -> str:
    """Turn what Enroot, curl or Docker said at a failure into a sentence with the cause and the remedy.

    :param said: its error output. :param output: what our script printed.
    :param registry: the registry's host, for the sentence about its credential; empty for Docker's own store.
    :param where: the machine that it happened on.
    """
    for place in places_of(output, SPACE_MARK):
        return no_space(place, where)
    if re.search(r"No space left on device|[Dd]isk quota exceeded|Write failed because", said):
        places = sorted(places_of(output, FULL_MARK), key=lambda place: place.free)
        named = [place for place in places if place.path in said] or places[:1]
        quota = "Disk quota exceeded" in said
        for place in named[:1]:
            what, setting = _SETTINGS[place.purpose]
            return (
                "{0} during the import, most likely in {1} {2} on {3}, which has {4} free: free some, or set {5} to"
                " another folder.".format(
                    "The disk quota was exceeded" if quota else "The space ran out", what, place.path, where,
                    amount(place.free), setting,
                )
            )  # fmt: skip
    sentence = registry_sentence(said, registry)
    if sentence:
        return sentence
    missing = re.search(r"Command not found: (\S+)|(enroot): (?:command not found|No such file)", said)
    if missing:
        return (
            "Enroot on {0} lacks the program {1}: install it there, or load the environment module that has it.".format(
                where, missing[1] or missing[2]
            )
        )
    if "No command specified" in said:
        return (
            "The image has no command, and Docker makes no container of such an image, from which Enroot takes it: "
            "add a"
            ' line such as CMD ["/bin/bash"] to the Dockerfile.'
        )
    if re.search(r"cannot create directory .*/run/", said):
        return (
            "Enroot has no folder for its runtime on {0}: set image_enroot_runtime_path to a folder of your own on "
            "local"
            " disk.".format(where)
        )
    if re.search(r"Cannot connect to the Docker daemon|docker\.sock|permission denied.*docker", said):
        return (
            "The Docker daemon on {0} does not answer: start it, be a member of the group docker, or set"
            " image_docker_host; without a Docker daemon, use image_delivery import.".format(where)
        )
    if re.search(r"Operation not permitted|[Ww]hiteout|xattr", said):
        return (
            "Enroot could not unpack the layers on {0}: its temporary folder must be on local disk, not on NFS or "
            "Lustre;"
            " set image_enroot_temp_path. It said: {1}".format(where, _tail(said))
        )
    return "enroot import failed on {0}: {1}".format(where, _tail(said) or "it said nothing")


def registry_sentence(said: str, registry: str) -> str:
    """Return the sentence about a registry that refused, or nothing if it was something else.

    Credentials and limits are named, for each registry by the variables that hold them.
    """
    found = _REPLIES.search(said)
    status = int(found[1] or found[2]) if found else 0
    name = registry or "the registry"
    credential = credential_of(registry)
    if status == 429 or "toomanyrequests" in said or "Too Many Requests" in said:
        if "docker.io" in name:
            return (
                "Docker Hub refused for too many pulls (429): anonymous users have 100 in six hours and free "
                "accounts 200;"
                " wait, set {0}, or take the image from another registry.".format(credential)
            )
        return "{0} refused for too many requests (429): wait some minutes and repeat.".format(name)
    if status == 401 or re.search(r"unauthorized|authentication required|incorrect username or password", said):
        return "{0} refused the user or the password (401): check {1}, and that it has not expired.".format(
            name, credential
        )
    if status == 403 or re.search(r"(?<!ermission )denied:|access to the resource is denied", said):
        return (
            "{0} denied access (403): the account in {1} has no right to this image; ask its owner for it, or check the"
            " image's path.".format(name, credential)
        )
    if status == 404 or re.search(r"manifest unknown|name unknown|not found: manifest|[Nn]o such image", said):
        return (
            "{0} knows no such image or tag (404): check its path and tag; registries also answer so where the "
            "account in"
            " {1} may not see it.".format(name, credential)
        )
    if status == 413:
        return "{0} takes no layer of this size (413): ask for a higher limit, or put less into a step.".format(name)
    if status >= 500:
        return "{0} has an error of its own ({1}): wait and repeat.".format(name, status)
    if re.search(r"certificate|SSL|x509", said):
        return (
            "The certificate of {0} is not trusted: install the certificate of its authority on that machine, or "
            "name its"
            " file in image_registry_ca. It said: {1}".format(name, _tail(said))
        )
    if re.search(r"Could not resolve host|no such host|[Nn]ame or service not known", said):
        return "The name of {0} cannot be looked up: check image_registry, and the network of that machine.".format(
            name
        )
    if re.search(r"Failed to connect|[Cc]onnection refused|timed out|Connection reset|no route to host|Timeout", said):
        return "{0} does not answer: check image_registry, the network, and a proxy that may be needed.".format(name)
    if "Could not parse digest information" in said or "Could not process JSON" in said:
        return (
            "{0} has the image in a form that this Enroot does not read (before 3.4.1: OCI manifests; before 4.0: "
            "layers"
            " packed with zstd): update Enroot, or push the image with gzip layers.".format(name)
        )
    return ""


def credential_of(registry: str) -> str:
    """Return the names of the variables that hold a registry's credential."""
    host = registry.partition(":")[0]
    if host.endswith("nvcr.io") or host == "authn.nvidia.com":
        return "image_ngc_api_key"
    if host.endswith("docker.io"):
        return "image_dockerhub_username and image_dockerhub_password"
    return "image_registry_username and image_registry_password (or the entry of image_credentials)"


def _tail(said: str) -> str:
    """Return the last lines that say something, errors before all others."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("[ERROR]") or "rror" in line]
    return " | ".join((errors or lines)[-2:])


def compare_versions(version: str, host: str, other: str, other_host: str, check: str) -> tuple[str, str]:
    """Compare the Enroot that runs an image with the one that made it. Returns a problem and a warning, or nothing.

    :param check: major, exact or none.
    """
    ours, theirs = version_tuple(version), version_tuple(other)
    if check == "none" or ours == theirs:
        return "", ""
    sentence = "Enroot is {0} on {1} and {2} on {3}".format(version, host, other, other_host)
    if check == "exact" or ours[:1] != theirs[:1]:
        return (
            "{0}: install version {1} there, import the image on the cluster with image_delivery import, or set"
            " image_enroot_version_check to none if you know that both go together.".format(sentence, version)
        ), ""
    return "", "{0}; images are exchanged best between equal versions.".format(sentence)
