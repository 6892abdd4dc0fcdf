// The list of runs, kept up to date by the server, and the dialog that starts one.

import { ask, el, find, several } from "./dom.js";

const LOOKS = { running: "accent", starting: "accent", finished: "good", stopped: "muted", failed: "warn" };
const shown = new Map(); // path -> [what was drawn, its element]
let latest = [];
const listeners = [];

export const runs = () => latest;
export const whenRunsChange = (listener) => listeners.push(listener);

export function watch() {
  const events = new EventSource("api/events");
  events.onmessage = (event) => receive(JSON.parse(event.data).runs);
  events.onerror = () => { find("runs-lead").textContent = "Not connected: the page's program has ended or is busy."; };
}

function receive(found) {
  latest = found;
  const going = found.filter((run) => run.state === "running" || run.state === "starting").length;
  find("runs-lead").textContent = found.length
    ? `${several(found.length, "run")}${going ? `, ${going} at work` : ""}.`
    : "No run here yet. The demo takes a few minutes and needs no data of yours.";
  find("find-row").hidden = found.length < 13;
  drawList();
  listeners.forEach((listener) => listener(found));
}

function drawList() {
  const list = find("runs");
  const wanted = find("find").value.toLowerCase();
  const rows = latest.filter((run) => `${run.name} ${run.corpus} ${run.state}`.toLowerCase().includes(wanted)).map((run) => {
    const key = JSON.stringify(run);
    const old = shown.get(run.path);
    if (old && old[0] === key) return old[1];
    const row = card(run, old?.[1]);
    shown.set(run.path, [key, row]);
    return row;
  });
  const same = rows.length === list.children.length && rows.every((row, n) => list.children[n] === row);
  if (!same) list.replaceChildren(...rows);
}

// A card that exists is filled anew, but keeps its element, so that the keyboard's place is not lost.
function card(run, old) {
  const row = old ?? el("li");
  const held = row.contains(document.activeElement) ? document.activeElement.textContent : null;
  const working = run.state === "running" || run.state === "starting";
  row.dataset.run = run.path;
  row.replaceChildren(
    el("h2", {}, run.name, " ", el("span", { className: `badge ${LOOKS[run.state]}` }, run.state)),
    actions(run, working),
    el("p", { className: "about" }, about(run)),
    ...(working ? [progress(run)] : []),
    ...(run.fault ? [el("p", { className: "fault warn" }, run.fault)] : []),
  );
  if (held) [...row.querySelectorAll("a, button")].find((one) => one.textContent === held)?.focus();
  return row;
}

function about(run) {
  const parts = [run.corpus, run.recipe, run.epsilon && `epsilon ${Number(run.epsilon)}`];
  if (run.gap !== null) parts.push(`${Math.round(100 * run.gap)}% of the gap closed`);
  if (run.changed) parts.push(new Date(1000 * run.changed).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }));
  return parts.filter(Boolean).join(" · ");
}

function progress(run) {
  const known = run.total > 0;
  const bar = el("progress", { max: known ? run.total : 1 });
  if (known) bar.value = run.done;
  bar.setAttribute("aria-label", `${run.name}: ${run.stage || "starting"}`);
  const part = known ? `, ${Math.round((100 * run.done) / run.total)}%` : "";
  return el("div", { className: "going" }, bar, el("span", { className: "muted small" }, `${run.stage || "starting"}${part}`));
}

function actions(run, working) {
  const to = (view) => `#${view}/${encodeURIComponent(run.path)}`;
  const say = (text) => ({ href: text[1], "aria-label": `${text[0]}: ${run.name}` });
  const parts = [];
  if (run.state === "finished") parts.push(el("a", say(["Report", to("report")]), "Report"));
  if (run.student) parts.push(el("a", say(["Try", to("play")]), "Try"));
  if (run.state === "finished") parts.push(el("a", say(["Ledger", to("ledger")]), "Ledger"));
  if (working) parts.push(button("Stop", "quiet", run, "api/stop"));
  if (run.state === "stopped" || (run.state === "failed" && run.corpus)) parts.push(button("Continue", "", run, "api/resume"));
  return el("div", { className: "acts" }, ...parts);
}

function button(text, look, run, path) {
  const made = el("button", { type: "button", className: look, "aria-label": `${text}: ${run.name}` }, text);
  made.onclick = async () => {
    made.disabled = true;
    try {
      await ask(path, { run: run.path });
    } catch (error) {
      find("runs-lead").textContent = error.message;
      made.disabled = false;
    }
  };
  return made;
}

export function starting() {
  const dialog = find("dialog");
  find("find").oninput = drawList;
  find("new-run").onclick = async () => {
    find("start-fault").textContent = "";
    find("start-name").value = freeName("demo");
    dialog.showModal();
    if (!find("start-text").value) find("start-text").value = (await ask("api/example")).config;
  };
  find("start-cancel").onclick = () => dialog.close();
  for (const choice of document.querySelectorAll("[name=kind]")) {
    choice.onchange = () => {
      find("start-demo").hidden = choice.value !== "demo";
      find("start-config").hidden = choice.value === "demo";
      find("start-name").value = freeName(choice.value === "demo" ? "demo" : "mine");
    };
  }
  find("start-file").onchange = async (event) => {
    const file = event.target.files[0];
    if (file) find("start-text").value = await file.text();
  };
  find("start").onsubmit = submit;
}

async function submit(event) {
  event.preventDefault();
  const name = find("start-name").value.trim();
  const demo = document.querySelector("[name=kind]:checked").value === "demo";
  try {
    if (demo) await ask("api/demo", { name, seed: Number(find("start-seed").value) });
    else await ask("api/run", { name, config: find("start-text").value, anyway: find("start-anyway").checked });
    find("dialog").close();
    find("runs-lead").textContent = `${name} is starting.`;
  } catch (error) {
    find("start-fault").textContent = error.message;
  }
}

function freeName(stem) {
  const taken = new Set(latest.map((run) => run.name));
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? stem : `${stem}-${number}`;
    if (!taken.has(name)) return name;
  }
}
