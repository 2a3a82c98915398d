// The landing page: one sentence about the cluster, its tables with their replicas, its instances.
import { askForAuthorization, clusterInfo, listInstances, listTables, tableExternalView, tableIdealState, wirePage } from "./api.js";
import { grid } from "./grid.js";

const $ = (id) => document.getElementById(id);

// Segments and replicas that should serve, and those that do, over both halves of a table.
function health(ideal, external) {
  const counts = { segments: 0, wanted: 0, serving: 0, errors: 0 };
  for (const half of ["OFFLINE", "REALTIME"]) {
    const actual = external[half] || {};
    for (const [segment, replicas] of Object.entries(ideal[half] || {})) {
      counts.segments += 1;
      for (const [instance, state] of Object.entries(replicas)) {
        if (state !== "ONLINE" && state !== "CONSUMING") continue;
        const found = (actual[segment] || {})[instance];
        counts.wanted += 1;
        if (found === state) counts.serving += 1;
        if (found === "ERROR") counts.errors += 1;
      }
    }
  }
  return counts;
}

async function describeTable(name) {
  const [ideal, external] = await Promise.all([tableIdealState(name), tableExternalView(name).catch(() => ({}))]);
  return { name, ...health(ideal, external) };
}

async function refresh() {
  try {
    const [info, { tables }, { instances }] = await Promise.all([clusterInfo(), listTables(), listInstances()]);
    const rows = await Promise.all(tables.slice(0, 200).map(describeTable));
    const unwell = rows.filter((row) => row.serving < row.wanted);
    const missing = unwell.reduce((sum, row) => sum + row.wanted - row.serving, 0);
    $("truth").textContent = tables.length === 0
      ? `Cluster ${info.clusterName} has no tables yet: POST /schemas, then POST /tables.`
      : unwell.length === 0
        ? `Cluster ${info.clusterName}: all ${tables.length} tables serve every replica.`
        : `Cluster ${info.clusterName}: ${unwell.length} of ${tables.length} tables miss ${missing} replicas (${unwell.slice(0, 3).map((row) => row.name).join(", ")}).`;
    $("tables").replaceChildren(grid(
      [["table", "STRING"], ["segments", "LONG"], ["replicas wanted", "LONG"], ["serving", "LONG"], ["in error", "LONG"]],
      rows.map((row) => [row.name, row.segments, row.wanted, row.serving, row.errors]),
    ));
    $("instances").replaceChildren(grid([["instance", "STRING"]], instances.map((name) => [name])));
  } catch (error) {
    askForAuthorization(error);
    $("truth").textContent = `The cluster cannot be read: ${error.message}`;
  }
}

wirePage(refresh);
refresh();
