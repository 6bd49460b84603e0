# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  auth_source:
    description:
      - Where the credentials come from. The options are named as those of the collection azure.azcollection.
      - V(auto) takes the first of these that is complete - O(client_id), O(secret) and O(tenant), the environment, the credentials file. Without any of
        them it asks C(azure-identity) if that is installed, and otherwise the managed identity of this machine.
      - V(env) takes E(AZURE_CLIENT_ID), E(AZURE_SECRET) (or E(AZURE_CLIENT_SECRET)) and E(AZURE_TENANT) (or E(AZURE_TENANT_ID)).
      - V(credential_file) takes C(~/.azure/credentials). V(cli) asks the Azure CLI through C(azure-identity). V(msi) asks the managed identity.
    type: str
    choices: [auto, cli, credential_file, env, msi]
    default: auto
  subscription_id:
    description:
      - Accepted so that one set of C(module_defaults) fits all modules for Azure. The resource ids name the subscription.
    type: str
  client_id:
    description: The service principal, or the user-assigned managed identity.
    type: str
  secret:
    description: The secret of the service principal.
    type: str
  tenant:
    description: The tenant of the service principal, as an id or a domain.
    type: str
  profile:
    description: The section of the credentials file. By default E(AZURE_PROFILE) or V(default).
    type: str
  cloud_environment:
    description: The cloud. It decides which resource manager is asked, and who gives tokens.
    type: str
    choices: [AzureChinaCloud, AzureCloud, AzureUSGovernment]
    default: AzureCloud
  arm_url:
    description: Address of the resource manager, for other clouds and stand-ins. It must begin with C(https).
    type: str
  login_url:
    description: Address of the service that gives tokens to service principals. It must begin with C(https).
    type: str
  identity_url:
    description: Address of the service that gives tokens to managed identities.
    type: str
    default: http://169.254.169.254
  ca_file:
    description: File with the certificates that these addresses are trusted by, for stand-ins.
    type: path
  timeout:
    description:
      - Seconds for the whole call. Requests that Azure refuses for now are repeated in this time, and operations are followed until they end.
    type: float
    default: 60
requirements:
  - requests
"""
