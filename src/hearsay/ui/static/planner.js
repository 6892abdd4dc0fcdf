// The planner: every slider asks the server's plan, which is the same as `hearsay plan`, and redraws the answer.

import { ask, draw, el, find, plain, query } from "./dom.js";

const KNOBS = [
  { name: "epsilon", label: "Epsilon: the corpus's whole budget", low: 0.1, high: 20, value: 3, digits: 2 },
  { name: "units", label: "People (units) in the corpus", low: 50, high: 1e6, value: 5000, digits: 2 },
  { name: "sentences", label: "Sentences in the corpus", low: 100, high: 1e7, value: 60000, digits: 2 },
  { name: "teachers", label: "Teachers", low: 10, high: 10000, value: 500, digits: 2 },
  { name: "rounds", label: "Rounds (updates want some 60)", low: 1, high: 100, value: 1, even: true },
  { name: "questions", label: "Questions in a round", low: 100, high: 1e5, value: 6000, digits: 2 },
];
const STEPS = 1000;
let waiting = null;
let turn = 0;

export async function planner() {
  const form = find("plan");
  form.onsubmit = (event) => event.preventDefault();
  form.append(...KNOBS.map(knob));
  const { recipes } = await ask("api/recipes");
  form.append(pick(recipes));
  form.addEventListener("input", soon);
  await show();
}

// A slider for the hand, a field for the exact number; both say the same.
function knob(one) {
  const slider = el("input", { type: "range", min: 0, max: one.even ? one.high - one.low : STEPS, id: `knob-${one.name}` });
  const field = el("input", { type: "number", min: 0, step: "any", id: `field-${one.name}`, name: one.name, value: one.value, "aria-label": `${one.label}, as a number` });
  const tell = () => { slider.value = place(one, Number(field.value)); slider.setAttribute("aria-valuetext", plain(Number(field.value))); };
  slider.oninput = () => { field.value = value(one, Number(slider.value)); slider.setAttribute("aria-valuetext", plain(Number(field.value))); };
  field.oninput = tell;
  tell();
  return el("div", { className: "knob" }, el("label", { htmlFor: slider.id }, one.label), slider, field);
}

function value(one, at) {
  if (one.even) return one.low + at;
  const exact = one.low * (one.high / one.low) ** (at / STEPS);
  return Number(exact.toPrecision(one.digits));
}

function place(one, number) {
  if (one.even) return number - one.low;
  return Math.round((STEPS * Math.log(Math.max(number, one.low) / one.low)) / Math.log(one.high / one.low));
}

function pick(recipes) {
  const choices = recipes.map((one) => el("label", {}, el("input", { type: "radio", name: "recipe", value: one.name, checked: one.default }), one.name));
  return el("fieldset", { className: "pick" }, el("legend", {}, "Recipe"), ...choices);
}

function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(show, 60);
}

async function show() {
  const chosen = Object.fromEntries(new FormData(find("plan")));
  const mine = (turn += 1);
  let made;
  try {
    made = await ask(`api/plan?${query(chosen)}`);
  } catch (error) {
    made = { feasible: false, why: error.message, warnings: [] };
  }
  if (mine !== turn) return; // a later choice was faster
  find("plan-result").replaceChildren(...result(made));
  find("plan-command").textContent = made.command ?? "";
  if (made.picture) draw(find("plan-figure"), `plan.svg?${query(chosen)}`);
  else find("plan-figure").hidden = true;
}

function result(made) {
  const head = el("p", { className: `verdict ${made.feasible ? "good" : "warn"}` }, made.feasible ? "✓ This can work" : "✗ This cannot work");
  const why = el("p", { id: "plan-why" }, sentence(made.why));
  const facts = [
    ["noise on the sum", made.noise_std_sum], ["noise on the mean", made.noise_std_mean],
    ["effective tokens", made.effective_tokens], ["sentences a teacher", made.sentences_per_teacher],
    ["sensitivity", made.sensitivity], ["noise of the whole run, in clips", made.noise_over_clip],
  ].filter(([, number]) => typeof number === "number").map(([name, number]) => [name, plain(number)]);
  if (made.odds) facts.push(["best guess about one person", `right at most ${made.odds}% of the time`]);
  if (made.suits) facts.push(["suits this corpus", made.suits]);
  const list = el("dl", { className: "facts" }, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  return [head, why, list, ...made.warnings.map((text) => el("p", { className: "warn small" }, sentence(text)))];
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
