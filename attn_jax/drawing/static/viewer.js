/** What sentences can be sorted by: title, unit and digits; largest first but for confidence. */
const MEASURES = {
  error: ["error", "\u00a0%", 0],
  confidence: ["log-probability per token", "", 2],
  entropy: ["entropy", "\u00a0nats", 2],
  coverage: ["coverage", "\u00a0%", 0],
  missed: ["gold links missed", "\u00a0%", 0],
  astray: ["gold links missed on the reference", "\u00a0%", 0],
};
const ASCENDING = ["confidence", "coverage"];
const VIEWS = [["lines", "Lines"], ["matrix", "Matrix"], ["bars", "Bars"]];
const NONE = "none"; // the second system, if there is only one
const KEYS = [
  ["n, p", "next and previous sentence"],
  ["l, m, b", "lines, matrix, bars"],
  ["/", "search"],
  ["↑ ↓ ← →", "move among tokens, and between source and target"],
  ["Enter", "pin a token; Escape frees it"],
  ["t", "light or dark"],
];

/** Chooses a sentence and one or two systems, and shows what they attend to. */
class Viewer {
  constructor(splits, before = {}) {
    this.splits = splits;
    this.split = splits.find(({ name }) => name === before.split) ?? splits[0];
    this.view = before.view ?? "lines";
    this.order = before.order ?? "given";
    this.panels = ["A", "B"].map((name, nth) =>
      new Panel(name, (change) => this.changeSystem(nth, change), before.panels?.[nth]));
    this.element = make("div", { className: "viewer" });
    this.build();
    this.search.value = before.query ?? "";
    this.chooseSplit(this.split, before);
  }

  /** What the reader has chosen. */
  get choices() {
    return { split: this.split.name, view: this.view, order: this.order, query: this.search.value, systems: this.chosen,
      number: this.split.sentences[this.place].number, panels: this.panels.map(({ choices }) => choices) };
  }

  build() {
    const split = choice("Split", this.splits.map(({ name }) => [name, name]), this.split.name, (name) =>
      this.chooseSplit(this.splits.find((one) => one.name === name)));
    split.element.hidden = this.splits.length < 2;
    this.search = make("input", { type: "search", placeholder: "search", "aria-label": "Search the sentences", oninput: () => this.list() });
    this.sorting = choice("Sort by", [], "given", (order) => {
      this.order = order;
      this.list();
    });
    this.items = make("ol", { className: "sentences", "aria-label": "Sentences", onkeydown: (event) => this.listKey(event) });
    this.views = switches("View", VIEWS, this.view, (view) => this.changeView(view));
    this.texts = make("dl", { className: "texts" });
    this.legend = make("div", { className: "legend" });
    const keys = KEYS.map(([key, does]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, does)]);
    this.element.replaceChildren(
      make("aside", {}, split.element, this.search, this.sorting.element, this.items),
      make("div", { className: "shown" },
        this.texts,
        make("div", { className: "bar-of-views" }, this.views.element, this.legend,
          make("p", { className: "hint notes" }, "Point at a token, or go to it with the arrow keys; click or Enter pins it.")),
        make("div", { className: "panels" }, this.panels.map(({ element }) => element)),
        make("details", { className: "keys" }, make("summary", {}, "Keys and marks"),
          make("dl", {}, keys), make("p", {}, MARKS))));
  }

  /** Whether the page shows a sentence of a split. */
  has(split, number) {
    return this.splits.some(({ name, sentences }) => name === split && sentences.some((one) => one.number === number));
  }

  /** Shows a sentence under some systems. */
  open(split, asked) {
    this.chooseSplit(this.splits.find(({ name }) => name === split), asked);
    this.element.scrollIntoView();
  }

  chooseSplit(split, before = {}) {
    this.split = split;
    this.place = Math.max(0, split.sentences.findIndex(({ number }) => number === before.number));
    const names = split.systems.map(({ name }) => name);
    const usual = [names[0], names.length > 1 ? names[1] : NONE];
    this.chosen = usual.map((name, nth) => (names.includes(before.systems?.[nth]) || before.systems?.[nth] === NONE
      ? before.systems[nth] : name));
    const choices = names.map((name) => [name, name]);
    fill(this.panels[0].system.select, choices, this.chosen[0]);
    fill(this.panels[1].system.select, [...choices, [NONE, "none"]], this.chosen[1]);
    const known = Object.keys(MEASURES).filter((name) => split.systems.some(({ sentences }) =>
      sentences.some((sentence) => sentence[name] !== undefined && sentence[name] !== null)));
    const orders = known.map((name) => [name, `${MEASURES[name][0]} of A`]);
    orders.unshift(["given", names.length > 1 && known.includes("error") ? "difference in errors" : "as given"]);
    if (names.length > 1) orders.push(["disagreement", "disagreement of A and B"]);
    if (!orders.some(([name]) => name === this.order)) this.order = "given";
    fill(this.sorting.select, orders, this.order);
    this.element.querySelector("aside").hidden = split.sentences.length < 2;
    this.element.classList.toggle("single", split.sentences.length < 2);
    this.panels[0].system.element.hidden = names.length < 2 && !names[0];
    this.list();
    this.show();
  }

  system(nth) {
    return this.split.systems.find(({ name }) => name === this.chosen[nth]);
  }

  changeSystem(nth, { system }) {
    if (system !== undefined) this.chosen[nth] = system;
    this.list();
    this.show();
  }

  changeView(view) {
    this.view = view;
    this.views.set(view);
    this.show();
  }

  /** The sentences that the search finds, in order. */
  async list() {
    const query = this.search.value.toLowerCase();
    const own = this.system(0), other = this.system(1);
    const order = this.order;
    const values = await Promise.all(this.split.sentences.map((_, nth) => {
      if (order === "given") return null;
      if (order === "disagreement") return other ? disagreement(own, other, nth) : null;
      return own.sentences[nth][order] ?? null;
    }));
    if (order !== this.order || query !== this.search.value.toLowerCase()) return; // of an earlier choice
    const sign = ASCENDING.includes(order) ? 1 : -1;
    const texts = ({ source, target, reference }, nth) => [source, target, reference, own.sentences[nth].target.join(" ")].join("\n").toLowerCase();
    this.found = this.split.sentences.map((_, nth) => nth)
      .filter((nth) => texts(this.split.sentences[nth], nth).includes(query))
      .sort((one, two) => (values[one] === null) - (values[two] === null) || sign * (values[one] - values[two]));
    const unit = MEASURES[order]?.[1] ?? "\u00a0%", count = MEASURES[order]?.[2] ?? 0;
    this.items.replaceChildren(...this.found.map((nth) => make("li", {},
      make("button", { type: "button", "data-nth": String(nth), onclick: () => this.choose(nth) },
        make("span", { className: "nth" }, String(this.split.sentences[nth].number)),
        make("bdi", { className: "text" }, this.split.sentences[nth].source),
        values[nth] === null ? null : make("span", { className: "value" }, digits(values[nth], count) + unit)))));
    if (!this.found.length) this.items.replaceChildren(make("li", { className: "notes" }, "no sentence has this"));
    this.mark();
  }

  listKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.step(step);
    this.items.querySelector("[aria-current=true]")?.focus();
  }

  step(by) {
    if (!this.found?.length) return;
    const at = this.found.indexOf(this.place);
    const next = at < 0 ? 0 : Math.max(0, Math.min(this.found.length - 1, at + by));
    this.choose(this.found[next]);
  }

  choose(nth) {
    this.place = nth;
    this.mark();
    this.show();
  }

  mark() {
    for (const button of this.items.querySelectorAll("button")) {
      const current = Number(button.dataset.nth) === this.place;
      button.setAttribute("aria-current", String(current));
      if (current) {
        const top = button.offsetTop - this.items.offsetTop;
        if (top < this.items.scrollTop || top + button.offsetHeight > this.items.scrollTop + this.items.clientHeight) {
          this.items.scrollTop = top - this.items.clientHeight / 2;
        }
      }
    }
  }

  /** Draws everything anew. */
  show() {
    const { source, target, reference } = this.split.sentences[this.place];
    const texts = Object.entries({ source, target, reference }).filter(([, text]) => text !== undefined && text !== null);
    this.texts.replaceChildren(...texts.flatMap(([name, text]) =>
      [make("dt", {}, name), make("dd", { className: "text", dir: "auto" }, text)]));
    this.legend.replaceChildren(...(this.view === "bars" ? [] : [scaleLegend()]));
    this.panels[1].element.hidden = this.split.systems.length < 2;
    this.element.classList.toggle("two", this.chosen[1] !== NONE);
    this.element.classList.toggle("stacked", this.isWide());
    this.panels.forEach((panel, nth) => {
      const system = this.system(nth);
      panel.element.classList.toggle("empty", !system);
      if (system) panel.show(system, system.sentences[this.place], this.view);
    });
  }

  /** Whether a matrix is too wide for two of them side by side. */
  isWide() {
    const known = [0, 1].map((nth) => this.system(nth)?.sentences[this.place]);
    const longest = Math.max(...known.map((one, nth) => (one ? this.panels[nth].chosen(one).source.length : 0)));
    return this.view !== "lines" && longest * NARROWEST + BESIDE > this.element.querySelector(".shown").clientWidth / 2 - 12;
  }

  /** Keys that work wherever the focus is, but for fields. */
  key(event) {
    const views = { l: "lines", m: "matrix", b: "bars" };
    if (event.key === "n") this.step(1);
    else if (event.key === "p") this.step(-1);
    else if (event.key in views) this.changeView(views[event.key]);
    else if (event.key === "/") this.search.focus();
    else return false;
    return true;
  }
}

const MARKS = "A darker shade is a larger weight (its square root, so that small ones are seen); weights are rounded to 8 bits. "
  + "Orange is a negative weight, as mixed heads may give; weights above 1 are shaded as 1. "
  + "A wavy line is under a token that is wrong or too many; a bar stands where tokens are missing, by the edits that error rates count. "
  + "Gold links, where known, are dotted green lines or green frames. "
  + "In the self-attention of a decoder, each step is named by the token that it writes: it has read the start <s> and the tokens before this one.";
