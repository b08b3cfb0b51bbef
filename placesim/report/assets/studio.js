// The studio: the state goes to the server, and its answer is drawn.

async function ask(route, question) {
  const response = await fetch(route, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.problem);
  return answer;
}

(async () => {
  const start = JSON.parse(await unpack("packed-data"));
  const { state } = start;
  const text = document.getElementById("text");
  const placement = document.getElementById("placement");
  const draw = ({ problems, picture }) => {
    placement.textContent = problems.length
      ? problems.map(({ line, message }) => `${line}: ${message}`).join("\n")
      : picture.nodes.name.map((name, node) => `${name}: ${picture.devices[picture.nodes.device[node]]?.short ?? "not placed"}`).join("\n");
  };
  text.value = state.text ?? "";
  draw(start.answer);
  document.getElementById("loading").hidden = true;
  if (!start.is_live) return;
  new EventSource("events");
  let number = 0;
  text.addEventListener("input", async () => {
    const id = ++number;
    const answer = await ask("answer", { id, state: { ...state, text: text.value }, baseline: start.baseline_state });
    if (answer.id === number) draw(answer);
  });
})();
