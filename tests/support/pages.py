# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of docs/ as a reader follows them: their files written, their lines of shell typed at a terminal."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import textwrap

from tests.support.checkout import BUILD, ROOT, alone, checkout_files, must_pass
from tests.support.patience import patient, until
from tests.support.playbook import ansible_settings
from tests.support.ports import free_port
from tests.support.processes import kill, marked
from tests.support.simulator import SCRIPT

# What the pages have apt-get install, and what they take to be there. A guest has no network.
PACKAGES = ("cron", "curl", "default-jre-headless", "git", "nginx", "python3-venv", "sudo")
HEALTH = "/etc/nginx/conf.d/health.conf"
REPOSITORY = "https://github.com/graceful-azure/graceful.azure.git"
# What stays in front until it is ended with Ctrl-C.
STAYS = re.compile(r"ansible-rulebook|journalctl .*--follow")
# What pages have installed into a reader's home folder is this checkout.
INSTALLS = re.compile(r"^(python3 -m venv |\. venv/|pip install |ansible-galaxy ).*\n|^SIMULATORS?=.*$", re.MULTILINE)
NAMED = re.compile(r"# (\S+)\n")


def blocks(page, *headings):
    """The code blocks of a page in their order, or of its parts below these headings: language and text."""
    text = (ROOT / page).read_text()
    if headings:
        parts = dict(part.split("\n", 1) for part in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:] if "\n" in part)
        text = "\n".join(parts[heading] for heading in headings)
    return [(kind, textwrap.dedent(content)) for _indent, kind, content in re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE)]


def steps(page, *headings):
    """What a reader does on a page or in its parts, in order: ("file", path, text), named by the first line, and ("line", text)."""
    found = []
    for kind, text in blocks(f"docs/{page}", *headings):
        if kind == "shell":
            lines = text.replace("\\\n", "").splitlines()
            found += [("line", line) for line in lines if line.strip() and not line.startswith("#")]
        else:
            # More than one file may be in one block.
            files = re.findall(r"^# (\S+)\n(.*?)(?=^# \S+\.yml\n|\Z)", text, re.DOTALL | re.MULTILINE)
            found += [("file", name, f"# {name}\n{content}") for name, content in files]
    return found


def files_of(page, *headings):
    return {step[1]: step[2] for step in steps(page, *headings) if step[0] == "file"}


def lines_of(page, *headings):
    return [step[1] for step in steps(page, *headings) if step[0] == "line"]


def example(name):
    """The files of one example in docs/examples, by their paths in its folder."""
    folder = ROOT / "docs" / "examples" / name
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def follow(folder, ports, *parts):
    """What a reader does on one machine, in one shell in an empty folder: writes the files and types the commands of these parts of pages, each of them a
    page and headings. Takes free ports in place of those that the pages name. Returns what the terminal shows."""
    taken = {port: str(free_port()) for port in ports}

    def here(text):
        return re.sub("|".join(ports), lambda found: taken[found[0]], text)

    # ctl has to be told another port than its own.
    commands = f"SIMULATORS={SCRIPT.parent}\nSIMULATOR={SCRIPT}\nexport IMDS_SIMULATOR_CONTROL=http://127.0.0.1:8169\n"
    for page, *headings in parts:
        for kind, text in blocks(page, *headings):
            if kind == "shell":
                commands += INSTALLS.sub("", text)
                # Who types takes longer than what goes on in the background takes to listen.
                for port in {port for line in text.splitlines() if line.endswith("&") for port in ports if port in line}:
                    commands += f"until (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.1; done\n"
            elif kind == "json":
                (folder / "balancers.json").write_text(here(text))
            elif kind in ("haproxy", "python", "yaml"):
                (folder / NAMED.match(text)[1]).write_text(here(text))
    command = ["bash", "-e", "-o", "pipefail", "-m", "-c", here(commands)]
    environment = {**os.environ, **ansible_settings(folder)}
    # Not a pipe: what goes on in the background would keep it open.
    terminal = folder / "terminal.txt"
    with terminal.open("wb") as stream:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(patient(350))
        finally:
            # The background, too, if the commands that end it were not reached.
            for pid in marked(environment["ANSIBLE_LOCAL_TEMP"]):
                kill(pid)
    output = terminal.read_text(errors="replace")
    assert status == 0, output
    return output


def prepare(guest):
    """What a guest needs to install without a network what the pages install: pip finds the same packages in a folder, and git finds
    this checkout at the collection's address."""
    # What packages need with the guests' Python alone, pip looks up for the Python that it runs with.
    names = sorted({"typing_extensions"} | {name for page in ("one-vm.md", "eda.md") for line in lines_of(page) for name in installed_by_pip(line)})
    wheels = BUILD / f"guest-wheels-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}"
    with alone(BUILD / "guest-wheels.lock"):
        if not wheels.exists():
            unfinished = wheels.with_suffix(".unfinished")
            words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(unfinished)]
            must_pass(*words, "--python-version", "3.11", "--only-binary=:all:", *names, timeout=300)
            unfinished.rename(wheels)
    guest.unpack(["--directory", str(wheels), "."], "/srv/wheels")
    guest.unpack(["--directory", str(ROOT), *map(str, checkout_files())], "/srv/graceful.azure")
    guest.says("cat > /etc/pip.conf", b"[global]\nno-index = true\nfind-links = /srv/wheels\n")
    guest.says(
        "cd /srv/graceful.azure && git init --quiet && git add --all && git -c user.name=Test -c user.email=test@example.com commit --quiet -m Checkout"
        f" && git config --system url.file:///srv/graceful.azure/.git.insteadOf {REPOSITORY}"
    )


def start_nginx(guest, name="web1"):
    """The web server of a reader's VM. The bed's metadata service has taken port 80 of one address, so it must not want that of all."""
    guest.says("sed -i 's/listen 80 /listen 127.0.0.1:80 /; /listen .::.:80 /d' /etc/nginx/sites-available/default", name=name)
    guest.says("systemctl enable --now nginx || { journalctl --unit nginx --no-pager; cat /var/log/nginx/error.log; false; }", name=name)


def installed_by_pip(line):
    words = line.partition("pip install ")[2].split()
    return [word for word in words if not word.startswith("-")]


class Terminal:
    """A shell in which one types, line after line; all that it says lies in a file. ``words`` are those of a command that starts it."""

    def __init__(self, words, path):
        self.path = path
        self.typed = 0
        with path.open("wb") as stream:
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stream, stderr=subprocess.STDOUT, bufsize=0)

    @classmethod
    def on(cls, guest, name):
        """On a guest, with a tty: Ctrl-C reaches what runs."""
        ssh, *words = guest.reach("web1")
        shell = "stty -echo; TERM=dumb PS1= PS2= exec bash --norc --noediting -i"
        return cls([ssh, "-tt", *words, shell], guest.folder / f"terminal-{name}.txt")

    def text(self):
        return self.path.read_text(errors="replace").replace("\r", "")

    def type(self, line):
        self.process.stdin.write(f"{line}\n".encode())

    def run(self, line, seconds=240):
        """Types a line, and waits until its command has ended well."""
        self.typed += 1
        mark = f"line {self.typed} ended with "
        self.type("{ " + line + "\n}; printf '\\n%s%s\\n' '" + mark + "' $?")
        ended = until(lambda: re.search(f"^{mark}([0-9]+)$", self.text(), re.MULTILINE), seconds, lambda: f"{line!r} does not end:\n{self.text()[-4000:]}")
        assert ended.group(1) == "0", f"{line!r} failed:\n{self.text()[-4000:]}"

    def interrupt(self):
        """Ctrl-C, and the shell is there again."""
        self.process.stdin.write(b"\x03")
        self.run("true", 60)

    def close(self):
        self.process.kill()
        self.process.wait()
