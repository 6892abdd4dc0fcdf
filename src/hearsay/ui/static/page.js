// Which view is shown follows from the address: #plan, or #report/ and a run's path.

import { find } from "./dom.js";
import { planner } from "./planner.js";
import { fillSelects, ledger, playground, report, showLedger, showReport } from "./reading.js";
import { runs, starting, watch, whenRunsChange } from "./runs.js";

const VIEWS = ["runs", "plan", "play", "ledger", "report"];
let shownFor = "";
let planned = false; // the planner is made when it is first looked at

function place() {
  const [view, path] = location.hash.slice(1).split("/", 2);
  return [VIEWS.includes(view) ? view : "runs", path ? decodeURIComponent(path) : ""];
}

function show() {
  const [view, wanted] = place();
  for (const name of VIEWS) find(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `hearsay: ${find(`view-${view}`).querySelector("h1").textContent.toLowerCase()}`;
  if (view === "plan" && !planned) { planned = true; planner(); }
  fillSelects(view, wanted);
  shownFor = "";
  refresh();
}

// The ledger and the report are read again when another run is chosen, or when the chosen one has changed.
function refresh() {
  const [view, wanted] = place();
  fillSelects(view, wanted);
  if (view !== "ledger" && view !== "report") return;
  const chosen = find(`${view}-run`).value;
  const state = runs().find((run) => run.path === chosen)?.state;
  if (`${view} ${chosen} ${state}` === shownFor) return;
  shownFor = `${view} ${chosen} ${state}`;
  if (view === "ledger") showLedger();
  else showReport();
}

// The skip link must not change the address, which names the view.
document.querySelector(".skip").onclick = (event) => { event.preventDefault(); find("main").focus(); };
addEventListener("hashchange", () => { show(); find("main").focus({ preventScroll: true }); });
whenRunsChange(refresh);
starting();
playground();
ledger();
report();
watch();
show();
