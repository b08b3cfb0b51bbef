// What the page asks the server, and what it keeps of the answers.

/** How long the server may be away before the page says that it has ended, in milliseconds. */
const ENDED_MS = 3000;
const ENDED = "The studio has ended: start it again in the terminal.";
/** Of so many states the answers are kept, so that undo shows them at once. */
const MOST_KEPT = 12;

/** Asks the server; an answer to a question that another one of its kind has overtaken is dropped. */
class Server {
  constructor() {
    this.last = 0;
    this.page = Array.from(crypto.getRandomValues(new Uint32Array(3))).join("-"); // other tabs ask the same server
    this.running = new Map();
  }

  /** The answer to a question, or null where a later one of the same route came before it. */
  async ask(route, question) {
    const id = ++this.last;
    this.running.get(route)?.abort();
    const stopper = new AbortController();
    this.running.set(route, stopper);
    const headers = { "Content-Type": "application/json" };
    let response;
    let answer;
    try {
      response = await fetch(route, { method: "POST", headers, body: JSON.stringify({ id, page: this.page, ...question }), signal: stopper.signal });
      answer = await response.json();
    } catch {
      if (stopper.signal.aborted) return null;
      throw new Error(response ? `The studio answered ${response.status}.` : ENDED);
    }
    if (response.ok) return answer;
    if (response.status === 409 && route === "measure") return null;
    throw new Error([answer.problem, ...(answer.help ?? [])].join(" "));
  }

  /** Calls `acts` by the names of events. The server ends when no page reads this stream. */
  listen(acts) {
    const events = new EventSource("events");
    for (const [name, act] of Object.entries(acts)) events.addEventListener(name, (event) => act(JSON.parse(event.data)));
    events.addEventListener("error", () => setTimeout(() => events.readyState !== EventSource.OPEN && showError(ENDED), ENDED_MS));
  }
}

/** The answers to the last questions about a state and the one that it is compared with. */
class Answers {
  constructor() {
    this.kept = [];
  }

  put(state, baseline, answer) {
    this.kept.push({ state, baseline, answer });
    if (this.kept.length > MOST_KEPT) this.kept.shift();
  }

  find(state, baseline) {
    return this.kept.find((each) => each.state === state && each.baseline === baseline)?.answer;
  }
}
