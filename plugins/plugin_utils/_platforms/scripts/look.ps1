# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Tells what is on this machine: the folder of the records, files, services, connections, addresses, boot and clock. It changes nothing.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Folder, [string[]]$Files, [string[]]$Services, [int[]]$Ports, [double]$Watch, [long]$Limit)
$Ansible.Changed = $false; $clock = [Diagnostics.Stopwatch]::StartNew()
function Read-Entry([string]$Path) {
    $entry = @{ path = $Path; kind = 'file'; content = ''; error = ''; changed = 0 }
    try {
        $attributes = [IO.File]::GetAttributes($Path)
        if ($attributes -band [IO.FileAttributes]::Directory) { $entry.kind = 'folder' }
        if ($attributes -band [IO.FileAttributes]::ReparsePoint) { $entry.kind = 'link' }
        $times = [IO.File]::GetLastWriteTimeUtc($Path), [IO.File]::GetCreationTimeUtc($Path) | Sort-Object
        $entry.changed = ($times[-1] - (New-Object DateTime 1970, 1, 1)).TotalSeconds
        if ($entry.kind -ne 'file') { return $entry }
        $stream = [IO.File]::Open($Path, 'Open', 'Read', 'ReadWrite, Delete'); try {
            if ($stream.Length -gt $Limit) { $entry.kind = 'large'; return $entry }
            $memory = New-Object IO.MemoryStream; $stream.CopyTo($memory); $entry.content = [Convert]::ToBase64String($memory.ToArray())
        } finally { $stream.Dispose() }
    } catch [IO.FileNotFoundException], [IO.DirectoryNotFoundException] { $entry.kind = 'missing'
    } catch { $entry.kind = 'unreadable'; $entry.error = [string]$_.Exception.Message }
    return $entry
}
$user = [Security.Principal.WindowsIdentity]::GetCurrent()
$isAdmin = (New-Object Security.Principal.WindowsPrincipal $user).IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
$told = @{ user = $user.Name; sid = $user.User.Value; admin = $isAdmin; computer = $env:COMPUTERNAME; owner = ''; rights = @(); records = @(); free = -1 }
if ($Folder) {
    $told.folder = Read-Entry ([Environment]::ExpandEnvironmentVariables($Folder))
    $told.free = (New-Object IO.DriveInfo ([IO.Path]::GetPathRoot($told.folder.path))).AvailableFreeSpace
    if ($told.folder.kind -eq 'folder') {
        $acl = [IO.Directory]::GetAccessControl($told.folder.path)
        $told.owner = $acl.GetOwner([Security.Principal.SecurityIdentifier]).Value
        $told.rights = @(foreach ($rule in $acl.GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier])) {
                @{ sid = $rule.IdentityReference.Value; rights = [int]$rule.FileSystemRights; allow = $rule.AccessControlType -eq 'Allow' } })
        $told.records = @(foreach ($path in [IO.Directory]::GetFiles($told.folder.path, '*.json')) { Read-Entry $path })
    }
}
$told.files = @(foreach ($path in $Files) { Read-Entry ([Environment]::ExpandEnvironmentVariables($path)) })
$mine = @(if ($Services) { Get-Service }) | Where-Object { $Services -contains $_.Name } |
    ForEach-Object { $_; $_.DependentServices } | Sort-Object -Property Name -Unique
$told.services = @(foreach ($service in $mine) { @{ name = $service.Name; status = [string]$service.Status; start = [string]$service.StartType
            dependents = @($service.DependentServices | ForEach-Object { $_.Name }) } })
$network = [Net.NetworkInformation.IPGlobalProperties]::GetIPGlobalProperties(); $cards = [Net.NetworkInformation.NetworkInterface]::GetAllNetworkInterfaces()
$told.samples = @(do {
        if ($told.ContainsKey('boot')) { Start-Sleep -Milliseconds 200 } else { $told.boot = '' }
        @{ at = $clock.Elapsed.TotalSeconds; lines = @($network.GetActiveTcpConnections() | Where-Object { $Ports -contains $_.LocalEndPoint.Port } |
                    ForEach-Object { '{0} {1} {2} {3}' -f $_.LocalEndPoint.Port, $_.RemoteEndPoint.Address, $_.RemoteEndPoint.Port, $_.State }) }
    } while ($Ports -and $clock.Elapsed.TotalSeconds -lt $Watch))
$told.listening = @($network.GetActiveTcpListeners() | Where-Object { $Ports -contains $_.Port } | ForEach-Object { $_.Port })
$told.udp = @($network.GetActiveUdpListeners() | Where-Object { $Ports -contains $_.Port } | ForEach-Object { $_.Port })
$told.addresses = @($cards | Where-Object { $_.OperationalStatus -eq 'Up' -and $_.NetworkInterfaceType -ne 'Loopback' } |
        ForEach-Object { $_.GetIPProperties().UnicastAddresses } | ForEach-Object { [string]$_.Address })
$session = Get-CimInstance -ClassName Win32_Process -Filter "Name='smss.exe'" | Sort-Object -Property CreationDate | Select-Object -First 1
$told.boot = $session.CreationDate.ToUniversalTime().ToString('yyyyMMddHHmmssfff')
$told.clock = [Diagnostics.Stopwatch]::GetTimestamp() / [Diagnostics.Stopwatch]::Frequency
$told.now = ([DateTime]::UtcNow - (New-Object DateTime 1970, 1, 1)).TotalSeconds
ConvertTo-Json -InputObject $told -Depth 6 -Compress
