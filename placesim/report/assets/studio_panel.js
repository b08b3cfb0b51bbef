// What changed, and why something is where it is.

const ROWS_LISTED = 60;
const NAMES_LISTED = 12;

/** At most `most` rows, and how many more there are. */
function listed(items, row, most = ROWS_LISTED) {
  const rows = items.slice(0, most).map(row);
  if (items.length > most) rows.push(element("li", { className: "sub" }, [`and ${(items.length - most).toLocaleString("en")} more`]));
  return rows;
}

const pathLink = (path, act) => actionLink(path, () => act(path), "#" + encodeURIComponent(path));

class ChangesView {
  /** `actions`: `select(path)`. */
  constructor(actions) {
    this.actions = actions;
    this.body = byId("changes-body");
  }

  /** `before` is the placement that `changes` compare with, where the page has it. */
  show(changes, placement, before, against) {
    byId("changes-name").textContent = `Changed since the ${against}`;
    this.body.replaceChildren(...(changes ? this.parts(changes, placement, before) : [element("p", { className: "sub" }, ["Nothing to compare with: one of the two graphs can't be read."])]));
  }

  parts(changes, placement, before) {
    const wasHere = (name) => before?.numbers.has(name);
    const found = [
      this.moved(changes.moved), this.nodes("Placed again", changes.added.filter(wasHere), true),
      this.nodes("Added", changes.added.filter((name) => !wasHere(name)), true), this.nodes("Removed", changes.removed, false),
      this.transfers(changes.transfers, placement, before), before && this.copies(placement, before),
    ].filter(Boolean);
    return found.length ? found : [element("p", { className: "sub" }, ["No node is on another device."])];
  }

  moved(moved) {
    if (!moved.length) return null;
    const total = moved.reduce((sum, { nodes }) => sum + nodes, 0);
    const rows = listed(moved, ({ name, nodes, before, after, why }) => element("li", {}, [
      element("div", {}, [pathLink(name, this.actions.select), nodes > 1 ? ` (${countText(nodes, "node")})` : "", " ", element("span", { className: "way" }, [`${before || "not placed"} → ${after || "not placed"}`])]),
      element("div", { className: "sub" }, [why]),
    ]));
    return section(`Moved: ${countText(total, "node")}`, rows);
  }

  nodes(title, names, isHere) {
    if (!names.length) return null;
    return section(`${title}: ${countText(names.length, "node")}`, listed(names, (name) => element("li", {}, [isHere ? pathLink(name, this.actions.select) : name]), NAMES_LISTED));
  }

  transfers(transfers, placement, placementBefore) {
    const rows = transfers.filter(({ before, after }) => before.join() !== after.join());
    if (!rows.length) return null;
    const total = `${placementBefore ? `${placementBefore.copies.length.toLocaleString("en")} → ` : ""}${countText(placement.copies.length, "tensor")}`;
    const amount = ([tensors, bytes]) => (tensors ? `${countText(tensors, "tensor")}, ${bytesText(bytes)}` : "none");
    return section(`Copied between devices: ${total}`, rows.map(({ source, target, before, after }) => element("li", {}, [
      element("span", { className: "way" }, [`${source} → ${target}`]), ` ${amount(before)} → ${amount(after)}`,
    ])));
  }

  /** The single tensors that are copied only now, or no more. */
  copies(placement, before) {
    const rows = [...copiesOnlyIn(placement, before).map(([key, bytes]) => ["+", key, bytes]), ...copiesOnlyIn(before, placement).map(([key, bytes]) => ["−", key, bytes])];
    if (!rows.length) return null;
    const list = element("ul", { className: "changes" }, listed(rows, ([sign, key, bytes]) => element("li", {}, [
      element("span", { className: sign === "+" ? "sign-more" : "sign-less", ariaHidden: "true" }, [sign]), element("span", { className: "unseen" }, [sign === "+" ? "copied now: " : "copied no more: "]), `${key}, ${bytesText(bytes)}`,
    ])));
    return element("details", {}, [element("summary", {}, ["Each tensor"]), list]);
  }
}

const section = (title, rows) => element("div", { className: "change" }, [element("h3", {}, [title]), element("ul", { className: "changes" }, rows)]);

class SelectionPanel {
  /** `actions`: `select(path)`, `offer(paths, near)`, `unset(path)`, `goTo(line)`, `explain(node)` (a promise), `apply(suggestion)`. */
  constructor(actions, isLive) {
    Object.assign(this, { actions, isLive, container: byId("panel") });
  }

  show(paths, placement, edits) {
    const hadFocus = this.container.contains(document.activeElement);
    this.fill(paths, placement, edits);
    if (hadFocus) this.container.focus({ preventScroll: true });
  }

  fill(paths, placement, edits) {
    Object.assign(this, { paths, placement });
    if (!paths.length) return this.container.replaceChildren(element("h2", {}, ["Why there?"]), element("p", { className: "sub" }, ["Select a node to see why it is on its device, and what would move it."]));
    const [path] = paths;
    const title = paths.length > 1 ? `${paths.length} selected` : path;
    const counts = new Map();
    for (const each of paths) for (const [device, count] of placement.devicesAt(each)) counts.set(device, (counts.get(device) ?? 0) + count);
    const edited = new Set(edits.map(([each]) => each));
    this.container.replaceChildren(
      element("h2", { className: "title" }, [title]),
      element("p", { className: "sub" }, [this.facts(path, paths, counts)]),
      ...(this.isLive ? [this.buttons(paths, edited)] : []),
    );
    if (paths.length > 1) this.container.append(element("ul", { className: "items" }, paths.map((each) => element("li", {}, [each]))));
    else if (path.endsWith("/")) this.container.append(...this.scope(path));
    else this.container.append(...this.node(placement.numbers.get(path)));
    return undefined;
  }

  facts(path, paths, counts) {
    const where = [...counts].map(([device, count]) => (paths.length > 1 || path.endsWith("/") ? `${count.toLocaleString("en")} on ${device}` : device)).join(", ");
    if (paths.length > 1 || path.endsWith("/")) return where;
    const node = this.placement.numbers.get(path);
    const request = this.placement.requests[this.placement.nodes.requested[node]][0];
    return `${this.placement.ops[this.placement.nodes.op[node]]}${where === "not placed" ? ", " : " on "}${where}${request ? `, requested: ${request}` : ", no device requested"}`;
  }

  buttons(paths, edited) {
    const move = element("button", { textContent: "Move to …", title: "Move to another device (m)" });
    move.setAttribute("aria-haspopup", "menu");
    move.addEventListener("click", () => this.actions.offer(paths, move));
    const found = [move];
    const unset = paths.filter((path) => edited.has(path));
    if (unset.length) {
      const back = element("button", { textContent: "Take the edit back" });
      back.addEventListener("click", () => this.actions.unset(unset));
      found.push(back);
    }
    const line = paths.length === 1 && !paths[0].endsWith("/") ? this.placement.lineOf(this.placement.numbers.get(paths[0])) : 0;
    if (line && this.actions.goTo) {
      const go = element("button", { textContent: `Line ${line}`, title: "Go to the line of the graph file" });
      go.addEventListener("click", () => this.actions.goTo(line));
      found.push(go);
    }
    return element("div", { className: "buttons" }, found);
  }

  /** The ops of a scope, and the first of its nodes. */
  scope(path) {
    const { placement } = this;
    const nodes = placement.nodesAt(path);
    const ops = new Map();
    for (const node of nodes) ops.set(placement.ops[placement.nodes.op[node]], (ops.get(placement.ops[placement.nodes.op[node]]) ?? 0) + 1);
    const most = [...ops].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([op, count]) => (count > 1 ? `${op} × ${count}` : op));
    return [
      element("p", {}, [`${countText(nodes.length, "node")}: ${most.join(", ")}${ops.size > 8 ? " …" : ""}`]),
      element("ul", { className: "items" }, listed(nodes, (node) => element("li", {}, [this.link(node), element("span", { className: "size" }, [placement.deviceText(placement.nodes.device[node])])]))),
    ];
  }

  link(node) {
    return pathLink(this.placement.nodes.name[node], this.actions.select);
  }

  node(node) {
    const { placement } = this;
    const why = element("div", { className: "why" }, [element("p", { className: "sub" }, ["…"])]);
    const name = placement.nodes.name[node];
    this.explain(name, node).then((parts) => why.replaceChildren(...parts), (error) => why.replaceChildren(element("p", { className: "sub" }, [error.message])));
    const sources = [...placement.inputs(node)].map(([source, slot, copy]) => this.neighbour(source, slot === CONTROL ? "control" : copy === null ? "" : `copied from ${placement.deviceText(placement.nodes.device[source])}`, copy !== null));
    const readers = [...new Set(placement.readers[node])].map((reader) => {
      const isCopied = placement.nodes.device[reader] !== placement.nodes.device[node];
      return this.neighbour(reader, isCopied ? `on ${placement.deviceText(placement.nodes.device[reader])}` : "", isCopied);
    });
    return [why, ...this.neighbours("Inputs", sources), ...this.neighbours("Read by", readers)];
  }

  neighbour(node, text, isCopied) {
    return element("li", {}, [this.link(node), element("span", { className: isCopied ? "size copied" : "size" }, [text])]);
  }

  neighbours(title, rows) {
    return rows.length ? [element("h3", {}, [`${title} (${rows.length.toLocaleString("en")})`]), element("ul", { className: "items" }, listed(rows, (row) => row))] : [];
  }

  async explain(name, node) {
    if (!this.isLive) return this.proof(node);
    const found = await this.actions.explain(name);
    if (!found) return []; // another node was asked for
    const { summary, proof, edits, text } = found;
    const tries = edits.map((suggestion) => {
      const row = element("li", {}, [element("span", {}, [suggestion.text])]);
      if (suggestion.devices || suggestion.options || suggestion.line) {
        const word = suggestion.devices || suggestion.options ? "Apply" : `Line ${suggestion.line}`;
        const apply = element("button", { textContent: word });
        apply.setAttribute("aria-label", `${word}: ${suggestion.text}`);
        apply.addEventListener("click", () => this.actions.apply(suggestion));
        row.append(apply);
      }
      return row;
    });
    return [
      element("p", { className: "summary" }, [summary]),
      factList(proof),
      ...(tries.length ? [element("h3", {}, ["What would change this"]), element("ul", { className: "items" }, tries)] : []),
      element("details", {}, [element("summary", {}, ["As placesim explain prints it"]), element("pre", {}, [text])]),
    ];
  }

  /** The proof that a shared page has in itself: paragraphs with signs where the names of nodes belong. */
  proof(node) {
    const { paragraphs, proofs, of_node: ofNode } = this.placement.proofs ?? { paragraphs: [], proofs: [], of_node: [] };
    const found = (proofs[ofNode[node]] ?? []).map((number) => paragraphs[number]);
    return found.length ? [factList(found.map(([term, text, ...names]) => {
      let at = 0;
      return [term, text.replaceAll("\ufffc", () => this.placement.nodes.name[names[at++]] ?? "")];
    }))] : [element("p", { className: "sub" }, ["This page has no proof for this node."])];
  }
}

const factList = (pairs) => element("dl", {}, pairs.flatMap(([term, text]) => [element("dt", {}, [term]), element("dd", {}, [text])]));
