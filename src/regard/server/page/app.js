/** The page at `/`: sends what the user enters to the server and shows the responses. */

import { themeSwitch, whenThemeChanges } from "../view/theme.js";
import { Api, ApiError } from "./api.js";
import { enableCopy } from "./clipboard.js";
import { find } from "./elements.js";
import { Examples } from "./examples.js";
import { FileUpload } from "./file_upload.js";
import { DETECT, LanguagePickers } from "./languages.js";
import { AttentionPanel } from "./attention_panel.js";
import { loadItem, saveItem } from "./local_storage.js";
import { Notices, TRANSIENT, busyFor, explain, tooLong } from "./notices.js";
import { syncScroll } from "./scroll_sync.js";
import { sentenceAt } from "./sentences.js";
import { LINK_LIMIT, fromFragment, toFragment } from "./state.js";
import { SourcePane } from "./source_pane.js";
import { TargetPane } from "./target_pane.js";

/** @typedef {import("./state.js").Change} Change */

const KEY = "key";
const THEME = "theme";
/** Requested though only the best is shown: they widen the beam, which may change the best. */
const ALTERNATIVES = 3;
const ATTENTION_FAILED = "The server did not answer: this is how it was before.";

/** Whether a keyboard would cover the page once a text field has the focus. */
const isPhone = () => !matchMedia("(hover: hover)").matches;

/** A request that is sent again and again; each one aborts the one before. */
class AbortableRequest {
  #controller = new AbortController();

  /** The signal of the next request. */
  next() {
    this.#controller.abort();
    this.#controller = new AbortController();
    return this.#controller.signal;
  }
}

/** The page and its state. */
class Page {
  /** @type {HTMLInputElement} */
  #key = find("key");
  #api = new Api(() => this.#key.value.trim());
  #target = new TargetPane((sentence) => this.#selectSentence(sentence));
  #notices = new Notices(() => this.#api.isReady());
  #translationRequest = new AbortableRequest();
  #attentionRequest = new AbortableRequest();
  #fileRequest = new AbortableRequest();
  #timer = 0;
  #detected = "";
  /** The text whose translation is shown, and its sentences, if they are known. */
  #translated = { text: "", sentences: /** @type {import("./api.js").Sentence[]} */ ([]) };
  /** Whether the sentence at the caret is to be shown once the sentences are known. */
  #followsCaret = false;
  /** @type {Change[]} */
  #changes = [];
  /** @type {import("./state.js").Choice | null} */
  #choice = null;
  #settings;
  #alternatives;
  #examples;
  /** @type {FileUpload | null} */
  #files = null;
  #source;
  #pickers;
  #panel;

  /**
   * @param {import("./api.js").ServerSettings} settings
   * @param {import("./api.js").Language[]} languages
   */
  constructor(settings, languages) {
    this.#settings = settings;
    this.#alternatives = Math.min(ALTERNATIVES, settings.alternativesLimit);
    const { source, target } = settings.language;
    this.#source = new SourcePane(settings.charLimit, {
      onWrite: () => this.#textChanged(),
      onMove: () => this.#caretMoved(),
    });
    this.#pickers = new LanguagePickers(languages, source.code, target.code, {
      onPick: () => this.#changeModel(),
      onSwap: () => this.#swap(),
    });
    this.#panel = new AttentionPanel({
      onSelect: (sentence) => this.#selectSentence(sentence),
      onToggle: () => this.#showAttention(),
      onChange: (changes) => {
        this.#changes = changes;
        this.#showAttention();
      },
      onChoice: (choice) => {
        this.#choice = choice;
        this.#saveState();
      },
    });
    this.#examples = new Examples(settings.examples, (text) => {
      this.#source.text = text;
      if (!isPhone()) this.#source.focus();
      this.#translate();
    });
    if (settings.filesTranslation) {
      const send = (/** @type {File} */ file) => this.#sendFile(file);
      this.#files = new FileUpload(settings.supportedFilesFormat, this.#notices, send);
    }
    if (settings.keyRequired) this.#askForKey();
    enableCopy(find("share"), () => location.href);
    syncScroll(find("text"), find("translation"));
    window.addEventListener("hashchange", () => this.#restore());
    if (location.hash) this.#restore();
    else this.#begin();
  }

  #askForKey() {
    const form = find("key-form");
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    this.#key.value = loadItem(KEY) ?? "";
    this.#key.addEventListener("change", () => {
      saveItem(KEY, this.#key.value.trim() || null);
      this.#translate();
    });
  }

  /** Translates what was entered before the page was ready, and focuses the text field. */
  #begin() {
    const isIdle = document.activeElement === document.body;
    if (isIdle && !isPhone()) this.#source.focus();
    this.#translate();
  }

  /** Shows the state in the URL. */
  #restore() {
    const state = fromFragment(location.hash);
    this.#source.text = state.text;
    this.#changes = state.changes;
    this.#choice = state.choice;
    if (state.source) this.#pickers.choose(state);
    this.#notices.setPermanent(state.source ? this.#pickers.explain(state) : "");
    this.#panel.select(state.sentence, 0);
    this.#followsCaret = false;
    this.#translate();
  }

  /** Writes the state into the URL, so that it can be shared and survives a reload. */
  #saveState() {
    const fragment = toFragment({
      ...this.#pickers.pair,
      text: this.#source.text,
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
    history.replaceState(null, "", fragment && isShort ? `#${fragment}` : pathname + search);
  }

  #textChanged() {
    this.#dropLinks();
    this.#files?.forget();
    this.#followsCaret = true;
    this.#offerExamples();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#translate(), this.#settings.frontendTimeout);
  }

  #offerExamples() {
    this.#examples.show(this.#pickers.pair, !this.#source.text);
  }

  #caretMoved() {
    const { text, sentences } = this.#translated;
    if (this.#source.text !== text || !sentences.length) return;
    const sentence = this.#sentenceAtCaret();
    if (sentence !== this.#panel.sentence) this.#selectSentence(sentence);
  }

  #sentenceAtCaret() {
    const { text, sentences } = this.#translated;
    return sentenceAt(text, sentences.map(({ source }) => source), this.#source.caret);
  }

  /** @param {number} sentence whose attention is shown from now on */
  #selectSentence(sentence) {
    this.#panel.select(sentence);
    this.#dropLinks();
    this.#showAttention();
  }

  /** Drops forced links, which refer to words of the text. */
  #dropLinks() {
    this.#changes = this.#changes.filter(({ kind }) => kind !== "force");
  }

  /** Drops the interventions, which refer to the heads of the former model, and translates. */
  #changeModel() {
    this.#changes = [];
    this.#notices.setPermanent("");
    this.#translate();
  }

  #swap() {
    const pair = this.#pickers.swapped(this.#detected);
    if (!pair) return;
    this.#pickers.choose(pair);
    this.#source.text = this.#target.text;
    this.#panel.select(0, 0);
    this.#followsCaret = false;
    this.#changeModel();
  }

  async #translate() {
    clearTimeout(this.#timer);
    const signal = this.#translationRequest.next();
    this.#attentionRequest.next();
    this.#notices.clear();
    this.#files?.forget();
    this.#target.isBusy = false;
    this.#offerExamples();
    this.#saveState();
    const { text, length } = this.#source;
    if (!text.trim()) {
      this.#translated = { text: "", sentences: [] };
      this.#target.show("", "", []);
      this.#panel.clear();
    } else if (this.#source.isTooLong) {
      this.#notices.show("long", tooLong(length, this.#settings.charLimit));
    } else {
      const options = { ...this.#pickers.pair, alternatives: this.#alternatives };
      /** @param {string} partial */
      const onPartial = (partial) => this.#target.showPartial(partial);
      const retry = { ...this.#retryOptions(signal), onPartial };
      const request = () => this.#api.translate(text, options, retry);
      const found = await this.#attempt(signal, request, () => this.#translate());
      if (!found) return;
      this.#show(text, found);
      await this.#showAttention();
    }
  }

  /**
   * @param {string} text
   * @param {import("./api.js").Translation} found
   */
  #show(text, { translatedText, sentences = [], detectedLanguage }) {
    const { source, target } = this.#pickers.pair;
    this.#detected = source === DETECT ? detectedLanguage?.language ?? "" : "";
    this.#pickers.showDetected(this.#detected);
    this.#source.language = source === DETECT ? this.#detected : source;
    this.#translated = { text, sentences };
    this.#target.show(translatedText, target, sentences.map((sentence) => sentence.target));
    const selected = this.#followsCaret ? this.#sentenceAtCaret() : this.#panel.sentence;
    this.#panel.select(selected, sentences.length);
    this.#followsCaret = false;
  }

  /** Shows the attention of the selected sentence under the current interventions. */
  async #showAttention() {
    this.#saveState();
    const signal = this.#attentionRequest.next();
    const { isOpen, sentence } = this.#panel;
    if (!isOpen || !this.#changes.length) this.#target.showChange(null);
    this.#target.mark(isOpen ? sentence : null);
    if (!isOpen || !this.#translated.text) return;
    const { pair } = this.#pickers;
    this.#panel.wait(JSON.stringify([pair, this.#panel.sentence, this.#translated.text]));
    const request = () => this.#requestAttention(signal);
    const found = await this.#attempt(signal, request, () => this.#showAttention(), false);
    if (!found) {
      if (!signal.aborted) this.#panel.fail(ATTENTION_FAILED);
      return;
    }
    const { look, refused } = found;
    this.#panel.show(look, this.#choice);
    const [before, after] = [look.before?.text ?? look.target.text, look.target.text];
    this.#target.showChange(before === after ? null : { sentence: look.sentence, before, after });
    this.#target.mark(this.#panel.sentence);
    if (refused) this.#notices.show("refused", refused);
  }

  /**
   * The viewer document. Interventions that this model does not allow, as from a link to another
   * model, are dropped; `refused` is then the reason.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<{look: any, refused: string}>}
   */
  async #requestAttention(signal) {
    const { source, target } = this.#pickers.pair;
    const pair = { source: this.#detected || source, target };
    /** @param {Change[]} changes */
    const request = (changes) => {
      const { sentence } = this.#panel;
      const options = { ...pair, sentence, changes, alternatives: this.#alternatives, tree: true };
      return this.#api.attention(this.#translated.text, options, this.#retryOptions(signal));
    };
    try {
      return { look: await request(this.#changes), refused: "" };
    } catch (error) {
      const isRefused = error instanceof ApiError && error.kind === "refused";
      if (!isRefused || !this.#changes.length) throw error;
      this.#changes = [];
      this.#saveState();
      return { look: await request([]), refused: error.message };
    }
  }

  /**
   * @param {File} file
   * @returns {Promise<{address: URL, language: string} | null>}
   */
  async #sendFile(file) {
    const signal = this.#fileRequest.next();
    const { pair } = this.#pickers;
    const send = () => this.#api.translateFile(file, pair, this.#retryOptions(signal));
    const address = await this.#attempt(signal, send, null);
    return address && { address, language: pair.target };
  }

  /** @param {AbortSignal} signal */
  #retryOptions(signal) {
    /** @param {number} seconds */
    const onWait = (seconds) => this.#notices.show("busy", busyFor(seconds));
    return { signal, onWait };
  }

  /**
   * The result of `act`; null if it failed, which is shown, or was aborted.
   *
   * @template T
   * @param {AbortSignal} signal
   * @param {() => Promise<T>} act
   * @param {(() => void) | null} again offered where a second attempt may succeed
   * @param {boolean} isBusy whether the right pane shows meanwhile that a request is active
   * @returns {Promise<T | null>}
   */
  async #attempt(signal, act, again, isBusy = true) {
    if (isBusy) this.#target.isBusy = true;
    try {
      const found = await act();
      this.#notices.clear();
      return found;
    } catch (error) {
      if (signal.aborted) return null;
      if (!(error instanceof ApiError)) throw error;
      const message = explain(error, Boolean(this.#key.value));
      this.#notices.show(error.kind, message, TRANSIENT.has(error.kind) ? again : null);
      if (error.kind === "key" && !find("key-form").hidden) this.#key.focus();
      return null;
    } finally {
      if (isBusy && !signal.aborted) this.#target.isBusy = false;
    }
  }
}

/** Shows the switch between light and dark; the choice is stored. */
function showThemeSwitch() {
  const { dataset } = document.documentElement;
  const theme = loadItem(THEME);
  if (theme) dataset.theme = theme;
  find("themes").append(themeSwitch());
  whenThemeChanges(() => saveItem(THEME, dataset.theme ?? null));
}

showThemeSwitch();
const api = new Api(() => "");
try {
  const [settings, languages] = await Promise.all([api.settings(), api.languages()]);
  new Page(settings, languages);
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  new Notices(() => api.isReady()).show(error.kind, explain(error, false), () => location.reload());
}
