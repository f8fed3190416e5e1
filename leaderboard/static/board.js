"use strict";
// Sorts tables by their columns. Pages read the same without it.

// Numbers as numbers, words by code point; what has no value, or a word for a number, comes last, whichever way.
function compare(a, b, descending) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = a < b ? -1 : a > b ? 1 : 0;
  return descending ? -order : order;
}

function valueOf(row, column, isText) {
  const cell = row.cells[column];
  if (cell === undefined || cell.dataset.v === undefined) return null;
  if (isText) return cell.dataset.v;
  const number = Number(cell.dataset.v);
  return Number.isNaN(number) ? null : number;
}

function sortBy(table, header, descending) {
  const column = Number(header.dataset.col);
  const isText = header.classList.contains("text");
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("divider"));
    const keyed = rows.map((row) => ({ row, value: valueOf(row, column, isText), place: Number(row.dataset.place) }));
    keyed.sort((a, b) => compare(a.value, b.value, descending) || a.place - b.place);
    body.append(...keyed.map((entry) => entry.row));
  }
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

function makeSortable(table) {
  for (const body of table.tBodies) {
    [...body.rows].forEach((row, place) => { row.dataset.place = String(place); });
  }
  for (const header of table.querySelectorAll("th[data-col]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    // A rank and a name read best from the top, a number from its largest.
    const startsDown = !header.classList.contains("text") && !header.classList.contains("rank");
    button.addEventListener("click", () => {
      const now = header.getAttribute("aria-sort");
      sortBy(table, header, now === null ? startsDown : now === "ascending");
    });
  }
}

document.querySelectorAll("table.sortable").forEach(makeSortable);

// Paper shows what a click would.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
