// What is said of two steps beside their lanes: the panel for a node or a move, and a card for each question about the whole.

const MOST_MOVES = 60;
const MOST_MEMBERS = 60;
const SIDES = ["before", "after"];
const NO_VALUE = "–";
const OBJECTIVES = {
  latency: { title: "step", takes: "A step takes ", of: (placement) => placement.seconds, text: secondsText },
  throughput: { title: "busiest device", takes: "The busiest device takes ", of: (placement) => placement.load_seconds, text: secondsText },
  memory: { title: "peak memory", takes: "Peak memory is ", of: (placement) => placement.peak_bytes, text: bytesText },
};

/** By how much something is less; a share just below all is not all. */
const lessText = (share) => share > 0.9995 ? "over 99.9 %" : share > 0.995 ? `${(100 * share).toFixed(1)} %` : shareText(share);

/** How much less or more than before, in words and with its colour; nothing where it is as it was. */
function changeText(before, after, than = "") {
  if (!before || after === null || before === after) return null;
  const share = after / before - 1;
  const text = Math.abs(share) < 0.0005 ? "about the same" : share < 0 ? `${lessText(-share)} less${than}` : after >= 10 * before ? `${Number((after / before).toPrecision(3)).toLocaleString("en")} times${than && " that" + than}` : `${shareText(share)} more${than}`;
  return element("span", { className: Math.abs(share) < 0.0005 ? "sub" : share < 0 ? "better" : "worse" }, [text]);
}

/** Whether the intervals of two predictions overlap, so that which is faster is not sure. */
const isUnsure = (before, after) => before !== after && before.low <= after.high && after.low <= before.high;

/** A bar as long as its share of the whole, with a mark at another share. */
function valueBar(share, { mark, isOver, title = "" } = {}) {
  const bar = element("span", { className: isOver ? "share over" : "share" });
  bar.style.width = `${100 * Math.min(1, share)}%`;
  const found = element("span", { className: "value-bar", title }, [bar]);
  if (mark !== undefined) {
    const line = element("span", { className: "mark" });
    line.style.left = `${100 * Math.min(1, mark)}%`;
    found.append(line);
  }
  return found;
}

/** A table's cell: what is in it, and its class. */
const cell = (children, className = "") => element("td", { className }, [].concat(children));

/** A table of rows that are made already. */
function rowsTable(head, rows) {
  const names = head.map(([text, className]) => columnHead(text, className));
  return scrolling(element("table", {}, [element("thead", {}, [element("tr", {}, names)]), element("tbody", {}, rows)]));
}

/** The card of all placements, with the bound as a mark on each bar. */
function placementsCard(data, shown) {
  const sought = OBJECTIVES[data.plan?.objective ?? "latency"];
  const bound = data.plan?.bound.value;
  const known = data.placements.map(sought.of).filter((value) => value !== null);
  const most = Math.max(bound ?? 0, ...known) || 1;
  const rows = data.placements.map((placement, number) => {
    const value = sought.of(placement);
    const tags = SIDES.filter((side) => shown[side] === number).map((side) => element("span", { className: "tag" }, [side]));
    const label = [placement.label, ...tags, ...(placement.is_allowed ? [] : [element("div", { className: "sub" }, ["needs more nodes freed"])])];
    const isPlan = data.plan?.index === number;
    const row = element("tr", { className: isPlan ? "plan" : "" }, [
      cell(label, "name"),
      cell(value === null ? [] : [valueBar(value / most, { mark: bound === undefined ? undefined : bound / most, title: `${sought.text(value)}${bound === undefined ? "" : `; lower bound ${sought.text(bound)}`}` })], "value"),
      cell(placement.seconds === null ? NO_VALUE : secondsText(placement.seconds), "number"),
      cell(placement.seconds === null ? NO_VALUE : `${secondsText(placement.low)} – ${secondsText(placement.high)}`, "number least"),
      cell(placement.load_seconds === null ? NO_VALUE : secondsText(placement.load_seconds), "number"),
      cell(placement.peak_bytes === null ? NO_VALUE : bytesText(placement.peak_bytes), "number"),
      cell(placement.transfers === null ? NO_VALUE : placement.transfers.toLocaleString("en"), "number"),
      cell(placement.transfer_bytes === null ? NO_VALUE : bytesText(placement.transfer_bytes), "number"),
      cell(placement.fits ? "fits" : [element("span", { className: "over" }, ["does not fit"]), element("div", { className: "sub" }, [placement.note])], "why"),
    ]);
    return row;
  });
  const head = [["placement"], [sought.title], ["step", "number"], ["interval", "number least"], ["busiest device", "number"], ["peak memory", "number"], ["transfers", "number"], ["copied", "number"], ["memory"]];
  const note = bound === undefined ? [] : [element("p", { className: "sub" }, [`The mark on each bar is the lower bound, ${sought.text(bound)}: ${data.plan.bound.why}.`])];
  return addClass(cardOf("placements", "All placements", rowsTable(head, rows), ...note), "wide");
}

function addClass(found, name) {
  found.classList.add(name);
  return found;
}

/** The card of each device's peak before and after, as a share of its limit or else of the highest. */
function memoryCard(before, after) {
  const devices = new Map();
  [before, after].forEach((placement, side) => placement.devices.forEach((device, number) => {
    const row = devices.get(device.device) ?? { name: placement.short[number], peaks: [null, null], limits: [null, null] };
    row.peaks[side] = device.peak_bytes;
    row.limits[side] = device.limit_bytes;
    devices.set(device.device, row);
  }));
  const held = [...devices.values()].filter((row) => row.peaks.some((peak) => peak !== null));
  if (!held.length) return null;
  const most = Math.max(...held.flatMap((row) => row.peaks)) || 1;
  const rows = held.map(({ name, peaks, limits }) => {
    const limit = limits[1] ?? limits[0];
    // a limit that is far away would leave nothing to be seen of the bars
    const whole = limit !== null && limit <= 20 * Math.max(...peaks) ? Math.max(limit, ...peaks) : most;
    const bars = peaks.map((peak, side) => valueBar((peak ?? 0) / whole, { isOver: limits[side] !== null && (peak ?? 0) > limits[side], mark: whole !== most && limit < whole ? limit / whole : undefined, title: SIDES[side] }));
    const share = (peak, side) => (limits[side] && peak !== null ? [element("div", { className: peak > limits[side] ? "over" : "sub" }, [shareText(peak / limits[side])])] : []);
    const sizes = peaks.map((peak, side) => cell([peak === null ? NO_VALUE : bytesText(peak), ...share(peak, side)], "number"));
    return element("tr", {}, [cell(name, "name"), cell([element("span", { className: "pair" }, bars)], "value"), ...sizes, cell(limit === null ? "none" : bytesText(limit), "number")]);
  });
  return cardOf("memory", "Peak memory per device", rowsTable([["device"], [""], ["before", "number"], ["after", "number"], ["limit", "number"]], rows));
}

/** The card of the best plans for each number of edits, with the plan's own row marked; none without such plans. */
function editsCard({ plan }) {
  if (!plan?.curve.length) return null;
  const sought = OBJECTIVES[plan.objective];
  const rows = plan.curve.map((point) => {
    const edits = point.edits.map((edit) => element("div", {}, [`${edit.path}${edit.gradients.length ? " and its gradients" : ""} on ${edit.device} (${countText(edit.nodes, "node")})`]));
    const row = element("tr", {}, [
      cell(point.changes.toLocaleString("en"), "number"),
      cell(sought.text(point.value), "number"),
      cell([valueBar(point.value / plan.curve[0].value, {})], "value"),
      cell(edits.length ? edits : "none", "name"),
    ]);
    row.classList.toggle("lit", point.changes === plan.edits);
    return row;
  });
  const note = element("p", { className: "sub" }, ["An edit gives a device to a scope or a node, as a tf.device line does. The plan's row is marked."]);
  return addClass(cardOf("edits", "Edits and what they gain", note, rowsTable([["edits", "number"], [sought.title, "number"], [""], ["devices"]], rows)), "wide");
}

/** The card of what moves; `actions`: `point(move)`, `choose(move)`. */
function movesCard(data, moves, actions) {
  const told = moves.some((move) => move.loss !== null);
  const sought = OBJECTIVES[data.plan?.objective ?? "latency"];
  const total = moves.reduce((sum, move) => sum + move.nodes.length, 0);
  const rows = moves.slice(0, MOST_MOVES).map((move) => {
    const link = actionLink(move.label, () => actions.choose(move));
    const row = element("tr", {}, [
      cell([link, ...(move.nodes.length > 1 ? [element("div", { className: "sub" }, [countText(move.nodes.length, "node")])] : [])], "name"),
      cell(`${move.source} → ${move.target}`),
      ...(told ? [cell(move.loss === null ? NO_VALUE : signedText(move.loss, sought.text), `number ${move.loss > 0 ? "better" : ""}`)] : []),
      ...(move.seconds ? [cell(secondsText(move.seconds[0]), "number"), cell(secondsText(move.seconds[1]), "number")] : []),
    ]);
    row.addEventListener("pointerenter", () => actions.point(move));
    row.addEventListener("pointerleave", () => actions.point(null));
    link.addEventListener("focus", () => actions.point(move));
    link.addEventListener("blur", () => actions.point(null));
    move.row = row;
    return row;
  });
  const head = [["node"], ["from → to"], ...(told ? [["gain", "number"]] : []), ["ran before", "number"], ["after", "number"]];
  const more = moves.length > rows.length ? [element("p", { className: "sub more" }, [`${(moves.length - rows.length).toLocaleString("en")} more, of ${countText(total, "node")} in total`])] : [];
  if (!rows.length) return cardOf("moves", "Moved nodes", element("p", {}, ["None: every node keeps its device."]));
  const note = told ? "Gain: how much worse the plan would be if only these nodes stayed; negative if they move for the sake of others." : "Nodes with the same move are grouped.";
  return cardOf("moves", `Moved nodes: ${total.toLocaleString("en")}`, element("p", { className: "sub" }, [`${note} Point at a row to see its nodes in both steps.`]), rowsTable(head, rows), ...more);
}

const signedText = (value, text) => (value < 0 ? `−${text(-value)}` : text(value));

/** What is known of what is selected in both steps, or of both steps where nothing is. */
class ComparisonPanel {
  /** `actions`: `select(name, isTransfer)`, `zoomTo(side)`, `choose(move)`. */
  constructor(container, actions) {
    Object.assign(this, { container, actions });
  }

  fill(...parts) {
    this.container.replaceChildren(...parts.flat().filter(Boolean));
    this.container.scrollTop = 0;
  }

  table(rows) {
    return rowsTable([[""], ["before", "number"], ["after", "number"]], rows.filter(Boolean).map(([what, ...values]) => element("tr", {}, [cell(what, "sub"), ...values.map((value) => cell(value ?? NO_VALUE, "number"))])));
  }

  /** Both steps. */
  steps(placements, pathSeconds) {
    const both = (of) => placements.map((placement) => (of(placement) === null ? null : of(placement)));
    const key = (text) => element("kbd", {}, [text]);
    this.fill(
      element("h2", { className: "title" }, ["Both steps"]),
      this.table([
        ["step", ...both((placement) => secondsText(placement.seconds))],
        ["at least", ...both((placement) => secondsText(placement.low))],
        ["at most", ...both((placement) => secondsText(placement.high))],
        ["busiest device", ...both((placement) => secondsText(placement.load_seconds))],
        ["transfers", ...both((placement) => placement.transfers.toLocaleString("en"))],
        ["copied", ...both((placement) => bytesText(placement.transfer_bytes))],
        ["peak memory", ...both((placement) => bytesText(placement.peak_bytes))],
        ...["compute", "launch", "transfer"].map((kind) => [`path: ${kind}`, ...pathSeconds.map((seconds) => seconds && secondsText(seconds[kind]))]),
      ]),
      element("p", {}, ["Select a node or a transfer in either step to see it in both. ", key("n"), " starts the critical path, ", key("x"), " swaps the two, ", key("?"), " lists all keys."]),
    );
  }

  /** A node or a tensor on its way: `models`, its span in each, and the move that it is part of. */
  span(models, spans, move, modes) {
    const of = (tell) => spans.map((span, side) => (span === NONE ? null : tell(models[side], span, side)));
    const [model, span, side] = spans[1] === NONE ? [models[0], spans[0], 0] : [models[1], spans[1], 1];
    const shown = modes[side].looks[modes[side].lookOf(2 * span)];
    const isTransfer = model.isTransfer(span);
    const where = (each, at) => (each.isTransfer(at) ? `${each.short[each.cost(at)[1]]} → ${each.device(at)}` : each.device(at));
    const waited = (each, at) => {
      const launched = each.spans.wait[at] === WAIT.launch;
      const wait = launched ? each.spans.launch_wait[at] : each.spans.wait[at];
      const cause = launched ? each.launchBefore[at] : each.before[at];
      if (cause === NONE || (wait !== WAIT.input && wait !== WAIT.turn)) return "nothing";
      return [wait === WAIT.turn ? "the device, after " : "", actionLink(each.label(cause), () => this.actions.select(each.spans.name[cause], each.isTransfer(cause)))];
    };
    const buttons = spans.map((at, number) => {
      const found = element("button", { textContent: `Zoom ${SIDES[number]}`, disabled: at === NONE });
      found.addEventListener("click", () => this.actions.zoomTo(number));
      return found;
    });
    const shapes = model.shapes[model.spans.shapes[span]];
    this.fill(
      element("h2", { className: "title" }, [model.name(span)]),
      element("p", { className: "sub" }, [isTransfer ? "copied between devices" : model.op(span)]),
      element("p", { className: "badge" }, [swatch(shown), shown.label]),
      element("div", { className: "path" }, buttons),
      this.table([
        ["on", ...of(where)],
        ["from", ...of((each, at) => secondsText(each.start[at], 4))],
        ["to", ...of((each, at) => secondsText(each.end[at], 4))],
        ["took", ...of((each, at) => secondsText(each.end[at] - each.start[at]))],
        isTransfer ? ["bytes", ...of((each, at) => bytesText(each.cost(at)[0]))] : ["at least", ...of((each, at) => secondsText(each.cost(at)[1]))],
        isTransfer ? null : ["at most", ...of((each, at) => secondsText(each.cost(at)[2]))],
        ["critical path", ...of((each, at) => (each.pathAt.has(at) ? "yes" : "no"))],
        ["waited for", ...of(waited)],
      ]),
      spans.includes(NONE) ? element("p", { className: "sub" }, [isTransfer ? `It is copied ${SIDES[spans.indexOf(NONE) ? 0 : 1]} only.` : `It runs ${SIDES[spans.indexOf(NONE) ? 0 : 1]} only.`]) : null,
      move && element("p", {}, ["Moves from ", element("strong", {}, [move.source]), " to ", element("strong", {}, [move.target]), ...(move.nodes.length > 1 ? [" with ", actionLink(countText(move.nodes.length - 1, "other"), () => this.actions.choose(move))] : []), "."]),
      shapes && element("p", { className: "sub" }, [shapes]),
    );
  }

  /** Nodes that move together. */
  move(move, names, sought) {
    const rows = move.nodes.slice(0, MOST_MEMBERS).map((name) => element("li", {}, [actionLink(names[name], () => this.actions.select(name, false))]));
    const is = move.nodes.length === 1;
    const they = is ? "it" : "they";
    const size = element("strong", {}, [sought.text(Math.abs(move.loss ?? 0))]);
    if (move.nodes.length > rows.length) rows.push(element("li", { className: "sub" }, [`${(move.nodes.length - rows.length).toLocaleString("en")} more`]));
    this.fill(
      element("h2", { className: "title" }, [move.label]),
      element("p", { className: "sub" }, [`${countText(move.nodes.length, "node")}, ${move.source} → ${move.target}`]),
      move.loss === null ? null : element("p", {}, move.loss < 0
        ? [`If only ${they} stayed, the plan would be better by `, size, `: ${they} ${is ? "moves" : "move"} for the sake of others.`]
        : [`If only ${they} stayed, the plan would be worse by `, size, ", as measured by the search."]),
      element("p", {}, [`${is ? "It" : "They"} ran ${secondsText(move.seconds[0])} before, and ${secondsText(move.seconds[1])} after.`]),
      element("section", {}, [element("h2", {}, ["Nodes"]), element("ul", { className: "items" }, rows)]),
    );
  }
}
