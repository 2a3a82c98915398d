// The query page: editor, tables beside it, the answer below it.
import { askForAuthorization, listTables, runPql, runSql, tableSchema, wirePage } from "./api.js";
import { csvOf, exactnessOf, jsonText, positionOf, queryBody, quotedName, statisticsOf, tablesOf, tokenAt } from "./answer.js";
import { grid } from "./grid.js";

const HISTORY_KEY = "pinotpy.history";
const HISTORY_MAX = 50;
const $ = (id) => document.getElementById(id);
const editor = $("editor");
let waiting = null;
let lastTables = [];

const dialect = () => document.querySelector("input[name=dialect]:checked").value;
function setDialect(value) {
  document.querySelector(`input[name=dialect][value=${value === "pql" ? "pql" : "sql"}]`).checked = true;
}
const bodyOf = (text) => queryBody(dialect(), text, $("nulls").checked);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// --- the editor's marks ---------------------------------------------------------------------------------------------

function markError(range) {
  const text = editor.value;
  const marks = $("editor-marks");
  marks.replaceChildren();
  if (!range) return;
  marks.append(text.slice(0, range.start), element("mark", text.slice(range.start, range.end) || " "), text.slice(range.end));
  marks.scrollTop = editor.scrollTop;
}

function insertAtCursor(word) {
  editor.setRangeText(word, editor.selectionStart, editor.selectionEnd, "end");
  editor.focus();
  markError(null);
}

// --- history --------------------------------------------------------------------------------------------------------

function readHistory() {
  try {
    const entries = JSON.parse(localStorage.getItem(HISTORY_KEY) || "[]");
    return Array.isArray(entries) ? entries.filter((entry) => typeof entry.text === "string") : [];
  } catch {
    return [];
  }
}

function remember(text, language) {
  const entries = [{ text, dialect: language }, ...readHistory().filter((entry) => entry.text !== text)].slice(0, HISTORY_MAX);
  localStorage.setItem(HISTORY_KEY, JSON.stringify(entries));
  showHistory();
}

function showHistory() {
  $("history").replaceChildren(...readHistory().map((entry) => {
    const button = element("button", entry.text.replace(/\s+/g, " "));
    button.type = "button";
    button.title = entry.text;
    button.addEventListener("click", () => {
      editor.value = entry.text;
      setDialect(entry.dialect);
      markError(null);
      editor.focus();
    });
    const item = element("li");
    item.append(button);
    return item;
  }));
}

// --- tables and their columns ---------------------------------------------------------------------------------------

function columnsOf(schema) {
  const time = schema.timeFieldSpec ? [schema.timeFieldSpec.outgoingGranularitySpec || schema.timeFieldSpec.incomingGranularitySpec] : [];
  return [...(schema.dimensionFieldSpecs || []), ...(schema.metricFieldSpecs || []), ...time, ...(schema.dateTimeFieldSpecs || []), ...(schema.complexFieldSpecs || [])];
}

async function toggleColumns(item, table) {
  const open = item.querySelector("ul");
  if (open) {
    open.remove();
    return;
  }
  const list = element("ul", undefined, "tables");
  try {
    for (const column of columnsOf(await tableSchema(table))) {
      const button = element("button", undefined, "column");
      button.type = "button";
      button.append(element("span", column.name), element("small", column.singleValueField === false ? `${column.dataType}[]` : column.dataType));
      button.addEventListener("click", () => insertAtCursor(quotedName(dialect(), column.name)));
      list.appendChild(element("li")).append(button);
    }
  } catch (error) {
    askForAuthorization(error);
    list.appendChild(element("li", error.message, "note"));
  }
  item.append(list);
}

async function showTables() {
  try {
    const { tables } = await listTables();
    $("tables").replaceChildren(...tables.map((table) => {
      const item = element("li");
      const button = element("button", table);
      button.type = "button";
      button.addEventListener("click", () => {
        if (!editor.value.trim()) editor.value = `SELECT * FROM ${quotedName(dialect(), table)} LIMIT 10`;
        toggleColumns(item, table);
      });
      item.append(button);
      return item;
    }));
    if (tables.length === 0) $("tables").replaceChildren(element("li", "no tables yet", "note"));
  } catch (error) {
    askForAuthorization(error);
    $("tables").replaceChildren(element("li", error.message, "note"));
  }
}

// --- running and showing --------------------------------------------------------------------------------------------

function clearAnswer() {
  for (const id of ["exceptions", "statistics", "results"]) $(id).replaceChildren();
  $("badge").hidden = true;
  $("raw-box").hidden = true;
  $("save-csv").disabled = true;
  lastTables = [];
  markError(null);
}

function showException(code, message) {
  const box = element("div");
  box.append(element("strong", code === null ? "The query could not be sent" : `Error ${code}`), element("pre", message));
  $("exceptions").append(box);
  const position = positionOf(message);
  const range = position && tokenAt(editor.value, position);
  if (!range || document.querySelector("#editor-marks mark")) return;
  markError(range);
  editor.setSelectionRange(range.start, range.end);
}

function showAnswer(answer, tookMs) {
  lastTables = tablesOf(answer);
  for (const exception of answer.exceptions || []) showException(exception.errorCode, exception.message);
  const { word, reasons } = exactnessOf(answer);
  $("badge").className = `badge ${word}`;
  $("badge").textContent = reasons.length > 0 ? `${word}: ${reasons.join("; ")}` : word;
  $("badge").hidden = false;
  const statistics = [...statisticsOf(answer), ["ms in the browser", Math.round(tookMs).toLocaleString("en")]];
  $("statistics").replaceChildren(...statistics.map(([label, value]) => {
    const pair = element("div");
    pair.append(element("dt", label), element("dd", value));
    return pair;
  }));
  $("results").replaceChildren(...lastTables.flatMap((table) => [...(table.title ? [element("h2", table.title)] : []), grid(table.columns, table.rows)]));
  $("save-csv").disabled = lastTables.length === 0;
  $("raw").textContent = jsonText(answer, 2).slice(0, 200000);
  $("raw-box").hidden = false;
}

async function run() {
  const text = editor.value.trim();
  if (!text || waiting) return;
  clearAnswer();
  remember(text, dialect());
  history.replaceState(null, "", `#${new URLSearchParams({ dialect: dialect(), q: text })}`);
  waiting = new AbortController();
  $("run").disabled = true;
  $("stop").hidden = false;
  const started = performance.now();
  try {
    const answer = await (dialect() === "sql" ? runSql : runPql)(bodyOf(editor.value), waiting.signal);
    showAnswer(answer, performance.now() - started);
  } catch (error) {
    if (error.name !== "AbortError" && !askForAuthorization(error)) showException(error.status ?? null, error.message);
  } finally {
    waiting = null;
    $("run").disabled = false;
    $("stop").hidden = true;
  }
}

function shellQuote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function copyCurl() {
  const path = new URL(dialect(), location.href.split("#")[0]);
  navigator.clipboard.writeText(`curl -s -H 'Content-Type: application/json' -d ${shellQuote(JSON.stringify(bodyOf(editor.value)))} ${shellQuote(path.href)}`);
}

function saveCsv() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lastTables.map(csvOf), { type: "text/csv" }));
  link.download = "result.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

$("query-form").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  }
});
editor.addEventListener("input", () => markError(null));
editor.addEventListener("scroll", () => ($("editor-marks").scrollTop = editor.scrollTop));
$("stop").addEventListener("click", () => waiting && waiting.abort());
$("copy-curl").addEventListener("click", copyCurl);
$("save-csv").addEventListener("click", saveCsv);

// A link carries a query into the editor; it never runs by itself.
const shared = new URLSearchParams(location.hash.slice(1));
if (shared.get("q")) {
  editor.value = shared.get("q");
  setDialect(shared.get("dialect"));
}
wirePage(showTables);
showHistory();
showTables();
editor.focus();
