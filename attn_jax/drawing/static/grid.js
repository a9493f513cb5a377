const NARROWEST = 15; // pixels of a cell, in which a label is still read
const BESIDE = 90; // and of the labels beside the cells

/** A pixel for each weight, which the browser enlarges. */
function drawShades(canvas, alignment, mirrored) {
  const { width, steps } = alignment;
  Object.assign(canvas, { width, height: steps });
  const image = new ImageData(width, steps);
  for (let target = 0; target < steps; target += 1) {
    for (let source = 0; source < width; source += 1) {
      const at = 4 * (target * width + (mirrored ? width - 1 - source : source));
      image.data.set([...shade(alignment.at(target, source)), 255], at);
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Target tokens down and source tokens across: shades, or with `bars` a bar for each weight. */
function gridView(scene, room, bars) {
  const { sentence, alignment } = scene;
  const width = alignment.width, steps = alignment.steps;
  const cell = Math.max(NARROWEST, Math.min(28, Math.floor((room - BESIDE) / width)));
  const row = bars ? 34 : cell;
  const mirrored = isRightToLeft(sentence.source.join(" "));
  const left = (source) => (mirrored ? width - 1 - source : source) * cell;
  const labels = {
    source: sentence.source.map((_, index) => tokenLabel(scene, "source", index)),
    target: sentence.target.map((_, index) => tokenLabel(scene, "target", index)),
  };
  labels.source.forEach((label, index) => label.style.setProperty("order", String(left(index))));
  const size = { width: `${width * cell}px`, height: `${steps * row}px` };
  const canvas = make("canvas", { style: size });
  const across = make("div", { className: "across", style: { height: `${row}px` } });
  const down = make("div", { className: "down", style: { width: `${cell}px` } });
  const marks = (sentence.links ?? []).map(([target, source]) => make("div", { className: "link",
    style: { left: `${left(source)}px`, top: `${target * row}px`, width: `${cell}px`, height: `${row}px` } }));
  const cells = make("div", { className: "cells", style: size }, canvas, marks, across, down);
  const upright = sentence.source.every((token) => [...token].length <= 2);
  const element = make("div", { className: `grid${bars ? " bars" : ""}${upright ? " upright" : ""}`, style: { "--cell": `${cell}px`, "--row": `${row}px` } },
    make("div", { className: "corner" }, make("span", {}, `${scene.sides.target} ↓`), make("span", {}, `${scene.sides.source} →`)),
    make("div", { className: "side source" }, labels.source),
    make("div", { className: "side target" }, labels.target), cells);

  if (bars) drawBars(); else drawShades(canvas, alignment, mirrored);
  followPointer(element, scene);
  cells.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") scene.hover(cellAt(event));
  });
  cells.addEventListener("click", (event) => scene.pin(cellAt(event)));

  function cellAt(event) {
    const box = cells.getBoundingClientRect();
    const clipped = (value, count) => Math.max(0, Math.min(count - 1, Math.floor(value)));
    const place = clipped((event.clientX - box.left) / cell, width);
    return {
      side: "target",
      index: clipped((event.clientY - box.top) / row, steps),
      other: mirrored ? width - 1 - place : place,
    };
  }

  function drawBars() {
    const scaled = Math.min(devicePixelRatio, 8000 / Math.max(width * cell, steps * row));
    Object.assign(canvas, { width: width * cell * scaled, height: steps * row * scaled });
    const context = canvas.getContext("2d");
    context.scale(scaled, scaled);
    for (let target = 0; target < steps; target += 1) {
      context.fillStyle = scene.colours.rule;
      context.fillRect(0, (target + 1) * row - 1, width * cell, 1);
      for (let source = 0; source < width; source += 1) {
        const weight = alignment.at(target, source);
        const high = Math.min(1, Math.abs(weight)) * (row - 5);
        context.fillStyle = weight < 0 ? scene.colours.negative : scene.colours.line;
        context.fillRect(left(source) + 1.5, (target + 1) * row - 1 - high, cell - 3, high);
      }
    }
  }

  function paint(active) {
    paintLabels(scene, labels, active);
    const target = active && (active.side === "target" ? active.index : null);
    const source = active && (active.side === "source" ? active.index : active.other ?? null);
    across.hidden = target === null;
    down.hidden = source === null;
    if (target !== null) across.style.top = `${target * row}px`;
    if (source !== null) down.style.left = `${left(source)}px`;
  }
  return { element, paint, label: (side, index) => labels[side][index] };
}
