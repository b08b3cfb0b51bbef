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

function withParts(found, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}
