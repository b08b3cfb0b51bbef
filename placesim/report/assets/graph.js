// The drawing: what is seen goes to ELK, which lays it out in a worker, and then to Cytoscape, which draws it.

const FONT = "12px system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
const LABEL_FONT = `600 ${FONT}`;
const LINE = 16;
const MAX_LABEL = 34;
/** With more transfers than this in sight, their bytes are shown on a click only: there is no room for so many labels. */
const MAX_SIZES = 80;
/** From so many links on, ELK is told to look less long for fewer crossings. */
const MANY_LINKS = 150;
const BAND = 9;
/** The zoom at which text has 10 pixels; below it there is none. */
const LEGIBLE = 10 / 12;
const MARGIN = 24;
/** Milliseconds between the clicks of a double click: what desktops allow, twice what Cytoscape does. */
const DOUBLE_CLICK = 500;
/** Ways to lay out, the best first: which way data flows, what stands on links between devices (a click tells it where nothing does), and how near boxes stand. */
const WAYS = [
  { flow: "DOWN", label: totalText },
  { flow: "RIGHT", label: totalText },
  { flow: "DOWN", label: sizeText },
  { flow: "RIGHT", label: sizeText },
  { flow: "DOWN", label: null, gap: 12 },
  { flow: "RIGHT", label: null, gap: 12 },
];
/** Of so many more links each way takes long: only the two flows are tried. */
const FLOWS = 2;
const LAYOUT = {
  "elk.algorithm": "layered",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.json.shapeCoords": "ROOT",
  "elk.json.edgeCoords": "ROOT",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.layered.spacing.nodeNodeBetweenLayers": "30",
  "elk.layered.spacing.edgeNodeBetweenLayers": "14",
  "elk.spacing.edgeNode": "12",
  "elk.spacing.componentComponent": "34",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
};

/** A label with its middle left out where it is long; the label of several alike ends behind the first. */
function shortened(text) {
  if (text.length <= MAX_LABEL) return text;
  const [first, end] = text.split(" … ");
  if (end !== undefined && first.length <= MAX_LABEL - 2) return `${first} …`;
  return `${first.slice(0, MAX_LABEL / 2)}…${first.slice(-MAX_LABEL / 2 + 1)}`;
}

class GraphView {
  /** `actions`: `select(item or link)`, `toggle(item)`, `busy(text)`. */
  constructor(container, model, elk, actions) {
    this.container = container;
    this.model = model;
    this.elk = elk;
    this.actions = actions;
    this.mode = null;
    this.links = [];
    this.turn = 0;
    this.layouts = new Map();
    this.pen = document.createElement("canvas").getContext("2d");
    this.cy = cytoscape({ container, autoungrabify: true, boxSelectionEnabled: false, minZoom: 0.02, maxZoom: 3, multiClickDebounceTime: DOUBLE_CLICK });
    this.cy.on("tap", (event) => actions.select(event.target === this.cy ? null : this.chosen(event.target)));
    this.cy.on("dbltap", "node.scope, node.title", (event) => actions.toggle(event.target.data("item")));
    this.cy.on("mouseover", "node, edge", () => (container.style.cursor = "pointer"));
    this.cy.on("mouseout", "node, edge", () => (container.style.cursor = ""));
  }

  /** The item or link that a drawn element stands for. */
  chosen(element) {
    return element.data("link") === undefined ? element.data("item") : this.links[element.data("link")];
  }

  /** Lays out and draws what is seen; `anchor` is an item that stays where it is on the screen. False where a later call overtook it. */
  async show(opened, anchor = null) {
    const turn = ++this.turn;
    const items = this.model.visible(opened);
    const links = this.model.links(opened);
    this.actions.busy(`laying out ${countText(items.length, "box").replace("boxs", "boxes")} …`);
    const ways = anchor !== null && this.way ? [this.way] : WAYS.slice(0, links.length > MANY_LINKS ? FLOWS : WAYS.length);
    // what was seen before in the same room is not laid out again: a closed scope, the initial view
    const key = [ways.map((way) => WAYS.indexOf(way)), this.cy.width(), this.cy.height(), [...opened].sort()].join(" ");
    const best = this.layouts.get(key) ?? (await this.bestLayout(ways, (way) => this.elkGraph(items, links, opened, way)));
    this.layouts.set(key, best);
    if (turn !== this.turn) return false;
    this.way = best.way;
    this.fits = best.scale >= LEGIBLE;
    this.links = links;
    const before = anchor === null ? null : this.cy.getElementById(String(anchor)).renderedPosition();
    this.cy.batch(() => {
      this.cy.elements().remove();
      this.cy.add(this.elements(best.layout, links, opened));
    });
    const after = before && this.cy.getElementById(String(anchor)).renderedPosition();
    if (before && after) this.cy.panBy({ x: before.x - after.x, y: before.y - after.y });
    else this.fit();
    this.actions.busy("");
    return true;
  }

  /** The first way in which all fits at its full size, else one in which it is clearly larger than in those before; bytes are given up for legible text only. */
  async bestLayout(ways, graphOf) {
    let best = null;
    for (const way of ways) {
      if (best && best.scale >= (way.label ? 1 : LEGIBLE)) break;
      const layout = await this.elk.layout(graphOf(way));
      const scale = Math.min((this.cy.width() - 2 * MARGIN) / layout.width, (this.cy.height() - 2 * MARGIN) / layout.height);
      if (!best || scale > (best.scale < LEGIBLE ? 1 : 1.1) * best.scale) best = { layout, scale, way };
    }
    return best;
  }

  // --- to ELK

  elkGraph(items, links, opened, { flow, label, gap = 22 }) {
    const shape = { "elk.direction": flow, "elk.spacing.nodeNode": String(gap), "elk.aspectRatio": String(this.cy.width() / Math.max(1, this.cy.height())) };
    const thoroughness = { "elk.layered.thoroughness": links.length > MANY_LINKS ? "1" : "7" };
    const boxes = new Map([[ROOT, { id: "root", layoutOptions: { ...LAYOUT, ...shape, ...thoroughness }, children: [], edges: [] }]]);
    for (const item of items) {
      const box = opened.has(item) ? this.openBox(item) : this.closedBox(item);
      boxes.set(item, box);
      boxes.get(this.model.parent(item)).children.push(box);
    }
    const hasSizes = links.filter((link) => link.copies.size).length <= MAX_SIZES;
    boxes.get(ROOT).edges = links.map((link, i) => this.elkEdge(link, i, hasSizes ? label : null));
    return boxes.get(ROOT);
  }

  openBox(item) {
    const width = this.textWidth([this.title(item)], `600 ${FONT}`) + 60;
    return {
      id: String(item),
      children: [],
      layoutOptions: {
        "elk.padding": "[top=34,left=16,bottom=16,right=16]",
        "elk.nodeSize.constraints": "MINIMUM_SIZE",
        "elk.nodeSize.minimum": `(${width},50)`,
      },
    };
  }

  closedBox(item) {
    const width = this.textWidth(this.caption(item).split("\n"), FONT) + 26 + BAND;
    return { id: String(item), width: Math.max(90, width), height: 2 * LINE + (isScope(item) ? 26 : 12) };
  }

  elkEdge(link, i, label) {
    const edge = { id: `link${i}`, sources: [String(link.source)], targets: [String(link.target)] };
    if (link.copies.size && label) {
      const text = label(this.model.total(link.copies));
      edge.labels = [{ text, width: this.textWidth([text], LABEL_FONT) + 12, height: 18, layoutOptions: { "elk.edgeLabels.inline": "true" } }];
    }
    return edge;
  }

  textWidth(lines, font) {
    this.pen.font = font;
    return Math.ceil(Math.max(...lines.map((line) => this.pen.measureText(line).width)));
  }

  title(item) {
    return `${shortened(this.model.label(item))} · ${countText(this.model.sizes[scopeOf(item)].nodes, "op")}`;
  }

  /** Two lines: what it is called, and what it is. */
  caption(item) {
    const { model } = this;
    const label = shortened(model.label(item));
    if (!isScope(item)) return `${label}\n${model.ops[model.nodes.op[item]]} · ${model.deviceText(model.nodes.device[item])}`;
    const { nodes } = model.sizes[scopeOf(item)];
    const devices = new Set(Array.from(model.nodesIn(item), (node) => model.nodes.device[node]));
    const where = devices.size === 1 ? model.deviceText([...devices][0]) : `${devices.size} devices`;
    const copies = model.scopes.copies[scopeOf(item)];
    return `▸ ${label}\n${copies ? `×${copies} · ` : ""}${countText(nodes, "op")} · ${where}`;
  }

  // --- from ELK

  elements(layout, links, opened) {
    const found = [];
    const boxes = new Map();
    const walk = (box, depth) => {
      for (const child of box.children ?? []) {
        const item = Number(child.id);
        const position = { x: child.x + child.width / 2, y: child.y + child.height / 2 };
        boxes.set(item, position);
        found.push(this.boxElement(item, child, position, depth, opened.has(item)));
        if (opened.has(item)) found.push(this.titleElement(item, child));
        walk(child, depth + 1);
      }
    };
    walk(layout, 1);
    for (const edge of layout.edges) {
      const number = Number(edge.id.slice(4));
      const link = links[number];
      found.push(this.linkElement(number, link, edge.sections[0], boxes));
      for (const label of edge.labels ?? []) found.push(this.labelElement(number, label));
    }
    return found;
  }

  boxElement(item, box, position, depth, isOpen) {
    const kind = isScope(item) ? (isOpen ? "scope open" : "scope closed") : "node";
    const folded = isScope(item) && this.model.scopes.folded[scopeOf(item)] ? " folded" : "";
    return {
      group: "nodes",
      classes: kind + folded,
      position,
      data: {
        id: String(item),
        item,
        width: box.width,
        height: box.height,
        depth,
        text: isOpen ? "" : this.caption(item),
        ...this.paint(item, box.width, box.height),
      },
    };
  }

  /** The title of an open scope, above the links that cross it. */
  titleElement(item, box) {
    const text = `▾ ${this.title(item)}`;
    const width = this.textWidth([text], `600 ${FONT}`) + 12;
    const position = { x: box.x + 10 + width / 2, y: box.y + 17 };
    return { group: "nodes", classes: "title", position, data: { id: `title${item}`, item, text, width, height: 20 } };
  }

  /** What the colour mode decides: a bar in a closed scope, a band and a tint in a node. */
  paint(item, width, height) {
    const parts = this.mode.parts(item);
    if (isScope(item)) {
      const barWidth = Math.round(width) - 16;
      const alone = parts.length === 1 ? parts[0][0].colour : null;
      const tint = alone ? mix(alone, this.colours.surface, 0.14) : this.colours.surface;
      const edge = alone ? mix(alone, this.colours.text, 0.75) : this.colours.soft;
      return { image: barImage(parts, barWidth, 9, 4), barWidth, tint, edge };
    }
    const { colour } = parts[0][0];
    const edge = mix(colour, this.colours.text, 0.8);
    return { image: barImage(parts, BAND, Math.round(height), 3), tint: mix(colour, this.colours.surface, 0.14), edge };
  }

  linkElement(number, link, section, boxes) {
    const source = boxes.get(link.source);
    const target = boxes.get(link.target);
    const points = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
    const total = this.model.total(link.copies);
    const data = {
      id: `link${number}`,
      link: number,
      source: String(link.source),
      target: String(link.target),
      sourceEnd: `${points[0].x - source.x}px ${points[0].y - source.y}px`,
      targetEnd: `${points.at(-1).x - target.x}px ${points.at(-1).y - target.y}px`,
      width: total.copies ? Math.min(5, 1.8 + Math.log10(total.bytes + 1) * 0.36) : 1.2,
      ...this.bends(points),
    };
    const kind = total.copies ? "copy" : link.data ? "data" : "control";
    return { group: "edges", classes: `${kind}${points.length > 2 ? " bent" : ""}`, data };
  }

  /** Bend points as Cytoscape has them: how far along the line between the ends, and how far beside it. */
  bends(points) {
    const [start, end] = [points[0], points.at(-1)];
    const [dx, dy] = [end.x - start.x, end.y - start.y];
    const length = Math.hypot(dx, dy) || 1;
    const inner = points.slice(1, -1);
    return {
      weights: inner.map((p) => ((p.x - start.x) * dx + (p.y - start.y) * dy) / length ** 2),
      distances: inner.map((p) => ((p.y - start.y) * dx - (p.x - start.x) * dy) / length),
    };
  }

  labelElement(number, label) {
    return {
      group: "nodes",
      classes: "size",
      position: { x: label.x + label.width / 2, y: label.y + label.height / 2 },
      data: { id: `size${number}`, link: number, text: label.text, width: label.width, height: label.height },
    };
  }

  // --- looks

  /** Takes over a colour mode, and the colours of the page. */
  setMode(mode, colours) {
    this.mode = mode;
    this.colours = colours;
    this.cy.batch(() => {
      this.cy.nodes(".scope, .node").forEach((box) => {
        box.data(this.paint(Number(box.id()), box.data("width"), box.data("height")));
      });
    });
    this.cy.style(this.style());
  }

  style() {
    const c = this.colours;
    const family = "system-ui, Segoe UI, Roboto, Liberation Sans, sans-serif";
    const text = { label: "data(text)", "font-family": family, "font-size": 12, color: c.text, "min-zoomed-font-size": 10 };
    const image = { "background-image": "data(image)", "background-fit": "none", "background-image-containment": "inside", "background-clip": "none" };
    return [
      { selector: "node", style: { shape: "round-rectangle", width: "data(width)", height: "data(height)", "z-index-compare": "manual", "overlay-opacity": 0 } },
      {
        selector: "node.node, node.closed",
        style: {
          ...text, ...image, "text-wrap": "wrap", "text-valign": "center", "text-halign": "center", "line-height": 1.3, "z-index": 500,
          "background-color": "data(tint)", "border-color": "data(edge)", "border-width": 1.2, "corner-radius": 6,
        },
      },
      {
        selector: "node.node",
        style: { "background-position-x": 0, "background-position-y": 0, "background-width": BAND, "background-height": "100%", "text-margin-x": BAND / 2 },
      },
      {
        selector: "node.closed",
        style: {
          "background-position-x": "50%", "background-position-y": "100%", "background-offset-y": -7, "background-width": "data(barWidth)", "background-height": 9,
          "text-margin-y": -7, "border-width": 1.6,
        },
      },
      {
        selector: "node.open",
        style: {
          "z-index": "data(depth)", "background-color": c.open, "background-opacity": 0.55, "border-color": c.line, "border-width": 1.4,
          "corner-radius": 10,
        },
      },
      { selector: "node.folded", style: { "border-style": "dashed" } },
      {
        selector: "node.title",
        style: { ...text, "font-weight": 600, "text-valign": "center", "background-color": c.open, "background-opacity": 0.8, "z-index": 440, "corner-radius": 4 },
      },
      {
        selector: "node.size",
        style: {
          ...text, "font-weight": 600, color: c.copy, "text-valign": "center", "background-color": c.ground, "z-index": 450,
          "border-width": 1, "border-color": c.copy, "corner-radius": 8,
        },
      },
      {
        selector: "edge",
        style: {
          width: "data(width)", "line-color": c.link, "target-arrow-color": c.link, "target-arrow-shape": "triangle", "arrow-scale": 0.8,
          "curve-style": "straight", "source-endpoint": "data(sourceEnd)", "target-endpoint": "data(targetEnd)", "z-index-compare": "manual",
          "z-index": 400, "overlay-opacity": 0,
        },
      },
      {
        selector: "edge.bent",
        style: {
          "curve-style": "round-segments", "segment-weights": "data(weights)", "segment-distances": "data(distances)", "segment-radii": 6,
          "edge-distances": "endpoints",
        },
      },
      { selector: "edge.control", style: { "line-style": "dotted", "target-arrow-shape": "vee" } },
      { selector: "edge.copy", style: { "line-color": c.copy, "target-arrow-color": c.copy, "z-index": 410 } },
      { selector: ".near", style: { "line-color": c.accent, "target-arrow-color": c.accent, "z-index": 430 } },
      { selector: "edge.copy.near", style: { "line-color": c.copy, "target-arrow-color": c.copy } },
      { selector: "edge.near", style: { "underlay-color": c.accent, "underlay-opacity": 0.25, "underlay-padding": 3 } },
      { selector: "node.chosen", style: { "border-color": c.accent, "border-width": 3.5, "underlay-color": c.accent, "underlay-opacity": 0.3, "underlay-padding": 5 } },
      { selector: "node.open.chosen", style: { "underlay-opacity": 0 } },
    ];
  }

  // --- looking around

  /** Marks an item or a link, and what leads to and from it. */
  mark(chosen) {
    this.cy.elements().removeClass("chosen near");
    if (chosen === null) return;
    if (typeof chosen === "number") {
      const box = this.cy.getElementById(String(chosen)).addClass("chosen");
      box.connectedEdges().addClass("near");
    } else {
      const number = this.links.findIndex((link) => link.source === chosen.source && link.target === chosen.target);
      this.cy.getElementById(`link${number}`).addClass("near");
      this.cy.getElementById(`size${number}`).addClass("chosen");
    }
  }

  /** Brings an item into the middle, large enough to be read. */
  centre(item) {
    const box = this.cy.getElementById(String(item));
    if (box.empty()) return;
    if (this.cy.zoom() < 0.7) this.cy.zoom(0.9);
    this.cy.center(box);
  }

  /** Brings an item into sight, if it is not. */
  bringIntoSight(item) {
    const box = this.cy.getElementById(String(item));
    if (box.empty()) return;
    const { x, y } = box.renderedPosition();
    const inside = x > 40 && y > 40 && x < this.cy.width() - 40 && y < this.cy.height() - 40;
    if (!inside || this.cy.zoom() < 0.4) this.centre(item);
  }

  /** The whole picture where its text stays legible; else its beginning. */
  fit() {
    const box = this.cy.elements().boundingBox();
    const [width, height] = [this.cy.width(), this.cy.height()];
    const zoom = Math.max(LEGIBLE, Math.min(1.5, (width - 2 * MARGIN) / (box.w || 1), (height - 2 * MARGIN) / (box.h || 1)));
    const pan = (size, room, start) => (zoom * size > room - MARGIN ? MARGIN / 2 - zoom * start : (room - zoom * size) / 2 - zoom * start);
    this.cy.viewport({ zoom, pan: { x: pan(box.w, width, box.x1), y: pan(box.h, height, box.y1) } });
  }

  /** All of it as it is laid out, whatever part is in sight. */
  drawn() {
    const box = this.cy.elements().boundingBox();
    const [dx, dy] = [MARGIN - box.x1, MARGIN - box.y1];
    const parts = this.cy.elements().toArray().sort((a, b) => a.numericStyle("z-index") - b.numericStyle("z-index"));
    const group = (down) => draw("g", { transform: `translate(${dx} ${dy + down})`, "font-size": 12 }, ...parts.flatMap((part) => (part.isEdge() ? this.drawnLink(part) : this.drawnBox(part))));
    return { width: box.w + 2 * MARGIN, height: box.h + 2 * MARGIN, group };
  }

  drawnLink(edge) {
    const [source, target] = [edge.sourceEndpoint(), edge.targetEndpoint()];
    const points = [source, ...(edge.segmentPoints() ?? []), target];
    const before = points.at(-2);
    const [wide, stroke] = [edge.numericStyle("width"), edge.style("line-color")];
    const far = Math.hypot(target.x - before.x, target.y - before.y) || 1;
    const way = { x: target.x, y: target.y, dx: (before.x - target.x) / far, dy: (before.y - target.y) / far };
    const dashes = edge.hasClass("control") ? { "stroke-dasharray": "1.5 2.5" } : {};
    return [
      draw("path", { d: "M" + points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L"), fill: "none", stroke, "stroke-width": wide, "stroke-linejoin": "round", ...dashes }),
      draw("path", { d: tipOf(way, 5 + wide), fill: stroke }),
    ];
  }

  drawnBox(node) {
    const { width, height, text, image, barWidth } = node.data();
    const [x, y] = [node.position("x") - width / 2, node.position("y") - height / 2];
    const fill = node.style("background-color");
    const wide = node.numericStyle("border-width");
    const border = wide ? { stroke: node.style("border-color"), "stroke-width": wide, ...(node.hasClass("folded") ? { "stroke-dasharray": "4 3" } : {}) } : {};
    const found = [draw("rect", { x, y, width, height, rx: node.hasClass("open") ? 10 : 6, fill, "fill-opacity": node.numericStyle("background-opacity"), ...border })];
    const bar = !image ? null : node.hasClass("node") ? { x, y, width: BAND, height } : { x: x + (width - barWidth) / 2, y: y + height - 16, width: barWidth, height: 9 };
    if (bar) found.push(imageAsDrawing(image, bar));
    const lines = (text ?? "").split("\n");
    const middle = y + height / 2 - (node.hasClass("closed") ? 7 : 0) - ((lines.length - 1) * LINE) / 2;
    const centre = node.position("x") + (node.hasClass("node") ? BAND / 2 : 0);
    lines.forEach((line, i) => found.push(draw("text", { x: centre, y: middle + i * LINE + 4, "text-anchor": "middle", fill: node.style("color"), "font-weight": node.style("font-weight") }, line)));
    return found;
  }

  zoomBy(factor) {
    this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: { x: this.cy.width() / 2, y: this.cy.height() / 2 } });
  }

  /** The nearest box in a direction (`dx`, `dy` of -1, 0, 1); the topmost where nothing is selected. */
  neighbour(item, dx, dy) {
    const boxes = this.cy.nodes(".node, .scope");
    const from = item === null ? null : this.cy.getElementById(String(item));
    if (!from || from.empty()) return boxes.empty() ? null : Number(boxes.min((box) => box.position("y") * 1e4 + box.position("x")).ele.id());
    const around = new Set(this.model.ancestors(item));
    const others = boxes.map((box) => ({ key: Number(box.id()), ...box.position() })).filter(({ key }) => !around.has(key));
    return nearest(from.position(), others, dx, dy);
  }
}
