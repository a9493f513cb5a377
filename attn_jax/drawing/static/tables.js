/** The size of a cell for sorting: its first number, or nothing. */
function sizeOf(cell) {
  if (cell.startsWith("<")) return 0;
  const found = cell.replaceAll(",", "").replaceAll("−", "-").match(/[-+]?\d+(\.\d+)?|inf/);
  if (!found) return null;
  return found[0] === "inf" ? Infinity : Number(found[0]);
}

/** Whether a column holds figures, as `printing.is_figure` says. */
function isFigure(cells) {
  return cells.every((cell) => !/\p{L}/u.test(cell.replace(/\b(to|inf)\b/g, "")));
}

function pText(p) {
  if (p === null) return "–";
  return p < 0.0005 ? "<0.001" : p.toFixed(3);
}

function signed(value) {
  return (value > 0 ? "+" : "") + digits(value, 2);
}

/**
 * A table that is sorted by its headings. Rows can be chosen by their names, those that `pick.offers`:
 * `pick.chosen` is called with the name of one that is clicked, and `pick.title` says what that does.
 */
class SortedTable {
  constructor({ title, heading, rows, notes }, pick = null) {
    Object.assign(this, { title, heading, rows, pick, column: null, ascending: true });
    this.table = make("table", {});
    this.element = make("div", { className: "table" }, make("h3", {}, title),
      make("div", { className: "scrolled", tabIndex: 0, role: "region", "aria-label": title }, this.table),
      notes.length ? make("details", { className: "notes" }, make("summary", {}, "What the columns say"),
        notes.map((note) => make("p", {}, note))) : null);
  }

  show(baseline = null) {
    this.baseline = baseline;
    const figures = this.heading.map((_, nth) => nth > 0 && this.isFigure(nth));
    const head = this.heading.map((text, nth) => {
      const order = nth === this.column ? (this.ascending ? "ascending" : "descending") : null;
      return make("th", { scope: "col", className: figures[nth] ? "figure" : "", "aria-sort": order },
        make("button", { type: "button", onclick: () => this.sort(nth) }, text));
    });
    const body = this.sorted().map((row) => {
      const name = row[0];
      const cells = row.slice(1).map((cell, nth) => make("td", figures[nth + 1] ? { className: "figure" } : { dir: "auto" }, cell));
      const offered = this.pick?.offers(name);
      const pressed = baseline === null ? null : String(name === baseline);
      const label = offered ? make("button", { type: "button", "aria-pressed": pressed, title: this.pick.title }, name) : name;
      const line = make("tr", { className: name === baseline ? "baseline" : "" }, make("th", { scope: "row" }, label), cells);
      if (offered) line.addEventListener("click", () => this.pick.chosen(name));
      return line;
    });
    const focused = this.table.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.table.replaceChildren(make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
    if (focused !== null) [...this.table.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
  }

  isFigure(column) {
    return isFigure(this.rows.map((row) => row[column]));
  }

  sort(column) {
    this.ascending = this.column === column ? !this.ascending : column === 0 || !this.isFigure(column);
    this.column = column;
    this.show(this.baseline);
  }

  /** The rows by the chosen column, of figures or of texts; those without a figure are last. */
  sorted() {
    if (this.column === null) return this.rows;
    const sign = this.ascending ? 1 : -1;
    const { column } = this;
    if (!this.isFigure(column)) return this.rows.toSorted((one, two) => sign * one[column].localeCompare(two[column]));
    const sizes = new Map(this.rows.map((row) => [row, sizeOf(row[column])]));
    return this.rows.toSorted((one, two) => {
      const [left, right] = [sizes.get(one), sizes.get(two)];
      if (left === null || right === null) return (left === null) - (right === null);
      return left === right ? 0 : sign * (left < right ? -1 : 1);
    });
  }
}

/** All tables of a comparison, and the baseline that quality is compared with. */
class Tables {
  constructor(comparison, before = {}) {
    this.comparison = comparison;
    this.baseline = comparison.systems.find((name) => name === before.baseline) ?? comparison.systems[comparison.baseline];
    const known = comparison.differences ?? [];
    this.differences = known.find(({ metric }) => metric === before.metric) ?? known[0];
    this.metric = choice("Compare by", known.map(({ metric }) => [metric, metric]), this.differences?.metric ?? "", (metric) => this.compareBy(metric));
    this.metric.element.hidden = known.length < 2;
    const [quality, ...others] = comparison.tables;
    this.plain = quality;
    this.quality = new SortedTable(quality, comparison.differences && {
      title: "compare the others with this one", offers: () => true, chosen: (name) => this.compareWith(name) });
    this.forest = comparison.forest && new Forest(comparison.forest, (name) => this.compareWith(name));
    this.others = others.map((table) => new SortedTable(table));
    this.hint = make("p", { className: "notes", hidden: !comparison.differences, "aria-live": "polite" });
    const warnings = comparison.cautions.map((text) => make("li", {}, text));
    this.element = make("div", { className: "tables" },
      comparison.answer.length ? make("p", { className: "answer" }, comparison.answer.join(" ")) : null,
      warnings.length ? make("ul", { className: "cautions", "aria-label": "What to be careful about" }, warnings) : null,
      this.metric.element, this.hint, this.quality.element, this.forest?.element, this.others.map(({ element }) => element),
      make("details", { className: "notes" }, make("summary", {}, "How this was made"),
        comparison.about.map((text) => make("p", {}, text))));
  }

  /** What the reader has chosen. */
  get choices() {
    return { baseline: this.baseline, metric: this.differences?.metric };
  }

  compareBy(metric) {
    this.differences = this.comparison.differences.find((one) => one.metric === metric);
    this.compareWith(this.baseline);
  }

  show() {
    this.compareWith(this.baseline);
    for (const table of this.others) table.show();
  }

  /** Puts the differences from a system after its rank. */
  compareWith(baseline) {
    const { systems } = this.comparison;
    const differences = this.differences;
    this.baseline = baseline;
    if (differences) {
      const own = systems.indexOf(baseline);
      const value = (name, row) => differences[name][own][systems.indexOf(row[0])];
      const columns = [`Δ ${differences.metric}`, "95 % of Δ", "p", "p Holm"];
      const cells = (row) => {
        if (row[0] === baseline) return ["–", "", "", ""];
        const low = value("low", row), holm = value("holm", row);
        return [signed(value("difference", row)), low === null ? "–" : `${signed(low)} to ${signed(value("high", row))}`,
          pText(value("p", row)), pText(holm) + (holm !== null && holm < 0.05 ? " *" : "")];
      };
      const at = this.plain.heading.indexOf("rank") + 1;
      this.quality.heading = this.plain.heading.toSpliced(at, 0, ...columns);
      this.quality.rows = this.plain.rows.map((row) => row.toSpliced(at, 0, ...cells(row)));
    }
    this.quality.show(differences ? baseline : null);
    this.forest?.show(baseline);
    if (!differences) return;
    this.hint.replaceChildren("Δ is the difference from ", make("strong", {}, baseline),
      ` in ${differences.metric}, where ${differences.better} is better; click a system to compare with it. * marks p Holm < 0.05.`);
  }
}
