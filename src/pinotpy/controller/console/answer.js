// Writing a question and reading a broker's answer: pure functions, no page.

// What is sent: the text under its dialect, and that nulls count as default values where the user wants that. Else the
// table or the broker decides: in SQL nulls are nulls by default.
export function queryBody(dialect, text, nulls) {
  return nulls ? { [dialect]: text } : { [dialect]: text, queryOptions: "enableNullHandling=false" };
}

// A name as the dialect reads it: SQL wants quotes round what is no plain word.
export function quotedName(dialect, name) {
  return dialect !== "sql" || /^[A-Za-z_]\w*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

const EXACT = "\u2063"; // before the digits of an integer that no double holds; invisible, and in no JSON number
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

// JSON, but integers beyond 2^53 become BigInt: a LONG must not lose its last digits on the way to the screen.
export function parseAnswer(text) {
  let isExact = true;
  const marked = text.replace(TOKEN, (token) => {
    if (token.length < 16 || !/^-?\d+$/.test(token) || Number.isSafeInteger(Number(token))) return token;
    isExact = false;
    return `"${EXACT}${token}"`;
  });
  if (isExact) return JSON.parse(text);
  return JSON.parse(marked, (_, value) => (typeof value === "string" && /^\u2063-?\d+$/.test(value) ? BigInt(value.slice(1)) : value));
}

// A value as JSON text, BigInt as the number it is.
export function jsonText(value, indent) {
  const text = JSON.stringify(value, (_, each) => (typeof each === "bigint" ? EXACT + each : each), indent);
  return text.replace(new RegExp(`"${EXACT}(-?\\d+)"`, "g"), "$1");
}

// The tables of an answer: [{title, columns: [[name, type|null], …], rows}], whichever dialect answered.
export function tablesOf(answer) {
  if (answer.resultTable) {
    const { columnNames, columnDataTypes } = answer.resultTable.dataSchema;
    return [{ title: "", columns: columnNames.map((name, index) => [name, columnDataTypes[index]]), rows: answer.resultTable.rows }];
  }
  if (answer.selectionResults) {
    return [{ title: "", columns: answer.selectionResults.columns.map((name) => [name, null]), rows: answer.selectionResults.results }];
  }
  const aggregations = answer.aggregationResults || [];
  const grouped = aggregations.filter((one) => one.groupByResult);
  const plain = aggregations.filter((one) => !one.groupByResult);
  const tables = grouped.map((one) => ({
    title: one.function,
    columns: [...one.groupByColumns.map((name) => [name, null]), [one.function, null]],
    rows: one.groupByResult.map((group) => [...group.group, group.value]),
  }));
  if (plain.length > 0) tables.unshift({ title: "", columns: plain.map((one) => [one.function, null]), rows: [plain.map((one) => one.value)] });
  return tables;
}

const STATISTICS = [
  ["timeUsedMs", "ms"],
  ["brokerReduceTimeMs", "ms of them merging"],
  ["numDocsScanned", "docs scanned"],
  ["totalDocs", "docs in all"],
  ["numSegmentsQueried", "segments queried"],
  ["numSegmentsProcessed", "processed"],
  ["numSegmentsMatched", "matched"],
  ["numEntriesScannedInFilter", "entries in filter"],
  ["numEntriesScannedPostFilter", "entries after filter"],
  ["numServersResponded", "servers answered"],
  ["numServersQueried", "servers asked"],
  ["numConsumingSegmentsQueried", "consuming segments"],
];

export function statisticsOf(answer) {
  return STATISTICS.filter(([key]) => answer[key] !== undefined && answer[key] !== null).map(([key, label]) => [label, Number(answer[key]).toLocaleString("en")]);
}

export function exactnessOf(answer) {
  const warnings = answer.warnings || [];
  if ((answer.exceptions || []).length > 0 && tablesOf(answer).length === 0) return { word: "failed", reasons: warnings };
  const word = answer.partialResult ? "partial" : answer.exactness || "exact";
  return { word, reasons: [...(answer.exactnessReasons || []), ...warnings] };
}

// Where an exception points in the query text: {line, column} from 1, or null.
export function positionOf(message) {
  const found = /line\s+(\d+)\s*(?:,|:)?\s*(?:column|col\.?|position)?\s*(\d+)/i.exec(message || "");
  return found ? { line: Number(found[1]), column: Number(found[2]) } : null;
}

// Start and end offset of the token at a position of the text (one character at least, also at the end of the text).
export function tokenAt(text, { line, column }) {
  const lines = text.split("\n");
  if (line < 1 || line > lines.length) return null;
  const lineStart = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const start = lineStart + Math.min(Math.max(column - 1, 0), lines[line - 1].length);
  const word = /^[\w$.]+|^\S/.exec(text.slice(start));
  return { start, end: start + (word ? word[0].length : 1) };
}

export function csvOf({ columns, rows }) {
  const quote = (value) => {
    if (value === null || value === undefined) return "";
    let text = typeof value === "object" ? jsonText(value) : String(value);
    // A leading = + - @ in a text cell would run as a formula in a spread sheet.
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns.map(([name]) => name), ...rows].map((row) => row.map(quote).join(",")).join("\r\n") + "\r\n";
}
