/** The page at `/`: what the user does goes to the server, and what it answers is shown. */

import { themeSwitch, whenThemeChanges } from "../view/theme.js";
import { AnswerPane, letCopy } from "./answer.js";
import { Api, ApiError } from "./api.js";
import { find } from "./elements.js";
import { FileDesk } from "./files.js";
import { DETECT, LanguagePickers } from "./languages.js";
import { Looking } from "./looking.js";
import { recall, remember } from "./memory.js";
import { Notices, PASSING, busyFor, explain, tooLong } from "./notices.js";
import { scrollTogether } from "./scrolling.js";
import { sentenceAt } from "./sentences.js";
import { LINK_LIMIT, fromFragment, toFragment } from "./state.js";
import { Writing } from "./writing.js";

/**
 * @typedef {import("./api.js").Language} Language
 * @typedef {import("./api.js").Sentence} Sentence
 * @typedef {import("./api.js").ServerSettings} ServerSettings
 * @typedef {import("./api.js").Translation} Translation
 * @typedef {import("./state.js").Change} Change
 * @typedef {import("./state.js").Choice} Choice
 */

const KEY = "key";
const THEME = "theme";
/** Asked for even where only the best is shown: they widen the beam, which may change the best. */
const ALTERNATIVES = 3;
const NOT_SEEN = "The server did not answer: this is how it was before.";

/** Something that is done over and over, where the next time cuts off the last. */
class Turn {
  #controller = new AbortController();

  /** The signal of the next time. */
  next() {
    this.#controller.abort();
    this.#controller = new AbortController();
    return this.#controller.signal;
  }
}

/** The page and what it remembers. */
class Page {
  /** @type {HTMLInputElement} */
  #key = find("key");
  #api = new Api(() => this.#key.value.trim());
  #answer = new AnswerPane((sentence) => this.#turn(sentence));
  #notices = new Notices(() => this.#api.isReady());
  #translating = new Turn();
  #looking = new Turn();
  #sending = new Turn();
  #timer = 0;
  #detected = "";
  /** What the right pane is the translation of; no sentences where they are not known. */
  #translated = { text: "", sentences: /** @type {Sentence[]} */ ([]) };
  /** Whether the caret says which sentence to look at, once it is known where they begin. */
  #follows = false;
  /** @type {Change[]} */
  #changes = [];
  /** @type {Choice | null} */
  #choice = null;
  #delay;
  #limit;
  #alternatives;
  #writing;
  #pickers;
  #panel;

  /**
   * @param {ServerSettings} settings
   * @param {Language[]} languages
   */
  constructor(settings, languages) {
    this.#delay = settings.frontendTimeout;
    this.#limit = settings.charLimit;
    this.#alternatives = Math.min(ALTERNATIVES, settings.alternativesLimit);
    const { source, target } = settings.language;
    this.#writing = new Writing(settings.charLimit, {
      onWrite: () => this.#written(),
      onMove: () => this.#moved(),
    });
    this.#pickers = new LanguagePickers(languages, source.code, target.code, {
      onPick: () => this.#changeModel(),
      onSwap: () => this.#swap(),
    });
    this.#panel = new Looking({
      onTurn: (sentence) => this.#turn(sentence),
      onToggle: () => this.#look(),
      onChange: (changes) => {
        this.#changes = changes;
        this.#look();
      },
      onChoice: (choice) => {
        this.#choice = choice;
        this.#keep();
      },
    });
    if (settings.filesTranslation) {
      new FileDesk(settings.supportedFilesFormat, this.#notices, (file) => this.#sendFile(file));
    }
    if (settings.keyRequired) this.#askForKey();
    letCopy(find("share"), () => location.href);
    scrollTogether(find("text"), find("translation"));
    window.addEventListener("hashchange", () => this.#restore());
    if (location.hash) this.#restore();
    else this.#begin();
  }

  #askForKey() {
    const form = find("key-form");
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    this.#key.value = recall(KEY) ?? "";
    this.#key.addEventListener("change", () => {
      remember(KEY, this.#key.value.trim() || null);
      this.#translate();
    });
  }

  /** Takes what was written before the page was ready, and invites to write. */
  #begin() {
    const isIdle = document.activeElement === document.body;
    const isPhone = !matchMedia("(hover: hover)").matches; // where a keyboard would cover the page
    if (isIdle && !isPhone) this.#writing.focus();
    this.#translate();
  }

  /** Shows what the address says. */
  #restore() {
    const state = fromFragment(location.hash);
    this.#writing.text = state.text;
    this.#changes = state.changes;
    this.#choice = state.choice;
    if (state.source) this.#pickers.choose(state);
    this.#notices.stand(state.source ? this.#pickers.explain(state) : "");
    this.#panel.turn(state.sentence, 0);
    this.#follows = false;
    this.#translate();
  }

  /** Puts what is shown into the address, so that it can be shared and survives a reload. */
  #keep() {
    const fragment = toFragment({
      ...this.#pickers.pair,
      text: this.#writing.text,
      sentence: this.#panel.sentence,
      choice: this.#choice,
      changes: this.#changes,
    });
    const isShort = fragment.length <= LINK_LIMIT;
    const share = /** @type {HTMLButtonElement} */ (find("share"));
    share.hidden = !fragment;
    share.disabled = !isShort;
    share.title = isShort ? "" : "The text is too long for a link";
    const { pathname, search } = location;
    const address = fragment && isShort ? `#${fragment}` : pathname + search;
    history.replaceState(null, "", address);
  }

  #written() {
    this.#dropLinks();
    this.#follows = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#translate(), this.#delay);
  }

  #moved() {
    const isStale = this.#writing.text !== this.#translated.text;
    if (isStale || !this.#translated.sentences.length) return;
    const sentence = this.#sentenceAtCaret();
    if (sentence !== this.#panel.sentence) this.#turn(sentence);
  }

  #sentenceAtCaret() {
    const { text, sentences } = this.#translated;
    return sentenceAt(text, sentences.map(({ source }) => source), this.#writing.caret);
  }

  /**
   * Looks at another sentence.
   *
   * @param {number} sentence
   */
  #turn(sentence) {
    this.#panel.turn(sentence);
    this.#dropLinks();
    this.#look();
  }

  /** Forgets forced links, whose words are gone. */
  #dropLinks() {
    this.#changes = this.#changes.filter(({ kind }) => kind !== "force");
  }

  /** Another pair is another model: what was changed in the former one means nothing in it. */
  #changeModel() {
    this.#changes = [];
    this.#notices.stand("");
    this.#translate();
  }

  #swap() {
    const pair = this.#pickers.swapped(this.#detected);
    if (!pair) return;
    this.#pickers.choose(pair);
    this.#writing.text = this.#answer.text;
    this.#panel.turn(0, 0);
    this.#follows = false;
    this.#changeModel();
  }

  async #translate() {
    clearTimeout(this.#timer);
    const signal = this.#translating.next();
    this.#looking.next();
    this.#notices.clear();
    this.#answer.isWorking = false;
    this.#keep();
    const { text, length } = this.#writing;
    if (!text.trim()) {
      this.#translated = { text: "", sentences: [] };
      this.#answer.show("", "", []);
      this.#panel.clear();
    } else if (this.#writing.isTooLong) {
      this.#notices.say("long", tooLong(length, this.#limit));
    } else {
      const ask = () => this.#ask(text, signal);
      const found = await this.#work(signal, ask, () => this.#translate());
      if (!found) return;
      this.#show(text, found);
      await this.#look();
    }
  }

  /**
   * @param {string} text
   * @param {AbortSignal} signal
   */
  #ask(text, signal) {
    return this.#api.translate(
      text,
      { ...this.#pickers.pair, alternatives: this.#alternatives },
      { ...this.#patience(signal), onPartial: (partial) => this.#answer.showPartial(partial) },
    );
  }

  /**
   * @param {string} text
   * @param {Translation} found
   */
  #show(text, { translatedText, sentences = [], detectedLanguage }) {
    const { source, target } = this.#pickers.pair;
    this.#detected = source === DETECT ? detectedLanguage?.language ?? "" : "";
    this.#pickers.showDetected(this.#detected);
    this.#writing.language = source === DETECT ? this.#detected : source;
    this.#translated = { text, sentences };
    this.#answer.show(translatedText, target, sentences.map((sentence) => sentence.target));
    const wanted = this.#follows ? this.#sentenceAtCaret() : this.#panel.sentence;
    this.#panel.turn(wanted, sentences.length);
    this.#follows = false;
  }

  /** Looks at what is translated: at a sentence of it, with the changes in force. */
  async #look() {
    this.#keep();
    const signal = this.#looking.next();
    const { isOpen, sentence } = this.#panel;
    if (!isOpen || !this.#changes.length) this.#answer.showChange(null);
    this.#answer.mark(isOpen ? sentence : null);
    if (!isOpen || !this.#translated.text) return;
    const { pair } = this.#pickers;
    this.#panel.wait(JSON.stringify([pair, this.#panel.sentence, this.#translated.text]));
    const found = await this.#attempt(signal, () => this.#askLook(signal), () => this.#look());
    if (!found) {
      if (!signal.aborted) this.#panel.fail(NOT_SEEN);
      return;
    }
    this.#panel.show(found.look, this.#choice);
    this.#answer.showChange(changeOf(found.look));
    this.#answer.mark(this.#panel.sentence);
    if (found.refused) this.#notices.say("refused", found.refused);
  }

  /**
   * The look document. Changes that this model cannot make, as from a link to another, are dropped;
   * then `refused` says why.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<{look: any, refused: string}>}
   */
  async #askLook(signal) {
    const { source, target } = this.#pickers.pair;
    const pair = { source: this.#detected || source, target };
    /** @param {Change[]} changes */
    const ask = (changes) => {
      const { sentence } = this.#panel;
      const wish = { ...pair, sentence, changes, alternatives: this.#alternatives, tree: true };
      return this.#api.attention(this.#translated.text, wish, this.#patience(signal));
    };
    try {
      return { look: await ask(this.#changes), refused: "" };
    } catch (error) {
      const isRefused = error instanceof ApiError && error.kind === "refused";
      if (!isRefused || !this.#changes.length) throw error;
      this.#changes = [];
      this.#keep();
      return { look: await ask([]), refused: error.message };
    }
  }

  /**
   * @param {File} file
   * @returns {Promise<{address: URL, language: string} | null>}
   */
  async #sendFile(file) {
    const signal = this.#sending.next();
    const { pair } = this.#pickers;
    const send = () => this.#api.translateFile(file, pair, this.#patience(signal));
    const address = await this.#work(signal, send, null);
    return address && { address, language: pair.target };
  }

  /** @param {AbortSignal} signal */
  #patience(signal) {
    /** @param {number} seconds */
    const onWait = (seconds) => this.#notices.say("busy", busyFor(seconds));
    return { signal, onWait };
  }

  /**
   * What `act` gives, as `#attempt` has it; meanwhile the right pane says that it is at work.
   *
   * @template T
   * @param {AbortSignal} signal
   * @param {() => Promise<T>} act
   * @param {(() => void) | null} again
   */
  async #work(signal, act, again) {
    this.#answer.isWorking = true;
    const found = await this.#attempt(signal, act, again);
    if (!signal.aborted) this.#answer.isWorking = false;
    return found;
  }

  /**
   * What `act` gives; null if it failed, which is said, or was cut off, which is not.
   *
   * @template T
   * @param {AbortSignal} signal
   * @param {() => Promise<T>} act
   * @param {(() => void) | null} again offered where the failure may pass
   * @returns {Promise<T | null>}
   */
  async #attempt(signal, act, again) {
    try {
      const found = await act();
      this.#notices.clear();
      return found;
    } catch (error) {
      if (signal.aborted) return null;
      if (!(error instanceof ApiError)) throw error;
      const said = explain(error, Boolean(this.#key.value));
      this.#notices.say(error.kind, said, PASSING.has(error.kind) ? again : null);
      if (error.kind === "key" && !find("key-form").hidden) this.#key.focus();
      return null;
    }
  }
}

/**
 * What has become of the sentence that was looked at; null: nothing.
 *
 * @param {any} look a look document
 * @returns {import("./answer.js").Change | null}
 */
function changeOf({ before, target, sentence }) {
  const after = target.text;
  return before && before.text !== after ? { sentence, before: before.text, after } : null;
}

/** Lets the user choose between light and dark; the browser remembers. */
function offerThemes() {
  const { dataset } = document.documentElement;
  const kept = recall(THEME);
  if (kept) dataset.theme = kept;
  find("themes").append(themeSwitch());
  whenThemeChanges(() => remember(THEME, dataset.theme ?? null));
}

/** Opens the page once the server has said what it can do. */
async function start() {
  offerThemes();
  const api = new Api(() => "");
  try {
    const [settings, languages] = await Promise.all([api.settings(), api.languages()]);
    new Page(settings, languages);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    new Notices(() => api.isReady()).say(error.kind, explain(error, false), () => location.reload());
  }
}

await start();
