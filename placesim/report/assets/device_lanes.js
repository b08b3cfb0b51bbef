// The arrangement by device: a lane for each, what it runs in it from left to right in the order of execution, and between lanes what is copied.
//
// A piece is what a closed scope or a node has on one device: a scope on two devices stands in both lanes.

const COLUMN = 150;
const LANE_HEAD = 132;
const NARROW = 620;
/** What a box has at most, as in `show.css`. */
const BOX_WIDTH = 210;
/** More bytes' labels than this would hide the links. */
const MAX_PILLS = 40;
/** Where along its wire a label may stand, the best place first. */
const FAR_END = [0.85, 0.78, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2];
const MIDDLE = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8];

class LaneView {
  /** `actions`: as the `GraphView`'s. */
  constructor(container, model, actions) {
    Object.assign(this, { container, model, actions, mode: null, opened: new Set(), pieces: [], wires: [], chosen: null });
    container.addEventListener("click", (event) => {
      const found = this.at(event);
      if (found !== undefined) actions.select(found);
    });
    container.addEventListener("dblclick", (event) => {
      const item = this.at(event);
      if (typeof item === "number" && isScope(item)) actions.toggle(item);
    });
    const isResized = () => this.width !== container.clientWidth || this.height !== container.clientHeight;
    new ResizeObserver(() => isResized() && this.pieces.length && this.draw()).observe(container);
  }

  /** What was pressed: an item, a link, null for the ground; undefined for what acts by itself. */
  at(event) {
    const box = event.target.closest(".box, .wire, .pill, button");
    if (!box) return null;
    if (box.dataset.wire !== undefined) return this.wires[Number(box.dataset.wire)].link;
    return box.dataset.item === undefined ? undefined : Number(box.dataset.item);
  }

  async show(opened) {
    this.opened = opened;
    this.pieces = this.findPieces();
    this.wires = [];
    this.findLinks();
    const places = placesOf(this.pieces.map((piece) => piece.depth), this.links);
    this.pieces.forEach((piece, i) => (piece.place = places[i]));
    this.draw();
    return true;
  }

  // --- what is drawn

  findPieces() {
    const { model } = this;
    const { device, depth } = model.nodes;
    this.pieceOf = new Int32Array(model.count);
    const found = [];
    for (const item of model.visible(this.opened)) {
      if (this.opened.has(item)) continue;
      const here = new Map();
      for (const node of model.nodesIn(item)) {
        if (!here.has(device[node])) here.set(device[node], { item, device: device[node], nodes: [], depth: 0 });
        const piece = here.get(device[node]);
        piece.nodes.push(node);
        piece.depth += depth[node];
      }
      for (const piece of [...here.values()].sort((a, b) => a.device - b.device)) {
        piece.depth /= piece.nodes.length;
        piece.number = found.push(piece) - 1;
        for (const node of piece.nodes) this.pieceOf[node] = piece.number;
      }
    }
    return found;
  }

  /** Which pieces lead to which, and the wires: links between lanes with what is copied for them. */
  findLinks() {
    const { model, pieceOf } = this;
    const links = new Map();
    const passed = new Set();
    for (let node = 0; node < model.count; node++) {
      for (const [source, slot, copy] of model.inputs(node)) {
        const [from, to] = [pieceOf[source], pieceOf[node]];
        if (from === to) continue;
        const key = from * this.pieces.length + to;
        let link = links.get(key);
        if (!link) links.set(key, (link = { from, to, source: this.pieces[from].item, target: this.pieces[to].item, edges: 0, data: false, copies: new Set() }));
        link.edges += 1;
        link.data ||= slot !== CONTROL;
        if (copy !== null) passed.add(copy) && link.copies.add(copy);
      }
    }
    this.allLinks = [...links.values()];
    this.links = this.allLinks.map(({ from, to }) => [from, to]);
    // where all is on one device its links are drawn: else nothing would be seen
    this.isAlone = new Set(this.pieces.map(({ device }) => device)).size === 1;
    this.wires = this.allLinks.filter((link) => link.copies.size || this.isAlone).map((link) => ({ link, from: link.from, to: link.to, total: model.total(link.copies) }));
    if (!model.has_graph) this.findWrittenWires(passed);
    for (const wire of this.wires) wire.isControl = !wire.link.data;
  }

  /** A report has copies and no edges: a copy leads to the lane where it arrives. */
  findWrittenWires(passed) {
    const found = new Map();
    this.model.copies.forEach(([node, , src, dst], copy) => {
      if (node < 0 || src === dst || passed.has(copy)) return;
      const key = `${this.pieceOf[node]} ${dst}`;
      if (!found.has(key)) {
        const { item } = this.pieces[this.pieceOf[node]];
        found.set(key, { from: this.pieceOf[node], lane: dst, link: { source: item, target: item, edges: 0, data: true, copies: new Set() } });
      }
      found.get(key).link.copies.add(copy);
    });
    for (const wire of found.values()) this.wires.push({ ...wire, total: this.model.total(wire.link.copies) });
  }

  // --- drawing

  draw() {
    const { model } = this;
    this.width = this.container.clientWidth;
    this.height = this.container.clientHeight;
    const narrow = this.width < NARROW;
    const room = this.width - (narrow ? 0 : LANE_HEAD) - 24;
    const places = Math.max(0, ...this.pieces.map((piece) => piece.place)) + 1;
    this.columns = Math.max(1, Math.min(places, Math.floor(room / COLUMN)));
    const columns = columnsOf(this.pieces, places, this.columns);
    this.columns = columns.at(-1) + 1;
    const column = (piece) => columns[piece.place];
    this.boxRoom = Math.min(BOX_WIDTH, (room + 24) / this.columns - (narrow ? 18 : 32)) - 20;
    this.mostWork = Math.max(0, ...model.devices.map(({ work }) => work ?? 0));
    const lanes = model.devices.map((_, i) => i);
    if (this.pieces.some((piece) => piece.device < 0)) lanes.push(-1);
    const children = this.openScopes();
    let task = "";
    this.heads = new Map();
    for (const device of lanes) {
      const owner = model.devices[device]?.task ?? "";
      if (owner !== task) children.push(element("h2", { className: "task" }, [(task = owner) || "not placed"]));
      children.push(this.lane(device, this.pieces.filter((piece) => piece.device === device), column));
    }
    this.svg = draw("svg", { class: "wires", "aria-hidden": "true" });
    this.pills = element("div", { className: "pills" });
    this.ground = element("div", { className: narrow ? "ground narrow" : "ground" }, [...children, this.svg, this.pills]);
    this.ground.style.setProperty("--columns", this.columns);
    this.container.replaceChildren(this.ground);
    this.drawWires();
    this.mark(this.chosen);
  }

  /** Open scopes as buttons that close them: in lanes their boxes stand by themselves. */
  openScopes() {
    const open = [...this.opened].filter((item) => item !== ROOT && this.model.visible(this.opened).includes(item));
    if (!open.length) return [];
    const buttons = open.slice(0, MAX_LISTED).map((item) => {
      const button = element("button", { textContent: `${this.model.name(item)} ✕`, title: "Close this scope" });
      button.addEventListener("click", () => this.actions.toggle(item));
      return button;
    });
    return [element("p", { className: "open" }, ["Open: ", ...buttons])];
  }

  lane(device, pieces, column) {
    const cells = Array.from({ length: this.columns }, () => element("div", { className: "cell" }));
    for (const piece of [...pieces].sort((a, b) => a.place - b.place || a.depth - b.depth)) cells[column(piece)].append((piece.box = this.box(piece)));
    const head = this.head(device, pieces);
    this.heads.set(device, head);
    const lane = element("section", { className: pieces.length ? "lane" : "lane empty" }, [head, element("div", { className: "cells" }, cells)]);
    lane.setAttribute("aria-label", this.model.deviceText(device));
    return lane;
  }

  /** A lane's name, how busy it is, and its memory. */
  head(device, pieces) {
    const { model } = this;
    this.devices ??= deviceMode(model);
    const name = (model.devices[device]?.short ?? "not placed").split("/").pop();
    const count = pieces.reduce((sum, piece) => sum + piece.nodes.length, 0);
    const lines = [
      element("strong", {}, [swatch(this.devices.looks.at(device)), " ", name]),
      element("span", { className: "sub" }, [count ? countText(count, "op") : "no ops"]),
    ];
    const work = model.devices[device]?.work ?? null;
    if (work !== null && count) {
      lines.push(this.meter(work / (this.mostWork || 1)), element("span", { className: "sub", title: "Predicted time of all its ops in a step, run one after another" }, [`${secondsText(work)} of work`]));
    }
    const peak = model.memory?.peaks.find(([owner]) => owner === device);
    if (peak) {
      const [, bytes, limit] = peak;
      if (limit !== null) lines.push(this.meter(bytes / limit, bytes > limit));
      lines.push(element("span", { className: bytes > (limit ?? Infinity) ? "sub copied" : "sub" }, [limit === null ? `${bytesText(bytes)} at the peak` : distinctTexts(bytes, limit).join(" of ")]));
    }
    return element("div", { className: "head", title: model.devices[device]?.name ?? "" }, lines);
  }

  meter(share, isOver = false) {
    const bar = element("div", { className: isOver ? "meter over" : "meter" }, [element("span")]);
    bar.firstChild.style.width = `${Math.min(100, 100 * share)}%`;
    return bar;
  }

  box(piece) {
    const { model } = this;
    const { item } = piece;
    const scope = isScope(item);
    const copies = scope ? model.scopes.copies[scopeOf(item)] : 0;
    const size = scope ? model.sizes[scopeOf(item)].nodes : 1;
    const what = !scope ? model.ops[model.nodes.op[item]]
      : piece.nodes.length === size ? countText(size, "op") : `${piece.nodes.length.toLocaleString("en")} of ${countText(size, "op")}`;
    const isFolded = scope && model.scopes.folded[scopeOf(item)];
    const name = element("span", { className: "name" }, [this.fitted((scope ? "▸ " : "") + (isFolded ? model.label(item) : model.name(item)))]);
    const box = element("div", { className: `box ${scope ? "closed" : "node"}${isFolded ? " folded" : ""}` }, [
      name,
      element("span", { className: "sub" }, [copies ? `×${copies} · ${what}` : what]),
      element("img", { alt: "" }),
    ]);
    box.dataset.item = item;
    box.title = model.name(item) + (copies ? `: ${copies} alike` : "");
    this.paint(box, piece);
    return box;
  }

  /** A box's name, cut where it is too wide: its last part stays whole, if it has room, and of what is before it the beginning. */
  fitted(text) {
    const pen = this.penOf("600 12px system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif");
    const fits = (shown) => pen.measureText(shown).width <= this.boxRoom;
    if (fits(text)) return text;
    const [first, end] = text.split(" … "); // of several alike: the first and the last
    if (end !== undefined) return fits(`${first}…${end}`) ? `${first}…${end}` : fits(`${first} …`) ? `${first} …` : this.fitted(first);
    const cut = text.lastIndexOf("/");
    const [before, last] = cut < 0 ? ["", text] : [text.slice(0, cut), text.slice(cut)];
    const most = Math.floor(this.boxRoom / 3);
    for (let kept = Math.min(before.length - 1, most); kept > 0; kept--) if (fits(`${before.slice(0, kept)}…${last}`)) return `${before.slice(0, kept)}…${last}`;
    for (let kept = Math.min(last.length - 1, most); kept > 0; kept--) {
      const end = Math.floor(kept / 3);
      const shown = `${last.slice(0, kept - end)}…${last.slice(last.length - end)}`;
      if (fits(shown)) return shown;
    }
    return "…";
  }

  penOf(font) {
    this.pen ??= document.createElement("canvas").getContext("2d");
    this.pen.font = font;
    return this.pen;
  }

  paint(box, piece) {
    const parts = this.mode.count(piece.nodes);
    const alone = parts.length === 1 ? parts[0][0].colour : null;
    box.style.background = alone ? mix(alone, this.colours.surface, 0.14) : this.colours.surface;
    box.style.borderColor = alone ? mix(alone, this.colours.text, 0.75) : this.colours.soft;
    box.querySelector("img").src = barImage(parts, COLUMN, 6, 0);
  }

  // --- wires

  place(element) {
    const ground = this.ground.getBoundingClientRect();
    const { left, top, width, height } = element.getBoundingClientRect();
    return { x: left - ground.left, y: top - ground.top, width, height };
  }

  drawWires() {
    const most = Math.max(1, ...this.wires.map(({ total }) => total.bytes));
    for (const piece of this.pieces) piece.rect = this.place(piece.box);
    this.svg.setAttribute("width", this.ground.scrollWidth);
    this.svg.setAttribute("height", this.ground.scrollHeight);
    this.fan();
    this.wires.forEach((wire, i) => {
      wire.width = wire.total.copies ? 1.4 + 5.6 * Math.sqrt(wire.total.bytes / most) : 1.2;
      const kind = (wire.total.copies ? "" : " inside") + (wire.isControl ? " control" : "");
      wire.path = draw("path", { class: `wire${kind}`, d: wireOf(wire.start, wire.end), "stroke-width": wire.width.toFixed(1), "data-wire": i });
      this.svg.append(wire.path);
      wire.head = draw("path", { class: `tip${kind}`, d: tipOf(wire.end, 4 + wire.width) });
      this.svg.append(wire.head);
    });
    this.drawPills();
  }

  /** Where wires begin and end: side by side along the boxes' edges, in the order of where they lead. */
  fan() {
    const sides = new Map();
    for (const wire of this.wires) {
      const from = this.pieces[wire.from].rect;
      const to = wire.lane === undefined ? this.pieces[wire.to].rect : this.place(this.heads.get(wire.lane));
      const isAhead = to.x > from.x + from.width;
      const down = to.y > from.y;
      const out = isAhead ? { side: "right", dx: 1, dy: 0 } : { side: down ? "bottom" : "top", dx: 0, dy: down ? 1 : -1 };
      const into = isAhead ? { side: "left", dx: -1, dy: 0 } : { side: down ? "top" : "bottom", dx: 0, dy: down ? -1 : 1 };
      for (const [end, rect, key, other, way] of [["start", from, `${wire.from}`, to, out], ["end", to, wire.lane === undefined ? `${wire.to}` : `lane${wire.lane}`, from, into]]) {
        const name = `${key} ${way.side}`;
        sides.set(name, [...(sides.get(name) ?? []), { wire, end, rect, way, by: way.dx ? other.y + other.height / 2 : other.x + other.width / 2 }]);
      }
    }
    for (const ends of sides.values()) {
      ends.sort((a, b) => a.by - b.by);
      ends.forEach(({ wire, end, rect, way }, i) => {
        const share = (i + 1) / (ends.length + 1);
        wire[end] = way.dx
          ? { x: way.dx > 0 ? rect.x + rect.width : rect.x, y: rect.y + rect.height * share, ...way }
          : { x: rect.x + rect.width * share, y: way.dy > 0 ? rect.y + rect.height : rect.y, ...way };
      });
    }
  }

  /** The bytes beside the wires, the largest first, where they hide neither a box nor each other. */
  drawPills() {
    const taken = [...this.pieces.map(({ rect }) => rect), ...[...this.heads.values()].map((head) => this.place(head))];
    const pen = this.penOf("600 11px system-ui, sans-serif");
    // where many wires leave one box, or come to one, each has its bytes near its other end
    const ends = (key) => this.wires.reduce((found, wire) => found.set(wire[key], (found.get(wire[key]) ?? 0) + 1), new Map());
    const [starts, targets] = [ends("from"), ends("to")];
    for (const wire of this.wires) {
      const [out, into] = [starts.get(wire.from), targets.get(wire.to)];
      wire.shares = out > into ? FAR_END : out < into ? [...FAR_END].reverse() : MIDDLE;
    }
    const order = this.wires.map((wire, i) => [wire, i]).sort(([a], [b]) => b.total.bytes - a.total.bytes).slice(0, MAX_PILLS);
    for (const [wire, i] of order) {
      if (!wire.total.copies) continue;
      const text = sizeText(wire.total);
      const [width, height] = [pen.measureText(text).width + 12, 17];
      const length = wire.path.getTotalLength();
      for (const share of wire.shares) {
        const { x, y } = wire.path.getPointAtLength(length * share);
        const rect = { x: x - width / 2, y: y - height / 2, width, height };
        if (rect.x < 0 || rect.x + width > this.ground.clientWidth || taken.some((other) => overlaps(rect, other))) continue;
        taken.push(rect);
        const pill = element("span", { className: "pill", textContent: text });
        pill.dataset.wire = i;
        Object.assign(pill.style, { left: `${rect.x}px`, top: `${rect.y}px`, width: `${width}px` });
        this.pills.append(pill);
        break;
      }
    }
  }

  // --- looks

  setMode(mode, colours) {
    Object.assign(this, { mode, colours });
    for (const piece of this.pieces) if (piece.box) this.paint(piece.box, piece);
  }

  /** Marks an item or a link, and what leads to and from it, in its lane too. */
  mark(chosen) {
    this.chosen = chosen;
    if (!this.ground) return;
    this.svg.querySelectorAll(".near").forEach((wire) => wire.remove());
    const isItem = typeof chosen === "number";
    for (const piece of this.pieces) piece.box.classList.toggle("chosen", isItem && piece.item === chosen);
    this.svg.classList.toggle("dimmed", chosen !== null && (!isItem || this.pieces.some(({ item }) => item === chosen)));
    for (const wire of this.wires) wire.path.classList.toggle("lit", isItem ? wire.link.source === chosen || wire.link.target === chosen : wire.link === chosen);
    for (const link of isItem ? this.allLinks : []) {
      if (link.copies.size || (link.source !== chosen && link.target !== chosen)) continue;
      const [from, to] = [this.pieces[link.from].rect, this.pieces[link.to].rect];
      const isAhead = to.x > from.x + from.width;
      const [start, end] = isAhead
        ? [{ x: from.x + from.width, y: from.y + from.height / 2, dx: 1, dy: 0 }, { x: to.x, y: to.y + to.height / 2, dx: -1, dy: 0 }]
        : [{ x: from.x + 12, y: from.y + (to.y > from.y ? from.height : 0), dx: 0, dy: to.y > from.y ? 1 : -1 }, { x: to.x + 12, y: to.y + (to.y > from.y ? 0 : to.height), dx: 0, dy: to.y > from.y ? -1 : 1 }];
      this.svg.append(draw("path", { class: link.data ? "near" : "near control", d: wireOf(start, end) }));
    }
  }

  // --- looking around

  /** All of it, also what is scrolled out of sight. */
  drawn() {
    return new Drawn(this.ground);
  }

  boxOf(item) {
    return this.pieces.find((piece) => piece.item === item)?.box;
  }

  centre(item) {
    this.boxOf(item)?.scrollIntoView({ block: "center", inline: "center" });
  }

  bringIntoSight(item) {
    this.boxOf(item)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  fit() {
    this.container.scrollTo(0, 0);
  }

  zoomBy() {}

  neighbour(item, dx, dy) {
    const boxes = this.pieces.map(({ item: key, rect }) => ({ key, x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 }));
    const start = boxes.find(({ key }) => key === item);
    return start ? nearest(start, boxes, dx, dy) : (boxes[0]?.key ?? null);
  }
}

const overlaps = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** For each place its column: the places side by side in at most so many columns that the highest stack in a lane is as low as can be. */
function columnsOf(pieces, places, most) {
  const counts = Array.from({ length: places }, () => new Map());
  for (const { place, device } of pieces) counts[place].set(device, (counts[place].get(device) ?? 0) + 1);
  for (let limit = 1; ; limit++) {
    const found = [0];
    let held = new Map(counts[0]);
    for (let place = 1; place < places; place++) {
      const both = new Map(held);
      for (const [device, count] of counts[place]) both.set(device, (both.get(device) ?? 0) + count);
      const isNew = Math.max(...both.values()) > limit;
      found.push(found.at(-1) + (isNew ? 1 : 0));
      held = isNew ? new Map(counts[place]) : both;
    }
    if (found.at(-1) < most) return places <= most ? counts.map((_, place) => place) : found;
  }
}

/** A curve from an end to an end, each `{x, y, dx, dy}` with the direction in which it leaves its box. */
function wireOf(start, end) {
  const reach = Math.max(22, Math.min(90, Math.hypot(end.x - start.x, end.y - start.y) / 2.4));
  const at = (point) => `${(point.x + point.dx * reach).toFixed(1)} ${(point.y + point.dy * reach).toFixed(1)}`;
  return `M${start.x.toFixed(1)} ${start.y.toFixed(1)}C${at(start)} ${at(end)} ${end.x.toFixed(1)} ${end.y.toFixed(1)}`;
}

/** The tip of an arrow that ends there. */
function tipOf({ x, y, dx, dy }, size) {
  const side = size * 0.6;
  return `M${x} ${y}L${x + dx * size - dy * side} ${y + dy * size + dx * side}L${x + dx * size + dy * side} ${y + dy * size - dx * side}Z`;
}
