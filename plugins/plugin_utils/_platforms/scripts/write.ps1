# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Writes, moves or deletes one file, if its content is what the caller has seen ($Expected: SHA-256, empty if there was no file).
[CmdletBinding()]
param([string]$Folder, [string]$Path, [string]$Expected, [string]$Content, [string]$MoveTo, [double]$Seconds)
$Ansible.Changed = $false
$Folder = [Environment]::ExpandEnvironmentVariables($Folder)
$Path = [Environment]::ExpandEnvironmentVariables($Path)
if (-not [IO.Directory]::Exists($Folder)) {
    # Records say what is changed back, so nobody but administrators and the system may write them.
    $acl = New-Object Security.AccessControl.DirectorySecurity
    $acl.SetAccessRuleProtection($true, $false)
    foreach ($sid in 'S-1-5-18', 'S-1-5-32-544') {
        $who = New-Object Security.Principal.SecurityIdentifier $sid
        $acl.AddAccessRule((New-Object Security.AccessControl.FileSystemAccessRule $who, 'FullControl', 'ContainerInherit, ObjectInherit', 'None', 'Allow'))
    }
    $null = [IO.Directory]::CreateDirectory($Folder, $acl)
}
$told = @{ written = $false; found = ''; locked = $true; error = ''; path = $Path }
$clock = [Diagnostics.Stopwatch]::StartNew()
$lock = $null
while (-not $lock) {
    try {
        $name = [IO.Path]::Combine($Folder, '.lock')
        $lock = [IO.FileStream]::new($name, [IO.FileMode]::OpenOrCreate, [IO.FileAccess]::ReadWrite, [IO.FileShare]::None, 8, [IO.FileOptions]::DeleteOnClose)
    } catch {
        if ($clock.Elapsed.TotalSeconds -ge $Seconds) { $told.locked = $false; $told.error = [string]$_.Exception.Message; break }
        Start-Sleep -Milliseconds 50
    }
}
if ($lock) {
    try {
        if ([IO.File]::Exists($Path)) {
            $digest = [Security.Cryptography.SHA256]::Create().ComputeHash([IO.File]::ReadAllBytes($Path))
            $told.found = [BitConverter]::ToString($digest).Replace('-', '').ToLowerInvariant()
        }
        if ($told.found -eq $Expected) {
            if ($MoveTo) { [IO.File]::Move($Path, [Environment]::ExpandEnvironmentVariables($MoveTo))
            } elseif (-not $Content) { [IO.File]::Delete($Path)
            } else {
                $bytes = [Convert]::FromBase64String($Content)
                $new = [IO.Path]::Combine([IO.Path]::GetDirectoryName($Path), '.new-' + [IO.Path]::GetFileName($Path))
                $stream = [IO.FileStream]::new($new, [IO.FileMode]::Create, [IO.FileAccess]::Write, [IO.FileShare]::None, 4096, [IO.FileOptions]::WriteThrough)
                try { $stream.Write($bytes, 0, $bytes.Length); $stream.Flush($true) } finally { $stream.Dispose() }
                if ($told.found) { [IO.File]::Replace($new, $Path, [NullString]::Value) } else { [IO.File]::Move($new, $Path) }
            }
            $told.written = $true
            $Ansible.Changed = $true
        }
    } finally { $lock.Dispose() }
}
ConvertTo-Json -InputObject $told -Compress
