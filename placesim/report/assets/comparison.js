// The page that compares: two of the simulated steps one above the other, on one axis; what is selected in one is in both.

/** How long after a selection one side doesn't follow the other's scrolling, in milliseconds. */
const STILL_MS = 150;

/** A host's rows take no more of the height, so that GPUs below them are seen beside each other. */
const MOST_LANE = 112;

class ComparisonPage {
  constructor(data) {
    this.data = data;
    this.models = new Map();
    this.shown = { before: data.before, after: data.after };
    this.chosen = null;
    this.move = null;
    this.latest = 1;
    const actions = {
      select: (name, isTransfer) => this.select(name, isTransfer),
      zoomTo: (side) => this.zoomTo(side, this.spans()[side]),
      choose: (move) => this.choose(move),
    };
    this.panel = new ComparisonPanel(byId("panel"), actions);
    this.finder = new Finder({
      find: (words) => this.find(words),
      row: (key) => this.foundRow(key),
      take: (key) => this.select(key >> 1, (key & 1) === 1),
      focused: () => this.lanes[1]?.canvas ?? byId("panel"),
    });
    offerPictures(() => new Drawn(byId("sides")));
    this.theme = new Theme(() => this.repaint());
    for (const side of SIDES) {
      const choices = data.placements.map((placement, number) => [placement, number]).filter(([placement]) => placement.seconds !== null);
      byId(side).append(...choices.map(([placement, number]) => element("option", { value: number, textContent: placement.label })));
      byId(side).addEventListener("change", () => this.show({ ...this.shown, [side]: Number(byId(side).value) }));
    }
    byId("headline").replaceChildren(...this.headline());
    if (data.plan?.value === null) showError(`No plan fits: ${data.plan.ways_out.join("; ") || "no placement runs in the devices' memory"}.`);
    byId("keys").querySelector("dl").append(element("dt", {}, [element("kbd", {}, ["x"])]), element("dd", {}, ["swap before and after"]));
  }

  /** What the whole page is about, which other choices leave as it is. */
  headline() {
    const { plan, placements, before, after } = this.data;
    const sought = OBJECTIVES[plan?.objective ?? "latency"];
    const [was, is] = [sought.of(placements[before]), sought.of(placements[after])];
    const parts = [sought.takes, element("strong", {}, [sought.text(is)])];
    if (before !== after) parts.push(` instead of ${sought.text(was)}`);
    const change = changeText(was, is);
    if (change) parts.push(", ", change);
    if (sought === OBJECTIVES.latency && isUnsure(placements[before], placements[after])) parts.push(" (the intervals overlap, so the difference may not be real)");
    if (!plan) parts.push(`: ${placements[after].label} compared with ${placements[before].label}.`);
    else if (plan.is_optimal) parts.push(`. Optimal, by the lower bound: ${plan.bound.why}.`);
    else parts.push(`. Lower bound ${sought.text(plan.bound.value)}${plan.value === null ? "" : ` (${shareText(plan.gap)} less)`}: ${plan.bound.why}.`);
    if (plan?.is_interrupted) parts.push(" Search interrupted.");
    if (plan?.ended_early) parts.push(` ${plan.ended_early.replace(/^t/, "T")}.`);
    return parts;
  }

  // --- which two

  async model(number) {
    if (!this.data.placements[number].has_lanes) return null;
    if (!this.models.has(number)) {
      const { names, ops, shapes } = this.data;
      this.models.set(number, new StepModel({ names, ops, shapes, ...JSON.parse(await unpack(`packed-step-${number}`)) }));
    }
    return this.models.get(number);
  }

  /** Shows another pair; what is selected stays so, as far as it is in them. */
  async show(shown) {
    const pair = await Promise.all(SIDES.map((side) => this.model(shown[side])));
    this.shown = shown;
    this.pair = pair;
    this.indexes = pair.map((model) => model && indexOf(model));
    const known = pair.filter(Boolean);
    const longest = Math.max(...known.map((model) => model.seconds), 0);
    this.axis = new TimeAxis(longest, Math.min(1, ...known.map((model) => model.tick)));
    this.lanes = pair.map((model, side) => this.lanesOf(model, side));
    this.moves = this.movesOf();
    this.moveOf = new Map(this.moves.flatMap((move) => move.nodes.map((name) => [name, move])));
    this.move = null;
    for (const side of SIDES) byId(side).value = shown[side];
    this.tell();
    this.fitHeight();
    this.repaint();
    if (this.chosen) this.select(this.chosen.name, this.chosen.isTransfer);
  }

  lanesOf(model, side) {
    // a fresh place each time, so that nothing listens for the picture before
    const place = element("div", { className: "lanes" });
    byId(`lanes-${SIDES[side]}`).replaceChildren(place);
    if (!model) {
      const { spans } = this.data.placements[this.shown[SIDES[side]]];
      place.append(element("p", { className: "no-lanes" }, [`Too large to draw: ${countText(spans, "node")} and transfers. The tables below are complete.`]));
      return null;
    }
    const lanes = new LanesView(place, model, this.axis, {
      select: (span) => this.selectAt(side, span),
      zoomTo: (span) => this.zoomTo(side, span),
      hover: (found, event) => this.hovered(side, found, event),
    }, MOST_LANE);
    place.addEventListener("scroll", () => this.scrolled(side));
    lanes.canvas.setAttribute("aria-label", `${SIDES[side]}: ${lanes.canvas.getAttribute("aria-label")}`);
    lanes.isLit = this.isLit ?? true;
    lanes.hasArrows = this.hasArrows ?? true;
    return lanes;
  }

  /** The other side follows to the same device; that it does so is not followed in turn. */
  scrolled(side) {
    if (this.isStill || this.following === side) {
      this.following = null;
      return;
    }
    const other = this.lanes[1 - side];
    const before = other?.container.scrollTop;
    other?.scrollAs(this.lanes[side].scrolled);
    if (other && other.container.scrollTop !== before) this.following = 1 - side;
  }

  /** The heads of both sides, and the cards. */
  tell() {
    const { placements } = this.data;
    const [before, after] = SIDES.map((side) => placements[this.shown[side]]);
    const told = (placement) => `${secondsText(placement.seconds)} (${secondsText(placement.low)} to ${secondsText(placement.high)})`;
    byId("time-before").textContent = told(before);
    const change = changeText(before.seconds, after.seconds);
    byId("time-after").replaceChildren(...[told(after), ...(change ? [", ", change] : []), ...(isUnsure(before, after) ? ["; the intervals overlap"] : [])]);
    const moves = movesCard(this.data, this.moves, { point: (move) => this.light(move ?? this.move), choose: (move) => this.choose(move) });
    byId("cards").replaceChildren(...[placementsCard(this.data, this.shown), editsCard(this.data), moves, memoryCard(before, after)].filter(Boolean));
  }

  /** What moves between the two: as the plan's groups with their gains where it is that pair, else by way and scope. */
  movesOf() {
    const { plan, names } = this.data;
    const { before, after } = this.shown;
    const seconds = (move) => ({ ...move, seconds: this.indexes.map((index) => move.nodes.reduce((sum, name) => sum + (index?.seconds.get(name) ?? 0), 0)) });
    if (plan?.moves_from === before && plan.index === after) return plan.moves.map((move) => seconds({ ...move, label: names[move.nodes[0]] }));
    if (this.indexes.includes(null)) return [];
    const found = new Map();
    for (const [name, source] of this.indexes[0].devices) {
      const target = this.indexes[1].devices.get(name);
      if (target === undefined || target === source) continue;
      const parts = names[name].split("/");
      const label = parts.length > 1 ? `${parts[0]}/` : names[name];
      const key = `${label} ${source} ${target}`;
      if (!found.has(key)) found.set(key, { label, source, target, nodes: [], loss: null });
      found.get(key).nodes.push(name);
    }
    return [...found.values()].map(seconds).sort((a, b) => b.seconds[0] - a.seconds[0] || b.nodes.length - a.nodes.length);
  }

  // --- what is selected

  /** The spans of what is selected, one for each side. */
  spans() {
    if (!this.chosen) return [NONE, NONE];
    const key = 2 * this.chosen.name + (this.chosen.isTransfer ? 1 : 0);
    return this.indexes.map((index, side) => (this.chosen.side === side ? this.chosen.span : index?.longest.get(key) ?? NONE));
  }

  /** A node or a tensor by the number of its name; both steps go where it is in either. */
  select(name, isTransfer) {
    this.chosen = { name, isTransfer };
    const known = this.spans().map((span, side) => [span, this.pair[side]]).filter(([span]) => span !== NONE);
    if (!known.length) return this.selectNothing();
    this.axis.reveal(Math.min(...known.map(([span, model]) => model.start[span])), Math.max(...known.map(([span, model]) => model.end[span])), 0.04);
    return this.showChosen();
  }

  /** A span of one side, where the user is; the other side shows its own, if it has any. */
  selectAt(side, span, isNear = true) {
    this.latest = side;
    if (span === NONE) return this.selectNothing();
    const model = this.pair[side];
    this.chosen = { name: model.spans.name[span], isTransfer: model.isTransfer(span), side, span };
    this.axis.reveal(model.start[span], model.end[span], isNear ? 0.04 : 0);
    return this.showChosen();
  }

  selectNothing() {
    this.chosen = null;
    this.move = null;
    this.light(null);
    this.lanes.forEach((lanes) => lanes?.choose(NONE));
    this.tellChosen();
    this.address("");
  }

  showChosen() {
    this.move = null;
    this.light(null);
    // each side scrolls to its own
    this.isStill = true;
    clearTimeout(this.stillness);
    this.stillness = setTimeout(() => (this.isStill = false), STILL_MS);
    this.spans().forEach((span, side) => this.lanes[side]?.choose(span, false, false));
    this.tellChosen();
    this.address(this.data.names[this.chosen.name]);
    byId("said").textContent = byId("panel").textContent;
  }

  tellChosen() {
    const placements = SIDES.map((side) => this.data.placements[this.shown[side]]);
    if (this.move) this.panel.move(this.move, this.data.names, OBJECTIVES[this.data.plan?.objective ?? "latency"]);
    else if (this.chosen) this.panel.span(this.pair, this.spans(), this.chosen.isTransfer ? null : this.moveOf.get(this.chosen.name), this.modes);
    else this.panel.steps(placements, this.indexes.map((index) => index && index.path));
  }

  address(name) {
    clearTimeout(this.addressing);
    this.addressing = setTimeout(() => putAddress(name), ADDRESS_MS);
  }

  followAddress() {
    const name = this.data.names.indexOf(addressed());
    if (name >= 0) this.select(name, false);
    else this.selectNothing();
  }

  zoomTo(side, span) {
    if (span === undefined || span === NONE) return;
    this.selectAt(side, span);
    this.lanes[side].zoomTo(span);
  }

  /** Nodes that move: lit up in both steps, until something else is selected. */
  choose(move) {
    this.chosen = null;
    this.move = move;
    this.lanes.forEach((lanes) => lanes?.choose(NONE));
    this.light(move);
    this.tellChosen();
  }

  light(move) {
    this.moves.forEach((each) => each.row?.classList.toggle("lit", each === move));
    this.lanes.forEach((lanes, side) => lanes?.light(move && move.nodes.flatMap((name) => this.indexes[side].runs.get(name) ?? [])));
  }

  hovered(side, found, event) {
    const model = this.pair[side];
    tellOf(this.lanes[side], found, event);
    const other = this.lanes[1 - side];
    if (!other) return;
    const span = found && found.box !== NONE && found.box !== undefined ? spanOf(found.box) : NONE;
    const key = span === NONE ? NONE : 2 * model.spans.name[span] + (model.isTransfer(span) ? 1 : 0);
    const twin = this.indexes[1 - side].longest.get(key) ?? NONE;
    other.hovered = found && { box: twin === NONE ? NONE : 2 * twin, time: found.time };
    other.draw();
  }

  // --- finding

  /** Twice the number of a node's name that has all words, whole names before others; one more for a tensor that is copied. */
  find(words) {
    const [whole, others] = [[], []];
    const { names } = this.data;
    let name = 0;
    for (; name < names.length && others.length < MOST_FOUND; name++) {
      const spans = this.indexes.map((index) => index?.longest.get(2 * name)).map((span, side) => [span, this.pair[side]]).filter(([span]) => span !== undefined);
      if (!spans.length) continue;
      const own = names[name].toLowerCase();
      const text = `${own} ${spans.map(([span, model]) => `${model.op(span)} ${model.device(span)}`).join(" ")}`.toLowerCase();
      if (words.every((word) => text.includes(word))) (own === words[0] || own.split("/").pop() === words[0] ? whole : others).push(2 * name);
    }
    return Object.assign([...whole, ...others], { isCut: name < names.length });
  }

  foundRow(key) {
    const name = this.data.names[key >> 1];
    const devices = this.indexes.map((index) => index?.devices.get(key >> 1)).filter((device) => device !== undefined);
    const way = devices.length === 2 && devices[0] !== devices[1] ? devices.join(" → ") : devices[0];
    return [element("span", { className: "name", title: name }, [name]), element("small", {}, [way])];
  }

  // --- looks

  repaint() {
    const known = this.pair?.filter(Boolean) ?? [];
    if (!this.pair) return;
    if (known.length) {
      const { colours, modes, legend } = boxLooks(byId("mode").value, known);
      this.modes = this.pair.map((model) => modes[known.indexOf(model)]);
      this.lanes.forEach((lanes, side) => lanes?.setLooks(this.modes[side], colours));
      byId("legend").replaceChildren(...legend);
    }
    byId("legend").hidden = !known.length;
    this.tellChosen();
  }

  /** Each step's lanes are as high as what is in them, up to a share of the window. */
  fitHeight() {
    const isNarrow = innerWidth <= 900;
    const most = Math.max(200, innerHeight * (isNarrow ? 0.4 : 0.38));
    this.lanes.forEach((lanes, side) => {
      byId(`lanes-${SIDES[side]}`).firstChild.style.height = lanes ? `${Math.round(Math.min(lanes.height, most))}px` : "auto";
    });
    byId("panel").style.maxHeight = isNarrow ? "" : `${Math.max(byId("sides").offsetHeight, 320)}px`;
    this.lanes.forEach((lanes) => lanes?.draw());
  }

  // --- what the user does

  toggle(name) {
    const isOn = byId(name).getAttribute("aria-pressed") !== "true";
    byId(name).setAttribute("aria-pressed", isOn);
    this[name === "lit" ? "isLit" : "hasArrows"] = isOn;
    for (const lanes of this.lanes.filter(Boolean)) {
      lanes[name === "lit" ? "isLit" : "hasArrows"] = isOn;
      lanes.draw();
    }
  }

  swap() {
    this.show({ before: this.shown.after, after: this.shown.before });
  }

  /** The next part of the critical path of the side where the user was last, or the one before. */
  along(by) {
    const side = this.pair[this.latest] ? this.latest : 1 - this.latest;
    if (!this.pair[side]) return;
    const span = this.pair[side].along(this.spans()[side], by);
    if (span !== NONE) this.selectAt(side, span);
  }

  toCause() {
    const side = this.latest;
    const [span, model] = [this.spans()[side], this.pair[side]];
    if (span === NONE || !model) return;
    const cause = model.cause(span);
    if (cause !== NONE) this.selectAt(side, cause);
  }

  listen() {
    listenToClicks({
      nearer: () => this.axis.zoom(ZOOM),
      farther: () => this.axis.zoom(1 / ZOOM),
      fit: () => this.axis.fit(),
      lit: () => this.toggle("lit"),
      arrows: () => this.toggle("arrows"),
      help: () => byId("keys").showModal(),
      swap: () => this.swap(),
    });
    byId("mode").addEventListener("change", () => this.repaint());
    matchMedia("print").addEventListener("change", () => this.repaint());
    addEventListener("beforeprint", () => this.lanes.forEach((lanes) => lanes?.paint()));
    addEventListener("hashchange", () => this.followAddress());
    addEventListener("resize", () => this.fitHeight());
    SIDES.forEach((side, number) => byId(`lanes-${side}`).addEventListener("keydown", (event) => this.pressedInLanes(event, number)));
    listenToKeys({ ...laneKeys(this, () => this.axis), x: () => this.swap(), Escape: () => this.selectNothing() });
  }

  /** Where the keys zoom: at what is selected, if that is seen. */
  focusTime() {
    return this.pair[this.latest] && this.axis.timeOf(this.pair[this.latest], this.spans()[this.latest]);
  }

  pressedInLanes(event, side) {
    const way = LANE_WAYS[event.key];
    this.latest = side;
    if (way && !event.shiftKey) {
      const next = this.lanes[side].neighbour(...way);
      if (next !== NONE) this.selectAt(side, next, false);
    } else if (event.key === "Enter") this.zoomTo(side, this.spans()[side]);
    else return;
    event.preventDefault();
  }
}

/**
 * What of a step is looked up by the number of a name: `longest` by twice that for a node, one more for a tensor on its way, and for
 * nodes `runs`, `seconds` and `devices`; and `path`, the seconds of the critical path by kind.
 */
function indexOf(model) {
  if (model.byName) return model.byName;
  const found = { longest: new Map(), runs: new Map(), seconds: new Map(), devices: new Map(), path: { compute: 0, launch: 0, transfer: 0 } };
  const took = (span) => model.end[span] - model.start[span];
  for (let span = 0; span < model.count; span++) {
    const name = model.spans.name[span];
    const isTransfer = model.isTransfer(span);
    const key = 2 * name + (isTransfer ? 1 : 0);
    const best = found.longest.get(key);
    if (best === undefined || took(span) > took(best)) found.longest.set(key, span);
    if (isTransfer) continue;
    if (!found.runs.has(name)) found.runs.set(name, []);
    found.runs.get(name).push(span);
    found.seconds.set(name, (found.seconds.get(name) ?? 0) + took(span));
    found.devices.set(name, model.device(span));
  }
  for (const [span, launched] of model.path) {
    const box = 2 * span + launched;
    found.path[launched ? "launch" : model.isTransfer(span) ? "transfer" : "compute"] += model.boxEnd(box) - model.boxStart(box);
  }
  model.byName = found;
  return found;
}

let comparison;
async function main() {
  const data = JSON.parse(await unpack("packed-data"));
  comparison = new ComparisonPage(data);
  await comparison.show(comparison.shown);
  comparison.listen();
  comparison.followAddress();
}

begin(main());
