"use strict";
// A cell as a number to sort by: its first number times its unit; texts sort as texts, and after all numbers.
const UNITS = {s: 1e6, ms: 1e3, "µs": 1, B: 1, KiB: 1024, MiB: 1048576, GiB: 1073741824, k: 1e3, M: 1e6, G: 1e9, T: 1e12};
function key(text) {
  const found = /^-?[\d,]*\.?\d+/.exec(text);
  if (!found) return text;
  const unit = /^\s?(KiB|MiB|GiB|ms|µs|s|B|k|M|G|T)/.exec(text.slice(found[0].length));
  return Number(found[0].replaceAll(",", "")) * (unit ? UNITS[unit[1]] : 1);
}
function compare(left, right) {
  if (typeof left === "number" && typeof right === "number") return left - right;
  if (typeof left === typeof right) return left < right ? -1 : left > right ? 1 : 0;
  return typeof left === "number" ? -1 : 1;
}
function unknown(text) { return text === "n/a" || text === "–" || text === ""; }
function sort(header) {
  const body = header.closest("table").tBodies[0];
  const column = header.cellIndex;
  const up = header.getAttribute("aria-sort") === "descending" ||
    (header.getAttribute("aria-sort") !== "ascending" && !header.classList.contains("right"));
  const rows = Array.from(body.rows, row => ({row, text: row.cells[column].textContent.trim()}));
  for (const entry of rows) entry.key = key(entry.text);
  rows.sort((left, right) => // what is not known stays at the end
    unknown(left.text) - unknown(right.text) || (up ? 1 : -1) * compare(left.key, right.key));
  for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows.map(entry => entry.row));
}
for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => sort(button.parentNode));
for (const box of document.querySelectorAll("input[type=search]"))
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/);
    for (const row of document.getElementById(box.dataset.table).tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
