#!/usr/bin/env bash
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Makes everything that the Makefile's targets run with, in the folder build.
# A second run looks at what is there and does only what is missing.
#
#   tests/setup.sh          Python packages, and the checkout in a collections path
#   tests/setup.sh demo     also the Debian packages of the demo
#   tests/setup.sh bench    also those of the benchmarks
#   tests/setup.sh test     also those of the whole test suite

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
venv=build/venv
stamp=$venv/set-up-with
pyenv_versions=${PYENV_ROOT:-$HOME/.pyenv}/versions
# If it exits with 101, no package starts its services.
policy=/usr/sbin/policy-rc.d

say() { echo "set-up: $*"; }
die() { echo "set-up: $*" >&2; exit 1; }

# Debian packages

# Prints the packages whose command is missing; the arguments are COMMAND=PACKAGE.
missing_packages() {
    local pair
    for pair in "$@"; do
        command -v "${pair%%=*}" > /dev/null || echo "${pair#*=}"
    done
}

install_packages() {
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
        die "not there and to be installed by hand: $*   (Debian, Ubuntu: sudo apt-get install $*)"
    fi
    say "installing Debian packages: $*"
    (
        # Several checkouts may be set up at the same time. What apt-get starts must not keep our locks.
        flock 8
        export DEBIAN_FRONTEND=noninteractive
        # The tests start the servers that they need, in folders of their own. Debian's would only be in their way.
        if [ ! -e $policy ]; then
            trap 'rm -f $policy' EXIT
            printf '#!/bin/sh\nexit 101\n' > $policy
            chmod 755 $policy
        fi
        apt-get -qq update 8>&- 9>&- || say "apt-get update failed, trying with the lists as they are"
        apt-get -qq -o DPkg::Lock::Timeout=600 --no-install-recommends install "$@" > build/apt.log 2>&1 8>&- 9>&- || {
            tail -n 20 build/apt.log >&2
            die "apt-get could not install: $*"
        }
    ) 8> /run/lock/graceful-azure-apt.lock
}

# Python

# Whether the command $1 is a Python that can make a virtual environment.
usable_python() {
    [ -x "$1" ] && "$1" -c 'import ensurepip, ssl, venv' > /dev/null 2>&1
}

# Prints the newest usable Python. The versions that pyenv installed are looked at where they lie,
# since its shims on PATH do not run unless that version is switched on.
find_python() {
    local version candidate
    for version in 3.13 3.12 3.11; do
        while read -r candidate; do
            if usable_python "$candidate"; then
                echo "$candidate"
                return
            fi
        done < <(type -ap "python$version"; ls -d "$pyenv_versions/$version".*/bin/"python$version" 2> /dev/null)
    done
}

make_venv() {
    local python wanted site made_in=$PWD
    wanted=$(printf '%s\n' "$PWD" "$(cat tests/requirements.txt tests/support/module_code_cache.py | sha256sum)")
    if [ -e $stamp ]; then
        if [ "$(cat $stamp)" = "$wanted" ] && $venv/bin/python -c '' 2> /dev/null; then
            return
        fi
        made_in=$(head -n 1 $stamp)
    fi
    # An environment does not survive being moved: its scripts name the folder that it was made in.
    if [ "$made_in" != "$PWD" ] || ! $venv/bin/python -c 'import pip' 2> /dev/null; then
        python=$(find_python)
        if [ -z "$python" ] && [ "$(id -u)" = 0 ]; then
            install_packages python3 python3-venv
            python=$(find_python)
        fi
        [ -n "$python" ] || die "no Python 3.13, 3.12 or 3.11 with the module venv was found   (Debian, Ubuntu: sudo apt-get install python3 python3-venv)"
        say "making $venv with $python"
        "$python" -m venv --clear $venv
    fi
    say "installing Python packages into $venv (half a minute)"
    $venv/bin/python -m pip --disable-pip-version-check install --quiet -r tests/requirements.txt > build/pip.log 2>&1 || {
        tail -n 20 build/pip.log >&2
        die "pip could not install the packages of tests/requirements.txt (all it said: build/pip.log)"
    }
    site=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp tests/support/module_code_cache.py "$site/"
    echo 'import os; os.environ.get("MODULE_CODE_CACHE") and __import__("module_code_cache")' > "$site/module_code_cache.pth"
    echo "$wanted" > $stamp
}

# The checkout as a collection

make_collections() {
    local link=build/collections/ansible_collections/graceful/azure
    mkdir -p "$(dirname $link)" build/ansible-home
    [ "$(readlink $link)" = ../../../.. ] || ln -sfn ../../../.. $link
}

mkdir -p build
exec 9> build/set-up.lock
flock 9

demo=(haproxy=haproxy)
# The guests that tests and benchmarks boot need root anyway, and so do the tools for them. Java is ansible-rulebook's.
guests=(systemd-nspawn=systemd-container mmdebstrap=mmdebstrap ip=iproute2 ssh=openssh-client sshd=openssh-server)
case ${1:-} in
    '') needed=() ;;
    demo) needed=("${demo[@]}") ;;
    bench)
        needed=("${demo[@]}" ssh=openssh-client sshd=openssh-server nginx=nginx-light)
        [ "$(id -u)" != 0 ] || needed+=("${guests[@]}")
        ;;
    test)
        needed=("${demo[@]}" shellcheck=shellcheck nginx=nginx-light)
        [ "$(id -u)" != 0 ] || needed+=("${guests[@]}" java=default-jre-headless)
        # The clusters of the drain steps. PostgreSQL is looked for below.
        [ "$(id -u)" != 0 ] || needed+=(redis-server=redis-server redis-sentinel=redis-sentinel patroni=patroni etcd=etcd-server)
        # The balancers of docs/custom.md. Many kernels lack IPVS, so that one runs in a kernel of its own, which is packaged for one architecture.
        needed+=(apache2=apache2-bin)
        if [ "$(id -u)" = 0 ] && [ "$(uname -m)" = x86_64 ]; then
            needed+=(ipvsadm=ipvsadm insmod=kmod linux.uml=user-mode-linux)
        fi
        ;;
    *) die "unknown part '$1': give none, demo, bench or test" ;;
esac
mapfile -t packages < <(missing_packages "${needed[@]}")
# It is no command.
[ "${1:-}" != test ] || [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || packages+=(libnginx-mod-stream)
if [ "${1:-}" = test ] && [ "$(id -u)" = 0 ]; then
    # The same is true of these.
    compgen -G '/usr/lib/postgresql/*/bin/initdb' > /dev/null || packages+=(postgresql)
    [ -e /usr/lib/python3/dist-packages/etcd/__init__.py ] || packages+=(python3-etcd)
fi
install_packages "${packages[@]}"

make_venv
make_collections
