/** Final scores with their intervals, a row for each system. `chosen` is called with the name of a row that is clicked. */
class Forest {
  constructor({ title, about, low, high, ticks, rows }, chosen) {
    this.at = (value) => `${(100 * (value - low)) / (high - low)}%`;
    this.rows = rows.map((row) => ({ ...row, element: this.row(row, chosen) }));
    const axis = make("span", { className: "plot axis" }, ticks.map((tick) => this.mark("", tick, String(tick))));
    this.list = make("ul", { "aria-label": title }, this.rows.map(({ element }) => element), make("li", { "aria-hidden": "true" }, axis));
    this.reference = make("strong", {});
    this.element = make("div", { className: "forest" }, make("h3", {}, title), this.list,
      make("p", { className: "notes" }, `${about} The vertical line is at the mean of `, this.reference, "."));
  }

  mark(className, value, text = "") {
    return make("span", { className, style: { left: this.at(value) } }, text);
  }

  row({ name, mean, low, high, seeds, text }, chosen) {
    const single = seeds.length === 1;
    const told = single ? "a single run" : `seeds: ${seeds.map((value) => digits(value, 1)).join(", ")}`;
    const interval = this.mark("interval", low ?? mean);
    interval.style.setProperty("width", `calc(${this.at(high ?? mean)} - ${this.at(low ?? mean)})`);
    return make("li", { title: `${name}: ${text}; ${told}`, onclick: () => chosen(name) },
      make("button", { type: "button" }, name),
      make("span", { className: "plot", role: "img", "aria-label": told }, interval,
        single ? [] : seeds.map((value) => this.mark("seed", value)), this.mark(single ? "mean single" : "mean", mean)),
      make("span", { className: "value" }, text));
  }

  /** Marks the system that others are compared with. */
  show(baseline) {
    for (const { name, mean, element } of this.rows) {
      const own = name === baseline;
      element.className = own ? "baseline" : "";
      element.firstChild.setAttribute("aria-pressed", String(own));
      if (own) this.list.style.setProperty("--reference", this.at(mean));
    }
    this.reference.textContent = baseline;
  }
}
