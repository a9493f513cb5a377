/** Light or dark, as the system says until the reader chooses. */
function switchTheme() {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  redraw();
}

let parts = []; // what is shown, and has to be drawn anew in another theme or size

function redraw() {
  for (const part of parts) part.show();
}

function showSet(set, place, before = {}) {
  const tables = set.comparison && new Tables(set.comparison, before.Tables);
  const curves = set.charts.length ? new Curves(set.charts, set.comparison, before.Curves) : null;
  const viewer = set.splits.length ? new Viewer(set.splits, before.Viewer) : null;
  const errors = set.errors.length ? new Errors(set.name, set.errors, viewer, before.Errors) : null;
  const drawn = [
    tables && section("comparison", "Comparison", tables.element),
    curves && section("curves", "Curves", curves.element),
    viewer && section("alignments", tables && "What each token looks at", viewer.element),
    errors && section("errors", "Errors", errors.element),
  ];
  place.replaceChildren(...drawn.filter((part) => part));
  parts = [tables, curves, viewer, errors].filter((part) => part);
  redraw();
}

function section(id, title, ...children) {
  return make("section", { id, className: "part" }, title && make("h2", {}, title), children);
}

async function main() {
  const data = await readData();
  const page = document.getElementById("page");
  const place = make("div", {});
  const before = history.state ?? choicesOf(location.hash);
  if (before.theme) document.documentElement.dataset.theme = before.theme;
  const first = data.sets.find(({ name }) => name === before.set) ?? data.sets[0];
  const names = data.sets.map(({ name }) => [name, name]);
  const chosen = choice("Data set", names, first.name, (own) => showSet(data.sets.find(({ name }) => name === own), place));
  chosen.element.hidden = data.sets.length < 2;
  page.replaceChildren(
    make("header", {}, make("h1", {}, data.title), chosen.element,
      make("button", { type: "button", className: "theme", onclick: switchTheme, title: "key t" }, "Light / dark")),
    data.live ? make("p", { className: "live notes" }, `${data.live.told}. This page loads itself anew.`) : "",
    place,
    make("footer", { hidden: !data.notes.length }, data.notes.map((note) => make("p", {}, note))));
  showSet(first, place, before.parts);
  const keep = keepChoices(() => ({
    theme: document.documentElement.dataset.theme,
    set: chosen.select.value,
    parts: Object.fromEntries(parts.map((part) => [part.constructor.name, part.choices])),
    top: scrollY,
  }));
  if (data.live) reloadAfter(data.live.seconds, keep);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const known = event.key === "t" ? (switchTheme(), true) : parts.some((part) => part.key?.(event));
    if (known) event.preventDefault();
  });
  for (const query of [printing, dark, wide]) query.addEventListener("change", redraw);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) redraw();
    width = innerWidth;
  });
  scrollTo({ top: before.top ?? 0, behavior: "instant" });
  if (before.parts && before.top === undefined) document.getElementById("alignments")?.scrollIntoView();
  document.documentElement.dataset.ready = "";
}

main();
