/** Shades of weights: one hue from paper to ink, so that lightness alone tells their order. */
const STOPS = {
  light: {
    positive: ["#ffffff", "#d3e4f3", "#8fc1de", "#3f8fc5", "#10549c", "#08264f"],
    negative: ["#ffffff", "#fde3c8", "#f5b070", "#d9731f", "#9c4508", "#4d2003"],
  },
  dark: {
    positive: ["#171b21", "#17324d", "#1d5888", "#3c8dc8", "#8fc6ec", "#f3f9fe"],
    negative: ["#171b21", "#40290f", "#7d4a12", "#c87a2a", "#efb577", "#fef6ec"],
  },
};

const printing = matchMedia("print");
const dark = matchMedia("(prefers-color-scheme: dark)");
const wide = matchMedia("(min-width: 60rem)");

/** The theme in force: paper is always light. */
function theme() {
  if (printing.matches) return "light";
  return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
}

/** Colours 0 to 255 of one sign. */
function ramp(stops) {
  const channels = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: 256 }, (_, level) => {
    const place = (level / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    return channels[low].map((from, nth) => Math.round(from + (place - low) * (channels[low + 1][nth] - from)));
  });
}

const ramps = new Map();

/** The colour of a weight as three numbers: its square root, from 0 to 1, as in the figures. */
function shade(weight) {
  const name = theme() + (weight < 0 ? " negative" : " positive");
  if (!ramps.has(name)) {
    const [own, sign] = name.split(" ");
    ramps.set(name, ramp(STOPS[own][sign]));
  }
  return ramps.get(name)[Math.round(255 * Math.sqrt(Math.min(1, Math.abs(weight))))];
}

function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

/** Ink that can be read on a colour. */
function inkOn([red, green, blue]) {
  const linear = [red, green, blue].map((one) => (one / 255) ** 2.2);
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return luminance > 0.18 ? "#10141a" : "#ffffff";
}

/** A legend of the shades. */
function scaleLegend() {
  const bar = make("span", { className: "bar", "aria-hidden": "true" });
  const steps = Array.from({ length: 11 }, (_, nth) => css(shade((nth / 10) ** 2)));
  bar.style.background = `linear-gradient(to right, ${steps.join(", ")})`;
  const ticks = [0, 0.05, 0.2, 0.5, 1].map((weight) =>
    make("span", { style: { left: `${100 * Math.sqrt(weight)}%` } }, String(weight)));
  return make("div", { className: "scale" }, make("span", {}, "weight"),
    make("span", { className: "axis" }, bar, make("span", { className: "ticks" }, ticks)));
}
