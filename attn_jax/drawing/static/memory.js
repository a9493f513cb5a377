const BUSY = 4000; // milliseconds after the last touch for which a reader is not disturbed

/** Keeps what the reader chooses with the window's history, where it survives a reload. */
function keepChoices(choices) {
  const keep = () => history.replaceState(choices(), "");
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
