// The devices as columns, with their scopes and nodes as rows that can be dragged, and what is copied between them as arcs above.

/** Rows of one list that are drawn at first, and how many more a click adds. */
const ROWS_SHOWN = 120;
/** The scopes of a graph with no more nodes than this are open at first. */
const OPEN_NODES = 40;
const LINKS_HEIGHT = 72;
const MOST_ARC_TEXTS = 8;
/** How long a finger holds a row before it drags it, how far a pointer moves before it drags, and where columns scroll. */
const HOLD_MS = 400;
const DRAG_LEAST = 5;
const EDGE_WIDTH = 28;
/** Heads the column of nodes that are on no device. */
const NOT_PLACED = { name: "not placed", short: "not placed" };

class Board {
  /** `actions`: `choose(paths)`, `explain(path)`, `move(paths, device)`, `offer(paths, near)`; all without effect in a shared page. */
  constructor(actions, isLive) {
    Object.assign(this, { actions, isLive, opened: new Set(), chosen: new Set(), shownRows: new Map(), moved: new Map(), edited: new Set() });
    this.container = byId("devices");
    this.links = byId("links");
    const { container } = this;
    container.addEventListener("click", (event) => this.clicked(event));
    container.addEventListener("dblclick", (event) => this.toggle(this.rowAt(event)?.dataset.path));
    container.addEventListener("keydown", (event) => this.pressed(event));
    if (isLive) this.listenToDrags();
    new ResizeObserver(() => this.drawLinks()).observe(container);
  }

  /** `changes` are the server's, or null; `edits` those of devices in the state; `facts` the hardware of the devices. */
  show(placement, changes, edits, facts) {
    if (!this.placement) this.openSmall(placement);
    this.placement = placement;
    this.facts = facts;
    this.changes = changes;
    this.edited = new Set(edits.map(([path]) => path));
    this.moved = new Map();
    for (const { name, before } of changes?.moved ?? []) for (const node of placement.nodesAt(name)) this.moved.set(node, before);
    this.added = new Set((changes?.added ?? []).flatMap((name) => placement.nodesAt(name)));
    this.chosen = new Set([...this.chosen].filter((path) => placement.nodesAt(path).length));
    this.render();
  }

  /** Memory and use, which come later than the placement. */
  measure(measure) {
    this.measured = measure;
    const focused = document.activeElement?.closest?.(".device-head")?.parentElement;
    if (this.placement) this.placement.columns.forEach((device) => this.fillHead(device));
    focused?.querySelector(".all")?.focus();
  }

  openSmall(placement) {
    if (placement.count > OPEN_NODES) return;
    for (const path of placement.scopeAt.keys()) this.opened.add(path);
  }

  // --- drawing

  render() {
    const { placement, container } = this;
    const focused = container.contains(document.activeElement) ? document.activeElement : null;
    const at = focused && [Number(focused.closest(".device").dataset.device), focused.dataset.path];
    const tops = [...container.children].map((column) => column.querySelector(".rows").scrollTop);
    this.looks = deviceMode(placement).looks;
    container.replaceChildren(...placement.columns.map((device) => this.column(device)));
    [...container.children].forEach((column, device) => (column.querySelector(".rows").scrollTop = tops[device] ?? 0));
    placement.columns.forEach((device) => this.fillHead(device));
    this.mark();
    if (at) this.focusRow(...at);
    this.drawLinks();
  }

  column(device) {
    const { name, short } = this.placement.devices[device] ?? NOT_PLACED;
    const rows = element("div", { className: "rows", role: "tree" }, this.rows(device));
    rows.setAttribute("aria-label", short);
    rows.setAttribute("aria-multiselectable", "true");
    if (!rows.children.length) {
      rows.removeAttribute("role");
      rows.removeAttribute("aria-label");
      rows.removeAttribute("aria-multiselectable");
      rows.append(element("p", { className: "empty" }, ["no nodes"]));
    }
    const column = element("section", { className: device < this.placement.devices.length ? "device" : "device unplaced" }, [element("div", { className: "device-head" }), rows]);
    column.dataset.device = device;
    column.setAttribute("aria-label", name);
    return column;
  }

  fillHead(device) {
    const column = this.container.children[device];
    const { short, name } = this.placement.devices[device] ?? NOT_PLACED;
    const title = element("h3", { title: name }, [swatch(this.looks[device]), short]);
    const nodes = this.placement.root.counts[device];
    const count = element("small", {}, [countText(nodes, "node")]);
    const isMovable = this.isLive && nodes > 0;
    column.firstChild.classList.toggle("movable", isMovable);
    column.firstChild.replaceChildren(element("div", { className: "device-name" }, [title, count, ...(isMovable ? [this.moveAll(device, short)] : [])]), ...(device < this.placement.devices.length ? this.told(device, short) : []));
  }

  /** A button that moves all of a device, as dragging its head does. */
  moveAll(device, short) {
    const found = element("button", { className: "all", textContent: "⇄", title: `Move all of ${short} to another device, or drag this head there` });
    found.setAttribute("aria-label", `Move all of ${short}`);
    found.setAttribute("aria-haspopup", "menu");
    found.addEventListener("click", () => this.actions.offer(this.placement.pathsOn(device), found));
    return found;
  }

  /** What the step says of a device: its processor, how busy it is, and its memory. */
  told(device, short) {
    const { lanes, now, before } = this.measured ?? {};
    const { model, limit } = this.facts[device];
    const number = lanes?.short.indexOf(short) ?? -1;
    const busy = number < 0 ? null : lanes.devices[number].busy;
    const found = [element("p", { className: "processor", title: model }, [[model, !busy ? "" : `busy ${shareText(busy)}`].filter(Boolean).join(" · ")])];
    const memory = now?.memory.find((each) => each.device === short) ?? (limit === null ? null : { peak: 0, limit, parts: [] });
    if (memory) found.push(...memoryBar(memory, before?.memory.find((each) => each.device === short)));
    return found;
  }

  /** The rows of a device that are seen: scopes with nodes on it, and below the open ones what they hold. */
  rows(device) {
    const found = [];
    const add = (scope, level) => {
      const here = scope.children.filter((child) => (child instanceof NameScope ? child.counts[device] : this.placement.columnOf(child) === device));
      const most = this.shownRows.get(`${device} ${scope.path}`) ?? ROWS_SHOWN;
      for (const child of here.slice(0, most)) {
        if (!(child instanceof NameScope)) {
          found.push(this.nodeRow(child, level));
          continue;
        }
        found.push(this.scopeRow(child, device, level));
        if (this.opened.has(child.path)) add(child, level + 1);
      }
      if (here.length > most) found.push(this.moreRow(scope.path, here.length - most, level));
    };
    add(this.placement.root, 1);
    return found;
  }

  row(path, level, parts, properties = {}) {
    const found = element("div", { className: "chip", role: "treeitem", tabIndex: -1, title: path, ...properties }, parts);
    found.dataset.path = path;
    found.style.paddingLeft = `${level * 12 - 4}px`;
    found.setAttribute("aria-level", level);
    return found;
  }

  scopeRow(scope, device, level) {
    const { path, label, nodes, counts } = scope;
    const isOpen = this.opened.has(path);
    const moved = nodes.filter((node) => this.placement.columnOf(node) === device && this.moved.has(node)).length;
    const count = counts[device] === nodes.length ? `${nodes.length}` : `${counts[device]} of ${nodes.length}`;
    const found = this.row(path, level, [
      element("span", { className: "twisty", ariaHidden: "true" }, [isOpen ? "▾" : "▸"]),
      element("span", { className: "label" }, [`${label}/`]),
      ...(moved ? [tag(`${moved} moved`, "", "moved")] : []),
      ...(this.edited.has(path) ? [setTag()] : []),
      element("span", { className: "count" }, [count.replace(/\d+/g, (digits) => Number(digits).toLocaleString("en"))]),
    ]);
    found.setAttribute("aria-expanded", isOpen);
    return found;
  }

  nodeRow(node, level) {
    const { nodes, ops } = this.placement;
    const name = nodes.name[node];
    const from = this.moved.get(node);
    return this.row(name, level, [
      element("span", { className: "twisty", ariaHidden: "true" }, ["·"]),
      element("span", { className: "label" }, [name.slice(name.lastIndexOf("/") + 1)]),
      ...(this.edited.has(name) ? [setTag()] : []),
      ...(from === undefined ? [] : [tag(`← ${from}`, `moved from ${from}`, "moved")]),
      ...(this.added.has(node) ? [tag("new", "not in the graph before", "moved")] : []),
      ...(from === undefined && !this.edited.has(name) ? [element("span", { className: "count" }, [ops[nodes.op[node]]])] : []),
    ], { className: "chip", title: `${name} (${ops[nodes.op[node]]})` });
  }

  moreRow(path, count, level) {
    const found = this.row("", level, [element("span", { className: "label" }, [`${count.toLocaleString("en")} more`])], { className: "chip more", title: "Show more" });
    found.dataset.more = path;
    return found;
  }

  /** Marks what is chosen, and makes one row of each device the one that Tab reaches. */
  mark() {
    for (const column of this.container.children) {
      const rows = [...column.querySelectorAll(".chip")];
      for (const row of rows) {
        row.setAttribute("aria-selected", this.chosen.has(row.dataset.path));
        row.tabIndex = -1;
      }
      const reached = rows.find((row) => row === this.lastFocused) ?? rows.find((row) => this.chosen.has(row.dataset.path)) ?? rows[0];
      if (reached) reached.tabIndex = 0;
    }
  }

  /** Arcs above the columns for what is copied between devices, wider for more bytes; accented where it is new. */
  drawLinks() {
    if (!this.placement) return;
    const ways = this.ways();
    this.links.hidden = !ways.length;
    this.links.setAttribute("aria-label", ways.map(({ text }) => text).join("; "));
    if (!ways.length) return;
    const width = this.container.scrollWidth;
    const base = this.container.getBoundingClientRect().left;
    const middles = [...this.container.children].map((column) => {
      const box = column.getBoundingClientRect();
      return (box.left + box.right) / 2 - base;
    });
    const most = Math.max(...ways.map(({ bytes }) => bytes), 1);
    const farthest = Math.max(...ways.map(({ source, target }) => Math.abs(target - source)));
    const svg = draw("svg", { width, height: LINKS_HEIGHT, viewBox: `0 0 ${width} ${LINKS_HEIGHT}`, "aria-hidden": "true" });
    const texts = [];
    for (const { source, target, bytes, isNew, text } of ways) {
      const [from, to] = [middles[source] + (target > source ? 6 : -6), middles[target] + (target > source ? -6 : 6)];
      // the arc back lies below the arc forth
      const depth = (0.4 + (0.6 * Math.abs(target - source)) / farthest) * (target > source ? 1 : 0.72);
      const top = LINKS_HEIGHT - 4 - depth * (LINKS_HEIGHT - 4);
      const wide = 1 + (4 * Math.log2(1 + bytes)) / Math.log2(1 + most);
      const path = draw("path", { d: `M${from} ${LINKS_HEIGHT - 4}C${from} ${top},${to} ${top},${to} ${LINKS_HEIGHT - 4}`, class: isNew ? "arc new" : "arc", "stroke-width": wide.toFixed(1) }, draw("title", {}, text));
      const end = draw("path", { d: `M${to} ${LINKS_HEIGHT}l-4 -7h8z`, class: isNew ? "arrow new" : "arrow" });
      svg.append(path, end);
      if (ways.length <= MOST_ARC_TEXTS) texts.push(draw("text", { x: (from + to) / 2, y: LINKS_HEIGHT - 4 - (LINKS_HEIGHT - 4 - top) * 0.75 + (target > source ? -wide / 2 - 3 : wide / 2 + 10), "text-anchor": "middle" }, bytesText(bytes)));
    }
    svg.append(...texts);
    this.links.replaceChildren(svg);
  }

  /** What is copied from one device to another, by pairs of devices. */
  ways() {
    const { placement } = this;
    const found = new Map();
    for (const [, , source, target, bytes] of placement.copies) {
      const key = `${placement.short[source]} → ${placement.short[target]}`;
      const way = found.get(key) ?? { source, target, count: 0, bytes: 0, isUnknown: false };
      way.count += 1;
      way.bytes += bytes ?? 0;
      way.isUnknown ||= bytes === null;
      found.set(key, way);
    }
    const fresh = new Set((this.changes?.transfers ?? []).filter(({ before }) => !before[0]).map(({ source, target }) => `${source} → ${target}`));
    return [...found].map(([key, way]) => ({ ...way, isNew: fresh.has(key), text: `${placement.short[way.source]} → ${placement.short[way.target]}: ${countText(way.count, "tensor")}, ${way.isUnknown ? "at least " : ""}${bytesText(way.bytes)}` }));
  }

  // --- what is chosen

  choose(paths, isTold = true) {
    this.chosen = new Set(paths);
    this.mark();
    if (isTold) this.actions.choose(paths);
  }

  /** Opens the scopes around a path, and brings its row into view. */
  reveal(path) {
    const before = this.opened.size;
    for (let end = path.lastIndexOf("/", path.length - 2) + 1; end > 0; end = path.lastIndexOf("/", end - 2) + 1) this.opened.add(path.slice(0, end));
    if (this.opened.size > before) this.render();
    this.container.querySelector(`.chip[data-path="${CSS.escape(path)}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  rowAt(event) {
    return event.target.closest(".chip");
  }

  clicked(event) {
    const row = this.rowAt(event);
    if (!row) return;
    this.lastFocused = row;
    if (row.dataset.more !== undefined) return this.showMore(row);
    const { path } = row.dataset;
    if (event.target.closest(".twisty") && path.endsWith("/")) return this.toggle(path);
    if (event.ctrlKey || event.metaKey) this.addToChosen(path);
    else this.choose([path]);
  }

  addToChosen(path) {
    const chosen = new Set(this.chosen);
    if (!chosen.delete(path)) chosen.add(path);
    this.choose([...chosen]);
  }

  toggle(path) {
    if (!path?.endsWith("/")) return;
    if (!this.opened.delete(path)) this.opened.add(path);
    this.render();
  }

  showMore(row) {
    const key = `${row.closest(".device").dataset.device} ${row.dataset.more}`;
    this.shownRows.set(key, (this.shownRows.get(key) ?? ROWS_SHOWN) + ROWS_SHOWN);
    const at = [...row.parentElement.children].indexOf(row);
    const { device } = row.closest(".device").dataset;
    this.render();
    this.container.children[device].querySelectorAll(".chip")[at]?.focus();
  }

  /** Puts the focus where it was before everything was drawn anew: on a row, wherever it is now, or on the button above the rows. */
  focusRow(device, path) {
    const named = path === undefined ? null : this.rowOf(device, path) ?? this.container.querySelector(`.chip[data-path="${CSS.escape(path)}"]`);
    const row = named ?? this.container.children[device]?.querySelector(".all, .chip") ?? this.container.querySelector(".chip");
    if (!row) return;
    this.lastFocused = row;
    this.mark();
    row.focus({ preventScroll: true });
  }

  rowOf(device, path) {
    return this.container.children[device]?.querySelector(`.chip[data-path="${CSS.escape(path)}"]`);
  }

  /** Puts the focus on what is chosen, or on the first row. */
  focus() {
    const row = this.container.querySelector('.chip[aria-selected="true"]') ?? this.container.querySelector(".chip");
    row?.focus();
  }

  // --- keys

  pressed(event) {
    const row = this.rowAt(event);
    if (!row || event.altKey || event.metaKey) return;
    const { path } = row.dataset;
    const rows = [...row.closest(".rows").querySelectorAll(".chip")];
    const at = rows.indexOf(row);
    const isScopeRow = path.endsWith("/");
    const go = (to) => {
      const next = rows[Math.min(Math.max(0, to), rows.length - 1)];
      this.lastFocused = next;
      if (next.dataset.path && !event.ctrlKey) this.choose([next.dataset.path]);
      else this.mark();
      next.focus();
    };
    const keys = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => isScopeRow && (this.opened.has(path) ? go(at + 1) : this.toggle(path)),
      ArrowLeft: () => (isScopeRow && this.opened.has(path) ? this.toggle(path) : go(this.parentAt(rows, at))),
      Enter: () => (row.dataset.more === undefined ? this.actions.explain(path) : this.showMore(row)),
      " ": () => (event.ctrlKey ? this.addToChosen(path) : row.dataset.more === undefined ? this.choose([path]) : this.showMore(row)),
      m: () => !event.ctrlKey && path && this.isLive && this.actions.offer(this.chosen.has(path) ? [...this.chosen] : [path], row),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  }

  parentAt(rows, at) {
    const level = Number(rows[at].getAttribute("aria-level"));
    for (let i = at - 1; i >= 0; i--) if (Number(rows[i].getAttribute("aria-level")) < level) return i;
    return at;
  }

  // --- dragging: at once with a mouse; after a hold with a finger, so that lists can still be scrolled

  listenToDrags() {
    const { container } = this;
    container.addEventListener("pointerdown", (event) => this.grab(event));
    const stop = (event) => this.drag?.ghost && event.cancelable && event.preventDefault(); // a scroll that runs can't be stopped
    container.addEventListener("touchmove", stop, { passive: false });
    container.addEventListener("contextmenu", (event) => this.drag?.isTouch && event.preventDefault());
    addEventListener("pointermove", (event) => event.pointerId === this.drag?.pointer && this.dragTo(event));
    addEventListener("pointerup", (event) => event.pointerId === this.drag?.pointer && this.drop());
    addEventListener("pointercancel", () => this.endDrag());
    addEventListener("keydown", (event) => event.key === "Escape" && this.drag?.ghost && this.endDrag());
  }

  grab(event) {
    const held = event.target.closest(".chip[data-path]:not(.more), .device-head.movable");
    if (!held || event.button || !event.isPrimary || event.target.closest("button")) return;
    const { path } = held.dataset;
    const device = Number(held.closest(".device").dataset.device);
    const isTouch = event.pointerType === "touch";
    this.drag = { pointer: event.pointerId, path, device, isTouch, x: event.clientX, y: event.clientY };
    if (isTouch) this.drag.hold = setTimeout(() => this.beginDrag(), HOLD_MS);
  }

  beginDrag() {
    const { path, device, x, y } = this.drag;
    this.drag.paths = path === undefined ? this.placement.pathsOn(device) : this.chosen.has(path) ? [...this.chosen] : [path];
    const [first, ...others] = this.drag.paths;
    this.drag.ghost = element("div", { className: "ghost" }, [others.length ? `${first} and ${others.length} more` : first]);
    document.body.append(this.drag.ghost);
    this.follow(x, y);
  }

  dragTo({ clientX: x, clientY: y }) {
    if (!this.drag.ghost) {
      if (Math.hypot(x - this.drag.x, y - this.drag.y) < DRAG_LEAST) return;
      if (this.drag.isTouch) return this.endDrag(); // a finger that moves at once scrolls
      this.beginDrag();
    }
    this.follow(x, y);
  }

  /** Marks the column below the pointer; at the edge of the columns, those beside them come into view. */
  follow(x, y) {
    const { ghost } = this.drag;
    ghost.style.transform = `translate(${Math.min(x + 12, innerWidth - ghost.offsetWidth - 4)}px, ${Math.min(y + 12, innerHeight - ghost.offsetHeight - 4)}px)`;
    const column = document.elementFromPoint(x, y)?.closest(".device");
    this.drag.target = column && Number(column.dataset.device) < this.placement.devices.length ? column : null;
    for (const each of this.container.children) each.classList.toggle("target", each === this.drag.target);
    clearInterval(this.drag.scrolling);
    const stage = byId("stage");
    const { left, right } = stage.getBoundingClientRect();
    const by = x < Math.max(left, 0) + EDGE_WIDTH ? -1 : x > Math.min(right, innerWidth) - EDGE_WIDTH ? 1 : 0;
    if (by) this.drag.scrolling = setInterval(() => stage.scrollBy(8 * by, 0), 16);
  }

  drop() {
    const { target, paths } = this.drag;
    this.endDrag();
    if (target) this.actions.move(paths, Number(target.dataset.device));
  }

  endDrag() {
    clearTimeout(this.drag?.hold);
    clearInterval(this.drag?.scrolling);
    this.drag?.ghost?.remove();
    this.drag = null;
    for (const each of this.container.children) each.classList.remove("target");
  }
}

const tag = (text, title = "", kind = "") => element("span", { className: `tag ${kind}`, title }, [text]);

/** Marks what has a device edit of its own. */
const setTag = () => element("span", { className: "tag set", title: "an edit asks for a device" }, [element("span", { ariaHidden: "true" }, ["✎"]), element("span", { className: "unseen" }, ["edited"])]);

/** A device's memory at its peak by kind, against its limit, with a mark at the peak before. */
function memoryBar({ peak, limit, parts }, before) {
  const whole = Math.max(limit ?? 0, peak, before?.peak ?? 0, 1);
  const isSmall = limit !== null && peak < limit / 50;
  const bar = element("div", { className: "memory-bar", ariaHidden: "true" });
  for (const [kind, bytes] of parts) {
    const part = element("span", { className: `part ${kind}`, title: `${kind}: ${bytesText(bytes)}` });
    part.style.width = `${(100 * bytes) / whole}%`;
    bar.append(part);
  }
  if (before && before.peak !== peak) {
    const mark = element("span", { className: "was", title: `before: ${bytesText(before.peak)}` });
    mark.style.left = `${(100 * before.peak) / whole}%`;
    bar.append(mark);
  }
  if (limit !== null && peak > limit) {
    const end = element("span", { className: "end", title: `limit: ${bytesText(limit)}` });
    end.style.left = `${(100 * limit) / whole}%`;
    bar.append(end);
  }
  const kinds = parts.map(([kind, bytes]) => `${kind} ${bytesText(bytes)}`).join(", ");
  const [peakText, limitText] = distinctTexts(peak, limit ?? peak);
  const share = limit === null ? "of memory" : `${peak > limit ? "over" : "of"} ${limitText}${isSmall ? "" : `, ${shareText(peak / limit)}`}`;
  const text = element("p", { className: limit !== null && peak > limit ? "memory-text over" : "memory-text", title: kinds }, [`${peakText} ${share}`]);
  return limit === null ? [text] : [bar, text];
}
