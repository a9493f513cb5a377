const BUSY = 4000; // milliseconds after the last touch for which a reader is not disturbed

/** The address of what the viewer shows, as a link to it: data set, split, sentence, systems. */
function addressOf({ set, parts: { Viewer: shown } }) {
  if (!shown || location.protocol === "about:") return undefined; // in a notebook's frame there is none
  const { split, number, systems, view, panels } = shown;
  const usual = panels.every(({ attention }) => attention === "cross"); // which makes the address no longer
  const named = [...systems.map((name) => ["system", name]), ...(usual ? [] : panels.map(({ attention }) => ["attention", attention]))];
  return `#${new URLSearchParams([["set", set], ["split", split], ["sentence", number], ...named, ["view", view]])}`;
}

/** What an address asks for, as `keepChoices` keeps it. */
function choicesOf(address) {
  const asked = new URLSearchParams(address.slice(1));
  if (!asked.has("sentence")) return {};
  const view = asked.get("view") ?? undefined;
  const panels = asked.getAll("attention").map((attention) => ({ attention }));
  return { set: asked.get("set"), parts: { Viewer: { split: asked.get("split"), number: Number(asked.get("sentence")), systems: asked.getAll("system"), panels, view } } };
}

/** Keeps what the reader chooses with the window's history, where it survives a reload. */
function keepChoices(choices) {
  const keep = () => {
    const chosen = choices();
    history.replaceState(chosen, "", addressOf(chosen));
  };
  addEventListener("hashchange", () => location.reload()); // of a link that is pasted
  const later = () => setTimeout(keep); // when those whom it concerns have heard of it
  for (const type of ["click", "change", "input", "keydown"]) document.addEventListener(type, later);
  return keep;
}

/** Loads the page anew after some time, as soon as the reader does nothing with it. */
function reloadAfter(seconds, keep) {
  const due = performance.now() + 1000 * seconds;
  let touched = 0;
  for (const type of ["pointermove", "pointerdown", "keydown", "wheel", "scroll"]) {
    addEventListener(type, () => { touched = performance.now(); }, { passive: true });
  }
  setInterval(() => {
    const now = performance.now();
    if (now < due || now < touched + BUSY || document.hidden) return;
    keep();
    location.reload();
  }, 500);
}
