// What all pages build their elements with.

/** An HTML element with properties and children; a text child is only ever text. */
function element(tag, properties = {}, children = []) {
  const found = Object.assign(document.createElement(tag), properties);
  if (properties.role) found.setAttribute("role", properties.role);
  found.append(...children);
  return found;
}
