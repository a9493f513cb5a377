/** Light or dark, as the system says until the reader chooses. */
function switchTheme() {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  redraw();
}

let parts = []; // what is shown, and has to be drawn anew in another theme or size

function redraw() {
  for (const part of parts) part.show();
}

function showSet(set, place) {
  const tables = set.comparison && new Tables(set.comparison);
  const curves = set.charts.length ? new Curves(set.charts, set.comparison) : null;
  const viewer = set.splits.length ? new Viewer(set.splits) : null;
  const drawn = [
    tables && section("comparison", "Comparison", tables.element),
    curves && section("curves", "Curves", curves.element),
    viewer && section("alignments", tables && "What each token looks at", viewer.element),
  ];
  place.replaceChildren(...drawn.filter((part) => part));
  parts = [tables, curves, viewer].filter((part) => part);
  redraw();
}

function section(id, title, ...children) {
  return make("section", { id, className: "part" }, title && make("h2", {}, title), children);
}

async function main() {
  const data = await readData();
  const page = document.getElementById("page");
  const place = make("div", {});
  const chosen = choice("Data set", data.sets.map((set, nth) => [String(nth), set.name]), "0", (nth) => showSet(data.sets[nth], place));
  chosen.element.hidden = data.sets.length < 2;
  page.replaceChildren(
    make("header", {}, make("h1", {}, data.title), chosen.element,
      make("button", { type: "button", className: "theme", onclick: switchTheme, title: "key t" }, "Light / dark")),
    place,
    make("footer", { hidden: !data.notes.length }, data.notes.map((note) => make("p", {}, note))));
  showSet(data.sets[0], place);
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
  document.documentElement.dataset.ready = "";
}

main();
