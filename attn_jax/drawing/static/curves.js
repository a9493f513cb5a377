const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "ink"];
const DASHES = [[], [8, 5], [2, 4]]; // the next one each time that colours repeat
const SHOWN = 10; // lines that are shown at first: best systems first, and the baseline

/** Charts of one comparison, one at a time, with a legend that hides and shows systems. */
class Curves {
  constructor(charts, comparison, before = {}) {
    const chart = charts.find(({ y }) => y === before.chart) ?? charts[0];
    Object.assign(this, { charts, systems: comparison.systems, chart, axis: Math.min(before.axis ?? 0, chart.xs.length - 1) });
    this.hidden = new Set(before.hidden ?? this.systems.filter((_, nth) => nth >= SHOWN && nth !== comparison.baseline));
    const titles = charts.map(({ y }) => [y, y]);
    const shown = choice("Show", titles, chart.y, (title) => {
      this.chart = charts.find(({ y }) => y === title);
      this.axis = Math.min(this.axis, this.chart.xs.length - 1);
      this.show();
    });
    this.axes = choice("by", [], "0", (nth) => {
      this.axis = Number(nth);
      this.show();
    });
    this.place = make("div", { className: "chart", role: "img" });
    this.legend = make("ul", { className: "systems", "aria-label": "Systems" });
    const all = (text, hidden) => make("button", { type: "button", onclick: () => this.hide(hidden) }, text);
    this.element = make("div", { className: "curves" },
      make("div", { className: "controls" }, shown.element, this.axes.element,
        make("button", { type: "button", onclick: () => this.show() }, "Reset zoom"),
        all("All", []), all("None", this.systems)),
      make("div", { className: "chart-and-legend" }, this.place, this.legend),
      make("p", { className: "notes" }, "Lines are means over seeds, bands reach from the lowest to the highest. "
        + "Drag to zoom, double-click to zoom out; click a system to hide or show it."));
  }

  /** What the reader has chosen. */
  get choices() {
    return { chart: this.chart.y, axis: this.axis, hidden: [...this.hidden] };
  }

  hide(names) {
    this.hidden = new Set(names);
    this.show();
  }

  /** Draws the chart anew, whole. */
  show() {
    const { chart } = this;
    fill(this.axes.select, chart.xs.map(({ name }, nth) => [String(nth), name]), String(this.axis));
    this.axes.select.disabled = chart.xs.length < 2;
    this.names = this.systems.filter((name) => name in chart.lines);
    this.plot?.destroy();
    this.values = new Map();
    this.legend.replaceChildren(...this.names.map((name) => this.entry(name)));
    this.place.setAttribute("aria-label", `${chart.y}, by ${chart.xs[this.axis].name}`);
    const drawn = this.names.filter((name) => !this.hidden.has(name));
    this.place.replaceChildren();
    if (drawn.length) this.plot = new uPlot(this.options(drawn), this.data(drawn), this.place);
    else this.plot = null;
  }

  entry(name) {
    const value = make("span", { className: "value" });
    this.values.set(name, value);
    const swatch = make("span", { className: "swatch", "aria-hidden": "true", style: { "border-top-color": this.colour(name),
      "border-top-style": ["solid", "dashed", "dotted"][Math.floor(this.systems.indexOf(name) / COLOURS.length) % 3] } });
    return make("li", {}, make("button", { type: "button", "aria-pressed": String(!this.hidden.has(name)), onclick: () => this.toggle(name) },
      swatch, make("span", { className: "name" }, name), value));
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.show();
    const buttons = [...this.legend.querySelectorAll("button")];
    buttons[this.names.indexOf(name)].focus();
  }

  colour(name) {
    const own = COLOURS[this.systems.indexOf(name) % COLOURS.length];
    return own === "ink" ? getComputedStyle(this.element).color : own;
  }

  /** Rows for uPlot: the places of all lines, and the mean, lowest and highest values of each. */
  data(drawn) {
    const tables = drawn.map((name) => {
      const { x, mean, low, high } = this.chart.lines[name];
      return [x[this.axis], mean, low, high];
    });
    return tables.length > 1 ? uPlot.join(tables) : tables[0];
  }

  options(drawn) {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--soft").trim(), rule = style.getPropertyValue("--rule").trim();
    const { ticks, name } = this.chart.xs[this.axis];
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: ink, font, labelFont: font, labelSize: 22, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const across = ticks ? { splits: () => ticks.map((_, nth) => nth), values: (_, splits) => splits.map((at) => ticks[at]) } : { values: (_, splits) => splits.map(short) };
    const line = (system) => ({ stroke: this.colour(system), width: 2, spanGaps: true, points: { size: 5 },
      dash: DASHES[Math.floor(this.systems.indexOf(system) / COLOURS.length) % 3] });
    const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
    // Room around the values, but none beyond what percentages can be; error rates may exceed 100 %.
    const most = this.chart.y.includes("%") && !this.chart.y.includes("error rate") ? 102 : Infinity;
    const edges = (hard) => ({ pad: 0.06, hard, soft: 0, mode: 0 });
    const values = this.chart.log ? { distr: 3 } : { range: { min: edges(-2), max: edges(most) } };
    return {
      width: Math.max(280, this.place.clientWidth),
      height: Math.max(260, Math.min(420, Math.round(this.place.clientWidth * 0.5))),
      legend: { show: false },
      cursor: { drag: { x: true, y: true, uni: 30 } },
      scales: { x: { time: false, ...(ticks ? { range: (_, low, high) => [low - 0.3, high + 0.3] } : {}) }, y: values },
      axes: [{ ...axis, ...across, label: name }, { ...axis, label: this.chart.y, size: 56, values: (_, splits) => splits.map((one) => (one === null ? "" : short(one))) }],
      series: [{}, ...drawn.flatMap((system) => [line(system), edge, edge])],
      bands: drawn.map((system, nth) => ({ series: [3 * nth + 3, 3 * nth + 2], fill: faded(this.colour(system)) })),
      hooks: { setCursor: [(plot) => this.tell(plot, drawn)] },
    };
  }

  /** The values at the cursor, in the legend. */
  tell(plot, drawn) {
    const at = plot.cursor.idx;
    drawn.forEach((name, nth) => {
      const value = at === null || at === undefined ? null : plot.data[3 * nth + 1][at];
      this.values.get(name).textContent = value === null || value === undefined ? "" : short(value);
    });
  }
}

function short(value) {
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (Math.abs(value) >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(4)));
}

/** A colour through which others are seen. */
function faded(colour) {
  const [red, green, blue] = colour.startsWith("#") ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) : colour.match(/\d+/g);
  return `rgb(${red} ${green} ${blue} / 0.18)`;
}
