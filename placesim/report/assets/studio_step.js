// The lanes of a step, below those of the step before it, on one axis of time.

const LANES_LEAST = 150;
/** The share of the window that the lanes of one step may take, and of each of two. */
const LANES_SHARE = 0.5;
const LANES_SHARE_OF_TWO = 0.36;

class StepView {
  /** `actions`: `select(name)` of a node or of a tensor on its way, `redraw()` after the switch of the step before. */
  constructor(actions) {
    Object.assign(this, { actions, container: byId("lanes"), views: [], hasBefore: true });
    listenToClicks({ "lanes-before": () => this.toggle() });
    addEventListener("resize", () => this.fit());
  }

  toggle() {
    this.hasBefore = !this.hasBefore;
    byId("lanes-before").setAttribute("aria-pressed", this.hasBefore);
    this.actions.redraw();
  }

  /** Draws the documents of a step and of the one before; either may be null. `seconds` is what the axis has room for. */
  show(now, before, seconds, chosen) {
    const models = [before, now].filter(Boolean).map((document) => new StepModel(document));
    byId("step").classList.toggle("empty", !now);
    const axis = models.length && new TimeAxis(Math.max(seconds, ...models.map((model) => model.seconds)), Math.min(...models.map(({ tick }) => tick)));
    // fresh places each time, so that nothing listens for the pictures before
    const places = models.map(() => element("div", { className: "lanes" }));
    const names = models.length > 1 ? ["Before", "Now"] : [""];
    this.container.replaceChildren(...places.flatMap((place, i) => (names[i] ? [element("h3", { className: "lanes-name" }, [`${names[i]}: ${secondsText(models[i].seconds)}`]), place] : [place])));
    this.views = models.map((model, i) => this.view(places[i], model, axis, names[i]));
    this.fit();
    this.repaint();
    this.choose(chosen);
  }

  view(place, model, axis, name) {
    const view = new LanesView(place, model, axis, {
      select: (span) => this.select(view, span),
      zoomTo: (span) => span !== NONE && view.zoomTo(span),
      hover: (found, event) => tellOf(view, found, event),
    });
    place.addEventListener("scroll", () => this.scrolled(view));
    view.canvas.setAttribute("aria-label", `${name || "Now"}: timeline of the step. Select a node above to find it here.`);
    return view;
  }

  /** The other picture follows to the same device; that it does so is not followed in turn. */
  scrolled(view) {
    if (this.following === view) return void (this.following = null);
    for (const other of this.views.filter((each) => each !== view)) {
      const before = other.container.scrollTop;
      other.scrollAs(view.scrolled);
      if (other.container.scrollTop !== before) this.following = other;
    }
  }

  fit() {
    const share = this.views.length > 1 ? LANES_SHARE_OF_TWO : LANES_SHARE;
    for (const view of this.views) view.container.style.height = `${Math.max(LANES_LEAST, Math.min(view.height, innerHeight * share))}px`;
  }

  repaint() {
    const models = this.views.map(({ model }) => model);
    const { colours, modes, legend } = models.length ? boxLooks("op", models, loneTransfers(models)) : { legend: [] };
    this.views.forEach((view, i) => view.setLooks(modes[i], colours));
    byId("legend").replaceChildren(...legend);
  }

  select(view, span) {
    if (span === NONE) return view.choose(NONE);
    const name = view.model.name(span);
    this.choose(name);
    view.choose(span);
    return this.actions.select(name.replace(/:\d+$/, ""));
  }

  /** Marks the first run of a node in each picture. */
  choose(name) {
    for (const view of this.views) {
      const number = view.model.names.indexOf(name ?? "");
      view.choose(number < 0 ? NONE : view.model.spans.name.indexOf(number));
    }
  }
}

/** The transfers of each of two steps that the other lacks. */
function loneTransfers(models) {
  if (models.length < 2) return models.map(() => new Set());
  const kinds = models.map((model) => {
    const found = new Map();
    for (let span = 0; span < model.count; span++) if (model.isTransfer(span)) found.set(span, `${model.name(span)} ${model.kind(span)}`);
    return found;
  });
  const known = kinds.map((found) => new Set(found.values()));
  return kinds.map((found, i) => new Set([...found].filter(([, kind]) => !known[1 - i].has(kind)).map(([span]) => span)));
}
