// How boxes on lanes look: by op, scope or kind of work, the same in all steps that a page shows.

/** A look by itself for the most frequent ops or scopes, one for the others. */
const MAX_KINDS = 13;

/** A way to colour one step's boxes: looks, and the number of each box's; launches and transfers have their own in all ways. */
class BoxMode {
  constructor(looks, lookOfSpan, model, colours, lone) {
    this.looks = [...looks, { label: "launched by the host", colour: GREY, pattern: 5 }, { label: "copied between devices", colour: colours.copy, pattern: 3 }, { label: "copied in this step only", colour: colours.accent, pattern: 1 }];
    this.used = new Set();
    const [launch, copy] = [looks.length, looks.length + 1];
    this.numbers = new Uint8Array(2 * model.count);
    for (let span = 0; span < model.count; span++) {
      this.numbers[2 * span] = model.isTransfer(span) ? copy + (lone.has(span) ? 1 : 0) : lookOfSpan(model, span);
      this.numbers[2 * span + 1] = launch;
      this.used.add(this.numbers[2 * span]);
      if (model.hasLaunch(span)) this.used.add(launch);
    }
  }

  lookOf(box) {
    return this.numbers[box];
  }
}

/** Looks for the kinds that most seconds go to in all `models`; `kindOf(model, span)` gives a span's. */
function dearestKinds(models, kindOf, rest) {
  const seconds = new Map();
  for (const model of models) {
    for (let span = 0; span < model.count; span++) {
      if (model.isTransfer(span)) continue;
      const kind = kindOf(model, span);
      seconds.set(kind, (seconds.get(kind) ?? 0) + model.end[span] - model.start[span]);
    }
  }
  const kinds = [...seconds].sort((a, b) => b[1] - a[1]).slice(0, MAX_KINDS).map(([kind]) => kind);
  const numbers = new Map(kinds.map((kind, i) => [kind, i]));
  const looks = kinds.map((kind, i) => look(i, kind));
  return [[...looks, { label: rest, colour: GREY, pattern: 0 }], (model, span) => numbers.get(kindOf(model, span)) ?? looks.length];
}

const BOX_MODES = {
  op: (models) => dearestKinds(models, (model, span) => model.op(span), "other ops"),
  scope: (models) => {
    const scopeOfName = (name) => (name.includes("/") ? `${name.split("/")[0]}/` : "no scope");
    const scopes = new Map(models.map((model) => [model, model.names.map(scopeOfName)]));
    return dearestKinds(models, (model, span) => scopes.get(model)[model.spans.name[span]], "other scopes");
  },
  kind: () => [
    [look(0, "computed on a GPU"), { label: "computed on a host", colour: PALETTE[5], pattern: 1 }],
    (model, span) => (model.isUncertain(span) ? 1 : 0),
  ],
};

/** The styles' colours, a `BoxMode` for each model, and the legend's entries; `lone` has of each model the transfers that look different. */
function boxLooks(name, models, lone = models.map(() => new Set())) {
  const css = getComputedStyle(document.documentElement);
  const names = ["ground", "surface", "line", "text", "soft", "copy", "accent", "wash"];
  const own = Object.fromEntries(names.map((each) => [each, hexColour(css.getPropertyValue(`--${each}`).trim())]));
  const colours = { ...own, lane: mix(own.wash, own.surface, 0.55), isDark: isDark(own.surface) };
  const [looks, lookOf] = BOX_MODES[name](models);
  const modes = models.map((model, i) => new BoxMode(looks, lookOf, model, colours, lone[i]));
  const kinds = modes[0].looks.filter((_, number) => modes.some((mode) => mode.used.has(number)));
  return { colours, modes, legend: kinds.map((kind) => element("span", {}, [swatch(kind), kind.label])) };
}

/** A colour of the styles, as `mix` reads it. */
function hexColour(text) {
  return /^#[0-9a-f]{3}$/i.test(text) ? "#" + [...text.slice(1)].map((digit) => digit + digit).join("") : text;
}
