const LEAST_LINE = 0.02; // a weight below it has no line until its token is chosen
const LEAST_NUMBER = 0.005; // nor a number below this, which would be 0.00

/** The marks of one token: its text, errors, and a number that is there when it is attended to. */
function tokenLabel(scene, side, index) {
  const label = make("span", { className: "token", "data-side": side, "data-index": String(index) },
    make("bdi", {}, visible(scene.sentence[side][index])), make("span", { className: "number" }));
  if (side === "target") {
    label.classList.toggle("wrong", scene.wrong.has(index));
    label.classList.toggle("missing-before", scene.missing.has(index));
    label.classList.toggle("missing-after", index === scene.sentence.target.length - 1 && scene.missing.has(index + 1));
  }
  return label;
}

/** Shades and numbers of the tokens opposite the active one. */
function paintLabels(scene, labels, active) {
  for (const side of ["source", "target"]) {
    const weights = active && active.side !== side ? scene.weights(active) : null;
    const gold = active && active.side !== side ? scene.goldOf(active) : null;
    labels[side].forEach((label, index) => {
      const weight = weights ? weights[index] : 0;
      const told = weights !== null && Math.abs(weight) >= LEAST_NUMBER;
      const colour = told ? shade(weight) : null;
      label.style.backgroundColor = colour ? css(colour) : "";
      label.style.color = colour ? inkOn(colour) : "";
      label.lastChild.textContent = told ? digits(weight, 2).replace(/^(−?)0/, "$1") : "";
      label.classList.toggle("gold", gold !== null && gold.has(index));
      label.classList.toggle("active", active !== null && active.side === side && active.index === index);
      label.classList.toggle("pinned", scene.isPinned(side, index));
    });
  }
}

/** Listens for the pointer on tokens of an element. */
function followPointer(element, scene) {
  const chosen = (event) => {
    const label = event.target.closest("[data-side]");
    return label && { side: label.dataset.side, index: Number(label.dataset.index) };
  };
  element.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch") scene.hover(chosen(event));
  });
  element.addEventListener("pointerleave", () => scene.hover(null));
  element.addEventListener("click", (event) => {
    const active = chosen(event);
    if (active) scene.pin(active);
  });
}

/** Source and target as two columns, with a line for each weight. */
function linesView(scene) {
  const { sentence, alignment } = scene;
  const count = Math.max(sentence.source.length, sentence.target.length);
  const height = count > 60 ? 20 : 26;
  const across = 150;
  const labels = {};
  const column = (side) => {
    labels[side] = sentence[side].map((_, index) => tokenLabel(scene, side, index));
    return make("div", { className: `side ${side}` }, make("div", { className: "heading" }, scene.sides[side]), labels[side]);
  };
  const scaled = Math.min(devicePixelRatio, 8000 / (count * height)); // browsers limit canvases
  const layer = (name) => {
    const canvas = make("canvas", { className: name, width: across * scaled, height: count * height * scaled });
    canvas.style.width = `${across}px`;
    canvas.style.height = `${count * height}px`;
    canvas.getContext("2d").scale(scaled, scaled);
    return canvas;
  };
  const all = layer("all"), chosen = layer("chosen");
  const drawings = make("div", { className: "between", style: { width: `${across}px` } }, all, chosen);
  const element = make("div", { className: "lines", style: { "--row": `${height}px` } },
    column("source"), drawings, column("target"));
  const middle = (index) => (index + 0.5) * height;

  function line(context, source, target, weight) {
    context.globalAlpha = Math.min(1, 0.1 + 0.9 * Math.sqrt(Math.min(1, Math.abs(weight))));
    context.lineWidth = 0.75 + 3.25 * Math.min(1, Math.abs(weight));
    context.strokeStyle = weight < 0 ? scene.colours.negative : scene.colours.line;
    context.beginPath();
    context.moveTo(2, middle(source));
    context.bezierCurveTo(across / 2, middle(source), across / 2, middle(target), across - 2, middle(target));
    context.stroke();
  }

  function goldLine(context, source, target) {
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.strokeStyle = scene.colours.gold;
    context.setLineDash([2, 5]);
    context.beginPath();
    context.moveTo(2, middle(source));
    context.bezierCurveTo(across / 2, middle(source), across / 2, middle(target), across - 2, middle(target));
    context.stroke();
    context.setLineDash([]);
  }

  const context = all.getContext("2d");
  for (let target = 0; target < alignment.steps; target += 1) {
    for (let source = 0; source < alignment.width; source += 1) {
      const weight = alignment.at(target, source);
      if (Math.abs(weight) >= LEAST_LINE) line(context, source, target, weight);
    }
  }
  for (const [target, source] of sentence.links ?? []) goldLine(context, source, target);
  followPointer(element, scene);

  function paint(active) {
    paintLabels(scene, labels, active);
    drawings.classList.toggle("dim", active !== null);
    const over = chosen.getContext("2d");
    over.clearRect(0, 0, across, count * height);
    if (!active) return;
    const place = (index) => (active.side === "target" ? [index, active.index] : [active.index, index]);
    scene.weights(active).forEach((weight, index) => {
      if (Math.abs(weight) >= LEAST_NUMBER) line(over, ...place(index), weight);
    });
    for (const index of scene.goldOf(active)) goldLine(over, ...place(index));
  }
  return { element, paint, label: (side, index) => labels[side][index] };
}
