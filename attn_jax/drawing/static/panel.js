/** Where a sentence differs from its reference: what each wrong token should be, and what is missing. */
function errorsOf(sentence) {
  const token = (wanted) => (wanted === null ? null : sentence.wanted[wanted]);
  const missing = new Map();
  for (const [before, wanted] of sentence.missing ?? []) {
    missing.set(before, [...(missing.get(before) ?? []), token(wanted)]);
  }
  return { wrong: new Map((sentence.wrong ?? []).map(([said, wanted]) => [said, token(wanted)])), missing };
}

/** What a sentence has weights of: its name, and what the tokens at the source's and at the target's place are. */
const ATTENTIONS = {
  cross: { named: "decoder to encoder (cross)", sides: { source: "source", target: "target" } },
  encoder: { named: "encoder self-attention", sides: { source: "is looked at", target: "looks" } },
  decoder: { named: "decoder self-attention", sides: { source: "has read", target: "writes" } },
};

/** One system's view of the sentence. */
class Panel {
  constructor(name, changed, before = {}) {
    this.name = name;
    this.changed = changed;
    this.before = before;
    this.pinned = null;
    this.hovered = null;
    this.head = before.head ?? "mean";
    this.kind = before.kind ?? "weights";
    this.text = before.text ?? "written";
    this.attention = Object.hasOwn(ATTENTIONS, before.attention) ? before.attention : "cross";
    this.system = choice(`System ${name}`, [], "", (value) => this.changed({ system: value }));
    this.heads = choice("Layer and head", [], "mean", (value) => {
      this.head = value;
      this.changed({});
    });
    this.texts = choice("Target", [], "written", (value) => {
      this.text = value;
      this.changed({});
    });
    this.attentions = choice("Attention", [], "cross", (value) => {
      this.attention = value;
      this.changed({});
    });
    this.kinds = choice("Quantity", [], "weights", (value) => {
      this.kind = value;
      this.changed({});
    });
    this.notes = make("p", { className: "notes" });
    this.wrote = make("dl", { className: "wrote" });
    this.drawing = make("div", { className: "drawing", tabIndex: 0, role: "group",
      "aria-label": `Alignment of system ${name}: arrow keys choose a token, Enter pins it`,
      onkeydown: (event) => this.key(event) });
    this.readout = make("p", { className: "readout", "aria-live": "polite" });
    this.thumbnails = make("div", { className: "thumbnails" });
    this.overview = make("details", { className: "overview", open: before.overview ?? false, ontoggle: () => this.drawHeads() },
      make("summary", {}, "All layers and heads"), this.thumbnails);
    this.element = make("section", { className: "panel", "aria-label": `System ${name}` },
      make("div", { className: "controls" }, this.system.element, this.attentions.element, this.texts.element, this.kinds.element, this.heads.element),
      this.wrote, this.notes, this.readout, this.drawing, this.overview);
  }

  /** What the reader has chosen. */
  get choices() {
    return { head: this.head, kind: this.kind, text: this.text, attention: this.attention, pinned: this.pinned, overview: this.overview.open };
  }

  get active() {
    return this.hovered ?? this.pinned;
  }

  /** What is chosen of a sentence: the weights of what was written, of the reference, or of self-attention. */
  chosen(known) {
    return known[this.attention] ?? (this.text === "reference" ? known.forced : undefined) ?? known;
  }

  /** Draws a sentence of a system in one of the views. */
  async show(of, known, view) {
    this.offer(known);
    const sentence = this.chosen(known), system = { ...of, ...sentence.shape };
    if (this.sentence !== sentence) {
      const { pinned } = this.before; // before a reload
      this.pinned = pinned && pinned.index < sentence[pinned.side].length ? pinned : null;
      this.hovered = null;
      this.before = {};
    }
    const turn = {};
    Object.assign(this, { sentence, turn, view: null });
    this.fillHeads(system, sentence);
    this.shown = system;
    this.overview.hidden = this.heads.element.hidden;
    this.drawHeads();
    const { text } = sentence;
    this.wrote.replaceChildren(...(text === undefined ? []
      : [make("dt", {}, sentence === known.forced ? "the reference" : "the system wrote"), make("dd", { dir: "auto" }, text)]));
    this.drawing.ariaBusy = "true"; // until its weights are unpacked
    const alignment = await alignmentOf(system, sentence, this.head, this.kind);
    if (this.turn !== turn) return; // something else was chosen meanwhile
    this.drawing.ariaBusy = "false";
    this.alignment = alignment;
    this.notes.replaceChildren(...notesOf(system, sentence));
    if (!this.alignment) {
      this.drawing.replaceChildren(make("p", { className: "notes" },
        "The page has no weights of this sentence: its evaluation has not kept them, or the page would have become too large."));
      this.tell();
      return;
    }
    const scene = this.scene();
    const room = this.element.clientWidth;
    this.view = view === "lines" ? linesView(scene) : gridView(scene, room, view === "bars");
    this.drawing.replaceChildren(this.view.element);
    this.paint();
  }

  /** Choices of what this sentence has. */
  offer(known) {
    const attentions = Object.entries(ATTENTIONS).filter(([name]) => name === "cross" || known[name]).map(([name, { named }]) => [name, named]);
    if (!known[this.attention]) this.attention = "cross";
    const references = known.forced && this.attention === "cross" ? [["reference", "the reference"]] : [];
    const texts = [["written", "the system wrote"], ...references];
    if (!known.forced) this.text = "written";
    const kinds = kindsOf(this.chosen(known));
    if (!kinds.some(([kind]) => kind === this.kind)) this.kind = "weights";
    for (const [shown, choices, value] of [[this.attentions, attentions, this.attention], [this.texts, texts, this.text], [this.kinds, kinds, this.kind]]) {
      fill(shown.select, choices, value);
      shown.element.hidden = choices.length === 1;
    }
  }

  fillHeads(system, sentence) {
    const choices = [["mean", "mean over all"]];
    if (sentence.heads && this.kind !== "posterior") {
      for (let layer = 0; layer < system.layers; layer += 1) {
        for (let head = 0; head < system.heads; head += 1) {
          choices.push([`${layer}.${head}`, `layer ${layer + 1}, head ${head + 1}`]);
        }
      }
    }
    if (!choices.some(([value]) => value === this.head)) this.head = "mean";
    fill(this.heads.select, choices, this.head);
    this.heads.element.hidden = choices.length === 1;
  }

  /** A small matrix of each head, layers down; a click chooses the head. */
  async drawHeads() {
    if (!this.overview.open || this.overview.hidden) return;
    const { shown: system, sentence, turn } = this;
    const mirrored = isRightToLeft(sentence.source.join(" "));
    const heads = [...this.heads.select.options].slice(1); // after the mean
    const alignments = await Promise.all(heads.map(({ value }) => alignmentOf(system, sentence, value, this.kind)));
    if (this.turn !== turn) return; // something else was chosen meanwhile
    this.thumbnails.style.setProperty("--heads", String(system.heads));
    this.thumbnails.replaceChildren(...heads.map(({ value, text }, nth) => {
      const canvas = make("canvas", {});
      if (alignments[nth]) drawShades(canvas, alignments[nth], mirrored);
      return make("button", { type: "button", title: text, "aria-label": text, "aria-pressed": String(value === this.head),
        onclick: () => {
          this.head = value;
          this.changed({});
        } }, canvas, value.split(".").map((one) => Number(one) + 1).join("."));
    }));
  }

  scene() {
    const { sentence, alignment } = this;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    return {
      sentence,
      alignment,
      sides: ATTENTIONS[this.attention].sides,
      ...errorsOf(sentence),
      colours: { line: css(shade(0.5)), negative: css(shade(-0.5)), gold: colour("gold"), rule: colour("rule") },
      weights: ({ side, index }) => (side === "target" ? alignment.row(index) : alignment.column(index)),
      goldOf: ({ side, index }) => new Set((sentence.links ?? [])
        .filter(([target, source]) => (side === "target" ? target : source) === index)
        .map(([target, source]) => (side === "target" ? source : target))),
      isPinned: (side, index) => this.pinned !== null && this.pinned.side === side && this.pinned.index === index,
      hover: (active) => this.hover(active),
      pin: (active) => this.pin(active),
    };
  }

  hover(active) {
    this.hovered = active;
    this.paint();
  }

  /** Pins a token, or frees it if it was pinned. */
  pin(active) {
    const same = this.pinned && active && this.pinned.side === active.side && this.pinned.index === active.index
      && this.pinned.other === active.other;
    this.pinned = same ? null : active;
    this.hovered = null;
    this.paint();
  }

  paint() {
    this.view?.paint(this.active);
    this.tell();
  }

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.ctrlKey || event.metaKey || event.altKey || !this.view) return;
    const active = this.active ?? null;
    if (event.key in steps) {
      const side = active?.side ?? "target";
      const last = this.sentence[side].length - 1;
      const index = active ? active.index + steps[event.key] : 0;
      this.hovered = { side, index: Math.max(0, Math.min(last, index)) };
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const side = event.key === "ArrowLeft" ? "source" : "target";
      this.hovered = active?.side === side ? active : { side, index: active ? this.strongest(active) : 0 };
    } else if ((event.key === "Enter" || event.key === " ") && active) {
      this.pin(active);
      event.preventDefault();
      return;
    } else if (event.key === "Escape") {
      this.pinned = this.hovered = null;
    } else {
      return;
    }
    event.preventDefault();
    this.paint();
    if (this.hovered) this.view.label(this.hovered.side, this.hovered.index).scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** The token of the other side with the largest weight. */
  strongest({ side, index }) {
    const weights = [...(side === "target" ? this.alignment.row(index) : this.alignment.column(index))];
    return weights.indexOf(Math.max(...weights));
  }

  /** The active token in words, for those who do not see shades. */
  tell() {
    this.readout.replaceChildren(...(this.active && this.view ? this.told(this.active, this.sentence) : []));
  }

  told(active, sentence) {
    const { side, index } = active;
    const opposite = side === "target" ? "source" : "target";
    const quoted = (token) => make("bdi", { className: "quoted" }, visible(token));
    const weights = [...(side === "target" ? this.alignment.row(index) : this.alignment.column(index))];
    const places = active.other !== undefined ? [active.other]
      : weights.map((_, place) => place).filter((place) => Math.abs(weights[place]) >= LEAST_NUMBER)
        .sort((one, two) => Math.abs(weights[two]) - Math.abs(weights[one])).slice(0, 5);
    const parts = [quoted(sentence[side][index]), side === "target" ? " looks at" : " is looked at by"];
    places.forEach((place, nth) => parts.push(nth ? ", " : " ", quoted(sentence[opposite][place]), ` ${digits(weights[place], 2)}`));
    if (!places.length) parts.push(" nothing");
    if (side !== "target") return parts;
    const { wrong, missing } = errorsOf(sentence);
    if (wrong.has(index)) {
      parts.push(...(wrong.get(index) === null ? [". It is too much"] : [". The reference has ", quoted(wrong.get(index))]));
    }
    if (missing.has(index)) parts.push(". Before it is missing ", quoted(missing.get(index).join(" ")));
    return parts;
  }
}

/** What is known of a sentence under a system, in words. */
function notesOf(system, sentence) {
  const facts = [];
  if (system.seed !== null) facts.push(`seed ${system.seed}`);
  for (const [name, [title, unit, count]] of Object.entries(MEASURES)) {
    if (sentence[name] !== undefined && sentence[name] !== null) facts.push(`${title} ${digits(sentence[name], count)}${unit}`);
  }
  const count = system.layers * system.heads;
  if (count > 1 && sentence.mean && !sentence.heads) facts.push(`mean over ${count} heads, of which the page has not each`);
  const shown = sentence.target.length;
  if (sentence.steps > shown) facts.push(`the first ${shown} of ${sentence.steps} steps`);
  return facts.flatMap((fact, nth) => [nth ? " · " : "", make("span", { className: "fact" }, fact)]);
}
