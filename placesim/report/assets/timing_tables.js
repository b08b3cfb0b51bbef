// What is said of a step beside its lanes: the panel for one span, and a card for each question about the whole.

const MAX_LINKS = 40;

/** Rows of a table: `{head: [text, is a number], rows: [[cell]]}`; a cell is a text, an element, or `{bar: share}`. */
function tableOf(head, rows) {
  const cells = (row) => row.map((cell, i) => {
    if (cell?.bar !== undefined) {
      const bar = element("span", { className: "share" });
      bar.style.width = `${100 * Math.min(1, cell.bar)}%`;
      return element("td", { className: "bar" }, [bar]);
    }
    return element("td", { className: head[i]?.[1] ? "number" : i ? "" : "name" }, [].concat(cell));
  });
  const names = head.map(([text, isNumber]) => columnHead(text, isNumber ? "number" : ""));
  const table = element("table", {}, [element("thead", {}, [element("tr", {}, names)]), element("tbody", {}, rows.map((row) => element("tr", {}, cells(row))))]);
  return scrolling(table);
}

/** A ratio of predicted to measured time. */
const ratioText = (ratio) => (ratio === null ? "–" : `${Number(ratio.toPrecision(3))} ×`);

const MEASURED_HEAD = [["predicted", true], ["measured", true], ["ratio", true], [""]];
const measuredCells = (row) => [secondsText(row.predicted), secondsText(row.measured), ratioText(row.ratio), { bar: row.share ?? 0 }];

function cardOf(id, title, ...children) {
  return element("section", { className: "card", id }, [element("h2", {}, [title]), ...children]);
}

class TimingTables {
  /** `actions`: `select(span)`. */
  constructor(model, actions) {
    this.model = model;
    this.actions = actions;
  }

  share(seconds) {
    return this.model.seconds ? seconds / this.model.seconds : 0;
  }

  shortOf(device) {
    return this.model.short[this.model.devices.findIndex((row) => row.device === device)] ?? device;
  }

  /** A node or a tensor by name: selects its longest run. */
  toRun(name, device) {
    return actionLink(name, () => {
      const { model } = this;
      const runs = model.runs(name, device);
      runs.sort((a, b) => model.end[b] - model.start[b] - (model.end[a] - model.start[a]) || a - b);
      if (runs.length) this.actions.select(runs[0]);
    }, "#" + encodeURIComponent(name));
  }

  cards() {
    return [this.measured(), this.measuredNodes(), this.path(), this.nodes(), this.transfers(), this.links(), this.devices(), this.steps(), this.assumptions()].filter(Boolean);
  }

  /** The predicted step beside the measured one, by op. */
  measured() {
    const { comparison, top } = this.model;
    if (!comparison) return null;
    const rows = comparison.ops.slice(0, top).map((row) => [row.op, row.nodes.toLocaleString("en"), ...measuredCells(row)]);
    const median = comparison.steps > 1 ? `, the median of ${countText(comparison.steps, "step")}` : "";
    const sentences = [`${shareText(comparison.matched)} of the measured time of nodes has a prediction`, ...comparison.sentences];
    return cardOf(
      "measured", "Predicted beside measured",
      element("p", {}, [`Measured ${secondsText(comparison.measured)} in ${comparison.format}${median}; predicted ${ratioText(comparison.ratio)}.`]),
      ...sentences.map((sentence) => element("p", { className: "sub" }, [sentence])),
      tableOf([["op"], ["nodes", true], ...MEASURED_HEAD], rows),
    );
  }

  measuredNodes() {
    const { comparison, top } = this.model;
    const rows = comparison?.nodes.slice(0, top).map((row) => [
      [this.toRun(row.node, row.device), element("div", { className: "sub" }, [`${row.op} · ${this.shortOf(row.device)}`])], ...measuredCells(row),
    ]);
    return rows?.length ? cardOf("measured-nodes", "Measured nodes", tableOf([["node"], ...MEASURED_HEAD], rows)) : null;
  }

  path() {
    const rows = this.model.folded_path.map((part) => [part.scope, part.kind, part.number.toLocaleString("en"), secondsText(part.seconds), shareText(this.share(part.seconds)), { bar: this.share(part.seconds) }]);
    if (!rows.length) return null;
    return cardOf("path", "Critical path", tableOf([["scope"], ["of"], ["parts", true], ["time", true], ["share", true], [""]], rows));
  }

  nodes() {
    const rows = this.model.dearest_nodes.map((node) => {
      const mark = node.is_uncertain ? "?" : "";
      return [
        [this.toRun(node.node, node.device), element("div", { className: "sub" }, [`${node.op} · ${this.shortOf(node.device)}`])],
        node.number.toLocaleString("en"), secondsText(node.seconds) + mark, `${secondsText(node.low)} – ${secondsText(node.high)}`,
        { bar: this.share(node.seconds) },
      ];
    });
    if (!rows.length) return null;
    return cardOf("nodes", "Slowest nodes", tableOf([["node"], ["runs", true], ["time", true], ["interval", true], [""]], rows));
  }

  transfers() {
    const rows = this.model.dearest_transfers.map((run) => [
      [this.toRun(run.tensor, run.receiver), element("div", { className: "sub" }, [`${this.shortOf(run.sender)} → ${this.shortOf(run.receiver)}`])],
      bytesText(run.bytes), secondsText(run.end - run.start), { bar: this.share(run.end - run.start) },
    ]);
    if (!rows.length) return null;
    return cardOf("transfers", "Slowest transfers", tableOf([["tensor"], ["bytes", true], ["time", true], [""]], rows));
  }

  links() {
    const used = this.model.links.filter((link) => link.bytes);
    if (!used.length) return null;
    const rows = used.map((link) => [link.name, bytesText(link.bytes), `${bytesText(link.bandwidth)}/s`, shareText(link.busy), { bar: link.busy }]);
    return cardOf("links", "Links", tableOf([["link"], ["bytes", true], ["bandwidth", true], ["use", true], [""]], rows));
  }

  devices() {
    const { model } = this;
    const rows = model.devices.map((device, number) => {
      const { peak, limit, own } = model.memoryTexts(number);
      const lines = [limit, own].filter(Boolean).map((line) => element("div", { className: line.startsWith("over") ? "over" : "sub" }, [line]));
      const memory = [peak, ...lines];
      return [
        [model.short[number], element("div", { className: "sub" }, [`${device.processor} · ${countText(device.nodes, "node")}`])], shareText(device.busy),
        device.operations ? [operationsText(device.operations), element("div", { className: "sub" }, [`MFU ${shareText(device.mfu)}`])] : "–", device.copies_seconds ? secondsText(device.copies_seconds) : "–", bytesText(device.bytes_in), bytesText(device.bytes_out), memory,
      ];
    });
    return cardOf("devices", "Devices", tableOf([["device"], ["busy", true], ["operations", true], ["copies", true], ["in", true], ["out", true], ["memory", true]], rows));
  }

  steps() {
    const rows = this.model.steps.map((step) => [`step ${step.number}`, `${step.repeat.toLocaleString("en")} ×`, secondsText(step.seconds), `${secondsText(step.low)} – ${secondsText(step.high)}`, secondsText(step.first_seconds), secondsText(step.total_seconds)]);
    return cardOf("steps", "Steps", tableOf([["step"], ["runs", true], ["time", true], ["interval", true], ["first run", true], ["total", true]], rows));
  }

  assumptions() {
    return cardOf("assumptions", "Assumptions", element("ul", {}, this.model.assumptions.map((sentence) => element("li", {}, [sentence]))));
  }
}

/** What is known of a selected span, or of the step where nothing is selected. */
class TimingPanel {
  /** `actions`: `select(span)`, `zoomTo(span)`, `along(by)`. */
  constructor(container, model, actions) {
    Object.assign(this, { container, model, actions });
  }

  show(span, mode) {
    this.container.replaceChildren(...(span === NONE ? this.nothing() : this.span(span, mode)).filter(Boolean));
    this.container.scrollTop = 0;
  }

  nothing() {
    const { model } = this;
    const key = (text) => element("kbd", {}, [text]);
    return [
      element("h2", { className: "title" }, [model.graph]),
      element("p", { className: "sub" }, [`${countText(model.count, "part")} of the step on ${countText(model.devices.length, "device")}`]),
      element("p", {}, ["Select a node or a transfer to see when it ran and what it waited for. ", key("n"), " starts the critical path, ", key("?"), " lists all keys."]),
      this.path(NONE),
      this.bounds(),
      this.helps(),
    ];
  }

  bounds() {
    const rows = this.model.bounds.map((bound) => [bound.what, secondsText(bound.seconds), shareText(bound.share ?? 0), { bar: bound.share ?? 0 }]);
    return element("section", { id: "bounds" }, [element("h2", {}, ["Lower bounds"]), tableOf([["bound"], ["time", true], ["share", true], [""]], rows)]);
  }

  helps() {
    const { helps, top } = this.model;
    if (!helps?.length) return null;
    const rows = helps.slice(0, top).map((row) => [[row.what, " ", element("small", { className: "sub" }, [row.kind])], secondsText(row.seconds), shareText(row.share ?? 0), { bar: Math.max(0, row.share ?? 0) }]);
    return element("section", { id: "helps" }, [element("h2", {}, ["Step time if this were free"]), tableOf([["part"], ["step", true], ["saved", true], [""]], rows)]);
  }

  facts(pairs) {
    return element("dl", {}, pairs.flatMap(([term, value]) => [element("dt", {}, [term]), element("dd", {}, [].concat(value))]));
  }

  to(span) {
    return actionLink(this.model.name(span), () => this.actions.select(span), "#" + encodeURIComponent(this.model.name(span)));
  }

  span(span, mode) {
    const { model } = this;
    const look = mode.looks[mode.lookOf(2 * span)];
    const mark = model.isUncertain(span) ? "?" : "";
    const took = model.end[span] - model.start[span];
    const lanes = model.lanesOf(span).map((lane) => model.lanes[lane].name).join(", ");
    const facts = [
      ["Device", model.devices[model.spans.device[span]].device], ["On", lanes], ["From", secondsText(model.start[span], 6)],
      ["To", secondsText(model.end[span], 6)], ["Took", `${secondsText(took)}${mark}, ${shareText(model.seconds ? took / model.seconds : 0)} of the step`],
    ];
    if (model.isTransfer(span)) {
      const [bytes, sender] = model.cost(span);
      facts.unshift(["Sender", model.devices[sender].device]);
      facts[1][0] = "Receiver";
      facts.push(["Bytes", bytesText(bytes)]);
      if (took) facts.push(["Rate", `${bytesText(bytes / took)}/s`]);
    } else {
      const [seconds, low, high] = model.cost(span);
      facts.push(["Predicted", `${secondsText(seconds)}${mark} (${secondsText(low)} – ${secondsText(high)})`]);
      if (took > 1.005 * seconds && seconds) facts.push(["Slowed", `${(took / seconds).toFixed(2)} times, by other work there`]);
      if (mark) facts.push(["Host", "assumed, not measured"]);
      const measured = model.comparison?.nodes.find((row) => row.node === model.name(span));
      if (measured) facts.push(["Measured", `${secondsText(measured.measured)}${measured.replaced.length ? ` with ${countText(measured.replaced.length, "other node")}` : ""}`]);
    }
    if (model.hasLaunch(span)) facts.push(["Launched", `${secondsText(model.launchStart[span], 6)} – ${secondsText(model.launchEnd[span], 6)}`]);
    const shapes = model.shapes[model.spans.shapes[span]];
    if (shapes) facts.push(["Tensors", shapes]);
    const part = model.pathAt.get(span);
    facts.push(["Critical path", part === undefined ? "no" : `part ${part + 1} of ${model.path.length}`]);
    const zoom = element("button", { textContent: "Zoom in", title: "Zoom in (Enter)" });
    zoom.addEventListener("click", () => this.actions.zoomTo(span));
    return [
      element("h2", { className: "title" }, [model.name(span)]),
      element("p", { className: "sub" }, [model.kind(span)]),
      element("p", { className: "badge" }, [swatch(look), look.label]),
      this.path(span, zoom),
      this.facts(facts),
      this.waits(span),
      this.list("Inputs", Array.from(model.inputs(span)), (input) => `ended ${secondsText(model.end[input], 4)}`, (a, b) => model.end[b] - model.end[a]),
      this.list("Waited for by", Array.from(model.readers(span)), (reader) => `began ${secondsText(model.start[reader], 4)}`, (a, b) => model.start[a] - model.start[b]),
      this.runs(span),
    ];
  }

  path(span, ...more) {
    const button = (text, by, key) => {
      const found = element("button", { textContent: text, title: `${text} on the critical path (${key})`, disabled: !this.model.path.length });
      found.addEventListener("click", () => this.actions.along(by));
      return found;
    };
    const buttons = span === NONE ? [button("First on path", 1, "n"), button("Last on path", -1, "p")] : [button("◀ Path", -1, "p"), button("Path ▶", 1, "n")];
    return element("div", { className: "path" }, [...buttons, ...more]);
  }

  /** Why it began no earlier: its launch and what that waited for, an input, or its turn. */
  waits(span) {
    const { model } = this;
    const on = () => model.lanesOf(span).map((lane) => model.lanes[lane].name).join(" and ");
    const said = (wait, before, what, place) => {
      if (wait === WAIT.input) return [`${what} waited for its input `, this.to(before), "."];
      if (wait === WAIT.turn) return [`${what} waited for ${place()}, after `, this.to(before), "."];
      return [`${what} waited for nothing.`];
    };
    const { wait, launch_wait: launchWait } = model.spans;
    const lines = [];
    if (wait[span] === WAIT.launch) lines.push(["It started as soon as it was launched."]);
    else lines.push(said(wait[span], model.before[span], "It", on));
    if (model.hasLaunch(span)) lines.push(said(launchWait[span], model.launchBefore[span], "Its launch", () => model.lanes[model.hostLane(span)].name));
    return element("section", { id: "waits" }, [element("h2", {}, ["Waited for"]), ...lines.map((line) => element("p", {}, line))]);
  }

  list(title, spans, size, order) {
    if (!spans.length) return null;
    spans.sort(order);
    const rows = spans.slice(0, MAX_LINKS).map((span) => element("li", {}, [this.to(span), element("span", { className: "size" }, [size(span)])]));
    if (spans.length > MAX_LINKS) rows.push(element("li", { className: "sub" }, [`${(spans.length - MAX_LINKS).toLocaleString("en")} more`]));
    return element("section", {}, [element("h2", {}, [`${title} (${spans.length.toLocaleString("en")})`]), element("ul", { className: "items" }, rows)]);
  }

  /** Of a node that ran several times, as in a loop, the runs before and after. */
  runs(span) {
    const { model } = this;
    const runs = model.runs(model.name(span), model.devices[model.spans.device[span]].device);
    if (runs.length < 2) return null;
    const at = runs.indexOf(span);
    const near = [["before", at - 1], ["after", at + 1]].filter(([, i]) => runs[i] !== undefined).map(([text, i]) => element("li", {}, [actionLink(`run ${text}`, () => this.actions.select(runs[i])), element("span", { className: "size" }, [`began ${secondsText(model.start[runs[i]], 4)}`])]));
    return element("section", {}, [element("h2", {}, [`Run ${at + 1} of ${runs.length.toLocaleString("en")}`]), element("ul", { className: "items" }, near)]);
  }
}
