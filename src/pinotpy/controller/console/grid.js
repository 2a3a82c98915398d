// A result table from columns [[name, type], …] and rows; long results grow by a button, so that a page of a million rows stays alive.
import { jsonText } from "./answer.js";

const ROWS_AT_ONCE = 500;
const NUMERIC = new Set(["INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL"]);

function cell(value, numeric) {
  const td = document.createElement("td");
  if (value === null || value === undefined) {
    td.className = "null";
    td.textContent = "null";
    td.title = "no value";
    return td;
  }
  td.textContent = typeof value === "object" ? jsonText(value) : String(value);
  if (numeric) td.className = "number";
  td.title = td.textContent;
  return td;
}

function looksNumeric(rows, index) {
  const sample = rows.slice(0, 50).map((row) => row[index]);
  return sample.length > 0 && sample.every((value) => value !== null && value !== "" && !Array.isArray(value) && Number.isFinite(Number(value)));
}

export function grid(columns, rows) {
  const box = document.createElement("div");
  const frame = box.appendChild(document.createElement("div"));
  frame.className = "table-box";
  const table = frame.appendChild(document.createElement("table"));
  const head = table.createTHead().insertRow();
  const numeric = columns.map(([, type], index) => (type ? NUMERIC.has(type) : looksNumeric(rows, index)));
  for (const [name, type] of columns) {
    const th = head.appendChild(document.createElement("th"));
    th.textContent = name;
    if (type) th.appendChild(document.createElement("small")).textContent = type;
  }
  const body = table.createTBody();
  const note = box.appendChild(document.createElement("p"));
  note.className = "note";
  let shown = 0;
  const more = document.createElement("button");
  more.type = "button";
  more.textContent = `show ${ROWS_AT_ONCE} more`;
  const grow = () => {
    const end = Math.min(rows.length, shown + ROWS_AT_ONCE);
    for (; shown < end; shown += 1) {
      const tr = body.insertRow();
      columns.forEach((_, index) => tr.appendChild(cell(rows[shown][index], numeric[index])));
    }
    note.textContent = rows.length === shown ? `${rows.length} rows ` : `${shown} of ${rows.length} rows `;
    if (shown < rows.length) note.appendChild(more);
  };
  more.addEventListener("click", grow);
  grow();
  return box;
}
