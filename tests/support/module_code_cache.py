# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps what Ansible works out anew in every run, for the tests alone.

Ansible sends each module as an archive of sources, and Python compiles what it imports from an archive anew each time:
half of what a module costs. A playbook compiles all plugins of collections anew, looks in each file that a module
imports for what that imports in turn, and reads the YAML of Ansible's own settings and of where its plugins went. In a
suite of thousands of runs the same sources are worked through once. Within a run, each task has a process of its own,
which would load all filters. Whatever runs is the same; the benchmarks go without. The set-up installs it in
build/venv, and it acts where MODULE_CODE_CACHE names a folder.
"""

import atexit
import contextlib
import gc
import marshal
import os
import sys
import zipimport
from hashlib import sha256
from importlib.machinery import PathFinder

_compile_source = zipimport._compile_source


def _kept(make, *sources):
    """What a function makes of these sources."""
    digest = sha256(b"\0".join(sources)).hexdigest()
    name = os.path.join(os.environ["MODULE_CODE_CACHE"], f"{sys.implementation.cache_tag}-{digest}")
    # Whatever is wrong with the folder, it is made.
    with contextlib.suppress(OSError, ValueError, EOFError), open(name, "rb") as stream:
        return marshal.loads(stream.read())
    made = make()
    with contextlib.suppress(OSError):
        with open(f"{name}-{os.getpid()}", "wb") as stream:
            stream.write(marshal.dumps(made))
        os.replace(f"{name}-{os.getpid()}", name)
    return made


def _in_archives(path, source):
    return _kept(lambda: _compile_source(path, source), source)


def _in_collections(finder):
    def kept(source, filename, **more):
        return _kept(lambda: compile(source, filename, **more), b"plugin", filename.encode(), source if isinstance(source, bytes) else source.encode())

    finder.compile = kept
    read = finder._meta_yml_to_dict
    finder._meta_yml_to_dict = lambda text, content_id: _kept(lambda: read(text, content_id), b"runtime", text if isinstance(text, bytes) else text.encode())


def _in_settings(manager):
    read = manager.ConfigManager._read_config_yaml_file

    def kept(self, path):
        with open(path, "rb") as stream:
            return _kept(lambda: read(self, path), b"settings", stream.read())

    manager.ConfigManager._read_config_yaml_file = kept


def _in_modules(common):
    finder = common.ModuleDepFinder
    look = finder.__init__
    if look.__code__.co_varnames[:4] != ("self", "module_fqn", "module_data", "is_pkg_init"):  # ansible-core 2.20 and older
        return

    def kept(self, module_fqn, module_data, is_pkg_init=None):
        if is_pkg_init is None:  # a module itself: more is read in it than what it imports
            look(self, module_fqn, module_data)
            return

        def find():
            look(self, module_fqn, module_data, is_pkg_init)
            return self.submodules, self.optional_imports, [(each.package, each.resource) for each in self.embeds]

        self.submodules, self.optional_imports, embeds = _kept(find, b"imports", module_fqn.encode(), b"%d" % is_pkg_init, module_data)
        self.embeds = {common.EmbeddedResource(*each) for each in embeds}

    finder.__init__ = kept


def _in_queues(queue):
    run = queue.TaskQueueManager.run

    def loaded(self, play):
        from ansible.plugins.loader import filter_loader, test_loader

        # Otherwise each task's process does so, if there is a filter in its templates.
        for loader in (filter_loader, test_loader):
            list(loader.all())
        return run(self, play)

    queue.TaskQueueManager.run = loaded


class _Hook:
    """Has a module of Ansible changed when it is imported."""

    changes = {
        "ansible.config.manager": _in_settings,
        "ansible.executor.module_common": _in_modules,
        "ansible.executor.task_queue_manager": _in_queues,
        "ansible.utils.collection_loader._collection_finder": _in_collections,
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in cls.changes:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            cls.changes[name](module)

        spec.loader.exec_module = exec_module
        return spec


# Ansible and its modules make much and drop little of it. Looking for what could be dropped is a fifth of their time, most of it at their end.
gc.set_threshold(100_000, 20, 100)
atexit.register(gc.freeze)
zipimport._compile_source = _in_archives
sys.meta_path.insert(0, _Hook)
