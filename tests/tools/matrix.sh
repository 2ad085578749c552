#!/usr/bin/env bash
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: matrix.sh [CORE...]
# Tries the collection with each release of ansible-core (2.19 2.20 2.21), and its modules on each Python up to 3.13
# that the release supports on the hosts it manages, as far as this machine has them. Each release gets an environment
# of its own, the unit tests run in it, and each module is started on each Python.
#
# MATRIX_TESTS='...'   arguments for pytest instead of tests/unit, or nothing for no unit tests
# MATRIX_ALL=1         a Python that is not on this machine is a failure
set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
readonly folder=.cache/matrix
tests=${MATRIX_TESTS-tests/unit}
summary=''
failed=0
export ANSIBLE_CONFIG=$PWD/ansible.cfg ANSIBLE_LOCALHOST_WARNING=false LC_ALL=C.UTF-8

# Prints the path of a Python 3 of a minor version, if this machine has one that runs.
find_python() {
    local candidate
    for candidate in "python3.$1" "$HOME"/.pyenv/versions/3."$1".*/bin/python3 "/usr/bin/python3.$1"; do
        if [[ "$("$candidate" -c 'import sys; print(sys.version_info[1])' 2>/dev/null)" == "$1" ]]; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

note() {
    local line
    printf -v line '%-14s %-26s %s' "$1" "$2" "$3"
    echo "$line"
    summary+=$line$'\n'
    [[ "$3" != FAILED* ]] || failed=$((failed + 1))
}

# Sets `controller` and `targets` to the minor versions of Python that a release of ansible-core runs on and manages.
versions_of() {
    case $1 in
        2.19) controller='13 12 11' targets='8 9 10 11 12 13' ;;
        *) controller='14 13 12' targets='9 10 11 12 13' ;;
    esac
}

# Makes the environment of a release of ansible-core, once.
make_environment() {
    local minor python=''
    for minor in $controller; do
        python=$(find_python "$minor")
        [[ -z "$python" ]] || break
    done
    if [[ -z "$python" ]]; then
        note "core $1" environment "FAILED: no Python 3.${controller// /, 3.} on this machine"
        return 1
    fi
    mkdir -p "$folder"
    printf '%s\n' "ansible-core==$1.*" jmespath hypothesis PyYAML jinja2 pytest >"$folder/$1.txt"
    sed -n '/^[A-Za-z]/p' tests/unit/requirements.txt >>"$folder/$1.txt"
    if ! PYTHON=$python tests/tools/venv.sh "$folder/$1" "$folder/$1.txt"; then
        note "core $1" environment 'FAILED: read the lines above'
        return 1
    fi
}

# Writes a playbook that starts each module. Without arguments a module does its work or says what is missing; both
# prove that a Python can read it and all that it imports.
write_starts() {
    local path name
    printf -- '- hosts: localhost\n  gather_facts: false\n  tasks:\n'
    for path in plugins/modules/*.py; do
        name=$(basename "$path" .py)
        # Those that run on the controller have a file beside them.
        [[ ! -f plugins/action/$name.py ]] || continue
        printf '    - dgxc.workloads.%s: {}\n      register: started\n      ignore_errors: true\n' "$name"
        printf '    - ansible.builtin.assert:\n        quiet: true\n        fail_msg: "%s: {{ started }}"\n' "$name"
        printf '        that:\n          - started.module_stderr is not defined\n'
        printf '          - started is success or started.msg is not search("(Import|Syntax|Type|Name)Error")\n'
    done
}

for core in "${@:-2.19 2.20 2.21}"; do
    # shellcheck disable=SC2086  # the default is three words
    for release in $core; do
        versions_of "$release"
        make_environment "$release" || continue
        bin=$folder/$release/bin
        exact=$("$bin/python" -c 'from ansible import release; print(release.__version__)')
        version="core $exact"
        if [[ -n "$tests" ]]; then
            began=$SECONDS
            # shellcheck disable=SC2086  # several arguments
            if "$bin/python" -m pytest -q -p no:cacheprovider $tests; then
                note "$version" 'unit tests' "passed in $((SECONDS - began)) s"
            else
                note "$version" 'unit tests' FAILED
            fi
        fi
        for playbook in playbooks/*.yml; do
            "$bin/ansible-playbook" --syntax-check -i inventories/sandbox "$playbook" >/dev/null ||
                note "$version" "$playbook" 'FAILED: syntax'
        done
        for minor in $targets; do
            python=$(find_python "$minor")
            if [[ -z "$python" ]]; then
                note "$version" "modules on Python 3.$minor" "${MATRIX_ALL:+FAILED: }not on this machine"
                continue
            fi
            scratch=$(mktemp -d)
            write_starts >"$scratch/starts.yml"
            if "$bin/ansible-playbook" -i localhost, -c local -e "ansible_python_interpreter=$python" \
                -e "matrix_folder=$scratch" "$scratch/starts.yml" tests/tools/matrix.yml >"$scratch.log" 2>&1; then
                note "$version" "modules on Python 3.$minor" passed
            else
                tail -n 40 "$scratch.log"
                note "$version" "modules on Python 3.$minor" FAILED
            fi
            rm -rf "$scratch" "$scratch.log"
        done
    done
done

printf '\n======== matrix ========\n%s' "$summary"
((failed == 0))
