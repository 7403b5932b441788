/** What came out: the change of a translation, and the other translations of the search. */

import { marked } from "./difference.js";
import { isolated, make, probability, signed } from "./elements.js";
import { placeName, STATES } from "./heads.js";
import { Info } from "./info.js";
import { legible } from "./reading.js";

const WAITING = "Translating again …";

/** The changes in force, each with a button to take it back, and what they did to the text. */
export class Outcome {
  /** @param {((kept: Object[]) => void)|null} keep sets the changes; null: they are fixed */
  constructor(keep) {
    this.keep = keep;
    this.chips = make("ul", { class: "chips", "aria-label": "Changes in force" });
    this.texts = make("dl", { class: "texts", "aria-live": "polite" });
    this.element = make("section", { class: "outcome", hidden: true }, this.chips, this.texts);
    /** The answer under changed heads in one line, for below their maps: what changes may be far above. */
    this.brief = make("p", { class: "outcome-brief", hidden: true });
  }

  /**
   * @param {Object[]} changes
   * @param {string|null} before the translation without them
   * @param {string|null} after the translation with them; null while it is waited for
   * @param {{source: string[], target: string[]}} words of the unchanged pair, to name forced links
   */
  show(changes, before, after, words) {
    this.element.hidden = changes.length === 0;
    this.chips.replaceChildren(...changes.map((change) => this.#chip(change, changes, words)));
    this.brief.hidden = changes.every(({ kind }) => kind === "force");
    if (before === null || after === null) {
      const wait = make("dd", { class: "waiting" }, WAITING);
      this.texts.replaceChildren(make("dt", {}, "after"), wait);
      this.brief.replaceChildren(this.brief.hidden ? "" : WAITING);
      return;
    }
    const result = before === after ? make("em", {}, "the same") : marked(before, after);
    this.brief.replaceChildren(make("span", {}, "after "), result.cloneNode(true));
    const was = [make("dt", {}, "before"), make("dd", { dir: "auto" }, before)];
    this.texts.replaceChildren(...was, make("dt", {}, "after"), make("dd", {}, result));
  }

  #chip(change, changes, words) {
    const name = changeName(change, words);
    const on = { click: () => this.keep(changes.filter((other) => other !== change)) };
    const undo = make("button", { type: "button", "aria-label": `Take back: ${name}`, on }, "×");
    return make("li", { class: "chip" }, make("bdi", {}, name), this.keep ? undo : null);
  }
}

/** The n best translations, or the likeliest next tokens, where there is more than one. */
export class Candidates {
  constructor() {
    this.list = make("ol", { class: "candidates-list" });
    this.title = make("h2");
    this.info = new Info("these scores", "");
    const head = make("div", { class: "card-title" }, this.title, this.info.button);
    this.element = make("section", { class: "card candidates" }, head, this.info.note, this.list);
  }

  /**
   * @param {{text: string, score: number}[]} candidates the best first
   * @param {string} kind of the document
   * @param {{title: string, hint: string}} wording
   */
  show(candidates, kind, { title, hint }) {
    this.element.hidden = candidates.length < 2;
    this.title.textContent = title;
    this.info.text = hint;
    const best = candidates[0]?.text ?? "";
    this.list.replaceChildren(...candidates.map((one) => ENTRIES[kind](one, best)));
  }
}

const ENTRIES = {
  translation: ({ text, score }, best) =>
    make("li", {}, marked(best, text), make("span", { class: "score" }, signed(score, 2))),
  text: tokenEntry,
  masked: tokenEntry,
  class: tokenEntry,
};

/** A likely token with its probability. */
function tokenEntry({ text, score }) {
  const share = make("span", { class: "score" }, probability(score));
  return make("li", {}, make("bdi", { class: "marked" }, legible(text)), share);
}

/** A change as people read it. */
export function changeName(change, { source, target }) {
  if (change.kind === "force") {
    const from = target[change.target] ?? change.target;
    const to = source[change.source] ?? change.source;
    return `“${isolated(from)}” looks only at “${isolated(to)}”`;
  }
  const place = placeName({ layer: change.layer, head: change.head ?? null });
  return `${change.part}, ${place}: ${STATES[change.kind]}`;
}
