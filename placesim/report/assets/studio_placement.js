// The document of a picture -> the placement by device and name scope, and what of it differs from another placement.

/** A name scope: `path` ends in a slash, `nodes` are all nodes inside, `counts` their number in each column of devices. */
class NameScope {
  constructor(path, label, columns) {
    Object.assign(this, { path, label, children: [], nodes: [], counts: new Uint32Array(columns) });
  }
}

class Placement extends Model {
  constructor(picture) {
    super(picture);
    this.numbers = new Map(this.nodes.name.map((name, node) => [name, node]));
    this.short = this.devices.map(({ short }) => short);
    this.root = this.growScopes();
  }

  growScopes() {
    const scopes = new Map();
    const scopeAt = (path) => {
      let found = scopes.get(path);
      if (!found) {
        found = new NameScope(path, path.split("/").at(-2) ?? "", this.devices.length + 1);
        scopes.set(path, found);
        if (path) scopeAt(path.slice(0, path.lastIndexOf("/", path.length - 2) + 1)).children.push(found);
      }
      return found;
    };
    scopeAt("");
    this.nodes.name.forEach((name, node) => {
      scopeAt(name.slice(0, name.lastIndexOf("/") + 1)).children.push(node);
      const column = this.columnOf(node);
      for (let end = name.lastIndexOf("/") + 1; ; end = name.lastIndexOf("/", end - 2) + 1) {
        const scope = scopeAt(name.slice(0, end));
        scope.nodes.push(node);
        scope.counts[column] += 1;
        if (!end) break;
      }
    });
    this.scopeAt = scopes;
    return scopes.get("");
  }

  /** A node's device, or the column after all devices where it is not placed. */
  columnOf(node) {
    const device = this.nodes.device[node];
    return device < 0 ? this.devices.length : device;
  }

  /** The devices, and one column more where some nodes are not placed. */
  get columns() {
    return [...this.devices.keys(), ...(this.isPartial ? [this.devices.length] : [])];
  }

  /** Whether some nodes are on no device. */
  get isPartial() {
    return this.root.counts[this.devices.length] > 0;
  }

  /** The nodes of a path: of a scope all inside, of a node's name itself. */
  nodesAt(path) {
    if (path.endsWith("/")) return this.scopeAt.get(path)?.nodes ?? [];
    return this.numbers.has(path) ? [this.numbers.get(path)] : [];
  }

  deviceOf(name) {
    const node = this.numbers.get(name);
    return node === undefined ? null : this.deviceText(this.nodes.device[node]);
  }

  /** `[short device, nodes]` of a path, in the order of the devices. */
  devicesAt(path) {
    const counts = new Map();
    for (const node of this.nodesAt(path)) counts.set(this.nodes.device[node], (counts.get(this.nodes.device[node]) ?? 0) + 1);
    return [...counts].sort((a, b) => a[0] - b[0]).map(([device, count]) => [this.deviceText(device), count]);
  }

  /** The fewest paths that hold all nodes of a device and no others. */
  pathsOn(device) {
    const found = [];
    const waiting = [...this.root.children].reverse();
    while (waiting.length) {
      const child = waiting.pop();
      if (!(child instanceof NameScope)) this.columnOf(child) === device && found.push(this.nodes.name[child]);
      else if (child.counts[device] === child.nodes.length) found.push(child.path);
      else if (child.counts[device]) waiting.push(...[...child.children].reverse());
    }
    return found;
  }

  /** The line of the graph file that makes a node; 0 where none is known. */
  lineOf(node) {
    return Number(/:(\d+)(?::\d+)?$/.exec(this.nodes.place[node])?.[1] ?? 0);
  }

  /** What is copied between devices, by tensor and way: a text that another placement has alike, and its bytes. */
  get copied() {
    this._copied ??= new Map(this.copies.map(([node, slot, source, target, bytes]) => [`${this.nodes.name[node]}${slot > 0 ? `:${slot}` : ""} ${this.short[source]} → ${this.short[target]}`, bytes]));
    return this._copied;
  }
}

/** The copies that one placement has and the other has not. */
const copiesOnlyIn = (one, other) => [...one.copied].filter(([key]) => !other.copied.has(key));
