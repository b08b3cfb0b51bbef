// The packed data -> a model of the graph that the other scripts ask.
//
// An item is a number: a node's own, or -1 - n for scope n; the root is item -1.

const ROOT = -1;
const CONTROL = -1;
const scopeOf = (item) => -1 - item;
const isScope = (item) => item < 0;

/** The text of a packed element: gzip in base64. */
async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** `text` as the address of a script of this page's own. */
const scriptUrl = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));

/** Runs a library's script, as if it had its own file. */
function runScript(text) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = scriptUrl(text);
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
}

/** `1536` -> `1.5 KiB`, with at least so many decimals; null is not known. */
function bytesText(bytes, decimals = 0) {
  if (bytes === null) return "? bytes";
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), 5);
  const value = bytes / 1024 ** power;
  return `${value.toFixed(Math.max(decimals, value < 9.95 ? 1 : 0))} ${["", "K", "M", "G", "T", "P"][power]}iB`;
}

/** Sizes with as many decimals as tell different ones apart, at most 6. */
function distinctTexts(...sizes) {
  let texts = [];
  for (let decimals = 0; decimals <= 6 && new Set(texts).size < new Set(sizes).size; decimals++) texts = sizes.map((size) => bytesText(size, decimals));
  return texts;
}

/** `1536000` -> `1.54 MFLOP`. */
function operationsText(count) {
  const power = Math.min(Math.floor(Math.log10(Math.max(count, 1)) / 3), 5);
  return `${Number((count / 1000 ** power).toPrecision(3))} ${["", "k", "M", "G", "T", "P"][power]}FLOP`;
}

const SECOND_UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

/** `0.0015862` -> `1.59 ms`: three digits, or as many as are asked for. */
function secondsText(seconds, digits = 3) {
  if (!seconds) return "0 s";
  // what would be rounded to a thousand of a unit is one of the next
  const least = 1 - 0.5 * 10 ** -digits;
  const [unit, name] = SECOND_UNITS.find(([each]) => Math.abs(seconds) >= least * each) ?? SECOND_UNITS.at(-1);
  const value = seconds / unit;
  if (Math.abs(value) >= 1000) return `${Math.round(value).toLocaleString("en")} ${name}`;
  return `${Number(value.toPrecision(digits))} ${name}`;
}

const shareText = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

const countText = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

class Model {
  constructor(document) {
    Object.assign(this, document);
    const { nodes, scopes } = this;
    this.count = nodes.name.length;
    this.nodeParent = new Int32Array(this.count);
    this.scopeParent = new Int32Array(scopes.name.length).fill(-1);
    scopes.children.forEach((children, scope) => {
      for (const item of children) {
        if (isScope(item)) this.scopeParent[scopeOf(item)] = scope;
        else this.nodeParent[item] = scope;
      }
    });
    this.copyOfEdge = new Map(this.edge_copies.map(([node, slot, device, copy]) => [`${node} ${slot} ${device}`, copy]));
    this.heldBy = new Map();
    for (const [node, device, bytes] of this.memory?.held ?? []) this.heldBy.set(node, [...(this.heldBy.get(node) ?? []), [device, bytes]]);
    this.sizes = scopes.name.map(() => ({ nodes: 0, bytes: 0, unknown: 0 }));
    for (let node = 0; node < this.count; node++) {
      for (let scope = this.nodeParent[node]; scope >= 0; scope = this.scopeParent[scope]) {
        const size = this.sizes[scope];
        size.nodes += 1;
        size.bytes += nodes.bytes[node] ?? 0;
        size.unknown += nodes.bytes[node] === null;
      }
    }
  }

  /** The item above, null above the root. */
  parent(item) {
    if (!isScope(item)) return -1 - this.nodeParent[item];
    const parent = this.scopeParent[scopeOf(item)];
    return parent < 0 ? null : -1 - parent;
  }

  children(item) {
    return isScope(item) ? this.scopes.children[scopeOf(item)] : [];
  }

  /** All scopes around an item, the nearest first. */
  ancestors(item) {
    const found = [];
    for (let above = this.parent(item); above !== null; above = this.parent(above)) found.push(above);
    return found;
  }

  name(item) {
    return isScope(item) ? this.scopes.name[scopeOf(item)] || this.title : this.nodes.name[item];
  }

  /** What an item is called where its parent is seen too. */
  label(item) {
    if (isScope(item)) return item === ROOT ? this.title : this.scopes.label[scopeOf(item)];
    const name = this.nodes.name[item];
    return name === this.scopes.name[this.nodeParent[item]] ? `(${name.split("/").pop()})` : name.split("/").pop();
  }

  /** Every node in an item. */
  *nodesIn(item) {
    const waiting = [item];
    while (waiting.length) {
      const next = waiting.pop();
      if (isScope(next)) waiting.push(...this.children(next));
      else yield next;
    }
  }

  /** What an item's tensors held when each device held most: `[device, bytes]`, in the order of the devices. */
  held(item) {
    const found = new Map();
    for (const node of this.heldBy.size ? this.nodesIn(item) : []) {
      for (const [device, bytes] of this.heldBy.get(node) ?? []) found.set(device, (found.get(device) ?? 0) + bytes);
    }
    return [...found].sort((a, b) => a[0] - b[0]);
  }

  /** `[source, slot, copy]` for each input; copy is null where nothing is copied for it. */
  *inputs(node) {
    const flat = this.nodes.inputs[node];
    for (let i = 0; i < flat.length; i += 2) {
      const copy = this.copyOfEdge.get(`${flat[i]} ${flat[i + 1]} ${this.nodes.device[node]}`);
      yield [flat[i], flat[i + 1], copy ?? null];
    }
  }

  /** For each node the nodes that read it. */
  get readers() {
    if (!this._readers) {
      this._readers = Array.from({ length: this.count }, () => []);
      for (let node = 0; node < this.count; node++) {
        for (const [source] of this.inputs(node)) this._readers[source].push(node);
      }
    }
    return this._readers;
  }

  /** A list of texts by its number. */
  list(number) {
    return this.lists[number].map((value) => this.values[value]);
  }

  deviceText(device) {
    return device < 0 ? "not placed" : this.devices[device].short;
  }

  /** `Total` of copies: how many, their bytes, and how many of unknown size. */
  total(copies) {
    const found = { copies: 0, bytes: 0, unknown: 0 };
    for (const copy of copies) {
      const bytes = this.copies[copy][4];
      found.copies += 1;
      found.bytes += bytes ?? 0;
      found.unknown += bytes === null;
    }
    return found;
  }

  /** The items that are seen where the scopes in `opened` are open, outer before inner. */
  visible(opened) {
    const found = [];
    const waiting = [...this.children(ROOT)].reverse();
    while (waiting.length) {
      const item = waiting.pop();
      found.push(item);
      if (opened.has(item)) waiting.push(...[...this.children(item)].reverse());
    }
    return found;
  }

  /** The links between what is seen: `{source, target, edges, data, copies}`, the copies each once. */
  links(opened) {
    const boxes = new Int32Array(this.count);
    for (const item of this.visible(opened)) {
      if (!opened.has(item)) for (const node of this.nodesIn(item)) boxes[node] = item;
    }
    const found = new Map();
    for (let node = 0; node < this.count; node++) {
      for (const [source, slot, copy] of this.inputs(node)) {
        if (boxes[source] === boxes[node]) continue;
        const key = `${boxes[source]} ${boxes[node]}`;
        let link = found.get(key);
        if (!link) found.set(key, (link = { source: boxes[source], target: boxes[node], edges: 0, data: false, copies: new Set() }));
        link.edges += 1;
        link.data ||= slot !== CONTROL;
        if (copy !== null) link.copies.add(copy);
      }
    }
    return [...found.values()];
  }
}

/** `≥ 1.5 KiB` of copies. */
const sizeText = (total) => (total.unknown === total.copies ? "? bytes" : (total.unknown ? "≥ " : "") + bytesText(total.bytes));

/** `3 tensors · ≥ 1.5 KiB`. */
const totalText = (total) => (total.copies === 1 ? sizeText(total) : `${countText(total.copies, "tensor")} · ${sizeText(total)}`);
