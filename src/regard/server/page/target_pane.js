/** The right pane: the translation. */

import { marked } from "../view/difference.js";
import { make } from "../view/elements.js";
import { enableCopy } from "./clipboard.js";
import { find } from "./elements.js";
import { spansOf } from "./sentences.js";

/** @typedef {{sentence: number, before: string, after: string}} Change sentences count from 0 */

/** The translation and a button to copy it. */
export class TargetPane {
  #translation = find("translation");
  #copy = find("copy");
  #progress = find("progress");
  #note = find("changed");
  #text = "";
  /** Those of the text, if they are known. */
  #sentences = /** @type {string[]} */ ([]);
  /** @type {Change | null} */
  #change = null;
  #onPick;

  /** @param {(sentence: number) => void} onPick where there are several, one is clicked */
  constructor(onPick) {
    this.#onPick = onPick;
    enableCopy(this.#copy, () => this.text);
  }

  /** The translation as it is shown, with the change. */
  get text() {
    const place = this.#changedSpan();
    if (!place || !this.#change) return this.#text;
    return this.#text.slice(0, place.start) + this.#change.after + this.#text.slice(place.end);
  }

  /** @param {boolean} busy announced, so that screen readers wait for the whole text */
  set isBusy(busy) {
    this.#translation.setAttribute("aria-busy", String(busy));
    this.#progress.hidden = !busy;
  }

  /** @param {string} text the translation so far */
  showPartial(text) {
    this.show(text, this.#translation.lang, []);
    this.#copy.hidden = true;
  }

  /**
   * @param {string} text
   * @param {string} language
   * @param {string[]} sentences those of the text, in order, where they are known
   */
  show(text, language, sentences) {
    this.#translation.lang = language;
    this.#text = text;
    this.#sentences = sentences;
    this.#change = null;
    this.#draw();
    this.#copy.hidden = !text;
  }

  /** @param {Change | null} change the sentence before and after interventions; null for none */
  showChange(change) {
    if (!change && !this.#change) return;
    this.#change = change;
    this.#draw();
  }

  /** @param {number | null} sentence the selected one; null for none */
  mark(sentence) {
    this.#translation.querySelectorAll(".sentence").forEach((span, number) => {
      if (number === sentence) span.setAttribute("aria-current", "true");
      else span.removeAttribute("aria-current");
    });
  }

  /** The span of the changed sentence; null if there is none. */
  #changedSpan() {
    if (!this.#change) return null;
    const { sentence, before } = this.#change;
    const several = this.#sentences.length > 1;
    const spans = spansOf(this.#text, several ? this.#sentences : [before]);
    const place = spans[several ? sentence : 0];
    return place && place.start >= 0 ? place : null;
  }

  /** Draws the text with clickable sentences and marked changes. */
  #draw() {
    const changed = this.#changedSpan();
    this.#note.hidden = !changed;
    const several = this.#sentences.length > 1;
    const parts = several ? spansOf(this.#text, this.#sentences) : changed ? [changed] : [];
    let end = 0;
    const nodes = parts.flatMap((place, number) => {
      const between = this.#text.slice(end, place.start);
      end = place.end;
      const own = this.#text.slice(place.start, end);
      const change = place.start === changed?.start ? this.#change : null;
      const shown = change ? marked(change.before, change.after) : own;
      return [between, several ? this.#sentence(shown, number) : shown];
    });
    this.#translation.replaceChildren(...nodes, this.#text.slice(end));
  }

  /**
   * @param {string | Node} shown
   * @param {number} number
   */
  #sentence(shown, number) {
    const click = () => {
      const isSelecting = !getSelection()?.isCollapsed;
      if (!isSelecting) this.#onPick(number);
    };
    return make("span", { class: "sentence", on: { click } }, shown);
  }
}
