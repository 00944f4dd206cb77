// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/show/plan_json.hpp>

#include <string>
#include <string_view>

namespace cleave { inline namespace v0 {

namespace show { namespace detail {

/// The page of a plan. @TITLE@ and @PLAN@ stand for the title and the JSON of the plan.
inline constexpr std::string_view page_text = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff; }
h1 { font-size: 1.3em; margin: 0 0 .5em; } h2 { font-size: 1.05em; margin: 1.6em 0 .4em; }
#sums { display: flex; flex-wrap: wrap; gap: .6em; }
#sums div { border: 1px solid #ccc; border-radius: 4px; padding: .3em .7em; }
#sums b { display: block; font-size: 1.15em; } #sums span { color: #666; font-size: .85em; }
table { border-collapse: collapse; font: 12px/1.35 ui-monospace, monospace; }
th { text-align: left; position: sticky; top: 0; background: #fff; border-bottom: 1px solid #888; }
td, th { padding: .15em .6em; vertical-align: top; } td.n, th.n { text-align: right; }
tr.step:hover td { background: #eef; } tr.near td { background: #fff3cd; } tr.far td { background: #dff0d8; }
.comm { color: #b3261e; } .dim { color: #777; }
#controls { margin: .4em 0; } input[type=search] { width: 22em; padding: .2em .4em; }
#steps { display: flex; align-items: flex-start; } #arcs { flex: none; }
svg text { font: 11px system-ui, sans-serif; fill: #444; }
#tip { position: fixed; background: #222; color: #fff; padding: .3em .6em; border-radius: 3px; font-size: 12px;
  pointer-events: none; display: none; white-space: pre; }
</style></head><body>
<h1>@TITLE@</h1><div id="sums"></div><p id="sizes" class="dim"></p>
<h2>Collectives</h2><div id="collectives"></div>
<h2>Steps</h2>
<div id="controls"><input type="search" id="search" placeholder="array, operation, file:line, collective, axis">
<select id="kind"><option value="">all passes</option></select>
<label><input type="checkbox" id="only"> only communication</label> <span id="shown" class="dim"></span></div>
<div id="steps"><svg id="arcs"></svg><table id="table"></table></div>
<div id="loops"></div>
<h2>Memory over the steps</h2><div id="memory"></div>
<div id="timeline"></div>
<h2>Arrays</h2><div id="arrays"></div><div id="tip"></div>
<script type="application/json" id="plan">@PLAN@</script>
<script>
'use strict';
const plan = JSON.parse(document.getElementById('plan').textContent);
const el = id => document.getElementById(id);
const grouped = n => Math.round(n).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ',');
const scaled = (n, unit) => {
  const steps = unit === 's' ? [[1, 's'], [1e-3, 'ms'], [1e-6, 'us'], [1e-9, 'ns']]
    : [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];
  const [size, name] = steps.find(([size]) => n >= size) || steps[steps.length - 1];
  return +(n / size).toPrecision(4) + ' ' + name;
};
const tag = (name, parent, text, attributes = {}) => {
  const svg = ['svg', 'g', 'path', 'rect', 'line', 'text'].includes(name);
  const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  if (text !== undefined) e.textContent = text;
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  parent.appendChild(e);
  return e;
};
const tip = (e, text) => {
  e.addEventListener('mousemove', m => {
    const t = el('tip');
    t.textContent = text;
    t.style.display = 'block';
    t.style.left = Math.min(m.clientX + 12, innerWidth - t.offsetWidth - 8) + 'px';
    t.style.top = m.clientY + 14 + 'px';
  });
  e.addEventListener('mouseleave', () => { el('tip').style.display = 'none'; });
};
const table = (parent, head, rows) => {
  const t = tag('table', parent), top = tag('tr', t);
  head.forEach(([name, isNumber]) => tag('th', top, name, isNumber ? { class: 'n' } : {}));
  rows.forEach(row => {
    const tr = tag('tr', t);
    row.forEach((value, i) => tag('td', tr, value, head[i][1] ? { class: 'n' } : {}));
  });
};
const place = s => s.file ? s.file + ':' + s.line : '';
const nameOf = a => plan.arrays[a].name;
const live = i => {
  const slots = new Map();
  plan.arrays.forEach((a, k) => {
    if (a.slot < 0 || i < a.first || i > a.last) return;
    const known = slots.get(a.slot);
    if (known === undefined || plan.arrays[known].bytes < a.bytes) slots.set(a.slot, k);
  });
  return [...slots.values()];
};

[['bytes moved', grouped(plan.bytes)], ['messages', grouped(plan.messages)],
  ['flops of products', grouped(plan.flops)], ['passes', grouped(plan.passes)],
  ['bytes read', grouped(plan.bytes_read)], ['bytes written', grouped(plan.bytes_written)],
  ['arguments', scaled(plan.arguments)], ['results', scaled(plan.results)], ['workspace', scaled(plan.workspace)],
  ...(plan.machine ? [['on ' + plan.machine, scaled(plan.seconds, 's')]] : [])].forEach(([name, value]) => {
  const d = tag('div', el('sums'));
  tag('b', d, value);
  tag('span', d, name);
});
el('sizes').textContent = 'mesh ' + plan.axes.map(a => a.name + ' = ' + a.size).join(', ') + '; ' +
  plan.dims.map(d => d.name + ' = ' + grouped(d.size)).join(', ') + '; of the busiest device';

const sums = new Map();
plan.steps.filter(s => s.communicates).forEach(s => {
  const key = s.collective + '\0' + s.axes + '\0' + (s.loop ? 'in loops' : '');
  const sum = sums.get(key) || { count: 0, bytes: 0, exposed: 0 };
  sum.count += s.joined ? 0 : 1;
  sum.bytes += s.times * s.bytes_moved;
  sum.exposed += s.exposed;
  sums.set(key, sum);
});
if (sums.size === 0) tag('p', el('collectives'), 'no communication');
else table(el('collectives'), [['collective'], ['over'], [''], ['steps', 1], ['bytes', 1],
  ...(plan.machine ? [['waits', 1]] : [])],
  [...sums].sort((a, b) => b[1].bytes - a[1].bytes).map(([key, s]) =>
    [...key.split('\0'), s.count, grouped(s.bytes), ...(plan.machine ? [scaled(s.exposed, 's')] : [])]));

const head = tag('tr', el('table'));
['', 'pass', 'for', 'reads', 'writes', 'layout', 'bytes read', 'written', 'moved', 'times']
  .forEach((name, i) => tag('th', head, name, i === 0 || i > 5 ? { class: 'n' } : {}));
const rows = plan.steps.map((s, i) => {
  const tr = tag('tr', el('table'), undefined, { class: 'step' });
  tag('td', tr, i, { class: 'n dim' });
  tag('td', tr, s.collective ? s.collective + ' over ' + s.axes : (s.joined ? '+ ' : '') + s.pass,
    { class: s.communicates ? 'comm' : '' });
  tag('td', tr, s.operation + ' ' + place(s));
  tag('td', tr, s.reads.map(nameOf).join(', '));
  tag('td', tr, nameOf(s.writes));
  tag('td', tr, s.collective ? s.from + ' \u2192 ' + s.to : plan.arrays[s.writes].type, { class: 'dim' });
  [s.bytes_read, s.bytes_written, s.bytes_moved, s.times].forEach(n => tag('td', tr, grouped(n), { class: 'n' }));
  if (s.why) tip(tr, s.why);
  return tr;
});
const producers = plan.steps.map((s, i) => s.reads.map(a => {
  for (let k = i - 1; k >= 0; --k) if (plan.steps[k].writes === a) return k;
  return -1;
}).filter(k => k >= 0));
rows.forEach((tr, i) => {
  tr.addEventListener('mouseenter', () => {
    producers[i].forEach(k => rows[k].classList.add('near'));
    producers.forEach((from, k) => { if (from.includes(i)) rows[k].classList.add('far'); });
  });
  tr.addEventListener('mouseleave', () => rows.forEach(r => r.classList.remove('near', 'far')));
});
[...new Set(plan.steps.map(s => s.pass))].forEach(k => tag('option', el('kind'), k, { value: k }));
const draw = () => {
  const words = el('search').value.toLowerCase().split(/\s+/).filter(w => w);
  let shown = 0;
  rows.forEach((tr, i) => {
    const s = plan.steps[i], text = (tr.textContent + ' ' + s.why).toLowerCase();
    const hit = words.every(w => text.includes(w)) && (!el('kind').value || s.pass === el('kind').value) &&
      (!el('only').checked || s.communicates);
    tr.style.display = hit ? '' : 'none';
    shown += hit ? 1 : 0;
  });
  el('shown').textContent = shown + ' of ' + rows.length + ' steps';
  const arcs = el('arcs'), width = 90, top = el('table').getBoundingClientRect().top;
  arcs.replaceChildren();
  arcs.setAttribute('width', width);
  arcs.setAttribute('height', el('table').offsetHeight);
  const middle = i => { const r = rows[i].getBoundingClientRect(); return r.top - top + r.height / 2; };
  producers.forEach((from, i) => from.forEach(k => {
    if (rows[i].style.display || rows[k].style.display) return;
    const y0 = middle(k), y1 = middle(i), bend = width - Math.min(width - 8, 10 + (y1 - y0) / 4);
    const p = tag('path', arcs, undefined, { d: `M${width} ${y0} C${bend} ${y0} ${bend} ${y1} ${width} ${y1}`,
      fill: 'none', stroke: plan.steps[i].communicates ? '#b3261e' : '#99a', 'stroke-width': 1 });
    tip(p, nameOf(plan.steps[k].writes) + ': step ' + k + ' to ' + i);
  }));
};
['input', 'change'].forEach(e => el('controls').addEventListener(e, draw));
addEventListener('resize', draw);
draw();

const loops = new Map();
plan.steps.forEach(s => {
  const sum = loops.get(s.loop) || { times: 0, passes: 0, read: 0, written: 0, moved: 0, flops: 0, busy: 0, waits: 0 };
  sum.times = Math.max(sum.times, s.times);
  sum.passes += s.times;
  sum.read += s.times * s.bytes_read;
  sum.written += s.times * s.bytes_written;
  sum.moved += s.times * s.bytes_moved;
  sum.flops += s.times * s.flops;
  sum.busy += s.times * (s.end - s.begin);
  sum.waits += s.exposed;
  loops.set(s.loop, sum);
});
if (loops.size > 1) {
  tag('h2', el('loops'), 'Sums of each loop');
  table(el('loops'), [['loop'], ['iterations', 1], ['steps run', 1], ['bytes read', 1], ['written', 1], ['moved', 1],
    ['flops', 1], ...(plan.machine ? [['computes', 1], ['waits', 1]] : [])],
    [...loops].sort((a, b) => a[0] - b[0]).map(([loop, s]) => [loop || 'outside', grouped(s.times),
      ...[s.passes, s.read, s.written, s.moved, s.flops].map(grouped),
      ...(plan.machine ? [s.busy, s.waits].map(t => scaled(t, 's')) : [])]));
}

const chart = (parent, height) => tag('svg', parent, undefined, { width: 900, height });
{
  const svg = chart(el('memory'), 190), n = plan.steps.length, fixed = plan.arguments + plan.results;
  const sums = plan.steps.map((s, i) => live(i).reduce((sum, k) => sum + plan.arrays[k].bytes, 0));
  const top = Math.max(fixed + plan.workspace, 1), y = v => 165 - 150 * v / top, w = 840 / Math.max(n, 1);
  sums.forEach((sum, i) => {
    tag('rect', svg, undefined, { x: 50 + i * w, y: y(fixed), width: Math.max(w, .5), height: 165 - y(fixed),
      fill: '#c5cae9' });
    const r = tag('rect', svg, undefined, { x: 50 + i * w, y: y(fixed + sum), width: Math.max(w, .5),
      height: Math.max(y(fixed) - y(fixed + sum), 0), fill: '#7986cb' });
    const most = live(i).sort((a, b) => plan.arrays[b].bytes - plan.arrays[a].bytes).slice(0, 8);
    tip(r, 'step ' + i + ' ' + plan.steps[i].operation + ' ' + place(plan.steps[i]) + '\nvalues ' + scaled(sum) +
      most.map(k => '\n' + nameOf(k) + '  ' + scaled(plan.arrays[k].bytes)).join(''));
  });
  tag('line', svg, undefined, { x1: 50, x2: 890, y1: y(top), y2: y(top), stroke: '#b3261e', 'stroke-dasharray': '4 3' });
  tag('text', svg, scaled(top) + ' are allocated: arguments and results ' + scaled(fixed) + ', workspace ' +
    scaled(plan.workspace), { x: 52, y: y(top) - 3 });
  tag('text', svg, 'light: arguments and results; dark: values that a later step needs', { x: 52, y: 182 });
}
if (plan.machine) {
  tag('h2', el('timeline'), 'Timeline on ' + plan.machine + ', the first iteration of each loop');
  const svg = chart(el('timeline'), 120);
  const end = Math.max(...plan.steps.map(s => Math.max(s.end, s.network_end)), 1e-12), x = t => 70 + 820 * t / end;
  [['compute', 20, 'begin', 'end', '#5c9ded'], ['network', 60, 'network_begin', 'network_end', '#b3261e']]
    .forEach(([lane, y, from, to, fill]) => {
      tag('text', svg, lane, { x: 5, y: y + 18 });
      plan.steps.forEach((s, i) => {
        if (s[to] <= s[from]) return;
        const r = tag('rect', svg, undefined, { x: x(s[from]), y, width: Math.max(x(s[to]) - x(s[from]), .5),
          height: 28, fill, stroke: '#fff', 'stroke-width': .5 });
        tip(r, 'step ' + i + ' ' + (lane === 'network' ? s.collective + ' over ' + s.axes : s.pass) + ' for ' +
          s.operation + ' ' + place(s) + '\n' + scaled(s[to] - s[from], 's') + ', ' + grouped(s.times) + ' times' +
          (lane === 'network' ? ', the device waits ' + scaled(s.exposed, 's') : ''));
      });
    });
  tag('text', svg, '0', { x: 68, y: 108 });
  tag('text', svg, scaled(end, 's'), { x: 890, y: 108, 'text-anchor': 'end' });
}
table(el('arrays'), [['array'], ['type and layout'], [''], ['bytes', 1], ['needed by steps', 1]],
  plan.arrays.map(a => [a.name, a.type, a.role, grouped(a.bytes), a.first + ' to ' + a.last])
    .sort((a, b) => parseInt(b[3].replace(/,/g, '')) - parseInt(a[3].replace(/,/g, ''))));
document.body.dataset.ready = plan.steps.length;
</script></body></html>
)page";

/// Text in a page.
inline std::string in_page(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '<') made += "&lt;";
    else if (c == '>') made += "&gt;";
    else if (c == '&') made += "&amp;";
    else made += c;
  }
  return made;
}
/// JSON in a script: `<` begins the end of the script, and may stand only in strings, which can spell it otherwise.
inline std::string in_script(std::string_view json) {
  std::string made;
  for (const char c : json)
    if (c == '<') made += "\\u003c";
    else made += c;
  return made;
}

}} // namespace show::detail

/// One self-contained page of HTML about a plan: sums, a search, every step with its arrays, layouts, bytes and source
/// line, the arcs from producers to consumers, collectives, costs of loops, memory over the steps, and with a machine
/// the timeline. The record is in the page as JSON. Write it to a file and open it: nothing is loaded from elsewhere.
inline std::string plan_page(const plan_record& plan, std::string_view title = "Plan") {
  std::string page(show::detail::page_text);
  const auto put = [&](std::string_view mark, const std::string& text) {
    for (std::size_t at = 0; (at = page.find(mark, at)) != std::string::npos; at += text.size())
      page.replace(at, mark.size(), text);
  };
  put("@TITLE@", show::detail::in_page(title));
  put("@PLAN@", show::detail::in_script(to_json(plan)));
  return page;
}

}} // namespace cleave::v0
