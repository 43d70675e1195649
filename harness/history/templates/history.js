"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const NAMES = {
  relative: base => `latency beside ${base}`, device_relative: base => `device time beside ${base}`,
  device_time_us: () => "device time", latency_us: () => "latency",
};
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.filter(child => child !== null));
  return made;
}
function shape(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}
const day = time => new Date(time * 1000).toISOString().slice(0, 10);
const clock = time => new Date(time * 1000).toISOString().slice(11, 16);
const minute = time => new Date(time * 1000).toISOString().slice(0, 16).replace("T", " ");
function digits(value) {
  const decimals = Math.max(2 - Math.floor(Math.log10(value)), 0);
  return value.toLocaleString("en", {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
}
function written(measure, value) {
  if (!measure.endsWith("_us")) return `${digits(value)}×`;
  const [size, unit] = value >= 1e7 ? [1e6, "s"] : value >= 1e4 ? [1e3, "ms"] : [1, "µs"];
  return `${digits(value / size)} ${unit}`;
}
function signed(ratio) { // as harness.diff writes a change
  if (ratio > 10 || ratio < 0.1) return `${digits(ratio)}×`;
  const share = 100 * Math.abs(ratio - 1), text = share < 9.95 ? share.toFixed(1) : share.toFixed(0);
  return text === "0.0" ? "0.0%" : `${ratio > 1 ? "+" : "−"}${text}%`;
}
const unpacked = (text, Kind) => Array.from(new Kind(Uint8Array.from(atob(text), mark => mark.charCodeAt(0)).buffer));
for (const group of DATA.groups) {
  group.times = unpacked(group.times, Float64Array);
  group.commit = unpacked(group.commit, Int32Array);
  group.commits = group.commits.split("\0");
  group.names = group.names.split("\0");
}
function figures(series, measure) { // unpacked when they are looked at; bounds that are not known are NaN
  const packed = series.measures[measure];
  if (!packed) return {places: [], values: [], low: [], high: []};
  if (!packed.arrays) {
    const [values, low, high] = [packed.values, packed.low, packed.high].map(text => unpacked(text, Float32Array));
    const places = packed.places === null ? values.map((_, i) => i) : unpacked(packed.places, Int32Array);
    packed.arrays = {places, values, low, high};
  }
  return packed.arrays;
}
const median = values => values.slice().sort((a, b) => a - b)[values.length >> 1];

// Filters

const FILTERS = $("filters").elements;
const KEYS = ["op", "dtype", "device", "machine"];
let only = null; // the series of one finding, as "group variant"
function options(select, values, all) {
  for (const value of all === undefined ? values : ["", ...values]) {
    const known = Array.isArray(value) ? value : [value, value === "" ? all : value];
    select.append(element("option", {value: known[0], textContent: known[1]}));
  }
}
const distinct = values => [...new Set(values)].sort();
for (const key of KEYS) options(FILTERS[key], distinct(DATA.groups.map(group => group[key])), "all");
options(FILTERS.variant, distinct(DATA.groups.flatMap(group => group.series.map(series => series.variant))), "all");
options(FILTERS.cause, DATA.causes, "all");
options(FILTERS.days, [...DATA.periods.map(days => [String(days), days === 1 ? "the last day" : `the last ${days} days`]), ["Infinity", "all time"]]);
options($("measure"), DATA.measures.map(measure => [measure, NAMES[measure]("the baseline")]));
const newestChange = Math.max(...DATA.findings.map(finding => finding.end));
const since = days => DATA.newest - days * 86400;
FILTERS.days.value = String([DATA.days, ...DATA.periods.filter(days => days > DATA.days), Infinity].find(days => newestChange > since(days)) ?? Infinity);
const fits = group => KEYS.every(key => !FILTERS[key].value || FILTERS[key].value === group[key]);
const variantFits = name => !FILTERS.variant.value || FILTERS.variant.value === name;

// What changed

let shown = 20;
function drawFindings() {
  const found = DATA.findings.filter(finding => finding.end > since(Number(FILTERS.days.value)) && finding.groups.some(group => fits(DATA.groups[group]))
    && (!FILTERS.cause.value || FILTERS.cause.value === finding.cause) && finding.series.some(([, name]) => variantFits(name)));
  const earlier = DATA.findings.length - found.length;
  const rest = earlier ? `; ${earlier} earlier, or filtered out` : "";
  $("changed-note").textContent = found.length ? `${found.length} change${found.length === 1 ? "" : "s"}, the worst first${rest}. Choose one to see its series.` : `No change${rest}.`;
  $("changed").tBodies[0].replaceChildren(...found.slice(0, shown).map(row));
  $("changed").hidden = !found.length;
  $("changed-more").hidden = found.length <= shown;
}
function row(finding) {
  const made = element("tr", {tabIndex: 0},
    element("td", {className: finding.outcome, textContent: finding.lasting ? finding.outcome : `${finding.outcome}, right again`}),
    element("td", {textContent: finding.what}),
    element("td", {className: "right", textContent: finding.size}),
    element("td", {textContent: finding.since}),
    element("td", {}, element("span", {className: `cause ${finding.cause}`, textContent: finding.cause})),
    element("td", {}, finding.where, element("span", {className: "why", textContent: finding.reason})));
  const choose = () => {
    only = new Set(finding.series.map(key => key.join(" ")));
    drawSeries();
    $("series-note").scrollIntoView({behavior: "smooth"});
  };
  made.addEventListener("click", choose);
  made.addEventListener("keydown", event => { if (event.key === "Enter") choose(); });
  return made;
}
$("changed-more").addEventListener("click", () => { shown += 100; drawFindings(); });

// Charts, each drawn as it comes into view

const watcher = new IntersectionObserver(seen => {
  for (const one of seen) if (one.isIntersecting) { watcher.unobserve(one.target); one.target.draw(); }
}, {rootMargin: "400px"});
function drawSeries() {
  const measure = $("measure").value, cards = [];
  DATA.groups.forEach((group, number) => group.series.forEach(series => {
    const wanted = only ? only.has(`${number} ${series.variant}`) : fits(group) && variantFits(series.variant);
    // the baseline's ratio mirrors the others': it says something only where the baseline moved
    const mirror = series.variant === group.baseline && !measure.endsWith("_us") && !series.changes.some(change => change.measures.includes(measure));
    if (wanted && (only || !mirror) && (series.measures[measure] || series.wrong.length))
      cards.push({group, series, last: Math.max(-1, ...series.changes.map(change => group.times[change.place]))});
  }));
  cards.sort((left, right) => right.last - left.last);
  $("series-note").textContent = `${cards.length.toLocaleString("en")} series${only ? " of the change that was chosen" : ", those that changed last first"}.`;
  $("all").hidden = !only;
  watcher.disconnect();
  $("charts").replaceChildren(...cards.map(card => chart(card.group, card.series, measure)));
}
function chart(group, series, measure) {
  const base = series.variant === group.baseline ? "the other variants" : group.baseline;
  const last = figures(series, measure).values.at(-1) ?? null;
  const made = element("section", {className: "chart"},
    element("h3", {textContent: series.variant}),
    element("p", {textContent: group.title}),
    element("p", {textContent: `${NAMES[measure](base)}${last === null ? ": never right" : `, last ${written(measure, last)}`}${DATA.groups.some(other => other.machine !== group.machine) ? ` · ${group.machine}` : ""}`}));
  made.draw = () => made.append(drawing(group, series, measure, made.clientWidth || 420));
  watcher.observe(made);
  return made;
}
const HEIGHT = 176, LEFT = 46, RIGHT = 8, TOP = 18, BOTTOM = 20;
function drawing(group, series, measure, width) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const title = `${series.variant} of ${group.title}: ${NAMES[measure](group.baseline)} in ${group.times.length} runs`;
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", title);
  const count = group.times.length, data = figures(series, measure);
  const [low, high] = [data.low, data.high].map(bounds => bounds.map((bound, i) => Number.isNaN(bound) ? data.values[i] : bound));
  // the scale is that of values and of most intervals: a single wide one is cut off
  const sorted = [...low, ...high].sort((a, b) => a - b), cut = Math.floor(sorted.length * 0.02);
  let bottom = Math.log(Math.min(sorted[cut] ?? 1, ...data.values)), top = Math.log(Math.max(sorted[sorted.length - 1 - cut] ?? 1, ...data.values));
  const margin = Math.max((top - bottom) * 0.08, 0.01);
  bottom -= margin; top += margin;
  const x = place => LEFT + (width - LEFT - RIGHT) * (count > 1 ? place / (count - 1) : 0.5);
  const y = value => Math.min(Math.max(TOP + (HEIGHT - TOP - BOTTOM) * (top - Math.log(value)) / (top - bottom), TOP), HEIGHT - BOTTOM);
  for (const value of data.values.length ? ticks(Math.exp(bottom), Math.exp(top)) : []) {
    shape(picture, "line", {class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value)});
    shape(picture, "text", {x: LEFT - 5, y: y(value) + 4, "text-anchor": "end"}, written(measure, value).replace("×", ""));
  }
  const date = day(group.times[0]) === day(group.times[count - 1]) ? clock : day; // of one day, the time of day
  const dates = Math.min(count, Math.max(Math.floor((width - LEFT) / 110), 2));
  for (let i = 0; i < dates; i++) {
    const place = dates > 1 ? Math.round(i * (count - 1) / (dates - 1)) : 0;
    shape(picture, "text", {x: x(place), y: HEIGHT - 5, "text-anchor": dates === 1 || (i && i < dates - 1) ? "middle" : i ? "end" : "start"}, date(group.times[place]));
  }
  for (const [place] of group.versions)
    shape(picture, "line", {class: "version", x1: x(place - 0.5), x2: x(place - 0.5), y1: TOP, y2: HEIGHT - BOTTOM});
  const path = (places, values) => places.map((place, i) => `${i ? "L" : "M"}${x(place).toFixed(1)} ${y(values[i]).toFixed(1)}`).join("");
  const bounded = data.places.map((_, i) => i).filter(i => !Number.isNaN(data.low[i]));
  if (bounded.length > 1) {
    const back = bounded.slice().reverse();
    shape(picture, "path", {class: "interval", d: `${path(bounded.map(i => data.places[i]), bounded.map(i => high[i]))}L${path(back.map(i => data.places[i]), back.map(i => low[i])).slice(1)}Z`});
  }
  shape(picture, "path", {class: "line", d: path(data.places, data.values)});
  if (data.places.length <= 120)
    for (const [i, place] of data.places.entries()) shape(picture, "circle", {class: "dot", cx: x(place), cy: y(data.values[i]), r: 1.8});
  const changes = series.changes.filter(change => change.measures.includes(measure) || change.measures.includes("status"));
  const moves = changes.filter(change => change.measures.includes(measure)).map(change => change.place);
  const bounds = [0, ...moves, count];
  for (let i = 0; i + 1 < bounds.length; i++) {
    const within = data.places.map((_, k) => k).filter(k => data.places[k] >= bounds[i] && data.places[k] < bounds[i + 1]);
    if (!within.length) continue;
    const level = y(median(within.map(k => data.values[k])));
    shape(picture, "line", {class: "level", x1: x(data.places[within[0]]), x2: x(data.places[within[within.length - 1]]), y1: level, y2: level});
  }
  for (const [place] of series.wrong) shape(picture, "text", {class: "wrong", x: x(place), y: HEIGHT - BOTTOM - 2, "text-anchor": "middle"}, "×");
  for (const change of changes) {
    const at = x(change.place - 0.5), mark = shape(picture, "g", {class: change.cause});
    shape(mark, "line", {class: "mark", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM});
    shape(mark, "text", {class: "label", x: Math.min(Math.max(at, LEFT + 14), width - 22), y: 11, "text-anchor": "middle"}, change.text);
  }
  listen(picture, group, series, measure, {data, low, high, x, y, width});
  return picture;
}
function ticks(low, high) { // about four round values
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(value);
  return found.filter(value => value > 0);
}

// A run under the pointer, and two runs compared

const tip = element("div", {id: "tip", hidden: true});
document.body.append(tip);
let chosen = [];
function listen(picture, group, series, measure, drawn) {
  const nearest = event => {
    const box = picture.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * drawn.width;
    let best = 0;
    drawn.data.places.forEach((place, i) => { if (Math.abs(drawn.x(place) - at) < Math.abs(drawn.x(drawn.data.places[best]) - at)) best = i; });
    return best;
  };
  picture.addEventListener("pointermove", event => {
    if (!drawn.data.places.length) return;
    const i = nearest(event), place = drawn.data.places[i];
    const near = series.changes.filter(change => Math.abs(change.place - place) <= 1).map(change => `\n${change.outcome} ${change.text} (${change.cause}): ${change.reason}`);
    const version = group.versions.filter(([at]) => Math.abs(at - place) <= 1).map(([, text]) => `\n${text}`);
    tip.textContent = `${minute(group.times[place])} · ${group.commits[group.commit[place]]}\n${value(measure, drawn, i)}${near.join("")}${version.join("")}`;
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.max(event.clientY - tip.offsetHeight - 10, 4)}px`;
  });
  picture.addEventListener("pointerleave", () => { tip.hidden = true; });
  picture.addEventListener("click", event => {
    if (!drawn.data.places.length) return;
    const i = nearest(event), ring = {class: "chosen", cx: drawn.x(drawn.data.places[i]), cy: drawn.y(drawn.data.values[i]), r: 5};
    if (chosen.length === 2 || chosen.some(other => other.picture !== picture)) forget();
    chosen.push({picture, i, ring: shape(picture, "circle", ring)});
    compare(group, series, measure, drawn);
  });
}
function value(measure, drawn, i) {
  const bounds = Number.isNaN(drawn.data.low[i]) ? "" : ` (${written(measure, drawn.low[i])} to ${written(measure, drawn.high[i])})`;
  return `${written(measure, drawn.data.values[i])}${bounds}`;
}
function forget() {
  for (const one of chosen) one.ring.remove();
  chosen = [];
  $("compared").hidden = true;
}
function compare(group, series, measure, drawn) {
  const panel = $("compared"), [old, now] = chosen.map(one => one.i).sort((a, b) => a - b);
  const described = (name, i) => {
    const place = drawn.data.places[i], page = group.pages?.[place];
    const text = `${name}: ${minute(group.times[place])}, ${group.commits[group.commit[place]]}, ${value(measure, drawn, i)}`;
    return element("div", {}, text, page ? " · " : null, page ? element("a", {href: page, textContent: "its page"}) : null);
  };
  const close = element("button", {type: "button", className: "more", textContent: "Close"});
  close.addEventListener("click", forget);
  const parts = [described("OLD", old)];
  if (now !== undefined) {
    const names = [old, now].map(i => group.names[drawn.data.places[i]]);
    parts.push(described("NEW", now), element("div", {}, element("strong", {textContent: sentence(group, series, measure, drawn, old, now)})));
    const files = names.map(name => DATA.branch !== null && name.startsWith(`${DATA.branch}:`) ? `<(git show ${quoted(name)})` : quoted(name));
    parts.push(element("pre", {textContent: `python -m harness.diff ${files.join(" ")}`}));
  } else parts.push(element("div", {textContent: "Choose another run of this chart."}));
  panel.replaceChildren(...parts, close);
  panel.hidden = false;
  document.documentElement.style.scrollPaddingBottom = `${panel.offsetHeight + 8}px`; // the chart stays in view above it
  chosen[0].picture.parentElement.scrollIntoView({block: "nearest"});
}
const quoted = text => /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
function sentence(group, series, measure, drawn, old, now) { // the verdicts of harness.diff, from the two intervals
  const {values} = drawn.data, log = i => Math.max(Math.log(drawn.high[i] / values[i]), Math.log(values[i] / drawn.low[i]));
  const ratio = values[now] / values[old], half = Math.hypot(log(old), log(now)), floor = DATA.threshold;
  const [low, high] = [ratio * Math.exp(-half), ratio * Math.exp(half)];
  const known = half > 0, margin = 1 + Math.min(floor, 0.05);
  const verdict = !known ? "unclear" : low > 1 + floor ? "slower" : high < 1 / (1 + floor) ? "faster" : low >= 1 / margin && high <= margin ? "same" : "unclear";
  const base = series.variant === group.baseline ? "the other variants" : group.baseline;
  const beside = measure.endsWith("_us") ? ` in its ${NAMES[measure]()}` : ` relative to ${base}`;
  return `${series.variant} is ${verdict}: ${signed(ratio)}${known ? ` (${signed(low)} to ${signed(high)})` : ""}${beside}.`;
}

// Bars of the comparison side by side

function drawBars() {
  for (const bars of DATA.bars) {
    const card = element("section", {}, element("p", {textContent: bars.title}));
    $("bars").append(card);
    const width = card.clientWidth, line = 20, left = Math.min(150, width * 0.35), room = 118;
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("viewBox", `0 0 ${width} ${bars.rows.length * line}`);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", bars.title);
    const most = Math.max(...bars.rows.map(bar => bar.high ?? bar.value));
    const x = value => left + (width - left - room) * value / most;
    bars.rows.forEach((bar, i) => {
      const y = i * line;
      shape(picture, "text", {x: left - 8, y: y + 13, "text-anchor": "end", class: "name"}, bar.name);
      shape(picture, "rect", {x: left, y: y + 3, width: Math.max(x(bar.value) - left, 1), height: line - 8});
      if (bar.low !== null && bar.high !== null) shape(picture, "line", {class: "whisker", x1: x(bar.low), x2: x(bar.high), y1: y + 9, y2: y + 9});
      shape(picture, "text", {x: x(bar.high ?? bar.value) + 6, y: y + 13}, bar.text);
    });
    card.append(picture);
  }
}

function drawAll() { forget(); drawFindings(); drawSeries(); }
$("filters").addEventListener("change", () => { only = null; drawAll(); });
$("measure").addEventListener("change", () => { forget(); drawSeries(); });
$("all").addEventListener("click", () => { only = null; drawSeries(); });
drawBars();
drawAll();
