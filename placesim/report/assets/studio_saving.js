// The forms in which the graph is saved or shared.

class SaveMenu {
  /** `page` has `start`, `now`, `history`, `editor`, `server`, `edit` and `tell`; `kept` becomes the state that was saved last. */
  constructor(page) {
    this.page = page;
    this.dialog = byId("text");
    listenToClicks({
      save: () => this.offer(),
      "text-copy": () => navigator.clipboard.writeText(byId("text-body").textContent).then(() => page.tell("Copied")),
    });
  }

  offer() {
    const { start, now, editor } = this.page;
    const entries = start.saves.flatMap(({ kind, label, can_write: canWrite }) => [
      ...(canWrite ? [[`Save ${start.name}`, () => this.save(kind, true)]] : []),
      [`${label} …`, () => this.save(kind, false)],
    ]);
    if (editor && (now.devices.length || Object.keys(now.options).length)) entries.push(["Write the edits into the text", () => this.writeEdits()]);
    openMenu("Save", entries, byId("save"));
  }

  /** The server's answer, or null with the error shown. */
  async ask(kind, isWritten, overwrites) {
    const { now, history, server } = this.page;
    try {
      return await server.ask("save", { state: now, baseline: history.start, kind, is_written: isWritten, overwrites });
    } catch (error) {
      showError(error.message);
      return null;
    }
  }

  async save(kind, isWritten, overwrites = false) {
    const { now } = this.page;
    const saved = await this.ask(kind, isWritten, overwrites);
    if (!saved) return;
    if (!saved.conflict) this.page.kept = now;
    if (saved.conflict) this.showConflict(saved, kind);
    else if (saved.written) this.page.tell([`Saved ${saved.written}.`, ...saved.notes].join(" "));
    else this.show(saved);
  }

  /** Puts the edits of devices and the machine into the text of the graph file, without saving it. */
  async writeEdits() {
    const saved = await this.ask("yaml", false, false);
    if (saved) this.page.edit({ text: saved.content, options: saved.options, devices: [] }, "edits written into the text");
  }

  showConflict({ notes }, kind) {
    const again = element("button", { type: "button", className: "action", textContent: "Overwrite" });
    again.addEventListener("click", () => {
      this.dialog.close();
      this.save(kind, true, true);
    });
    this.open("The file has changed", [`${this.page.start.name} has changed on the disk since it was read, and was not written.`, ...notes], "", again);
  }

  /** Shows a text to copy or download; what is no text to read is downloaded at once. */
  show({ name, content, is_binary: isBinary, notes }) {
    const bytes = isBinary ? Uint8Array.from(atob(content), (c) => c.charCodeAt(0)) : content;
    const download = element("a", { href: URL.createObjectURL(new Blob([bytes])), download: name, textContent: `Download ${name}`, className: "action download" });
    const isRead = !isBinary && !name.endsWith(".html");
    if (!isRead) download.click();
    this.open(name, notes, isRead ? content : "", download);
    this.page.tell(`${name} is ready.`);
  }

  open(title, notes, body, action) {
    byId("text-name").textContent = title;
    byId("text-note").textContent = notes.join(" ");
    byId("text-body").textContent = body;
    byId("text-body").hidden = byId("text-copy").hidden = !body;
    const form = this.dialog.querySelector("form");
    form.querySelector(".action")?.remove();
    form.prepend(action, " ");
    this.dialog.showModal();
  }
}
