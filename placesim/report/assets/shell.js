// What all pages do alike: light or dark, keys, what stands above where something is wrong, and when a page is ready.

/** The switch of light and dark in the header; until it is used the system's choice holds.  `repaint` is called with each change. */
class Theme {
  constructor(repaint = () => {}) {
    this.repaint = repaint;
    listenToClicks({ theme: () => this.turn() });
    listenToKeys({ t: () => this.turn() });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint());
  }

  get isDark() {
    return this.chosen ? this.chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /** The other of both: the rules for dark stand once in the styles, and are made to hold always or never. */
  turn() {
    this.chosen = this.isDark ? "light" : "dark";
    document.documentElement.style.colorScheme = this.chosen;
    this.rules ??= [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule instanceof CSSMediaRule && rule.media.mediaText.includes("prefers-color-scheme"));
    for (const rule of this.rules) rule.media.mediaText = this.chosen === "dark" ? "screen" : "not all";
    this.repaint();
  }
}

/** `keys` from a key to what it does, wherever on the page it is pressed but where text is written or a dialog is open. */
function listenToKeys(keys) {
  addEventListener("keydown", (event) => {
    if (event.target.matches?.("input, select, textarea, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** `clicks` from a button's id to what it does. */
function listenToClicks(clicks) {
  for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", act);
}

function showError(text) {
  byId("error").textContent = text;
  byId("error").hidden = !text;
}

/** An error of TensorFlow's, without our hint and its marks of nodes. */
const errorText = (error) => error.message.split("\nHint:")[0].replaceAll(/\{\{(node [^}]*)\}\}/g, "$1");

/** What follows `#` in the address. */
function addressed() {
  const name = location.hash.slice(1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // not one of this page's own: taken as it is
  }
}

/** Writes a name after `#` into the address, for links. A page in a notebook's frame has no address, and throws. */
function putAddress(name) {
  if (location.protocol !== "about:") history.replaceState(null, "", "#" + encodeURIComponent(name));
}

function markReady() {
  byId("loading").hidden = true;
  document.documentElement.dataset.ready = "true";
}

/** Draws a page from what has to be unpacked for it, and says so where that fails. */
function begin(drawing) {
  drawing.then(markReady).catch((error) => {
    byId("loading").hidden = true;
    showError(`Cannot draw the page: ${error.message}. It needs a browser from 2023 or later.`);
    throw error;
  });
}
