// A few functions that every view uses. Text always enters as text, never as markup.

export const find = (id) => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

// Every address is relative, so that it keeps the token of the one the page was opened with.
export async function ask(path, body) {
  const given = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, given);
  } catch {
    throw new Error("The page's program has ended; start it again with: hearsay ui");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

export const query = (values) => new URLSearchParams(values).toString();

export function plain(value) {
  if (value >= 1e6) return `${(value / 1e6).toLocaleString("en", { maximumSignificantDigits: 3 })} million`;
  return value.toLocaleString("en", value >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
}

export const several = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

export const small = (value) => (value < 1e-3 ? value.toExponential().replace("e-0", "e-") : String(value));

// Shows a picture once it is loaded: no flicker between two.
export function draw(figure, address) {
  const next = new Image();
  next.onload = () => {
    const image = figure.querySelector("img");
    image.src = next.src;
    figure.hidden = false;
  };
  next.src = address;
}

export function options(select, runs, wanted) {
  const names = runs.map((run) => run.path).join("\n");
  if (select.dataset.names !== names) {
    select.dataset.names = names;
    const kept = select.value;
    select.replaceChildren(...runs.map((run) => el("option", { value: run.path }, run.name)));
    if (runs.some((run) => run.path === kept)) select.value = kept;
  }
  if (wanted && runs.some((run) => run.path === wanted)) select.value = wanted;
}
