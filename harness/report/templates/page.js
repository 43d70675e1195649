"use strict";
// A cell as a number to sort by: its first number times its unit. Texts sort as texts, after all numbers.
const UNITS = {s: 1e6, ms: 1e3, "µs": 1, B: 1, KiB: 1024, MiB: 1048576, GiB: 1073741824, k: 1e3, M: 1e6, G: 1e9, T: 1e12};
function key(text) {
  const match = /^-?[\d,]*\.?\d+/.exec(text);
  if (!match) return text;
  const unit = /^\s?(KiB|MiB|GiB|ms|µs|s|B|k|M|G|T)\b/.exec(text.slice(match[0].length));
  return Number(match[0].replaceAll(",", "")) * (unit ? UNITS[unit[1]] : 1);
}
function compare(left, right) {
  if (typeof left === "number" && typeof right === "number") return left - right;
  if (typeof left === typeof right) return left < right ? -1 : left > right ? 1 : 0;
  return typeof left === "number" ? -1 : 1;
}
const unknown = text => text === "n/a" || text === "–" || text === "";

// A table's rows as texts. A long table brings them as JSON, and has only the first of them in the page.
class Rows {
  constructor(table) {
    this.body = table.tBodies[0];
    this.headers = Array.from(table.tHead.rows[0].cells);
    const more = document.getElementById(`${table.id}-more`);
    this.names = this.headers.map(header => header.textContent.trim());
    this.rows = Array.from(this.body.rows, element => ({element, texts: Array.from(element.cells, cell => cell.textContent.trim())}));
    this.shown = Infinity;
    if (more) {
      this.step = this.shown = this.rows.length;
      this.rows.push(...JSON.parse(more.textContent).map(texts => ({element: null, texts})));
      this.note = document.getElementById(`${table.id}-note`);
      this.note.querySelector("button").addEventListener("click", () => { this.shown += 5 * this.step; this.draw(); });
    }
    this.words = [];
    for (const header of this.headers)
      header.querySelector("button").addEventListener("click", () => this.sort(header));
    for (const box of document.querySelectorAll(`input[data-table="${table.id}"]`))
      box.addEventListener("input", () => { this.words = box.value.toLowerCase().split(/\s+/); this.draw(); });
  }
  sort(header) {
    const column = header.cellIndex, was = header.getAttribute("aria-sort");
    const up = was ? was === "descending" : !header.classList.contains("right"); // numbers: the largest first
    for (const row of this.rows) row.key = key(row.texts[column]);
    this.rows.sort((left, right) => // what is not known stays at the end
      unknown(left.texts[column]) - unknown(right.texts[column]) || (up ? 1 : -1) * compare(left.key, right.key));
    for (const other of this.headers) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    this.draw();
  }
  draw() {
    const matching = this.rows.filter(row => {
      const text = row.texts.map((cell, column) => `${this.names[column]}=${cell}`).join(" ").toLowerCase();
      return this.words.every(word => text.includes(word));
    });
    const shown = matching.slice(0, this.shown);
    this.body.replaceChildren(...shown.map(row => row.element ??= this.element(row.texts)));
    if (!this.note) return;
    this.note.firstElementChild.textContent = `${shown.length.toLocaleString("en")} of ${matching.length.toLocaleString("en")} rows`;
    this.note.querySelector("button").hidden = shown.length === matching.length;
  }
  element(texts) {
    const line = document.createElement("tr");
    texts.forEach((text, column) => {
      const cell = line.insertCell();
      cell.textContent = text;
      if (this.headers[column].classList.contains("right")) cell.className = "right";
      else if (MARKED.includes(text) && !NAMES.includes(this.names[column])) cell.className = text.replaceAll(" ", "-");
    });
    return line;
  }
}
for (const table of document.querySelectorAll("table:has(thead)")) new Rows(table);
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
