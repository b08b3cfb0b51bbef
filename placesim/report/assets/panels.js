// The panel: what is known of the node, scope or link that is selected, and of the whole placement where nothing is.

const MAX_LISTED = 60;
const NODE = "\uFFFC";

/** A word of a command line. */
const quoted = (word) => (/^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

class Panel {
  /** `actions`: `reveal(item)`, `toggle(item)`. */
  constructor(container, model, actions) {
    this.container = container;
    this.model = model;
    this.actions = actions;
    this.devices = deviceMode(model);
  }

  show(chosen, mode, opened) {
    const parts = chosen === null ? this.overview(mode) : typeof chosen !== "number" ? this.link(chosen)
      : isScope(chosen) ? this.scope(chosen, mode, opened) : this.node(chosen, mode);
    this.container.replaceChildren(...parts.filter(Boolean));
    this.container.scrollTop = 0;
  }

  // --- parts

  to(item, text = this.model.name(item)) {
    const link = element("a", { href: "#" + encodeURIComponent(this.model.name(item)), textContent: text });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      this.actions.reveal(item);
    });
    return link;
  }

  section(title, ...children) {
    return children.length ? element("section", {}, [element("h2", {}, [title]), ...children]) : null;
  }

  rows(pairs) {
    return element("dl", {}, pairs.flatMap(([term, value]) => [element("dt", {}, [term]), element("dd", {}, [].concat(value))]));
  }

  /** A list of `[content, size, is copied]`, cut where it is long. */
  list(entries) {
    const shown = entries.slice(0, MAX_LISTED).map(([content, size, copied]) =>
      element("li", {}, [content, element("span", { className: copied ? "size copied" : "size" }, [size ?? ""])]));
    if (entries.length > MAX_LISTED) shown.push(element("li", { className: "sub" }, [`${(entries.length - MAX_LISTED).toLocaleString("en")} more`]));
    return element("ul", { className: "items" }, shown);
  }

  // --- a node

  node(node, mode) {
    const { model } = this;
    const { nodes } = model;
    const [[look]] = mode.parts(node);
    const device = nodes.device[node];
    const [request, ...allowed] = model.requests[nodes.requested[node]];
    const isMoved = device >= 0 && request && !allowed.includes(device);
    const facts = [["Requested", request || "no device"], ["Assigned", [device < 0 ? "not placed" : element("span", { title: model.devices[device].name }, [model.devices[device].name.replace("/job:localhost/replica:0/task:0", "")]), isMoved ? element("div", { className: "copied" }, ["moved from its request"]) : ""]]];
    if (model.has_graph) facts.push(["Outputs", this.lines(model.list(nodes.outputs[node]))], ["Bytes", `${bytesText(nodes.bytes[node])}${nodes.bytes[node] === null ? "" : " of output"}`]);
    const held = model.held(node);
    if (held.length) facts.push(["At the peak", held.map(([device, bytes]) => element("div", {}, [`${bytesText(bytes)} held on ${model.deviceText(device)}`]))]);
    if (nodes.place[node]) facts.push(["Defined", nodes.place[node]]);
    const attrs = model.list(nodes.attrs[node]).map((text) => text.split(/: (.*)/s));
    return [
      element("h2", { className: "title" }, [nodes.name[node]]),
      element("p", { className: "sub" }, [model.ops[nodes.op[node]]]),
      element("p", { className: "badge" }, [swatch(look), look.label]),
      this.rows(facts),
      this.proof(node),
      this.edits(node),
      ...this.neighbours(node),
      attrs.length ? this.section("Attributes", this.rows(attrs.map(([name, value]) => [name, value]))) : null,
    ];
  }

  lines(texts) {
    return texts.length ? texts.map((text) => element("div", {}, [text])) : "none";
  }

  /** Why it is where it is: the paragraphs of its proof, with the nodes that they name as links. */
  proof(node) {
    const { proofs, paragraphs, of_node } = this.model.proofs;
    if (!of_node.length) return this.section("Why", element("p", { className: "sub" }, ["A report holds no reasons: run `show` on the graph to see them."]));
    const pairs = proofs[of_node[node]].map((number) => {
      const [term, text, ...named] = paragraphs[number];
      const pieces = text.split(NODE);
      return [term, pieces.flatMap((piece, i) => (i ? [this.to(named[i - 1]), piece] : [piece]))];
    });
    const proof = this.section("Why", this.rows(pairs.map(([term, value], i) => [i && pairs[i - 1][0] === term ? "" : term, value])));
    proof.id = "proof";
    return proof;
  }

  /** What would put it elsewhere, where that was tried, and what to type to have it tried. */
  edits(node) {
    const { model } = this;
    const found = model.edits.find(([of]) => of === node);
    const parts = [];
    if (found) {
      const [, untried, ...texts] = found;
      parts.push(element("ul", { className: "edits" }, (texts.length ? texts : ["none of the edits tried would change it"]).map((text) => element("li", {}, [text]))));
      if (untried) parts.push(element("p", { className: "sub" }, [`${untried.toLocaleString("en")} more edits not tried`]));
    }
    if (model.explain) parts.push(this.command(`${model.explain} ${quoted(model.nodes.name[node])}`));
    const section = this.section(model.nodes.device[node] < 0 ? "Possible fixes" : "What would change this", ...parts);
    if (section) section.id = "edits";
    return section;
  }

  /** A command line, with a button that copies it. */
  command(text) {
    const code = element("code", { textContent: text });
    const button = element("button", { textContent: "Copy", title: "Copy the command" });
    button.addEventListener("click", async () => {
      getSelection().selectAllChildren(code); // what is marked can be copied by hand, where a page may not
      await navigator.clipboard?.writeText(text).then(() => (button.textContent = "Copied"), () => {});
    });
    return element("p", { className: "command" }, [code, button]);
  }

  neighbours(node) {
    const { model } = this;
    const inputs = [...model.inputs(node)].map(([source, slot, copy]) => [
      this.to(source, (slot === CONTROL ? "^" : "") + model.nodes.name[source] + (slot > 0 ? `:${slot}` : "")),
      copy === null ? model.deviceText(model.nodes.device[source]) : `${model.deviceText(model.nodes.device[source])} · copied, ${bytesText(model.copies[copy][4])}`,
      copy !== null,
    ]);
    const readers = [...new Set(model.readers[node])].map((reader) => [this.to(reader), model.deviceText(model.nodes.device[reader])]);
    const copies = model.copies.filter(([producer]) => producer === node).map(([, slot, src, dst, bytes]) => [
      `${slot === CONTROL ? "control" : `output ${slot}`}: ${model.deviceText(src)} → ${src === dst ? "the host's memory" : model.deviceText(dst)}`, bytesText(bytes), true,
    ]);
    return [
      inputs.length ? this.section(`Inputs (${inputs.length})`, this.list(inputs)) : null,
      readers.length ? this.section(`Read by (${readers.length})`, this.list(readers)) : null,
      copies.length ? this.section("Copied", this.list(copies)) : null,
    ];
  }

  // --- a scope

  scope(scope, mode, opened) {
    const { model } = this;
    const size = model.sizes[scopeOf(scope)];
    const button = element("button", { textContent: opened.has(scope) ? "Close" : "Open" });
    button.addEventListener("click", () => this.actions.toggle(scope));
    const ops = new Map();
    for (const node of model.nodesIn(scope)) ops.set(model.nodes.op[node], (ops.get(model.nodes.op[node]) ?? 0) + 1);
    const frequent = [...ops].sort((a, b) => b[1] - a[1]);
    return [
      element("h2", { className: "title" }, [model.name(scope)]),
      element("p", { className: "sub" }, [this.sizeText(size) + (model.scopes.folded[scopeOf(scope)] ? " · grouped for display, not a scope of the graph" : "")]),
      model.scopes.copies[scopeOf(scope)] ? element("p", { className: "sub" }, [`Represents ${model.scopes.copies[scopeOf(scope)]} identical scopes: same ops on the same devices, at the same position in the order.`]) : null,
      element("p", {}, [button]),
      this.section("Holds", this.kinds(scope, mode)),
      ...this.holding(scope),
      ...this.passing(scope),
      this.section("Ops", this.list(frequent.map(([op, count]) => [model.ops[op], count.toLocaleString("en")]))),
    ];
  }

  sizeText(size) {
    if (!this.model.has_graph) return countText(size.nodes, "op");
    return `${countText(size.nodes, "op")} · ${size.unknown ? "≥ " : ""}${bytesText(size.bytes)} of outputs`;
  }

  kinds(item, mode) {
    return element("table", {}, mode.parts(item).map(([look, count]) => element("tr", {}, [
      element("td", {}, [swatch(look), " ", look.label]),
      element("td", { className: "number" }, [count.toLocaleString("en")]),
    ])));
  }

  /** What a scope's tensors hold of each device's memory when that holds most. */
  holding(scope) {
    const held = this.model.held(scope);
    if (!held.length) return [];
    const peaks = new Map(this.model.memory.peaks);
    const rows = held.map(([device, bytes]) => element("tr", {}, [
      element("td", {}, [this.deviceLabel(device)]),
      element("td", { className: "number" }, [bytesText(bytes)]),
      element("td", { className: "number" }, [shareText(bytes / peaks.get(device))]),
    ]));
    return [this.section("Memory at the peak", element("table", { id: "held" }, rows))];
  }

  deviceLabel(device) {
    return element("span", {}, [swatch(this.devices.looks[device]), " ", this.model.deviceText(device)]);
  }

  /** What is copied into a scope and out of it. */
  passing(scope) {
    const { model } = this;
    const inside = new Set(model.nodesIn(scope));
    const [into, out] = [new Set(), new Set()];
    for (let node = 0; node < model.count; node++) {
      for (const [source, , copy] of model.inputs(node)) {
        if (copy !== null && inside.has(node) !== inside.has(source)) (inside.has(node) ? into : out).add(copy);
      }
    }
    const entries = [["in", into], ["out", out]].filter(([, copies]) => copies.size).map(([way, copies]) => [way, totalText(model.total(copies)), true]);
    return [entries.length ? this.section("Copied", this.list(entries)) : null];
  }

  // --- a link

  link(link) {
    const { model } = this;
    const copies = [...link.copies].map((copy) => {
      const [node, slot, , dst, bytes] = model.copies[copy];
      return [this.to(node, `${model.nodes.name[node]}${slot === CONTROL ? " (control)" : `:${slot}`}`), `→ ${model.deviceText(dst)} · ${bytesText(bytes)}`, true];
    });
    return [
      element("h2", { className: "title" }, [this.to(link.source), " → ", this.to(link.target)]),
      element("p", { className: "sub" }, [`${countText(link.edges, "edge")}${link.data ? "" : ", control dependencies only"}`]),
      copies.length ? this.section(`Copied between devices: ${totalText(model.total(link.copies))}`, this.list(copies))
        : this.section("Copied between devices", element("p", {}, ["None: no step copies a tensor for these edges."])),
      copies.length ? element("p", { className: "sub" }, ["A tensor is copied to a device once, even if several ops read it there."]) : null,
    ];
  }

  // --- the whole

  overview(mode) {
    const { model } = this;
    return [
      element("h2", { className: "title" }, [model.title]),
      element("p", { className: "sub" }, [this.sizeText(model.sizes[0])]),
      this.section("Holds", this.kinds(ROOT, mode)),
      ...this.memory(),
      this.section("Copied between devices, per run of each step", this.matrix()),
      model.has_graph ? null : element("p", { className: "sub" }, ["A report holds no edges and no reasons: run `show` on the graph to see them."]),
      model.warnings.length ? this.section(`Warnings (${model.warnings.length})`, this.list(model.warnings.map((warning) => [warning]))) : null,
    ];
  }

  /** Each device's peak against its limit, and the node at it. */
  memory() {
    const { memory } = this.model;
    if (!memory) return [];
    const rows = memory.peaks.map(([device, peak, limit, node, name]) => {
      const isOver = limit !== null && peak > limit;
      const bar = element("div", { className: isOver ? "meter over" : "meter", role: "img" }, [element("span", {})]);
      bar.firstChild.style.width = limit === null ? "0" : `${Math.min(100, (100 * peak) / limit)}%`;
      const [peakText, limitText] = distinctTexts(peak, limit ?? peak);
      const share = limit === null ? "no limit" : `${shareText(peak / limit)} of ${limitText}`;
      bar.setAttribute("aria-label", `${peakText}, ${share}`);
      return element("div", { className: "peak" }, [
        element("p", {}, [this.deviceLabel(device), element("strong", {}, [peakText])]),
        ...(limit === null ? [] : [bar]),
        element("p", { className: "sub" }, [element("span", {}, ["at ", node < 0 ? name : this.to(node)]), element("span", { className: isOver ? "copied" : "" }, [isOver ? `${bytesText(peak - limit)} over` : share])]),
      ]);
    });
    const note = memory.note ? [element("p", { className: "sub" }, [memory.note.replaceAll("`", "")])] : [];
    const section = this.section("Memory at the peak", ...rows, ...note);
    section.id = "memory";
    return [section];
  }

  matrix() {
    const { model } = this;
    const totals = new Map();
    model.copies.forEach(([, , src, dst], copy) => {
      const key = `${src} ${dst}`;
      totals.set(key, [...(totals.get(key) ?? []), copy]);
    });
    if (!totals.size) return element("p", {}, ["None."]);
    const order = [...totals].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    const head = ["from", "to", "tensors", "bytes"].map((text, i) => element("th", { className: i > 1 ? "number" : "" }, [text]));
    const rows = order.map(([key, copies]) => {
      const [src, dst] = key.split(" ").map(Number);
      const total = model.total(copies);
      return element("tr", {}, [
        element("td", {}, [model.deviceText(src)]),
        element("td", {}, [src === dst ? "host's memory" : model.deviceText(dst)]),
        element("td", { className: "number" }, [total.copies.toLocaleString("en")]),
        element("td", { className: "number" }, [(total.unknown ? "≥ " : "") + bytesText(total.bytes)]),
      ]);
    });
    const table = element("table", { id: "matrix" }, [element("tr", {}, head), ...rows]);
    return scrolling(table);
  }
}
