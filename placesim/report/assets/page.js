// The page: what is open and what is selected, the same in tree, drawing, panel and address.

/** What is not on the way to a revealed item is folded where more boxes than this would be seen: a layout is to take no more than a moment. */
const MAX_BOXES = 80;

class Page {
  constructor(model) {
    this.model = model;
    this.first = new Set(model.scopes.opened.map((scope) => -1 - scope));
    this.opened = new Set(this.first);
    this.chosen = null;
    this.modes = new Map();
    const actions = {
      select: (chosen) => this.select(chosen),
      toggle: (item) => this.toggle(item),
      reveal: (item) => this.reveal(item),
      busy: (text) => (byId("status").textContent = text),
    };
    this.views = { lanes: new LaneView(byId("lanes"), model, actions) };
    this.makeGraph = (elk) => new GraphView(byId("graph"), model, elk, actions);
    // where all ops are on one device nothing passes between lanes
    byId("arrangement").value = new Set(model.nodes.device).size > 1 ? "lanes" : "scopes";
    this.tree = new TreeView(byId("tree"), model, actions);
    this.panel = new Panel(byId("panel"), model, actions);
    const finder = new ItemFinder(model, () => this.mode);
    this.finder = new Finder({
      find: (words) => finder.find(words),
      row: (item, words) => finder.row(item, words),
      take: (item) => this.reveal(item),
      focused: () => this.graph.container,
    });
    offerPictures(() => this.graph.drawn());
    this.theme = new Theme(() => this.repaint());
    this.listen();
  }

  /** The arrangement that is seen. */
  get graph() {
    return this.views[byId("arrangement").value];
  }

  /** Makes the arrangement that is chosen the one that is seen; the libraries that lay out and draw scopes are unpacked when they are first needed. */
  async arrange() {
    const chosen = byId("arrangement").value;
    if (!this.views[chosen]) {
      byId("status").textContent = "Loading …";
      this.loading ??= loadLibraries();
      const elk = await this.loading;
      this.views[chosen] ??= this.makeGraph(elk);
    }
    byId("lanes").hidden = chosen !== "lanes";
    byId("graph").hidden = chosen === "lanes";
    this.repaint();
    if (await this.graph.show(this.opened)) {
      await this.closeWhatHasNoRoom();
      this.graph.mark(this.chosen);
    }
    if (typeof this.chosen === "number") this.graph.bringIntoSight(this.chosen);
    byId("status").textContent = "";
  }

  /** The first picture closes its inner scopes as long as it is too large to be read in full; then its outermost have to do. */
  async closeWhatHasNoRoom() {
    const isFirst = this.opened.size === this.first.size && [...this.opened].every((item) => this.first.has(item));
    while (isFirst && this.graph.fits === false && this.opened.size > 1) {
      const depth = (item) => this.model.ancestors(item).length;
      const deepest = Math.max(...[...this.opened].map(depth));
      this.opened = new Set([...this.opened].filter((item) => depth(item) < deepest));
      if (!(await this.graph.show(this.opened))) return;
      this.tree.show(this.opened, this.mode, typeof this.chosen === "number" ? this.chosen : null);
    }
  }

  get mode() {
    const name = byId("mode").value;
    if (!this.modes.has(name)) this.modes.set(name, MODES[name](this.model));
    return this.modes.get(name);
  }

  async start() {
    const { model } = this;
    const total = model.total(model.copies.keys());
    byId("facts").textContent = `${countText(model.count, "op")} on ${countText(model.devices.length, "device")} · ` +
      (total.copies ? `${countText(total.copies, "transfer")}, ${total.unknown ? "≥ " : ""}${bytesText(total.bytes)}` : "no transfers");
    showError(model.error);
    await this.arrange();
    await this.followAddress();
  }

  // --- what is selected and open

  select(chosen) {
    this.chosen = chosen === ROOT ? null : chosen;
    this.graph.mark(this.chosen);
    if (typeof this.chosen === "number") this.graph.bringIntoSight(this.chosen);
    this.tree.mark(typeof this.chosen === "number" ? this.chosen : null);
    this.panel.show(this.chosen, this.mode, this.opened);
    putAddress(typeof this.chosen === "number" ? this.model.name(this.chosen) : "");
  }

  async toggle(item) {
    if (this.opened.has(item)) this.opened.delete(item);
    else this.opened.add(item);
    this.chosen = item;
    await this.redraw(item);
  }

  /** Opens what an item stands in, and selects it. */
  async reveal(item) {
    const closed = this.model.ancestors(item).filter((scope) => !this.opened.has(scope));
    closed.forEach((scope) => this.opened.add(scope));
    if (closed.length && this.model.visible(this.opened).length > MAX_BOXES) this.opened = new Set([...this.first, ...this.model.ancestors(item)]);
    this.chosen = item;
    if (closed.length) await this.redraw(closed.at(-1));
    else this.select(item);
    this.graph.centre(item);
  }

  async fold() {
    this.opened = new Set(this.first);
    this.chosen = null;
    await this.redraw(null);
  }

  async redraw(anchor) {
    this.tree.show(this.opened, this.mode, this.chosen);
    if (await this.graph.show(this.opened, anchor)) this.select(this.chosen);
  }

  async followAddress() {
    const name = addressed();
    const node = name ? this.model.nodes.name.indexOf(name) : -1;
    const scope = name ? this.model.scopes.name.indexOf(name) : -1;
    if (node >= 0) await this.reveal(node);
    else if (scope > 0) await this.reveal(-1 - scope);
    else this.select(null);
  }

  // --- looks

  repaint() {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    const names = ["ground", "surface", "line", "text", "soft", "link", "copy", "accent"];
    const colours = Object.fromEntries(names.map((name) => [name, colour(`--${name}`)]));
    this.graph?.setMode(this.mode, { ...colours, open: colour("--wash") });
    this.graph?.mark(this.chosen);
    this.tree.show(this.opened, this.mode, typeof this.chosen === "number" ? this.chosen : null);
    this.panel.show(this.chosen, this.mode, this.opened);
    const present = new Set(this.mode.parts(ROOT).map(([look]) => look));
    const kinds = this.mode.looks.filter((look) => present.has(look)).map((look) => element("span", {}, [swatch(look), look.label]));
    const transfer = element("span", {}, [element("span", { className: "sign copy" }), "copied between devices"]);
    byId("legend").replaceChildren(...kinds, ...(this.model.copies.length ? [transfer] : []));
  }

  // --- what the user does

  listen() {
    byId("mode").addEventListener("change", () => this.repaint());
    byId("arrangement").addEventListener("change", () => this.arrange());
    listenToClicks({ fit: () => this.graph.fit(), fold: () => this.fold(), help: () => byId("keys").showModal() });
    addEventListener("hashchange", () => this.followAddress());
    for (const id of ["graph", "lanes"]) byId(id).addEventListener("keydown", (event) => this.pressedInGraph(event));
    listenToKeys({
      "/": () => byId("search").focus(),
      "?": () => byId("keys").showModal(),
      "+": () => this.graph.zoomBy(1.25),
      "=": () => this.graph.zoomBy(1.25),
      "-": () => this.graph.zoomBy(0.8),
      f: () => this.graph.fit(),
      v: () => this.turnArrangement(),
      c: () => this.fold(),
      Escape: () => this.select(null),
    });
  }

  turnArrangement() {
    byId("arrangement").value = byId("arrangement").value === "lanes" ? "scopes" : "lanes";
    this.arrange();
  }

  pressedInGraph(event) {
    const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    const item = typeof this.chosen === "number" ? this.chosen : null;
    if (way) {
      const next = this.graph.neighbour(item, ...way);
      if (next !== null) this.select(next);
    } else if (event.key === "Enter" && item !== null && isScope(item)) this.toggle(item);
    else return;
    event.preventDefault();
  }
}

/** What the search field finds: ops and scopes whose name, op type or device has all the words. */
class ItemFinder {
  constructor(model, mode) {
    Object.assign(this, { model, mode });
  }

  /** Items that have all words, the best first: the whole name, then the beginning of a last part, then all others. */
  find(words) {
    const { model } = this;
    const ranked = [[], [], []];
    const add = (item, more) => {
      const name = model.name(item).toLowerCase();
      if (!words.every((word) => name.includes(word) || more.includes(word))) return;
      ranked[name === words[0] ? 0 : name.split("/").pop().startsWith(words[0]) ? 1 : 2].push(item);
    };
    for (let scope = 1; scope < model.scopes.name.length; scope++) add(-1 - scope, "scope");
    for (let node = 0; node < model.count; node++) {
      add(node, `${model.ops[model.nodes.op[node]]} ${model.deviceText(model.nodes.device[node])}`.toLowerCase());
    }
    return ranked.flat();
  }

  row(item, words) {
    const { model } = this;
    return [
      element("img", { src: barImage(this.mode().parts(item), isScope(item) ? 28 : 14, 11), alt: "" }),
      element("span", { className: "name", title: model.name(item) }, marked(model.name(item), words)),
      element("small", {}, [isScope(item) ? countText(model.sizes[scopeOf(item)].nodes, "op") : `${model.ops[model.nodes.op[item]]} · ${model.deviceText(model.nodes.device[item])}`]),
    ];
  }
}

/** A name with the words in it marked. */
function marked(name, words) {
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "i");
  return name.split(pattern).map((piece, i) => (i % 2 ? element("mark", {}, [piece]) : piece));
}

/** What lays out and draws the graph by scope: gives ELK, and leaves Cytoscape in its global name. */
async function loadLibraries() {
  const [core, api, worker] = await Promise.all(["packed-cytoscape", "packed-elk-api", "packed-elk-worker"].map(unpack));
  await runScript(core);
  await runScript(api);
  return new ELK({ workerUrl: scriptUrl(worker) });
}

async function main() {
  globalThis.thePage = new Page(new Model(JSON.parse(await unpack("packed-data"))));
  await thePage.start();
}

begin(main());
