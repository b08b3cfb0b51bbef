// The page of a step's time: what is selected and how it is coloured, the same in lanes, panel and address.

class TimingPage {
  constructor(model) {
    this.model = model;
    this.chosen = NONE;
    this.axis = new TimeAxis(model.seconds, model.tick);
    const actions = {
      select: (span) => this.select(span),
      zoomTo: (span) => this.zoomTo(span),
      hover: (found, event) => tellOf(this.lanes, found, event),
      along: (by) => this.along(by),
    };
    this.lanes = new LanesView(byId("lanes"), model, this.axis, actions);
    this.panel = new TimingPanel(byId("panel"), model, actions);
    this.tables = new TimingTables(model, actions);
    this.finder = new Finder({
      find: (words) => this.find(words),
      row: (span) => [element("span", { className: "name", title: model.name(span) }, [model.name(span)]), element("small", {}, [`${model.kind(span)} · ${secondsText(model.end[span] - model.start[span])}`])],
      take: (span) => this.select(span, true),
      focused: () => this.lanes.canvas,
    });
    offerPictures(() => new Drawn(byId("lanes")));
    this.theme = new Theme(() => this.repaint());
    byId("cards").append(...this.tables.cards());
    byId("headline").replaceChildren(...this.headline());
    byId("facts").textContent = `${countText(model.count, "part")} on ${countText(model.devices.length, "device")}`;
    if (model.error) showError(`${errorText(model.error)} – times are without the memory limit.`);
    this.listen();
    this.fitHeight();
    this.repaint();
    this.followAddress();
  }

  headline() {
    const { model } = this;
    const bound = model.bounds.reduce((most, each) => (each.seconds > most.seconds ? each : most));
    const never = model.seconds ? `; lower bound ${secondsText(bound.seconds)} (${shareText(bound.share)}): ${bound.what}` : "";
    const measured = model.comparison ? `; measured ${secondsText(model.comparison.measured)}` : "";
    return ["A step takes ", element("strong", {}, [secondsText(model.seconds)]), ` (${secondsText(model.low)} to ${secondsText(model.high)})${measured}${never}`];
  }

  // --- what is selected

  select(span, isNear = true) {
    this.chosen = span;
    this.lanes.choose(span, isNear);
    this.panel.show(span, this.lanes.mode);
    // browsers refuse an address that changes as often as a key that is held repeats
    clearTimeout(this.addressing);
    this.addressing = setTimeout(() => putAddress(span === NONE ? "" : this.model.name(span)), ADDRESS_MS);
    if (span === NONE) return;
    const { model } = this;
    byId("said").textContent = `${model.name(span)}, ${model.kind(span)}, on ${model.lanes[model.lanesOf(span)[0]].name}, from ${secondsText(model.start[span])}, took ${secondsText(model.end[span] - model.start[span])}`;
  }

  zoomTo(span) {
    if (span === NONE) return;
    this.select(span);
    this.lanes.zoomTo(span);
  }

  /** The next part of the critical path, or the one before; where nothing is selected the first, or the last. */
  along(by) {
    const span = this.model.along(this.chosen, by);
    if (span !== NONE) this.select(span);
  }

  followAddress() {
    const name = addressed();
    const number = name ? this.model.names.indexOf(name) : NONE;
    const span = number < 0 ? NONE : this.model.spans.name.indexOf(number);
    if (span !== this.chosen || span === NONE) this.select(span);
  }

  // --- looks

  repaint() {
    const { colours, modes, legend } = boxLooks(byId("mode").value, [this.model]);
    this.lanes.setLooks(modes[0], colours);
    byId("legend").replaceChildren(...legend);
    this.panel.show(this.chosen, modes[0]);
  }

  /** The lanes are as high as what is in them, up to a share of the window. */
  fitHeight() {
    const isNarrow = innerWidth <= 900;
    const height = Math.round(Math.min(this.lanes.height, Math.max(240, innerHeight * (isNarrow ? 0.6 : 0.66))));
    byId("lanes").style.height = `${height}px`;
    byId("panel").style.maxHeight = isNarrow ? "" : `${Math.max(height, 320)}px`;
    this.lanes.draw();
  }

  // --- what the user does

  toggle(name) {
    const isOn = byId(name).getAttribute("aria-pressed") !== "true";
    byId(name).setAttribute("aria-pressed", isOn);
    if (name === "lit") this.lanes.isLit = isOn;
    else this.lanes.hasArrows = isOn;
    this.lanes.draw();
  }

  listen() {
    const { axis } = this;
    listenToClicks({
      nearer: () => axis.zoom(ZOOM),
      farther: () => axis.zoom(1 / ZOOM),
      fit: () => axis.fit(),
      lit: () => this.toggle("lit"),
      arrows: () => this.toggle("arrows"),
      help: () => byId("keys").showModal(),
    });
    byId("mode").addEventListener("change", () => this.repaint());
    matchMedia("print").addEventListener("change", () => this.repaint());
    addEventListener("beforeprint", () => this.lanes.paint());
    addEventListener("hashchange", () => this.followAddress());
    addEventListener("resize", () => this.fitHeight());
    byId("lanes").addEventListener("keydown", (event) => this.pressedInLanes(event));
    listenToKeys({
      ...laneKeys(this, () => axis),
      Escape: () => this.select(NONE),
    });
  }

  /** Where the keys zoom: at what is selected, if that is seen. */
  focusTime() {
    return this.axis.timeOf(this.model, this.chosen);
  }

  toCause() {
    if (this.chosen === NONE) return;
    const cause = this.model.cause(this.chosen);
    if (cause !== NONE) this.select(cause);
  }

  pressedInLanes(event) {
    const way = LANE_WAYS[event.key];
    if (way && !event.shiftKey) {
      const next = this.lanes.neighbour(...way);
      if (next !== NONE) this.select(next, false);
    } else if (event.key === "Enter") this.zoomTo(this.chosen);
    else return;
    event.preventDefault();
  }

  /** The first run of each node or tensor whose name, op or device has all words, whole names before others. */
  find(words) {
    const { model } = this;
    const matches = (text) => words.every((word) => text.includes(word));
    const [whole, others, seen] = [[], [], new Set()];
    let span = 0;
    for (; span < model.count && others.length < MOST_FOUND; span++) {
      const key = model.spans.name[span] * model.devices.length + model.spans.device[span];
      if (seen.has(key)) continue;
      const name = model.name(span).toLowerCase();
      if (!matches(`${name} ${model.kind(span)} ${model.device(span)}`.toLowerCase())) continue;
      seen.add(key);
      (name === words[0] || name.split("/").pop() === words[0] ? whole : others).push(span);
    }
    return Object.assign([...whole, ...others], { isCut: span < model.count });
  }
}

let timing;
async function main() {
  timing = new TimingPage(new StepModel(JSON.parse(await unpack("packed-data"))));
}

begin(main());
