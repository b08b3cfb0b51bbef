// The code editor of the studio: CodeMirror with the parts that a graph file needs. The page gives it words, texts and errors.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

/** Marks a text that the page sets, which is no edit of the user's. */
const isGiven = Annotation.define();

/**
 * Shows an editor in `parent`.
 *
 * `complete(text, position, isExplicit)` gives `{from, options}` or null; `tell(text, position)` gives `{from, to, dom}` or null;
 * `changed(text)` is called with each edit, `moved(line)` when the cursor comes to another line.
 */
export function create(parent, { text, label, complete, tell, changed, moved }) {
  let line = 1;
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(),
        highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), search({ top: true }),
        EditorView.lineWrapping, yaml(), syntaxHighlighting(classHighlighter),
        autocompletion({ override: [(context) => complete(context.state.doc.toString(), context.pos, context.explicit)] }),
        hoverTooltip((shown, position) => {
          const found = tell(shown.state.doc.toString(), position);
          return found && { pos: found.from, end: found.to, above: true, create: () => ({ dom: found.dom }) };
        }),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap, ...lintKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.some((each) => each.annotation(isGiven))) changed(update.state.doc.toString());
          const now = update.state.doc.lineAt(update.state.selection.main.head).number;
          if (now !== line) moved((line = now));
        }),
      ],
    }),
  });

  /** The position of a line and a column, both from 1; the nearest one where the text has no such place. */
  const placeOf = (row, column) => {
    const found = view.state.doc.line(Math.min(Math.max(1, row), view.state.doc.lines));
    return Math.min(found.to, found.from + Math.max(0, (column ?? 1) - 1));
  };

  return {
    get text() {
      return view.state.doc.toString();
    },
    get hasFocus() {
      return view.hasFocus;
    },
    /** Replaces what differs, so that the cursor and the folded parts stay where they can. */
    setText(next) {
      const now = view.state.doc.toString();
      if (now === next) return;
      let [from, to, end] = [0, now.length, next.length];
      while (from < to && from < end && now[from] === next[from]) from++;
      while (to > from && end > from && now[to - 1] === next[end - 1]) to--, end--;
      view.dispatch({ changes: { from, to, insert: next.slice(from, end) }, annotations: isGiven.of(true) });
    },
    /** Shows `{line, column, message, severity}` in the gutter and the text. */
    setProblems(problems) {
      const found = problems.map(({ line: row, column, message, severity = "error" }) => {
        const from = placeOf(row, column);
        return { from, to: Math.max(from, view.state.doc.lineAt(from).to), severity, message };
      });
      view.dispatch(setDiagnostics(view.state, found.sort((a, b) => a.from - b.from)));
    },
    goTo(row, column) {
      const anchor = placeOf(row, column);
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
    },
    focus: () => view.focus(),
  };
}
