// What is seen -> a picture of it, as SVG or PNG: boxes, texts and drawings are read from where the browser has put them.

const TITLE_ROOM = 30;
/** Pixels of a PNG to a CSS pixel, so that it is sharp on fine screens and in print; less where no canvas is as large. */
const PNG_SCALE = 2;
const MOST_PIXELS = 16000;
/** What of a drawing's looks may come from the page's styles. */
const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-weight", "text-anchor", "paint-order"];

let named = 0;

/** A name that nothing else in a picture has. */
const newName = () => `n${named++}_`;

/** An element and all in it as parts of a drawing, in the order in which they cover each other. */
class Drawn {
  constructor(root) {
    const frame = root.getBoundingClientRect();
    Object.assign(this, { root, left: frame.left, top: frame.top, width: frame.width, height: frame.height, found: [], clips: [] });
    this.pen = document.createElement("canvas").getContext("2d");
    this.add(root, 0, this.clipped(this.place(frame)));
  }

  /** The whole, with a group that moves it down by so much. */
  group(down) {
    const order = this.found.map((part, i) => [part, i]).sort(([a, i], [b, j]) => a.layer - b.layer || i - j);
    const defs = draw("defs", {}, ...this.clips);
    return draw("g", { transform: `translate(0 ${down})` }, defs, ...order.map(([{ shape }]) => shape));
  }

  place({ left, top, width, height }) {
    return { x: left - this.left, y: top - this.top, width, height };
  }

  put(shape, layer, clip) {
    if (clip) shape = draw("g", { "clip-path": `url(#${clip})` }, shape);
    this.found.push({ shape, layer });
  }

  add(element, layer, clip) {
    const style = getComputedStyle(element);
    if (style.display === "none" || style.visibility === "hidden" || !element.getClientRects().length || !element.checkVisibility()) return;
    if (style.position !== "static" && style.zIndex !== "auto") layer = Number(style.zIndex);
    const box = this.place(element.getBoundingClientRect());
    const tag = element.tagName.toLowerCase();
    if (tag === "svg") return this.put(this.drawing(element, box), layer, clip);
    this.ground(style, box, layer, clip);
    if (tag === "img") return this.put(this.image(element, box), layer, clip);
    if (tag === "canvas") return this.put(draw("image", { ...box, href: element.toDataURL() }), layer, clip);
    if (tag === "input" && /text|number/.test(element.type)) return this.line(element.value, { ...box, x: box.x + 8 }, style, layer, clip);
    if (tag === "select") return this.line(element.selectedOptions[0]?.text ?? "", { ...box, x: box.x + 8 }, style, layer, clip);
    if (style.overflowX !== "visible" || style.overflowY !== "visible") clip = this.clipped(box);
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) this.text(child, style, layer, clip);
      else if (child.nodeType === Node.ELEMENT_NODE) this.add(child, layer, clip);
    }
  }

  clipped(box) {
    const id = newName();
    this.clips.push(draw("clipPath", { id }, draw("rect", box)));
    return id;
  }

  /** Background and border. */
  ground(style, { x, y, width, height }, layer, clip) {
    const sides = ["Top", "Right", "Bottom", "Left"].map((side) => [parseFloat(style[`border${side}Width`]), style[`border${side}Color`], style[`border${side}Style`]]);
    const [[thick, colour, kind]] = sides;
    const isEven = thick > 0 && sides.every(([one, two, three]) => one === thick && two === colour && three === kind);
    const isFilled = !/^rgba\(.*, 0\)$|^transparent$/.test(style.backgroundColor);
    if (isEven || isFilled) {
      const half = isEven ? thick / 2 : 0;
      const shape = draw("rect", { x: x + half, y: y + half, width: Math.max(0, width - thick * isEven), height: Math.max(0, height - thick * isEven), rx: Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2), fill: isFilled ? style.backgroundColor : "none" });
      if (isEven) shape.setAttribute("stroke", colour), shape.setAttribute("stroke-width", thick);
      if (isEven && kind === "dashed") shape.setAttribute("stroke-dasharray", "4 3");
      this.put(shape, layer, clip);
    }
    if (isEven) return;
    const ends = [[x, y, x + width, y], [x + width, y, x + width, y + height], [x, y + height, x + width, y + height], [x, y, x, y + height]];
    sides.forEach(([wide, stroke, how], i) => {
      const [x1, y1, x2, y2] = ends[i];
      if (wide > 0 && how !== "none") this.put(draw("line", { x1, y1, x2, y2, stroke, "stroke-width": wide, ...(how === "dotted" ? { "stroke-dasharray": "1 3" } : {}) }), layer, clip);
    });
  }

  /** A text, line by line as it is broken. */
  text(node, style, layer, clip) {
    const lines = new Map();
    for (const { 0: word, index } of node.data.matchAll(/\S+\s*/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      for (const rect of range.getClientRects()) {
        const line = lines.get(Math.round(rect.top));
        if (!line) lines.set(Math.round(rect.top), { words: word, left: rect.left, right: rect.right, top: rect.top, height: rect.height });
        else Object.assign(line, { words: line.words + word, right: rect.right });
        break; // a word that is broken itself stands where it begins
      }
    }
    for (const { words, left, right, top, height } of lines.values()) this.line(words, this.place({ left, top, width: right - left, height }), style, layer, clip);
  }

  line(text, { x, y, height }, style, layer, clip) {
    const shown = (style.textTransform === "uppercase" ? text.toUpperCase() : text).replaceAll(/\s+/g, " ").trim();
    if (!shown) return;
    this.pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = this.pen.measureText(shown);
    const attributes = { x, y: (y + (height + above - below) / 2).toFixed(1), fill: style.color, "font-size": style.fontSize, "font-weight": style.fontWeight };
    if (style.fontStyle !== "normal") attributes["font-style"] = style.fontStyle;
    if (style.fontFamily.includes("mono")) attributes["font-family"] = "monospace";
    this.put(draw("text", attributes, shown), layer, clip);
  }

  /** A drawing in the page, with its looks in itself. */
  drawing(element, box) {
    const copy = element.cloneNode(true);
    const originals = [element, ...element.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((part, i) => {
      const style = getComputedStyle(originals[i]);
      for (const look of LOOKS) part.setAttribute(look, style.getPropertyValue(look));
      for (const name of [...part.getAttributeNames()].filter((name) => /^(class|style|aria-|data-|role|tabindex)/.test(name))) part.removeAttribute(name);
    });
    for (const [name, value] of Object.entries({ ...box, overflow: "visible" })) copy.setAttribute(name, value);
    return copy;
  }

  /** An image; one that is a drawing becomes a part of this one. */
  image(element, box) {
    return imageAsDrawing(element.src, box) ?? draw("image", { ...box, href: element.src });
  }
}

/** An address that holds a drawing -> the drawing at a place, its names made its own; null for any other address. */
function imageAsDrawing(address, box) {
  if (!address.startsWith("data:image/svg+xml")) return null;
  const own = newName();
  const text = decodeURIComponent(address.slice(address.indexOf(",") + 1)).replaceAll(/id="(\w+)"/g, `id="${own}$1"`).replaceAll(/url\(#(\w+)\)/g, `url(#${own}$1)`);
  const found = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  found.setAttribute("viewBox", `0 0 ${found.getAttribute("width")} ${found.getAttribute("height")}`);
  for (const [name, value] of Object.entries({ ...box, preserveAspectRatio: "none" })) found.setAttribute(name, value);
  return found;
}

/** The picture of a page: its title, what is seen, and what the colours stand for.  `seen` is a `Drawn`, or has what one has. */
function pictureOf(seen) {
  const style = getComputedStyle(document.body);
  const legend = byId("legend")?.getClientRects().length && !seen.root?.contains(byId("legend")) ? new Drawn(byId("legend")) : null;
  const [width, height] = [Math.ceil(Math.max(seen.width, legend?.width ?? 0)), Math.ceil(TITLE_ROOM + seen.height + (legend?.height ?? 0))];
  const title = byId("title").textContent;
  const found = draw("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": style.fontFamily },
    draw("title", {}, title),
    draw("rect", { width, height, fill: style.backgroundColor }),
    draw("text", { x: 12, y: 20, "font-size": 15, "font-weight": 600, fill: style.color }, `${title} ${byId("facts").textContent ? "· " : ""}${byId("facts").textContent}`),
    seen.group(TITLE_ROOM));
  if (legend) found.append(legend.group(TITLE_ROOM + seen.height));
  return found;
}

/** The pixels of a picture. */
async function pixelsOf(picture) {
  const [width, height] = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
  const scale = Math.min(PNG_SCALE, MOST_PIXELS / Math.max(width, height));
  const image = new Image();
  image.src = "data:image/svg+xml;utf8," + encodeURIComponent(svgText(picture));
  await image.decode();
  const canvas = element("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const svgText = (picture) => new XMLSerializer().serializeToString(picture);

/** The buttons that save what is seen; `seen` gives it. */
function offerPictures(seen) {
  const save = (blob, ending) => {
    const name = byId("title").textContent.split(/[\\/]/).pop().replace(/\.\w+$/, "").replaceAll(/[^\w.-]+/g, "_") || "picture";
    const link = element("a", { href: URL.createObjectURL(blob), download: `${name}.${ending}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  listenToClicks({
    svg: () => save(new Blob([svgText(pictureOf(seen()))], { type: "image/svg+xml" }), "svg"),
    png: async () => save(await pixelsOf(pictureOf(seen())), "png"),
  });
}
