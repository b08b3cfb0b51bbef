// What is under the pointer on lanes, told beside it.

/** Tells of what `lanes.hit` found, or of nothing; `more` are lines at its end. */
function tellOf(lanes, found, event, more = []) {
  const tip = byId("tip");
  const lines = found ? linesOf(lanes, found) : [];
  tip.hidden = !lines.length;
  if (tip.hidden || !event) return;
  tip.replaceChildren(...[...lines, ...more].map((line, i) => element("p", { className: i > 1 ? "sub" : "" }, [line])));
  const { offsetWidth, offsetHeight } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - offsetWidth - 8))}px`;
  tip.style.top = `${event.clientY + 18 + offsetHeight > innerHeight ? event.clientY - offsetHeight - 12 : event.clientY + 18}px`;
}

function linesOf(lanes, { strip, box, time }) {
  const { model } = lanes;
  if (strip.kind === "curve") {
    const held = model.held(strip.curve, time);
    return held === null ? [] : [`${bytesText(held)} in use on ${model.short[strip.curve.device]}`, `at ${secondsText(time, 4)}`];
  }
  if (box === NONE) return [];
  const span = spanOf(box);
  const [start, end] = [model.boxStart(box), model.boxEnd(box)];
  const mark = model.isUncertain(span) ? "?" : "";
  const lines = [element("strong", {}, [model.name(span)]), (isLaunch(box) ? "launch of " : "") + model.kind(span)];
  lines.push(`${secondsText(end - start)}${isLaunch(box) ? "" : mark}, from ${secondsText(start, 4)} to ${secondsText(end, 4)}`);
  if (!model.isTransfer(span) && !isLaunch(box)) {
    const [, low, high] = model.cost(span);
    lines.push(`interval ${secondsText(low)} – ${secondsText(high)}${mark ? ", host assumed" : ""}`);
  } else if (model.isTransfer(span)) lines.push(bytesText(model.cost(span)[0]));
  if (lanes.onPath.has(box)) lines.push("on the critical path");
  return lines;
}
