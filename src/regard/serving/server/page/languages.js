/** From which language into which: two pickers that only offer what the server can do. */

import { find } from "./elements.js";

/**
 * @typedef {import("./api.js").Language} Language
 * @typedef {import("./api.js").Pair} Pair
 */

export const DETECT = "auto";
const UNDETECTED = "Detect language";

/**
 * @param {HTMLSelectElement} select
 * @param {{code: string, name: string}[]} choices
 * @param {string} wish chosen if it is among them
 */
function offer(select, choices, wish) {
  select.replaceChildren(...choices.map(({ code, name }) => new Option(name, code)));
  if (choices.some(({ code }) => code === wish)) select.value = wish;
  select.disabled = choices.length < 2;
}

/** The two pickers and the button that swaps them. */
export class LanguagePickers {
  /** @type {HTMLSelectElement} */
  #source = find("source");
  /** @type {HTMLSelectElement} */
  #target = find("target");
  /** @type {HTMLButtonElement} */
  #swap = find("swap");
  #languages;
  #choices;

  /**
   * @param {Language[]} languages
   * @param {string} source the code to begin with, where it is offered
   * @param {string} target likewise
   * @param {{onPick: () => void, onSwap: () => void}} told
   */
  constructor(languages, source, target, { onPick, onSwap }) {
    this.#languages = languages;
    const sources = languages.filter(({ targets }) => targets.length);
    const detect = { code: DETECT, name: UNDETECTED };
    this.#choices = sources.length > 1 ? [detect, ...sources] : sources;
    this.choose({ source, target });
    for (const picker of [this.#source, this.#target]) {
      picker.addEventListener("change", () => {
        this.choose(this.pair);
        onPick();
      });
    }
    this.#swap.addEventListener("click", onSwap);
  }

  /** @returns {Pair} */
  get pair() {
    return { source: this.#source.value, target: this.#target.value };
  }

  /**
   * The nearest pair that the server has.
   *
   * @param {Pair} wish
   */
  choose({ source, target }) {
    offer(this.#source, this.#choices, source);
    const reachable = this.#targetsOf(this.#source.value);
    const targets = this.#languages.filter(({ code }) => reachable.has(code));
    offer(this.#target, targets, target);
    const { source: from, target: to } = this.pair;
    this.#swap.disabled = from !== DETECT && !this.#targetsOf(to).has(from);
  }

  /**
   * The pair the other way round, or null where the server cannot go back.
   *
   * @param {string} detected what the text was found to be written in, if known
   * @returns {Pair | null}
   */
  swapped(detected) {
    const { source, target } = this.pair;
    const back = source === DETECT ? detected : source;
    return this.#targetsOf(target).has(back) ? { source: target, target: back } : null;
  }

  /** @param {string} detected the code of the language found; empty for none */
  showDetected(detected) {
    const [first] = this.#source.options;
    if (first?.value !== DETECT) return;
    const found = this.#languages.find(({ code }) => code === detected)?.name ?? detected;
    first.text = found ? `${found} (detected)` : UNDETECTED;
  }

  /** @param {string} source */
  #targetsOf(source) {
    const from = this.#languages.filter(({ code }) => source === DETECT || code === source);
    return new Set(from.flatMap(({ targets }) => targets));
  }
}
