# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Tells a service to stop or to start, and does not wait until it has. The module win_service waits.
[CmdletBinding()]
param([string]$Name, [string]$Verb)
$service = Get-Service | Where-Object { $_.Name -eq $Name }
if (-not $service) { throw "There is no service $Name." }
if ($Verb -eq 'stop') { $service | Stop-Service -NoWait } else { $service.Start() }
ConvertTo-Json -InputObject @{ told = $Verb; name = $service.Name } -Compress
