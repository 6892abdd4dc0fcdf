// Playground, ledger and report: three ways to look at one run.

import { ask, draw, el, find, options, query, several, small } from "./dom.js";
import { runs } from "./runs.js";

const charged = () => runs().filter((run) => run.state === "finished" || run.corpus);

export function fillSelects(view, wanted) {
  options(find("play-run"), runs().filter((run) => run.student), view === "play" ? wanted : null);
  options(find("ledger-run"), charged(), view === "ledger" ? wanted : null);
  options(find("report-run"), runs().filter((run) => run.state === "finished"), view === "report" ? wanted : null);
}

export function playground() {
  find("play").onsubmit = async (event) => {
    event.preventDefault();
    const [note, go] = [find("play-note"), find("play-go")];
    const prefix = find("play-prefix").value;
    if (!find("play-run").value) { note.textContent = "No run has a finished student yet."; return; }
    note.textContent = "Thinking… (the first time, the models are loaded)";
    go.disabled = true;
    try {
      const prompt = { prefix, tokens: Number(find("play-tokens").value), temperature: Number(find("play-temperature").value), seed: Number(find("play-seed").value) };
      const made = await ask("api/complete", { run: find("play-run").value, prompt });
      for (const side of ["public", "student"]) find(`play-${side}`).replaceChildren(el("span", {}, prefix), made[side]);
      find("play-sides").hidden = false;
      note.textContent = `Done in ${made.seconds} s. Another seed gives another text.`;
    } catch (error) {
      note.textContent = error.message;
    }
    go.disabled = false;
  };
}

export async function showLedger() {
  const run = find("ledger-run").value;
  find("verdict").replaceChildren();
  if (!run) {
    find("ledger-lead").textContent = "No run has been charged yet.";
    find("verify-row").hidden = find("charges").hidden = true;
    return;
  }
  try {
    const book = await ask(`api/ledger?${query({ run })}`);
    find("verify-row").hidden = find("ledger-figure").hidden = Boolean(book.none);
    find("charges").hidden = book.charges.length === 0;
    if (book.none) { find("ledger-lead").textContent = book.none; return; }
    find("ledger-lead").textContent = `Corpus ${book.corpus}: epsilon ${Number(book.epsilon.toPrecision(4))} of ${book.budget} spent at delta ${small(book.delta)}. A 50:50 guess about one person is right at most ${book.odds}% of the time.${book.research ? " Research ledger." : ""}`;
    draw(find("ledger-figure"), `budget.svg?${query({ run })}`);
    find("charges").tBodies[0].replaceChildren(...book.charges.map(charge));
  } catch (error) {
    find("ledger-lead").textContent = error.message;
    find("ledger-figure").hidden = find("charges").hidden = find("verify-row").hidden = true;
  }
}

function charge(one) {
  const number = (text) => el("td", { className: "n" }, text);
  return el("tr", {}, number(String(one.row)), el("td", { className: "mono" }, one.run + (one.mine ? " (this run)" : "")), el("td", {}, one.purpose),
    number(one.questions.toLocaleString("en")), number(`${(100 * one.share).toFixed(2)}%`));
}

export function ledger() {
  find("ledger-run").onchange = () => { location.hash = `#ledger/${encodeURIComponent(find("ledger-run").value)}`; };
  find("verify").onclick = async () => {
    const place = find("verdict");
    place.replaceChildren(el("p", { className: "muted" }, "Recomputing…"));
    find("verify").disabled = true;
    try {
      place.replaceChildren(...verdict(await ask("api/verify", { run: find("ledger-run").value })));
    } catch (error) {
      place.replaceChildren(el("p", { className: "warn" }, error.message));
    }
    find("verify").disabled = false;
  };
}

function verdict(found) {
  const second = found.second_opinion;
  const head = el("p", { className: `verdict ${found.ok ? "good" : "warn"}` }, found.ok ? "✓ PASS" : "✗ FAIL");
  const lines = [
    `Epsilon ${found.epsilon.toPrecision(6)} of ${found.budget_epsilon} at delta ${small(found.delta)}; the second accountant (${second.accountant}) finds ${second.epsilon.toPrecision(6)}.`,
    `${several(found.charges, "charge")}, ${several(found.answers, "answer")}, ${several(found.runs, "run")}, chain ${found.chain}.`,
    ...found.problems,
    ...found.unchecked.map((folder) => `The run directory ${folder} is not at hand, so its head was not compared.`),
  ];
  return [head, ...lines.map((text) => el("p", {}, text))];
}

export function report() {
  find("report-run").onchange = () => { location.hash = `#report/${encodeURIComponent(find("report-run").value)}`; };
  find("report-shareable").onchange = showReport;
}

export function showReport() {
  const run = find("report-run").value;
  const [frame, tab] = [find("report-frame"), find("report-tab")];
  frame.hidden = tab.hidden = !run;
  find("report-none").hidden = Boolean(run);
  if (!run) return;
  const address = `report?${query({ run, shareable: find("report-shareable").checked })}`;
  tab.href = address;
  if (frame.getAttribute("src") !== address) frame.src = address;
}
