// Completion and hover of the graph file: ops, attrs, keys, nodes and devices, by what stands around the cursor.

const WORD = /[\w./:-]*$/;
/** Keys whose values are nodes of the graph. */
const NODE_KEYS = /\b(inputs|fetch|control_inputs|colocate_with|of|targets|feed)\s*:[^\n]*$/;

class GraphWords {
  constructor() {
    this.ops = new Map();
    this.keys = {};
    this.dtypes = [];
    this.placement = null;
  }

  /** The server's words: ops with their signatures, attrs and texts, keys by kind of mapping, and types. */
  learn({ ops, keys, dtypes }) {
    Object.assign(this, { ops: new Map(ops.map((op) => [op.name, op])), keys, dtypes });
  }

  /** `{from, options}` at a position of the text, or null. */
  complete(text, position, isExplicit) {
    const before = text.slice(text.lastIndexOf("\n", position - 1) + 1, position);
    const [word] = WORD.exec(before);
    const left = before.slice(0, before.length - word.length);
    if (!word && !isExplicit && !/[:[{,]\s*$/.test(left)) return null;
    const options = this.optionsAt(text, left, position - word.length);
    return options.length ? { from: position - word.length, options, validFor: /^[\w./:-]*$/ } : null;
  }

  optionsAt(text, left, at) {
    const key = /([\w]+)\s*:\s*["']?$/.exec(left)?.[1];
    if (key === "op") return [...this.ops.values()].map(({ name, signature }) => ({ label: name, type: "class", detail: signature }));
    if (key === "device" || /\bdevice\s*:\s*\[[^\]]*$/.test(left)) return this.devices();
    if (key === "dtype" || key === "T") return this.dtypes.map((name) => ({ label: name, type: "type" }));
    if (NODE_KEYS.test(left) && /[[,:]\s*["']?$/.test(left)) return this.nodes(text);
    if (/(^\s*|[{,]\s*|-\s+)$/.test(left)) return this.keysAt(text, left, at);
    return [];
  }

  devices() {
    return (this.placement?.devices ?? []).map(({ short, name }) => ({ label: /\/device:.*/.exec(name)?.[0] ?? name, type: "constant", detail: short }));
  }

  /** The nodes of the last text that could be read, and the ids in this one. */
  nodes(text) {
    const names = new Set([...text.matchAll(/\b(?:id|name|variable)\s*:\s*["']?([\w./-]+)/g)].map(([, name]) => name));
    const found = [...names].map((label) => ({ label, type: "variable", boost: 1 }));
    if (this.placement) for (const name of this.placement.nodes.name) if (!names.has(name)) found.push({ label: name, type: "variable", detail: this.placement.deviceOf(name) });
    return found;
  }

  /** The keys that an entry may have, and in `attrs` those of its op. */
  keysAt(text, left, at) {
    const entry = this.entryAt(text, at);
    const isInAttrs = /\battrs\s*:\s*(&\w+\s*)?\{[^}]*$/.test(text.slice(Math.max(0, at - 400), at));
    const names = isInAttrs ? this.ops.get(/\bop\s*:\s*["']?(\w+)/.exec(entry)?.[1])?.attrs : this.keys[left ? this.kindOf(text, entry, at) : "file"];
    return (names ?? []).map((name) => ({ label: name, apply: `${name}: `, type: "property" }));
  }

  /** The kind of mapping around a position: by the last key at the margin, and within nodes by a key that only such an entry has. */
  kindOf(text, entry, at) {
    const top = [...text.slice(0, at).matchAll(/^(\w+):/gm)].at(-1)?.[1];
    if (top !== "nodes") return { run: "step", config: "config", devices: "devices", links: "link" }[top] ?? top;
    if (/\bscope\s*:/.test(entry) && !/\bop\s*:/.test(entry)) return "nodes";
    return Object.keys(this.keys).find((kind) => kind !== "op" && new RegExp(`\\b${kind}\\s*:`).test(entry)) ?? "op";
  }

  /** The entry of a list around a position, as far as its text tells: from its `- ` to the next one. */
  entryAt(text, at) {
    const start = Math.max(text.lastIndexOf("\n", text.lastIndexOf("- ", at)), 0);
    const next = text.slice(at).search(/\n\s*- /);
    return text.slice(start, next < 0 ? undefined : at + next);
  }

  /** What the word at a position is, as `{from, to, dom}`; null where it is nothing known. */
  tell(text, position) {
    const from = position - WORD.exec(text.slice(Math.max(0, position - 200), position))[0].length;
    const to = position + /^[\w./:-]*/.exec(text.slice(position, position + 200))[0].length;
    const word = text.slice(from, to).replace(/:+$/, "");
    if (!word) return null;
    const lines = text[from + word.length] === ":" ? null : this.opLines(word) ?? this.nodeLines(word);
    return lines && { from, to: from + word.length, dom: element("div", { className: "hover" }, lines) };
  }

  opLines(name) {
    const op = this.ops.get(name);
    if (!op) return null;
    return [element("pre", {}, [op.text])];
  }

  nodeLines(name) {
    const device = this.placement?.deviceOf(name);
    if (!device) return null;
    const node = this.placement.numbers.get(name);
    return [element("strong", {}, [name]), element("p", {}, [`${this.placement.ops[this.placement.nodes.op[node]]} on ${device}`])];
  }
}
