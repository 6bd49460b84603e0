# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program: clients of PostgreSQL that insert one number after the other, and print each that was acknowledged, with the time.

Its argument is the connection string, which names all servers. A Python with psycopg2 runs it: Debian's own, which Patroni needs, too.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time

import psycopg2

CLIENTS = 4


def write(where, numbers, lock):
    connection = None
    while True:
        with lock:
            number = next(numbers)
        try:
            if connection is None:
                connection = psycopg2.connect(where, connect_timeout=2, target_session_attrs="read-write")
                connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO written VALUES (%s)", (number,))
        except psycopg2.Error:
            if connection is not None:
                connection.close()
            connection = None
            time.sleep(0.05)
            continue
        with lock:
            print(number, time.time(), flush=True)
        time.sleep(0.02)


def main():
    numbers, lock = itertools.count(), threading.Lock()
    threads = [threading.Thread(target=write, args=(sys.argv[1], numbers, lock)) for _number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
