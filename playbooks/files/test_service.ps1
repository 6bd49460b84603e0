# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Makes the program of a service that does nothing, for the acceptance playbook.
[CmdletBinding()]
param([string]$Program)
$Program = [Environment]::ExpandEnvironmentVariables($Program)
$null = [IO.Directory]::CreateDirectory([IO.Path]::GetDirectoryName($Program))
[IO.File]::WriteAllText([IO.Path]::Combine([IO.Path]::GetDirectoryName($Program), 'ready.txt'), 'ready')
if (-not [IO.File]::Exists($Program)) {
    $code = 'public class Nothing : System.ServiceProcess.ServiceBase { public static void Main() { System.ServiceProcess.ServiceBase.Run(new Nothing()); } }'
    Add-Type -TypeDefinition $code -ReferencedAssemblies 'System.ServiceProcess' -OutputAssembly $Program -OutputType ConsoleApplication
}
ConvertTo-Json -InputObject @{ program = $Program } -Compress
