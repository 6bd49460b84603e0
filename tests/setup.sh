#!/usr/bin/env bash
# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Makes everything that the Makefile's targets run with, in the folder build.
# A second run looks at what is there and does only what is missing.
#
#   tests/setup.sh          Python packages, and the checkout in a collections path
#   tests/setup.sh demo     the Python packages that the demo needs and no others, and its Debian packages
#   tests/setup.sh bench    also those of the benchmarks
#   tests/setup.sh test     also those of the whole test suite, and servers that are only unpacked

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
venv=build/venv
stamp=$venv/set-up-with
for_demo=tests/requirements-demo.txt
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

# The metrics and alerts are checked with promtool. Of its package only this one program is unpacked, since the package starts a server. Tests that need it
# are skipped if it cannot be had.
fetch_promtool() {
    local folder
    if [ -x build/promtool ] || command -v promtool > /dev/null || ! command -v apt-get > /dev/null || ! command -v dpkg-deb > /dev/null; then
        return 0
    fi
    say "fetching promtool"
    folder=$(mktemp -d build/promtool.XXXXXX)
    if (cd "$folder" && { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; }) > build/apt.log 2>&1; then
        dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar -x -C "$folder" ./usr/bin/promtool && mv "$folder/usr/bin/promtool" build/promtool
    else
        say "promtool cannot be had; the tests that need it will be skipped"
    fi
    rm -rf "$folder"
}

# Servers of clusters that tests run in folders of their own. An installed package would start its server, and Debian 12 has no Consul any more. So these
# packages are only unpacked, in build/unpacked. What cannot be had is told, and its tests are skipped with that reason.

# Unpacks the packages $2... from the release $1 of Debian, or from this machine's own if $1 is empty.
unpack() {
    local release=$1 sources="" options=(-o APT::Sandbox::User=root) name
    shift
    for name in dpkg-deb apt-get; do
        command -v $name > /dev/null || { say "no $name, so not unpacked: $*"; return; }
    done
    rm -rf build/debs
    mkdir -p build/debs/lists/partial build/debs/cache/archives/partial build/unpacked
    if [ -n "$release" ]; then
        # The same mirror has other releases, too.
        # shellcheck disable=SC2016
        sources=$(apt-get indextargets --format '$(ORIGIN) $(SITE)' 2> /dev/null | awk '$1 == "Debian" && $2 !~ /security/ {print $2; exit}')
        [ -n "$sources" ] || { say "this machine has no packages of Debian, so not unpacked: $*"; return; }
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $sources $release main" > build/debs/sources.list
        : > build/debs/status
        options+=(-o "Dir::State::lists=$PWD/build/debs/lists" -o "Dir::State::status=$PWD/build/debs/status" -o "Dir::Cache=$PWD/build/debs/cache"
            -o "Dir::Etc::sourcelist=$PWD/build/debs/sources.list" -o Dir::Etc::sourceparts=/dev/null)
    fi
    say "unpacking Debian packages: $*"
    (
        cd build/debs
        apt-get -qq "${options[@]}" download "$@" || { apt-get -qq "${options[@]}" update && apt-get -qq "${options[@]}" download "$@"; }
    ) > build/unpack.log 2>&1 9>&- || {
        say "could not be had (all that apt-get said: build/unpack.log): $*"
        return
    }
    for name in build/debs/*.deb; do
        dpkg-deb -x "$name" build/unpacked
    done
    rm -rf build/debs
}

unpack_servers() {
    local erlang=build/unpacked/usr/lib/erlang/bin/erl
    command -v consul > /dev/null || [ -x build/unpacked/usr/bin/consul ] || unpack bullseye consul
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || [ -x build/unpacked/usr/lib/rabbitmq/bin/rabbitmq-server ] || unpack '' rabbitmq-server \
        erlang-{asn1,base,crypto,eldap,inets,mnesia,os-mon,parsetools,public-key,runtime-tools,ssl,syntax-tools,tools,xmerl}
    if [ -e $erlang ]; then
        # Debian's Erlang looks for itself in one place only.
        # shellcheck disable=SC2016
        sed -i 's#^\( *\)ROOTDIR=/usr/lib/erlang$#\1ROOTDIR=${ERL_ROOTDIR:-/usr/lib/erlang}#' $erlang
    fi
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

# Installs the packages that the file $1 lists. The stamp has the folder, a digest, and the lists that are installed.
make_venv() {
    local list=$1 lists python wanted site made_in=$PWD
    wanted=$(printf '%s\n' "$PWD" "$(cat tests/requirements*.txt tests/support/module_code_cache.py | sha256sum)")
    if [ -e $stamp ]; then
        if [ "$(head -n 2 $stamp)" = "$wanted" ] && grep -qxF "$list" $stamp && $venv/bin/python -c '' 2> /dev/null; then
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
    lists=$list
    # The longer list has the shorter one in it.
    [ "$list" = "$for_demo" ] || lists+=$'\n'$for_demo
    say "installing the Python packages of $list into $venv (up to half a minute)"
    $venv/bin/python -m pip --disable-pip-version-check install --quiet --no-compile -r "$list" > build/pip.log 2>&1 || {
        tail -n 20 build/pip.log >&2
        die "pip could not install the packages of $list (all it said: build/pip.log)"
    }
    site=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    # pip would do so on one core. Some packages carry files for other Pythons.
    $venv/bin/python -m compileall -q -j 0 "$site" > build/compile.log 2>&1 || :
    cp tests/support/module_code_cache.py "$site/"
    echo 'import os; os.environ.get("MODULE_CODE_CACHE") and __import__("module_code_cache")' > "$site/module_code_cache.pth"
    printf '%s\n' "$wanted" "$lists" > $stamp
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
guests=(systemd-nspawn=systemd-container mmdebstrap=mmdebstrap ip=iproute2 nft=nftables ssh=openssh-client sshd=openssh-server)
case ${1:-} in
    '') needed=() ;;
    demo) needed=("${demo[@]}") ;;
    bench)
        needed=("${demo[@]}" ssh=openssh-client sshd=openssh-server nginx=nginx-light)
        [ "$(id -u)" != 0 ] || needed+=("${guests[@]}" redis-server=redis-server redis-sentinel=redis-sentinel redis-cli=redis-tools)
        ;;
    test | long)
        needed=("${demo[@]}" shellcheck=shellcheck nginx=nginx-light)
        [ "$(id -u)" != 0 ] || needed+=("${guests[@]}" java=default-jre-headless redis-server=redis-server redis-sentinel=redis-sentinel sudo=sudo)
        # The balancers of docs/your-own-balancer.md. Many kernels lack IPVS, so that one runs in a kernel of its own, which is packaged for one architecture.
        needed+=(apache2=apache2-bin)
        if [ "$(id -u)" = 0 ] && [ "$(uname -m)" = x86_64 ]; then
            needed+=(ipvsadm=ipvsadm insmod=kmod linux.uml=user-mode-linux)
        fi
        ;;
    *) die "unknown part '$1': give none, demo, bench, test or long" ;;
esac
with_clusters=
case ${1:-} in bench | long) with_clusters=yes ;; esac
if [ $with_clusters ] && [ "$(id -u)" = 0 ]; then
    # The clusters of the drain steps.
    needed+=(patroni=patroni etcd=etcd-server corosync=corosync pacemakerd=pacemaker crm_mon=pacemaker-cli-utils)
    needed+=(slurmctld=slurmctld slurmd=slurmd scontrol=slurm-client munged=munge)
fi
if [ "${1:-}" = long ] && [ "$(id -u)" = 0 ]; then
    # They read the metrics, evaluate the alerts and send them.
    needed+=(prometheus=prometheus prometheus-alertmanager=prometheus-alertmanager prometheus-node-exporter=prometheus-node-exporter)
    # A program of docs/your-own-duty.md. It does not start without a configuration.
    needed+=(keepalived=keepalived)
fi
mapfile -t packages < <(missing_packages "${needed[@]}")
case ${1:-} in
    test | long)
        # It is no command.
        [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || packages+=(libnginx-mod-stream)
        ;;
esac
if [ $with_clusters ] && [ "$(id -u)" = 0 ]; then
    # The same is true of these.
    compgen -G '/usr/lib/postgresql/*/bin/initdb' > /dev/null || packages+=(postgresql)
    [ -e /usr/lib/python3/dist-packages/etcd/__init__.py ] || packages+=(python3-etcd)
fi
if [ "${1:-}" = long ] && [ "$(id -u)" = 0 ]; then
    # The browser that looks at the site. Ubuntu has no such package, and the test is skipped if there is none.
    if ! command -v chromium chromium-browser google-chrome > /dev/null && apt-cache show chromium > /dev/null 2>&1; then
        packages+=(chromium)
    fi
fi
install_packages "${packages[@]}"
case ${1:-} in test | long) fetch_promtool ;; esac
[ ! $with_clusters ] || unpack_servers
case ${1:-} in
    demo) make_venv $for_demo ;;
    *) make_venv tests/requirements.txt ;;
esac
make_collections
