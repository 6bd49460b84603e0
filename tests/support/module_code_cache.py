# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the compiled code of what Ansible sends to hosts, for the tests alone.

Ansible sends each module as an archive of sources, and Python compiles what it imports from an archive anew each time:
half of what a module costs. In a suite of thousands of them the same sources are compiled once. Whatever runs is the
same; the benchmarks go without. The set-up installs it in build/venv, and it acts where MODULE_CODE_CACHE names a folder.
"""

import contextlib
import marshal
import os
import sys
import zipimport
from hashlib import sha256

_compile = zipimport._compile_source


def _cached(path, source):
    name = os.path.join(os.environ["MODULE_CODE_CACHE"], f"{sys.implementation.cache_tag}-{sha256(source).hexdigest()}")
    # Whatever is wrong with the folder, the code is compiled.
    with contextlib.suppress(OSError, ValueError, EOFError), open(name, "rb") as stream:
        return marshal.loads(stream.read())
    code = _compile(path, source)
    with contextlib.suppress(OSError):
        with open(f"{name}-{os.getpid()}", "wb") as stream:
            stream.write(marshal.dumps(code))
        os.replace(f"{name}-{os.getpid()}", name)
    return code


zipimport._compile_source = _cached
