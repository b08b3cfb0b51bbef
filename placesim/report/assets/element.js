// What all pages build their elements with.

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with properties and children; a text child is only ever text. */
function element(tag, properties = {}, children = []) {
  const found = Object.assign(document.createElement(tag), properties);
  if (properties.role) found.setAttribute("role", properties.role);
  found.append(...children);
  return found;
}

/** One with attributes and children. */
function make(tag, attributes = {}, ...children) {
  return withParts(document.createElement(tag), attributes, children);
}

/** One of a drawing. */
function draw(tag, attributes = {}, ...children) {
  return withParts(document.createElementNS(SVG, tag), attributes, children);
}

/** A link that does something on this page. */
function actionLink(text, act, href = "#") {
  const link = element("a", { href, textContent: text });
  link.addEventListener("click", (event) => {
    event.preventDefault();
    act();
  });
  return link;
}

/** A table that scrolls sideways where it has no room; only then Tab reaches it. */
function scrolling(table) {
  const found = make("div", { class: "scroll" }, table);
  const observer = new ResizeObserver(() => (found.scrollWidth > found.clientWidth ? (found.tabIndex = 0) : found.removeAttribute("tabindex")));
  for (const sized of [found, table]) observer.observe(sized);
  return found;
}

/** The head of a table's column: `class` and text; a column without a name has none to read. */
const columnHead = (text, className = "") => make(text ? "th" : "td", { class: className, ...(text ? { scope: "col" } : {}) }, text);

function withParts(found, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}
