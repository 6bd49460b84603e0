# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page at the control address, for a browser: HTML, styles and script in one text."""

from __future__ import annotations

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Scheduled Events</title>
<style>
  body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5em auto; max-width: 75em; padding: 0 1em; color: #1b1f24; background: #fbfbfa; }
  h1 { font-size: 1.4em; margin: 0; } h2 { font-size: 1.05em; margin: 1.6em 0 .4em; }
  header { display: flex; gap: 1.5em; align-items: baseline; flex-wrap: wrap; border-bottom: 1px solid #d5d8dc; padding-bottom: .6em; }
  table { border-collapse: collapse; width: 100%; background: #fff; }
  th, td { text-align: left; padding: .35em .6em; border-bottom: 1px solid #e4e6e9; vertical-align: top; }
  th { font-weight: 600; color: #57606a; font-size: .85em; } .quiet { color: #6a737d; } .wrong { color: #b3261e; }
  code, pre { font: 13px/1.35 ui-monospace, monospace; } pre { margin: .2em 0; white-space: pre-wrap; max-width: 40em; }
  button { font: inherit; font-size: .9em; padding: .1em .6em; margin: 0 .3em .2em 0; cursor: pointer; }
  form { display: flex; gap: .5em; flex-wrap: wrap; align-items: end; margin-top: .6em; } label { font-size: .85em; color: #57606a; }
  input, select { font: inherit; font-size: .95em; display: block; }
  .Scheduled { color: #8a5a00; } .Started { color: #b3261e; font-weight: 600; } .Completed, .Cancelled { color: #6a737d; }
</style>
<header>
  <h1>Scheduled Events</h1><span id="clock"></span><span id="time"></span>
  <span><button data-post="/clock" data-body='{"Next": true}'>to what is due next</button
  ><button data-post="/clock" data-body='{"Step": 60}'>1 min on</button
  ><button data-post="/disable" data-body="">switch off</button></span>
  <span id="wrong" class="wrong" role="alert"></span>
</header>
<h2>Events</h2>
<table><thead><tr><th>Event<th>Status<th>Resources<th>Life<th>Approvals<th></tr></thead><tbody id="events"></tbody></table>
<h2>Add an event</h2>
<form id="add">
  <label>Type <select name="EventType"><option>Freeze<option>Reboot<option>Redeploy<option>Preempt<option>Terminate</select></label>
  <label>Resources <input name="Resources" size="24" required></label>
  <label>Notice, s <input name="NoticeSeconds" type="number" min="0" value="900" size="7"></label>
  <label>Impact, s <input name="ImpactSeconds" type="number" min="0" value="7" size="7"></label>
  <label>Until gone, s <input name="SettleSeconds" type="number" min="0" value="5" size="7"></label>
  <button>Add</button>
</form>
<form id="play"><label>or play a scenario <select name="Name"></select></label> <button>Play</button> <span id="about" class="quiet"></span></form>
<h2>VMs</h2>
<table><thead><tr><th>Name<th>Service<th>Update domain</tr></thead><tbody id="vms"></tbody></table>
<h2>Faults</h2>
<table><tbody id="faults"></tbody></table>
<form id="fault">
  <label>VM <select name="Vm"></select></label>
  <label>Method <select name="Method"><option value="">any<option>GET<option>POST</select></label>
  <label>Fault <select name="Fault"></select></label>
  <label>Times <input name="Times" type="number" min="1" size="5" placeholder="always"></label>
  <button>Add fault</button><button type="button" data-delete="/faults">Clear all</button>
</form>
<h2>Last requests</h2>
<table><tbody id="requests"></tbody></table>
<script>
"use strict";
const $ = id => document.getElementById(id);
const kinds = [{Status: 503}, {Status: 429, Headers: {"Retry-After": "2"}}, {Status: 410}, {Delay: 3}, {Drop: true}, {DropAnswer: true}, {Cut: 40},
  {Slow: 50}, {Portal: true}, {Redirect: "http://127.0.0.1:9/"}, {Empty: true}, {Stale: true}, {Incarnation: 1}, {IsoDates: true}, {StringNumbers: true},
  {UnknownType: "Hibernate"}, {Huge: 1000}, {ContentType: "text/html"}, {ClockOff: 3600}];
// Whatever the simulator tells is text, never markup.
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
function row(...cells) {
  const made = element("tr");
  for (const cell of cells) { const td = element("td"); td.append(...[cell].flat()); made.append(td); }
  return made;
}
function options(select, values, texts) {
  if (select.options.length === values.length) return;
  select.replaceChildren(...values.map((value, index) => { const made = element("option", texts[index]); made.value = value; return made; }));
}
function age(seconds) {
  const s = Math.max(0, Math.round(seconds));
  return s < 120 ? s + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
}
async function ask(method, path, body) {
  const answer = await fetch(path, {method, body: method === "GET" ? undefined : body, cache: "no-store"});
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}
async function act(method, path, body) {
  try { await ask(method, path, body); $("wrong").textContent = ""; } catch (error) { $("wrong").textContent = error.message; }
  await show();
}
function button(text, path) {
  const made = element("button", text);
  made.onclick = () => act("POST", path, "");
  return made;
}
function life(event, now) {
  const parts = event.History.map(entry => element("div", entry.Status + " " + age(now - entry.Time) + " ago", entry.Status));
  if (event.EventStatus === "Scheduled") parts.push(element("div", "NotBefore " + event.NotBefore, "quiet"));
  if (event.Impacts.length > 1) parts.push(element("div", event.Impacts.length + " impacts", "quiet"));
  for (const command of event.Commands) {
    const failed = command.Problem || command.ExitStatus;
    const end = command.Problem || (command.ExitStatus === null ? "runs" : "exit status " + command.ExitStatus);
    parts.push(element("div", command.Command + ": " + end, failed ? "wrong" : "quiet"));
    if (command.Output) parts.push(element("pre", command.Output));
  }
  return parts;
}
function eventRow(event, now) {
  const path = "/events/" + encodeURIComponent(event.EventId) + "/", buttons = [];
  if (event.EventStatus === "Scheduled") buttons.push(button("Start", path + "start"), button("Cancel", path + "cancel"));
  if (event.EventStatus === "Started") buttons.push(button("Complete", path + "complete"));
  const what = event.EventType + (event.Impact === event.EventType ? "" : " (is a " + event.Impact + ")");
  return row([element("strong", what), element("div", event.EventId, "quiet"), element("div", event.EventSource + ", " + event.Description, "quiet")],
    element("span", event.EventStatus, event.EventStatus), event.Resources.join(", "), life(event, now),
    event.Approvals.map(approval => element("div", approval.Vm + " " + age(now - approval.Time) + " ago")), buttons);
}
let shown = "";
async function show() {
  const state = await ask("GET", "/state");
  const names = Object.keys(state.Vms), time = new Date(state.Time * 1000).toUTCString();
  $("clock").textContent = time + (state.Scale === 1 ? "" : state.Scale === 0 ? ", standing still" : ", " + state.Scale + " times as fast");
  $("time").textContent = "incarnation " + state.DocumentIncarnation + (state.Next === null ? "" : ", next in " + age(state.Next));
  $("events").replaceChildren(...(state.Events.length ? state.Events.slice(-100).reverse().map(event => eventRow(event, state.Time)) : [row("none so far")]));
  $("faults").replaceChildren(...(state.Faults.length ? state.Faults.map(fault => row(fault.Vm || "every VM", fault.Method || "any method",
    element("code", JSON.stringify(fault.Fault)), fault.Times === null ? "always" : fault.Times + " more")) : [row("none")]));
  $("requests").replaceChildren(...state.Requests.slice(-15).reverse().map(request =>
    row(age(state.Time - request.Time) + " ago", request.Vm, request.Method, element("code", request.Path), String(request.Status || "no answer"))));
  if (shown !== names.join()) {
    shown = names.join();
    $("vms").replaceChildren(...names.map(name => row(name, element("code", state.Vms[name].Url), state.Vms[name].Domain)));
    options($("fault").elements.Vm, ["", ...names], ["every VM", ...names]);
    $("add").elements.Resources.value = names[0];
  }
}
options($("fault").elements.Fault, kinds.map(kind => JSON.stringify(kind)), kinds.map(kind => JSON.stringify(kind)));
for (const made of document.querySelectorAll("[data-post]")) made.onclick = () => act("POST", made.dataset.post, made.dataset.body);
for (const made of document.querySelectorAll("[data-delete]")) made.onclick = () => act("DELETE", made.dataset.delete);
$("add").onsubmit = submitted => {
  submitted.preventDefault();
  const given = Object.fromEntries(new FormData($("add")));
  for (const name of Object.keys(given)) if (name.endsWith("Seconds")) given[name] = given[name] === "" ? null : Number(given[name]);
  given.Resources = given.Resources.split(/[ ,]+/).filter(name => name);
  act("POST", "/events", JSON.stringify(given));
};
$("fault").onsubmit = submitted => {
  submitted.preventDefault();
  const given = Object.fromEntries(new FormData($("fault")));
  const around = {Vm: given.Vm || null, Method: given.Method || null, Times: Number(given.Times) || null};
  act("POST", "/faults", JSON.stringify({...around, Fault: JSON.parse(given.Fault)}));
};
$("play").onsubmit = submitted => { submitted.preventDefault(); act("POST", "/scenarios", JSON.stringify({Name: $("play").elements.Name.value})); };
ask("GET", "/scenarios").then(known => {
  const names = Object.keys(known), select = $("play").elements.Name;
  options(select, names, names);
  select.onchange = () => { $("about").textContent = known[select.value].about; };
  select.onchange();
});
async function live() {
  try { await show(); } catch (error) { $("wrong").textContent = "The simulator does not answer."; }
  setTimeout(live, 1000);
}
live();
</script>
"""
