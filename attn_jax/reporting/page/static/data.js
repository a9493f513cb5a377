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

/** The weights of a sentence: of a head `layer.head`, counted from 0, or `mean`. Null if left out. */
async function alignmentOf(system, sentence, head = "mean") {
  const steps = sentence.target.length, width = sentence.source.length;
  if (head === "mean" || !sentence.heads) {
    return sentence.mean && new Alignment(await unpacked(sentence.mean), steps, width);
  }
  const [layer, nth] = head.split(".").map(Number);
  const first = (layer * system.heads + nth) * steps * width;
  return new Alignment((await unpacked(sentence.heads)).subarray(first, first + steps * width), steps, width);
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
