#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: venv.sh FOLDER REQUIREMENTS
# Makes a virtual environment with what a requirements file names, once: a stamp in the folder tells what it was made
# from, and the folder is made anew when the requirements, the interpreter or the folder's own place have changed.
# PYTHON in the environment chooses the interpreter; otherwise the newest one found from 3.11 on is taken.
set -euo pipefail

readonly oldest_minor=11
readonly newest_minor=14

folder=${1:?usage: venv.sh FOLDER REQUIREMENTS}
requirements=${2:?usage: venv.sh FOLDER REQUIREMENTS}

fail() {
    printf 'ERROR: %s\n' "$1" >&2
    exit 1
}

# Prints what an interpreter is ("3.12.4 /usr/bin/python3.12 venv"), or nothing when it does not run: a version manager
# puts names on PATH that answer only with an error. For one of an active virtual environment it is the interpreter below
# it, since that environment may be the very one that is about to be made anew.
describe() {
    "$1" -c '
import importlib.util as find, platform, sys
whole = find.find_spec("venv") and find.find_spec("ensurepip")
own = sys.prefix == sys.base_prefix
print(platform.python_version(), sys.executable if own else sys._base_executable, "venv" if whole else "bare")
' 2>/dev/null || true
}

# Sets `chosen` to the description of the interpreter to use.
choose_interpreter() {
    local name description version minor without_venv='' seen=''
    local -a names=()
    if [[ -n "${PYTHON:-}" ]]; then
        description=$(describe "$PYTHON")
        [[ -n "$description" ]] || fail "PYTHON=$PYTHON does not run: name a Python from 3.$oldest_minor on."
        names=("$PYTHON")
    else
        for ((minor = newest_minor; minor >= oldest_minor; minor--)); do
            names+=("python3.$minor")
        done
        names+=(python3 /usr/bin/python3)
    fi
    for name in "${names[@]}"; do
        description=$(describe "$name")
        [[ -n "$description" ]] || continue
        version=${description%% *}
        seen+="${seen:+, }$name is $version"
        minor=${version#3.}
        minor=${minor%%.*}
        if [[ "$version" != 3.* ]] || ((minor < oldest_minor)); then
            continue
        fi
        if [[ "$description" == *' bare' ]]; then
            without_venv=${without_venv:-$name}
            continue
        fi
        chosen=$description
        return
    done
    if [[ -n "$without_venv" ]]; then
        fail "$without_venv lacks the module venv: run 'apt-get install python3-venv' and repeat."
    fi
    fail "Python 3.$oldest_minor or newer is needed (${seen:-no Python was found}): install one, or name it with PYTHON=..."
}

chosen=''
choose_interpreter
read -r version interpreter _ <<<"$chosen"

# Files that a requirements file includes count as well.
included=$(sed -n 's/^-r *//p' "$requirements" | while read -r name; do echo "$(dirname "$requirements")/$name"; done)
mkdir -p "$(dirname "$folder")"
place=$(cd "$(dirname "$folder")" && pwd -P)/$(basename "$folder")
# shellcheck disable=SC2086  # one file a word
stamp=$(printf '%s\n' "$place" "$interpreter" "$version"; cat "$requirements" $included)

if [[ -f "$folder/.stamp" && "$(cat "$folder/.stamp")" == "$stamp" ]]; then
    exit 0
fi

echo "Making $folder with Python $version ($requirements) ..."
rm -rf "$folder"
"$interpreter" -m venv "$folder" || fail "$interpreter -m venv $folder failed: read the lines above."
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" ||
    fail "pip could not install $requirements: read the lines above; the package index must be reachable."
printf '%s\n' "$stamp" >"$folder/.stamp"
