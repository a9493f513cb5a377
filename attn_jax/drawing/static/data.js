/** Bytes of text that Python wrote as base64 of raw deflate. */
async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}

/** Everything that the page shows. */
async function readData() {
  const text = document.getElementById("data").textContent;
  return JSON.parse(new TextDecoder().decode(await inflated(text)));
}

const unpackedTexts = new WeakMap();

/** Weights that `weights.py` packed, in one row; each is unpacked once. */
async function unpacked(text) {
  if (!unpackedTexts.has(text)) {
    unpackedTexts.set(text, inflated(text.data).then((buffer) => {
      const codes = text.signed ? new Int8Array(buffer) : new Uint8Array(buffer);
      const levels = text.signed ? 127 : 255;
      return Float32Array.from(codes, (code) => text.peak * Math.sign(code) * (code / levels) ** 2);
    }));
  }
  return unpackedTexts.get(text);
}

/** The alignment of one sentence: `at(target, source)`. */
class Alignment {
  constructor(values, steps, width) {
    Object.assign(this, { values, steps, width });
  }

  at(target, source) {
    return this.values[target * this.width + source];
  }

  row(target) {
    return this.values.subarray(target * this.width, (target + 1) * this.width);
  }

  column(source) {
    return Float32Array.from({ length: this.steps }, (_, step) => this.at(step, source));
  }
}

/**
 * What is shown of a sentence: of a head `layer.head`, counted from 0, or the `mean` over all; its `weights`,
 * the `posterior`, or `sized`, weights times the sizes of values. Null if left out.
 */
async function alignmentOf(system, sentence, head = "mean", kind = "weights") {
  const steps = sentence.target.length, width = sentence.source.length;
  if (kind === "posterior" || head === "mean" || !sentence.heads) {
    const packed = sentence[kind === "weights" ? "mean" : kind];
    return packed ? new Alignment(await unpacked(packed), steps, width) : null;
  }
  const [layer, nth] = head.split(".").map(Number);
  const weights = await unpacked(sentence.heads);
  const size = steps * width, first = (layer * system.heads + nth) * size;
  const ofHead = weights.subarray(first, first + size);
  if (kind === "weights") return new Alignment(ofHead, steps, width);
  if (!sentence.sizes) return null;
  const sizes = await unpacked(sentence.sizes);
  const product = (head, at) => Math.abs(weights[(layer * system.heads + head) * size + at])
    * sizes[(layer * system.heads + head) * width + (at % width)];
  const shares = ofHead.map((_, at) => product(nth, at));
  for (let step = 0; step < steps; step += 1) { // the heads of a step sum to 1 in the mean
    let sum = 0;
    for (let head = 0; head < system.heads; head += 1) {
      for (let source = 0; source < width; source += 1) sum += product(head, step * width + source);
    }
    for (let source = 0; source < width; source += 1) shares[step * width + source] *= system.heads / Math.max(sum, 1e-30);
  }
  return new Alignment(shares, steps, width);
}

/** What can be shown of a sentence besides its weights. */
function kindsOf(sentence) {
  const known = [["weights", "weights"], ["posterior", "posterior"], ["sized", "weights × size of values"]];
  return known.filter(([kind]) => kind === "weights" || sentence[kind] !== undefined);
}

/**
 * How far two systems are apart in where they look for the same token, in percent of their weights:
 * the mean over the reference's tokens that both wrote, or without a reference, over all tokens.
 * Null if there are none to compare.
 */
async function disagreement(system, other, nth) {
  const [one, two] = [system.sentences[nth], other.sentences[nth]];
  const same = (name) => (one[name] ?? []).join("\n") === (two[name] ?? []).join("\n");
  if (!same("source") || !same(one.wanted ? "wanted" : "target")) return null;
  const [first, second] = await Promise.all([alignmentOf(system, one), alignmentOf(other, two)]);
  if (!first || !second) return null;
  const places = writtenAt(two);
  const apart = [];
  for (const [wanted, step] of writtenAt(one)) {
    if (!places.has(wanted)) continue;
    const row = second.row(places.get(wanted));
    apart.push(first.row(step).reduce((sum, weight, at) => sum + Math.abs(weight - row[at]), 0) / 2);
  }
  return apart.length ? (100 * apart.reduce((sum, one) => sum + one, 0)) / apart.length : null;
}

/** The step at which each token of the reference was written, by its place; without one, all steps. */
function writtenAt(sentence) {
  if (!sentence.wanted) return new Map(sentence.target.map((_, place) => [place, place]));
  const wrong = new Set(sentence.wrong.map(([said]) => said));
  const missing = new Set([...sentence.wrong, ...sentence.missing].map(([, wanted]) => wanted));
  const said = sentence.target.map((_, place) => place).filter((place) => !wrong.has(place));
  const kept = sentence.wanted.map((_, place) => place).filter((place) => !missing.has(place));
  return new Map(kept.map((wanted, nth) => [wanted, said[nth]]).filter(([, step]) => step !== undefined));
}
