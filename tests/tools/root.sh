#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: root.sh [-f] [-u USER] [-p 'PACKAGE...'] SUITE COMMAND...
# Runs a command in a copy of the checkout on a bare system of another Debian release, such as
#
#     tests/tools/root.sh trixie make test-scenarios
#
# The system has a file tree, processes, hostname and network of its own, so it shares neither files nor ports with this
# machine, and it is gone when the command has ended. It reaches the outside through this machine (slirp4netns) and takes
# packages from where this machine takes them: its apt sources with the other release's name in place of its own, and its
# settings for proxies, certificates and pip.
#
#   -u USER   run the command as this new ordinary user, who may use sudo without a password, instead of as root
#   -p ...    further packages to install first
#   -f        fetch everything anew, instead of keeping what apt and pip fetch for the next time
#
# DGXC_ROOTS names the folder for it all, by default /opt/dgxc-roots. Needs root, and namespaces (in a container:
# --privileged). Missing tools are installed.
set -euo pipefail

readonly packages=ca-certificates,git,make,python3-venv,sudo
readonly roots=${DGXC_ROOTS:-/opt/dgxc-roots}
checkout=$(cd "$(dirname "$0")/../.." && pwd -P)
readonly checkout

fail() {
    printf 'ERROR: %s\n' "$1" >&2
    exit 1
}

say() {
    printf '[%s] %s\n' "${suite:-}" "$1"
}

usage() {
    fail "usage: root.sh [-f] [-u USER] [-p 'PACKAGE...'] SUITE COMMAND..."
}

# Writes this machine's own sources of distribution packages, for another release of it, into a folder.
write_sources() {
    local file codename
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && [[ "$ID" == debian ]] && echo "$VERSION_CODENAME") ||
        fail "this machine is not a Debian, so its package sources do not lead to Debian's $suite."
    local ours="$codename(-updates|-security|/updates)?"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -f "$file" ]] || continue
        grep -E "^deb .* $ours " "$file" | sed "s/ $codename/ $suite/g" >>"$1/machine.list" || true
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [[ -f "$file" ]] || continue
        sed '/^#/d' "$file" | awk -v ours="^($ours ?)+\$" -v from="$codename" -v to="$suite" '
            BEGIN { RS = ""; FS = "\n"; ORS = "\n\n" }
            { for (i = 1; i <= NF; i++) if (sub(/^Suites: */, "", $i) && $i ~ ours) {
                  gsub(from, to, $i); $i = "Suites: " $i; out = $1
                  for (j = 2; j <= NF; j++) out = out "\n" $j
                  print out } }' >>"$1/machine.sources"
    done
    find "$1" -name 'machine.*' -size 0 -delete
    [[ -n "$(ls -A "$1")" ]] || fail "no package source of this machine names $codename, so there is none for $suite."
}

# Makes the bare system, once, as an archive.
make_archive() {
    local folder stamp
    folder=$(mktemp -d "$roots/make.XXXXXX")
    # shellcheck disable=SC2064  # the name of today
    trap "rm -rf --one-file-system '$folder'" EXIT
    mkdir "$folder/sources"
    write_sources "$folder/sources"
    stamp=$(echo "$packages"; cat "$folder"/sources/*)
    if [[ ! -f "$archive" || "$(cat "$archive.stamp" 2>/dev/null)" != "$stamp" ]]; then
        say "making the bare system $archive ..."
        apt-config dump | grep -E '^Acquire::(https?|ftp|Check|Retries|ForceIPv)' >"$folder/machine.conf" || true
        mmdebstrap --quiet --mode=root --variant=minbase --format=tar --include="$packages" \
            --aptopt="$folder/machine.conf" "$suite" "$folder/root.tar" "$folder"/sources/* ||
            fail "mmdebstrap could not make $suite: read the lines above; the package sources must have that release."
        mv "$folder/root.tar" "$archive"
        printf '%s\n' "$stamp" >"$archive.stamp"
    fi
    rm -rf --one-file-system "$folder"
}

# Unpacks the bare system for this run, with the checkout, this machine's certificates, and its settings for fetching.
furnish() {
    mkdir "$root"
    tar -C "$root" -xpf "$archive" --numeric-owner
    mkdir "$root/checkout"
    git -C "$checkout" -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
        tar -C "$checkout" --null --ignore-failed-read --warning=no-failed-read -cf - -T - |
        tar -C "$root/checkout" --no-same-owner -xf -
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    echo "fresh-$suite" >"$root/etc/hostname"
    printf '127.0.0.1 localhost\n127.0.1.1 fresh-%s\n::1 localhost ip6-localhost\n' "$suite" >"$root/etc/hosts"
    # Without what names folders of this machine, which are not there.
    local file place
    for file in /etc/pip.conf /etc/xdg/pip/pip.conf "${HOME:-/root}/.config/pip/pip.conf"; do
        [[ -e "$file" ]] || continue
        place=$root${file/#${HOME:-/root}//root}
        mkdir -p "${place%/*}"
        sed -E 's#file:[^ ]*##g; /^(find-links|constraint) *=/d' "$file" >"$place"
    done
    cp -L /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
    # What a profile of the user would set there, and nothing else of today's environment.
    declare -px | grep -E '^declare -x ([A-Za-z]+_proxy|[A-Z]+_PROXY|PIP_[A-Z_]+|(SSL|CURL|REQUESTS)_[A-Z_]+|TERM|CI)=' \
        | grep -v ' PIP_FIND_LINKS=' >"$root/checkout.environment" || true
}

# Everything below runs inside, as the first process of the new namespaces.
inside() {
    local place
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=0755 tmpfs "$root/run"
    if [[ -z "$fresh" ]]; then
        for place in var/cache/apt/archives root/.cache/pip; do
            mkdir -p "$roots/cache/$suite/$place" "$root/$place"
            mount --bind "$roots/cache/$suite/$place" "$root/$place"
        done
    fi
    hostname "fresh-$suite"
    until [[ -e /proc/self/net/route && "$(wc -l </proc/self/net/route)" -gt 1 ]]; do sleep 0.1; done
    cd "$root"
    # Not chroot: a process whose root is not that of its mount namespace may not make user namespaces.
    pivot_root . .
    umount -l .
    cd /
    USER_NAME=$user PACKAGES=$extra exec /bin/bash -c '
        set -euo pipefail
        eval "$(cat /checkout.environment)"
        export DEBIAN_FRONTEND=noninteractive
        update-ca-certificates >/dev/null 2>&1
        if [[ -n "$PACKAGES" ]]; then
            apt-get -qq update && apt-get -qq install --no-install-recommends $PACKAGES >/dev/null
        fi
        export -n DEBIAN_FRONTEND
        export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        as=()
        if [[ -n "$USER_NAME" ]]; then
            useradd --create-home --shell /bin/bash "$USER_NAME"
            echo "$USER_NAME ALL=(ALL) NOPASSWD: ALL" >"/etc/sudoers.d/$USER_NAME"
            HOME=/home/$USER_NAME PATH=/usr/local/bin:/usr/bin:/bin
            [[ ! -d /root/.config ]] || cp -r /root/.config "$HOME/"
            as=(setpriv --reuid="$USER_NAME" --regid="$USER_NAME" --init-groups --)
        fi
        mv /checkout "$HOME/checkout"
        rm /checkout.environment
        chown -R "${USER_NAME:-root}:" "$HOME"
        cd "$HOME/checkout"
        export USER=${USER_NAME:-root} LOGNAME=${USER_NAME:-root}
        export -n USER_NAME PACKAGES
        unset OLDPWD DGXC_ROOTS DGXC_ROOT_INSIDE
        "${as[@]}" "$@"
    ' root.sh "$@"
}

fresh='' user='' extra=''
while getopts 'fu:p:' option; do
    case $option in
        f) fresh=1 ;;
        u) user=$OPTARG ;;
        p) extra=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
(($# >= 2)) || usage
suite=$1
shift
((EUID == 0)) || exec sudo -E -- "$0" ${fresh:+-f} ${user:+-u "$user"} ${extra:+-p "$extra"} "$suite" "$@"

if [[ -n "${DGXC_ROOT_INSIDE:-}" ]]; then
    root=$DGXC_ROOT_INSIDE
    inside "$@"
fi

archive=$roots/$suite.tar
tools=()
command -v mmdebstrap >/dev/null || tools+=(mmdebstrap)
command -v slirp4netns >/dev/null || tools+=(slirp4netns)
if ((${#tools[@]})); then
    say "installing ${tools[*]} on this machine ..."
    { apt-get -qq update && apt-get -qq -o DPkg::Lock::Timeout=600 install --no-install-recommends "${tools[@]}"; } \
        >/dev/null || fail "apt-get could not install ${tools[*]}: read the lines above."
fi
mkdir -p "$roots"
make_archive

run=$(mktemp -d "$roots/run.XXXXXX")
root=$run/root
network='' inner=''
# shellcheck disable=SC2329  # called by the trap
clean() {
    # unshare ignores gentler signals; with it go all processes inside, which may still write for a moment.
    for pid in $network $inner; do
        kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
    done
    local try
    for try in 1 2 3 4 5 6 7 8; do
        rm -rf --one-file-system "$run" 2>/dev/null && return
        sleep "0.$try"
    done
    say "could not remove $run"
}
trap clean EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
furnish

# The network comes as soon as the namespaces are there.
(
    until [[ -s "$run/pid" ]] && pid=$(cat "$run/pid") &&
        [[ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]]; do
        [[ -d "$run" ]] || exit 0
        sleep 0.1
    done
    exec slirp4netns --configure --mtu=65520 --disable-host-loopback "$pid" tap0
) >"$run/network.log" 2>&1 &
network=$!

say "running: $*"
status=0
# In the background only so that a signal to this script is not kept waiting; Ctrl-C works inside as anywhere.
# shellcheck disable=SC2016  # for the inner shell
env --default-signal=INT,QUIT -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    DGXC_ROOTS="$roots" DGXC_ROOT_INSIDE="$root" \
    bash -c 'echo $$ >"$0/pid"; exec unshare --mount --pid --net --uts --ipc --fork --kill-child "$@"' "$run" \
    "$checkout/tests/tools/root.sh" ${fresh:+-f} ${user:+-u "$user"} ${extra:+-p "$extra"} "$suite" "$@" <&0 &
inner=$!
wait "$inner" || status=$?
inner=''
say "the command ended with $status after $SECONDS s"
exit "$status"
