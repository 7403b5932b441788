/** Two language pickers, which offer the pairs that the server has. */

import { find } from "./elements.js";

/** @typedef {import("./api.js").Pair} Pair */

export const DETECT = "auto";
const UNDETECTED = "Detect language";

/**
 * @param {HTMLSelectElement} select
 * @param {{code: string, name: string}[]} choices
 * @param {string} preferred chosen if it is among them
 */
function offer(select, choices, preferred) {
  select.replaceChildren(...choices.map(({ code, name }) => new Option(name, code)));
  if (choices.some(({ code }) => code === preferred)) select.value = preferred;
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
   * @param {import("./api.js").Language[]} languages
   * @param {string} source the code to begin with, where it is offered
   * @param {string} target likewise
   * @param {{onPick: () => void, onSwap: () => void}} callbacks
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

  /** @param {Pair} requested for which a message says that another was chosen, if so */
  explain({ source, target }) {
    const { source: from, target: to } = this.pair;
    const isOther = source !== from && source !== DETECT;
    if (!isOther && (target === to || !target)) return "";
    const [asked, shown] = [[source, target], [from, to]].map((pair) =>
      pair.map((code) => this.#name(code)).join(" into "),
    );
    return `The link asks for ${asked}, which this server does not have: this is ${shown} instead.`;
  }

  /** @param {Pair} preferred to which the nearest that the server has is chosen */
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
   * @param {string} detected the detected language of the text, if known
   * @returns {Pair | null}
   */
  swapped(detected) {
    const { source, target } = this.pair;
    const back = source === DETECT ? detected : source;
    return this.#targetsOf(target).has(back) ? { source: target, target: back } : null;
  }

  /** @param {string} detected the code of the detected language; empty for none */
  showDetected(detected) {
    const [first] = this.#source.options;
    if (first?.value !== DETECT) return;
    first.text = detected ? `${this.#name(detected)} (detected)` : UNDETECTED;
  }

  /** @param {string} code whose English name is wanted, though the server may not have it */
  #name(code) {
    if (code === DETECT) return "the detected language";
    const own = this.#languages.find((language) => language.code === code)?.name;
    try {
      return own ?? new Intl.DisplayNames("en", { type: "language" }).of(code) ?? code;
    } catch {
      return code || "nothing";
    }
  }

  /** @param {string} source */
  #targetsOf(source) {
    const from = this.#languages.filter(({ code }) => source === DETECT || code === source);
    return new Set(from.flatMap(({ targets }) => targets));
  }
}
