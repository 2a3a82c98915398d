// Renders /openapi.json as a page with a form per operation. No libraries, nothing from elsewhere; all text is set with
// textContent, so that a description can never become markup.
"use strict";

const METHODS = ["get", "post", "put", "delete"];

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  for (const child of children) made.append(child);
  return made;
}

function credentialsHeader() {
  const text = document.getElementById("credentials").value.trim();
  if (!text) return {};
  if (text.includes(":")) return { Authorization: "Basic " + btoa(String.fromCharCode(...new TextEncoder().encode(text))) };
  return { Authorization: "Bearer " + text };
}

function resolve(schema, description) {
  const seen = new Set();
  while (schema && schema.$ref && !seen.has(schema.$ref)) {
    seen.add(schema.$ref);
    schema = schema.$ref.split("/").slice(1).reduce((part, key) => (part ? part[key] : undefined), description);
  }
  return schema || {};
}

function example(schema, description, depth) {
  schema = resolve(schema, description);
  if (schema.example !== undefined) return schema.example;
  if (schema.examples && schema.examples.length) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const choice = (schema.anyOf || schema.oneOf || schema.allOf || [])[0];
  if (choice) return example(choice, description, depth);
  if (depth > 4) return null;
  if (schema.type === "object" || schema.properties) {
    const made = {};
    for (const name of schema.required || []) made[name] = example((schema.properties || {})[name], description, depth + 1);
    return made;
  }
  if (schema.type === "array") return [];
  return { string: "", integer: 0, number: 0, boolean: false }[schema.type] ?? null;
}

function parameterField(parameter, description) {
  const schema = resolve(parameter.schema, description);
  let input;
  if (schema.enum) {
    input = element("select", {});
    if (!parameter.required) input.append(element("option", { value: "" }, ""));
    for (const value of schema.enum) input.append(element("option", { value: String(value) }, String(value)));
  } else {
    input = element("input", { type: "text", placeholder: schema.default === undefined || schema.default === null ? "" : String(schema.default) });
  }
  const name = parameter.name + (parameter.required ? " *" : "");
  const hint = [parameter.in, schema.type || "", parameter.description || schema.description || ""].filter(Boolean).join(" · ");
  return { parameter, input, row: element("div", { class: "field" }, element("label", {}, name, element("small", {}, hint)), input) };
}

function bodyFields(operation, description) {
  const content = (operation.requestBody || {}).content || {};
  if (content["multipart/form-data"]) {
    const schema = resolve(content["multipart/form-data"].schema, description);
    const fields = Object.entries(schema.properties || {}).map(([name, property]) => {
      const isFile = property.format === "binary" || property.contentMediaType !== undefined;
      const input = element("input", { type: isFile ? "file" : "text" });
      return { name, input, isFile, row: element("div", { class: "field" }, element("label", {}, name), input) };
    });
    const read = () => {
      const form = new FormData();
      for (const field of fields) {
        if (field.isFile) for (const file of field.input.files) form.append(field.name, file);
        else if (field.input.value) form.append(field.name, field.input.value);
      }
      return { body: form, headers: {} };
    };
    return { rows: fields.map((field) => field.row), read };
  }
  const type = Object.keys(content)[0];
  if (!type) return { rows: [], read: () => ({ headers: {} }) };
  const area = element("textarea", { spellcheck: "false", "aria-label": "Body" });
  const sample = content[type].example ?? example(content[type].schema, description, 0);
  area.value = typeof sample === "string" ? sample : JSON.stringify(sample, null, 2);
  return { rows: [element("p", { class: "note" }, "Body, " + type), area], read: () => ({ body: area.value, headers: { "Content-Type": type } }) };
}

async function call(method, path, fields, body, output) {
  let url = path;
  const query = new URLSearchParams();
  const headers = { ...credentialsHeader() };
  for (const { parameter, input } of fields) {
    const value = input.value;
    if (parameter.in === "path") url = url.replace("{" + parameter.name + "}", encodeURIComponent(value));
    else if (value !== "" && parameter.in === "query") query.append(parameter.name, value);
    else if (value !== "" && parameter.in === "header") headers[parameter.name] = value;
  }
  if ([...query].length) url += "?" + query;
  const sent = body.read();
  const started = performance.now();
  output.replaceChildren(element("p", { class: "note" }, method.toUpperCase() + " " + url + " …"));
  try {
    const answer = await fetch(url, { method: method.toUpperCase(), headers: { ...sent.headers, ...headers }, body: method === "get" ? undefined : sent.body });
    const took = Math.round(performance.now() - started);
    let text = await answer.text();
    if ((answer.headers.get("content-type") || "").includes("json")) {
      try { text = JSON.stringify(JSON.parse(text), null, 2); } catch (problem) { text = text + "\n(not JSON: " + problem.message + ")"; }
    }
    const line = element("p", { class: answer.ok ? "note" : "note bad" }, method.toUpperCase() + " " + url + " → " + answer.status + " in " + took + " ms");
    output.replaceChildren(line, element("pre", {}, text.length > 200000 ? text.slice(0, 200000) + "\n…" : text));
  } catch (problem) {
    output.replaceChildren(element("p", { class: "note bad" }, method.toUpperCase() + " " + url + " failed: " + problem.message));
  }
}

function operationBlock(method, path, operation, description) {
  const head = element("summary", {}, element("span", { class: "method " + method }, method.toUpperCase()), element("span", { class: "path" }, path),
    element("span", {}, operation.summary || ""), element("span", { class: "right" }, operation["x-right"] || ""));
  const block = element("details", {}, head);
  block.addEventListener("toggle", () => {
    if (!block.open || block.dataset.built) return;
    block.dataset.built = "yes";
    const fields = (operation.parameters || []).map((parameter) => parameterField(parameter, description));
    const body = bodyFields(operation, description);
    const output = element("div", { "aria-live": "polite" });
    const panel = element("div", { class: "operation" });
    if (operation.description) panel.append(element("p", {}, operation.description));
    panel.append(...fields.map((field) => field.row), ...body.rows);
    panel.append(element("button", { type: "button", onclick: () => call(method, path, fields, body, output) }, "Try it"), output);
    block.append(panel);
  });
  return block;
}

function render(description) {
  document.title = description.info.title;
  document.getElementById("title").textContent = description.info.title + " " + description.info.version;
  const groups = new Map();
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const method of METHODS.filter((name) => operations[name])) {
      const tag = (operations[method].tags || [""])[0] || "Other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push({ text: (method + " " + path + " " + (operations[method].summary || "")).toLowerCase(), block: operationBlock(method, path, operations[method], description) });
    }
  }
  const sections = [...groups].map(([tag, entries]) => ({ entries, section: element("section", {}, element("h2", {}, tag), ...entries.map((entry) => entry.block)) }));
  document.getElementById("operations").replaceChildren(...sections.map((part) => part.section));
  document.getElementById("search").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const { entries, section } of sections) {
      for (const entry of entries) entry.block.hidden = !entry.text.includes(wanted);
      section.hidden = entries.every((entry) => entry.block.hidden);
    }
  });
}

fetch("/openapi.json").then((answer) => answer.json()).then(render).catch((problem) => {
  document.getElementById("operations").replaceChildren(element("p", { class: "note bad" }, "The description could not be loaded: " + problem.message));
});
