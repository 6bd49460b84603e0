# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of clusters, by the values of C(type)."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._cluster_consul import Consul
from ansible_collections.graceful.azure.plugins.module_utils._cluster_kubernetes import Kubernetes
from ansible_collections.graceful.azure.plugins.module_utils._cluster_pacemaker import Pacemaker
from ansible_collections.graceful.azure.plugins.module_utils._cluster_patroni import Patroni
from ansible_collections.graceful.azure.plugins.module_utils._cluster_rabbitmq import RabbitMQ
from ansible_collections.graceful.azure.plugins.module_utils._cluster_redis import Redis
from ansible_collections.graceful.azure.plugins.module_utils._cluster_slurm import Slurm

TYPES = {member.type: member for member in (Pacemaker, Slurm, Patroni, RabbitMQ, Redis, Consul, Kubernetes)}
