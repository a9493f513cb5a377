const RIGHT = "✓"; // what the other system wrote, if it is right
const ABOUT_ERRORS = [
  "The system wrote → the reference: where they differ; ∅ is nothing, ␣ a space. ✓: what the other system wrote is right. "
    + "A search for either of these signs finds its sentences.",
  "Error: edits that turn what the system wrote into the reference, in percent of the reference's words, or of its symbols.",
  "A click on a sentence with an underlined number shows its weights above. An evaluation keeps those of the first 32 sentences "
    + "and of the first 64 others that the system wrote wrong.",
  "Log-probability per token: of what the system wrote, in nats; the nearer to 0, the surer was the system of its error.",
];
const ABOUT_CONFUSIONS = ["How often a symbol was written in place of another one, by the edits that error rates count; "
  + "∅ is nothing, ␣ a space. The example is the first one."];

/** What the systems of a data set write wrong, a table of the sentences and what they have in common. */
class Errors {
  constructor(data, splits, viewer, before = {}) {
    this.data = data;
    this.viewer = viewer;
    this.split = splits.find(({ name }) => name === before.split) ?? splits[0];
    const names = splits.map(({ name }) => [name, name]);
    const split = choice("Split", names, this.split.name, (name) => this.chooseSplit(splits.find((one) => one.name === name)));
    split.element.hidden = splits.length < 2;
    const chosen = () => this.show();
    this.systems = choice("Errors of", [], "", chosen);
    this.others = choice("Compared with", [], "", chosen);
    this.search = make("input", { type: "search", placeholder: "search", "aria-label": "Search the errors", value: before.query ?? "", oninput: chosen });
    this.count = make("p", { className: "notes", "aria-live": "polite" });
    this.items = make("div", { className: "items" });
    this.by = choice("Quality by", [], "", () => this.showQuality());
    this.quality = make("div", {});
    this.confusions = make("div", {});
    this.element = make("div", { className: "errors" },
      make("div", { className: "controls" }, split.element, this.systems.element, this.others.element, this.search,
        make("button", { type: "button", onclick: () => this.save() }, "Download as TSV")),
      this.count, this.items,
      make("div", { className: "beside" }, this.quality, this.confusions));
    this.fillChoices(before);
  }

  /** What the reader has chosen. */
  get choices() {
    return { split: this.split.name, query: this.search.value, system: this.systems.select.value, other: this.others.select.value,
      by: this.by.select.value };
  }

  chooseSplit(split) {
    this.split = split;
    this.fillChoices(this.choices);
    this.show();
  }

  fillChoices({ system, other, by }) {
    const names = this.split.systems.map(({ name }) => name), ways = this.split.quality.map(({ title }) => title);
    const known = (name, all, usual) => (all.includes(name) ? name : usual);
    const pairs = (all) => all.map((name) => [name, name]);
    fill(this.systems.select, pairs(names), known(system, names, names[0]));
    fill(this.others.select, [...pairs(names), [NONE, "none"]], known(other, [...names, NONE], names[1] ?? NONE));
    fill(this.by.select, pairs(ways), known(by, ways, ways[0] ?? ""));
    this.systems.element.hidden = names.length < 2 && !names[0];
    this.others.element.hidden = names.length < 2;
    this.by.element.hidden = ways.length < 2;
  }

  show() {
    const named = (name) => this.split.systems.find((one) => one.name === name);
    const system = named(this.systems.select.value), other = named(this.others.select.value);
    const { columns, items, sentences } = this.split;
    const beside = other && other !== system ? other : null;
    const heading = ["sentence", ...columns, "the system wrote", ...(beside ? ["the other wrote"] : []), "wrote → reference", "error %",
      "log-prob. per token"];
    const query = this.search.value.toLowerCase();
    const rows = system.rows.map(([nth, difference, error, confidence]) => [...items[nth].map(String), system.texts[nth],
      ...(beside ? [beside.texts[nth] ?? RIGHT] : []), difference, digits(error, 1), digits(confidence, 3)]);
    const found = rows.filter((row) => row.some((cell) => cell.toLowerCase().includes(query)));
    const seed = system.seed === null ? "" : ` (seed ${system.seed})`;
    const written = `${system.name}${seed} wrote ${system.wrong.toLocaleString("en")} of ${sentences.toLocaleString("en")} sentences wrong.`;
    const most = rows.length < system.wrong ? ` Here are the ${rows.length.toLocaleString("en")} with the most errors.` : "";
    this.count.textContent = written + most + (query ? ` ${found.length.toLocaleString("en")} of them have this.` : "");
    const sorted = this.table?.heading.join() === heading.join() ? this.table : {}; // which keeps its order
    const { name } = this.split, systems = [system.name, beside ? beside.name : NONE];
    this.table = new SortedTable({ title: "Wrong sentences", heading, rows: found, notes: ABOUT_ERRORS }, {
      title: "show what each token looks at", offers: (number) => this.viewer.has(name, Number(number)),
      chosen: (number) => this.viewer.open(name, { number: Number(number), systems }) });
    Object.assign(this.table, { column: sorted.column ?? null, ascending: sorted.ascending ?? true });
    this.items.replaceChildren(...(found.length ? [this.table.element] : []));
    this.table.show();
    this.showConfusions(system);
    this.showQuality();
  }

  showConfusions({ confusions }) {
    this.confusions.replaceChildren();
    if (!confusions?.length) return;
    const table = new SortedTable({ title: "Confusions", heading: ["wrote", "reference", "times", "example"], rows: confusions, notes: ABOUT_CONFUSIONS });
    this.confusions.append(table.element);
    table.show();
  }

  showQuality() {
    const told = this.split.quality.find(({ title }) => title === this.by.select.value);
    this.quality.replaceChildren();
    if (!told) return;
    const table = new SortedTable({ ...told, title: `${this.split.measure} by ${told.title}` });
    table.element.firstChild.after(this.by.element);
    this.quality.append(table.element);
    table.show();
  }

  /** Saves the rows that are found, in their order, as a file. */
  save() {
    const plain = (cell) => cell.replace(/[\t\r\n]+/g, " ").replace(/^−(?=\d)/, "-").replace(/^–$/, "");
    const lines = [this.table.heading, ...this.table.sorted()].map((row) => row.map(plain).join("\t") + "\n");
    const name = ["errors", this.data, this.split.name, this.systems.select.value].join("-").replace(/[^\p{L}\p{N}_.=-]+/gu, "-");
    const address = URL.createObjectURL(new Blob(lines, { type: "text/tab-separated-values" }));
    make("a", { href: address, download: `${name}.tsv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }
}
