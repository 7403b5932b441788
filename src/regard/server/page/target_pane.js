/** The right pane: the translation. */

import { marked } from "../view/difference.js";
import { copyText } from "./clipboard.js";
import { find } from "./elements.js";
import { spansOf } from "./sentences.js";

/**
 * @typedef {{sentence: number, before: string, after: string}} Change the sentence is counted from 0
 */

const COPIED_MILLISECONDS = 1500;

/**
 * Makes a button copy a text, and show that for a moment.
 *
 * @param {HTMLElement} button
 * @param {() => string} text
 */
export function enableCopy(button, text) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text())) ? "Copied" : "Could not copy";
    setTimeout(() => {
      button.textContent = label;
    }, COPIED_MILLISECONDS);
  });
}

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

  /** @param {(sentence: number) => void} onPick called with the number of the sentence that is clicked, if there are several */
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
    const parts = this.#sentences.length > 1 ? this.#sentences : [before];
    const place = spansOf(this.#text, parts)[this.#sentences.length > 1 ? sentence : 0];
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
      const isChanged = place.start === changed?.start;
      const shown = isChanged && this.#change ? marked(this.#change.before, this.#change.after) : own;
      return [between, several ? this.#sentence(shown, number) : shown];
    });
    this.#translation.replaceChildren(...nodes, this.#text.slice(end));
  }

  /**
   * @param {string | Node} shown
   * @param {number} number
   */
  #sentence(shown, number) {
    const span = document.createElement("span");
    span.className = "sentence";
    span.append(shown);
    span.addEventListener("click", () => {
      const isSelecting = !getSelection()?.isCollapsed;
      if (!isSelecting) this.#onPick(number);
    });
    return span;
  }
}
