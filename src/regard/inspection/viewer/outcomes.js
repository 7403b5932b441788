/** What came out: the change of a translation, and the other translations of the search. */

import { marked } from "./difference.js";
import { make } from "./elements.js";
import { placeName } from "./heads.js";

/** The changes in force, each with a button to take it back, and what they did to the text. */
export class Outcome {
  /**
   * @param {((kept: Object[]) => void)|null} keep told of the changes that shall stay in force;
   * null: none can be taken back
   */
  constructor(keep) {
    this.keep = keep;
    this.chips = make("ul", { class: "chips", "aria-label": "Changes in force" });
    this.texts = make("dl", { class: "texts", "aria-live": "polite" });
    this.element = make("section", { class: "outcome", hidden: true }, this.chips, this.texts);
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
    if (before === null || after === null) {
      const wait = make("dd", { class: "waiting" }, "Translating again …");
      this.texts.replaceChildren(make("dt", {}, "after"), wait);
      return;
    }
    const same = before === after;
    this.texts.replaceChildren(
      make("dt", {}, "before"),
      make("dd", { dir: "auto" }, before),
      make("dt", {}, "after"),
      make("dd", {}, same ? make("em", {}, "the same") : marked(before, after)),
    );
  }

  #chip(change, changes, words) {
    const name = changeName(change, words);
    if (!this.keep) return make("li", { class: "chip" }, make("bdi", {}, name));
    const on = { click: () => this.keep(changes.filter((other) => other !== change)) };
    const undo = make("button", { type: "button", "aria-label": `Take back: ${name}`, on }, "×");
    return make("li", { class: "chip" }, make("bdi", {}, name), undo);
  }
}

/** The n best translations, where there is more than one. */
export class Candidates {
  constructor() {
    this.list = make("ol", { class: "candidates-list" });
    this.element = make(
      "section",
      { class: "card candidates" },
      make("h2", {}, "Other translations"),
      make(
        "p",
        { class: "hint" },
        "The score is the log-probability of the whole translation, corrected for its length: " +
          "the nearer to 0, the better. What differs from the best is marked.",
      ),
      this.list,
    );
  }

  /** @param {{text: string, score: number}[]} candidates the best first */
  show(candidates) {
    this.element.hidden = candidates.length < 2;
    const best = candidates[0]?.text ?? "";
    this.list.replaceChildren(
      ...candidates.map(({ text, score }) =>
        make("li", {}, marked(best, text), make("span", { class: "score" }, score.toFixed(2))),
      ),
    );
  }
}

/** A change as people read it. */
export function changeName(change, { source, target }) {
  if (change.kind === "force") {
    const from = target[change.target] ?? change.target;
    const to = source[change.source] ?? change.source;
    return `“${from}” looks only at “${to}”`;
  }
  const done = change.kind === "silence" ? "silenced" : "flattened";
  const place = placeName({ layer: change.layer, head: change.head ?? null });
  return `${change.part}, ${place}: ${done}`;
}
