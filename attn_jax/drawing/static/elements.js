/** An element with properties, data-… and aria-… attributes, listeners, and children. Text children are text. */
function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A choice with a label; `choices` are pairs of value and text. Calls `chosen` with the value. */
function choice(label, choices, value, chosen) {
  choice.count = (choice.count ?? 0) + 1;
  const select = make("select", { id: `choice-${choice.count}`, onchange: () => chosen(select.value) });
  fill(select, choices, value);
  return { select, element: make("div", { className: "choice" }, make("label", { htmlFor: select.id }, label), select) };
}

function fill(select, choices, value) {
  select.replaceChildren(...choices.map(([own, text]) => make("option", { value: own }, text)));
  select.value = value;
}

/** Buttons of which one is pressed. */
function switches(label, choices, value, chosen) {
  const buttons = choices.map(([own, text]) =>
    make("button", { type: "button", onclick: () => set(own, true) }, text));
  function set(own, tell = false) {
    choices.forEach(([one], nth) => buttons[nth].setAttribute("aria-pressed", String(one === own)));
    if (tell) chosen(own);
  }
  set(value);
  return { set, element: make("div", { className: "switches", role: "group", "aria-label": label }, buttons) };
}

/** A sentence of a script that is written from right to left. */
function isRightToLeft(text) {
  const strong = text.match(/\p{L}/u);
  return strong !== null && /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(strong[0]);
}

/** A number with a fixed number of digits; a dash for none. */
function digits(value, count) {
  return value === null || value === undefined ? "–" : value.toFixed(count).replace(/^-(?=.*[1-9])/, "−").replace("-", "");
}

/** A token as it is shown: a space as a sign, and of a long one the beginning. */
function visible(token) {
  if (token === " ") return "␣";
  return token.length > 32 ? token.slice(0, 31) + "…" : token;
}
