/** The right pane: the translation as it comes. */

import { marked } from "../view/difference.js";
import { copyText } from "./clipboard.js";
import { find } from "./elements.js";
import { placesOf } from "./sentences.js";

/**
 * @typedef {{sentence: number, before: string, after: string}} Change the sentence is counted from 0
 */

const COPIED_FOR = 1500;

/**
 * Lets a button copy a text and say so for a moment.
 *
 * @param {HTMLElement} button
 * @param {() => string} text
 */
export function letCopy(button, text) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text())) ? "Copied" : "Could not copy";
    setTimeout(() => {
      button.textContent = label;
    }, COPIED_FOR);
  });
}

/** The translation and its button to copy it. */
export class AnswerPane {
  #translation = find("translation");
  #copy = find("copy");
  #progress = find("progress");
  #note = find("changed");
  #text = "";
  /** Of the text, where they are known. */
  #sentences = /** @type {string[]} */ ([]);
  /** @type {Change | null} */
  #change = null;
  #onPick;

  /** @param {(sentence: number) => void} onPick told which sentence was clicked, if several */
  constructor(onPick) {
    this.#onPick = onPick;
    letCopy(this.#copy, () => this.text);
  }

  /** The translation as it is shown, under the change in force. */
  get text() {
    const place = this.#changedPlace();
    if (!place || !this.#change) return this.#text;
    return this.#text.slice(0, place.start) + this.#change.after + this.#text.slice(place.end);
  }

  /** @param {boolean} working announced, so that screen readers wait for the whole */
  set isWorking(working) {
    this.#translation.setAttribute("aria-busy", String(working));
    this.#progress.hidden = !working;
  }

  /** @param {string} text what there is so far */
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

  /** @param {Change | null} change what has become of a sentence; null: it is as it was */
  showChange(change) {
    if (!change && !this.#change) return;
    this.#change = change;
    this.#draw();
  }

  /** @param {number | null} sentence the one looked at; null for none */
  mark(sentence) {
    this.#translation.querySelectorAll(".sentence").forEach((span, number) => {
      if (number === sentence) span.setAttribute("aria-current", "true");
      else span.removeAttribute("aria-current");
    });
  }

  /** Where the changed sentence stands; null where there is none. */
  #changedPlace() {
    if (!this.#change) return null;
    const { sentence, before } = this.#change;
    const parts = this.#sentences.length > 1 ? this.#sentences : [before];
    const place = placesOf(this.#text, parts)[this.#sentences.length > 1 ? sentence : 0];
    return place && place.start >= 0 ? place : null;
  }

  /** The text, its sentences such that they can be clicked, what has changed marked. */
  #draw() {
    const changed = this.#changedPlace();
    this.#note.hidden = !changed;
    const several = this.#sentences.length > 1;
    const parts = several ? placesOf(this.#text, this.#sentences) : changed ? [changed] : [];
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
