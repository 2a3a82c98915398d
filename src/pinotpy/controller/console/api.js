// Every REST call that the console makes is in this file; a test holds each path against the declared routes.
import { parseAnswer } from "./answer.js";

const AUTH_KEY = "pinotpy.authorization";

export class RefusedError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const authorization = {
  get: () => sessionStorage.getItem(AUTH_KEY) || "",
  set: (value) => (value ? sessionStorage.setItem(AUTH_KEY, value) : sessionStorage.removeItem(AUTH_KEY)),
};

async function call(method, path, { body, signal, parse = JSON.parse } = {}) {
  const headers = { Accept: "application/json" };
  if (authorization.get()) headers.Authorization = authorization.get();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: "same-origin" });
  const text = await response.text();
  if (!response.ok) {
    let reason = text || response.statusText;
    try {
      reason = JSON.parse(text).error || reason;
    } catch {
      // the answer is not JSON: its text is the reason
    }
    throw new RefusedError(response.status, reason);
  }
  return text ? parse(text) : null;
}

const part = encodeURIComponent;

export const listTables = () => call("GET", "tables");
export const tableSchema = (table) => call("GET", `tables/${part(table)}/schema`);
export const tableIdealState = (table) => call("GET", `tables/${part(table)}/idealstate`);
export const tableExternalView = (table) => call("GET", `tables/${part(table)}/externalview`);
export const listInstances = () => call("GET", "instances");
export const clusterInfo = () => call("GET", "cluster/info");
// Bodies as queryBody (answer.js) makes them.
export const runPql = (body, signal) => call("POST", "pql", { body, signal, parse: parseAnswer });
export const runSql = (body, signal) => call("POST", "sql", { body, signal, parse: parseAnswer });

// Theme and authorization are the same on every page.
export function wirePage(onAuthorized) {
  const saved = localStorage.getItem("pinotpy.theme");
  if (saved) document.documentElement.dataset.theme = saved;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("pinotpy.theme", document.documentElement.dataset.theme);
  });
  const form = document.getElementById("auth");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    authorization.set(document.getElementById("auth-value").value.trim());
    form.hidden = true;
    onAuthorized();
  });
}

export function askForAuthorization(error) {
  if (!(error instanceof RefusedError) || error.status !== 401) return false;
  document.getElementById("auth").hidden = false;
  document.getElementById("auth-value").focus();
  return true;
}
