/** The viewer: what a model attended to when it translated a sentence or read a text. */

import { Menu, Switch } from "./controls.js";
import { compare } from "./difference.js";
import { make } from "./elements.js";
import { HeadGrid, placeName } from "./heads.js";
import { HeatMap } from "./maps.js";
import { Candidates, Outcome } from "./outcomes.js";
import { Reading } from "./reading.js";
import { cellSentence, restingSentence, spotSentence } from "./sentences.js";
import { whenThemeChanges } from "./theme.js";
import { BeamTree } from "./tree.js";
import { wordingOf } from "./wording.js";
import { WordLines } from "./words.js";

const UNITS = [
  { value: "words", label: "Words", title: "Pieces of a word together" },
  { value: "pieces", label: "Pieces", title: "What the model reads and answers" },
];
const PICTURES = [
  { value: "lines", label: "Lines" },
  { value: "map", label: "Map" },
];
const WISHES = {
  look: { value: "look", label: "Look", title: "A click on a map shows it above" },
  silence: { value: "silence", label: "Silence", title: "A click lets the head see nothing" },
  flatten: { value: "flatten", label: "Flatten", title: "A click lets it see all alike" },
};
const ALL = "all";
const FORCE = "Make it look elsewhere";
const KINDS = ["silence", "flatten", "force"];

/**
 * Draws look documents into an element. What it asks of its page:
 * - `onChange(changes)`: someone wishes the translation under these changes, in their JSON form and
 *   all of them, none to have the first one back; answer by `show`, `preview` or `say`.
 * - `onChoice(choice)`: another part, layer, head, unit or picture is looked at.
 * - `kinds`: the kinds of change that can be answered; `several`: whether more than one at a time.
 */
export class AttentionView {
  #reading = null;
  #wording = null;
  #choice = { part: "cross", layer: null, head: null, unit: "words", picture: "lines" };
  #shown = null;
  #alignment = null;
  #pinned = null;
  #forcing = false;
  #wish = "look";
  #changes = [];

  /** @param {HTMLElement} element @param {Object} [options] as described above */
  constructor(element, options = {}) {
    const defaults = { onChange: () => {}, onChoice: () => {}, kinds: KINDS, several: true };
    Object.assign(this, { element, ...defaults, ...options });
    this.#makeControls();
    this.words = new WordLines({
      point: (spot) => this.#light(spot ?? this.#pinned),
      pick: (spot) => this.#pick(spot),
    });
    this.map = new HeatMap((cell) => this.#point(cell));
    this.heads = new HeadGrid((place, wish) => this.#act(place, wish ?? this.#wish));
    this.outcome = new Outcome(this.kinds.length ? (kept) => this.#change(kept) : null);
    this.candidates = new Candidates();
    this.tree = new BeamTree();
    this.#compose();
    element.addEventListener("keydown", (event) => event.key === "Escape" && this.#pin(null));
    whenThemeChanges(() => {
      this.map.repaint();
      this.heads.repaint();
    });
  }

  /** The document that is shown; null before the first. */
  get document() {
    return this.#reading?.look ?? null;
  }

  /** The part, layer, head, unit and picture that are looked at; null stands for the average. */
  get choice() {
    return { ...this.#choice };
  }

  /** Draw a look document. What was chosen stays chosen, where the document has it. */
  show(look) {
    this.#reading = new Reading(look);
    this.#changes = look.changes;
    this.#pinned = null;
    this.#force(false);
    this.element.removeAttribute("aria-busy");
    this.notes.replaceChildren(...look.notes.map((note) => make("li", {}, note)));
    this.notes.hidden = look.notes.length === 0;
    this.#wording = wordingOf(look);
    this.candidates.show(look.candidates, look.kind, this.#wording.candidates);
    this.tree.show(look.tree, look.candidates);
    this.#showOutcome(look.before?.text ?? null, look.target.text);
    this.choose({});
  }

  /** Show what the translation becomes under `changes`, of which only the text is known. */
  preview(changes, text) {
    this.#changes = changes;
    this.element.removeAttribute("aria-busy");
    this.#showOutcome(this.document.target.text, text);
    this.#drawHeads();
    this.say(`The words above are still those of the unchanged ${this.#wording.answer}.`);
  }

  /** Say something where readings are told; a change that was waited for did not come about. */
  say(message) {
    if (this.element.hasAttribute("aria-busy") && this.document) this.show(this.document);
    this.readout.textContent = message;
  }

  /** Look at another part, layer, head, unit or picture; what is not named stays. */
  choose(wanted) {
    const choice = this.#possible({ ...this.#choice, ...wanted });
    const changed = Object.keys(choice).some((name) => choice[name] !== this.#choice[name]);
    this.#choice = choice;
    this.#draw();
    if (changed) this.onChoice(this.choice);
  }

  #makeControls() {
    const number = (value) => (value === ALL ? null : Number(value));
    this.partSwitch = new Switch("Attention", (part) => this.choose({ part }));
    this.layerMenu = new Menu("Layer", (value) => this.choose({ layer: number(value) }));
    this.headMenu = new Menu("Head", (value) => this.choose({ head: number(value) }));
    this.unitSwitch = new Switch("Shown as", (unit) => this.choose({ unit }));
    this.pictureSwitch = new Switch("Picture", (picture) => this.choose({ picture }));
    this.wishSwitch = new Switch("A click on a head", (wish) => (this.#wish = wish));
    const wishes = ["look", ...this.kinds].filter((kind) => kind in WISHES);
    this.wishSwitch.show(wishes.map((kind) => WISHES[kind]), this.#wish);
  }

  #compose() {
    this.readout = make("p", { class: "readout", role: "status" });
    const on = { click: () => (this.#forcing ? this.#pin(this.#pinned) : this.#force(true)) };
    const attributes = { type: "button", class: "action", hidden: true, on };
    this.forceButton = make("button", attributes, FORCE);
    const menus = [this.partSwitch, this.layerMenu, this.headMenu];
    const controls = [...menus, this.unitSwitch, this.pictureSwitch].map(({ element }) => element);
    this.toolbar = make("div", { class: "toolbar" }, ...controls);
    this.notes = make("ul", { class: "notes", "aria-label": "Notes", hidden: true });
    this.stage = make(
      "section",
      { class: "card stage", "aria-label": "Attention between words" },
      this.notes,
      this.toolbar,
      this.words.element,
      this.map.element,
      make("div", { class: "telling" }, this.readout, this.forceButton),
      this.outcome.element,
    );
    this.headHint = make("p", { class: "hint" });
    this.headCard = make(
      "section",
      { class: "card heads-card" },
      make("div", { class: "card-head" }, make("h2", {}, "Heads"), this.wishSwitch.element),
      this.headHint,
      this.heads.element,
    );
    this.element.classList.add("regard-view");
    const cards = [this.stage, this.headCard, this.candidates.element, this.tree.element];
    this.element.replaceChildren(...cards);
  }

  /** The nearest choice that the document has. */
  #possible(choice) {
    const among = (wish, values) => (values.includes(wish) ? wish : (values[0] ?? null));
    const within = (wish, count) => ([...Array(count).keys()].includes(wish) ? wish : null);
    const part = among(choice.part, this.#reading.parts);
    const { layers, heads } = part === null ? { layers: 0, heads: 0 } : this.#reading.size(part);
    const layer = within(choice.layer, layers);
    const unit = among(choice.unit, UNITS.map(({ value }) => value));
    const picture = among(choice.picture, PICTURES.map(({ value }) => value));
    return { part, layer, head: within(choice.head, heads), unit, picture };
  }

  #draw() {
    const attends = this.#reading.parts.length > 0;
    this.toolbar.hidden = this.headCard.hidden = !attends;
    this.words.element.hidden = !attends || this.#choice.picture === "map";
    this.map.element.hidden = !attends || this.#choice.picture === "lines";
    if (!attends) {
      this.say("This model does not attend: there is nothing to see between the words.");
      return;
    }
    this.#drawControls();
    this.#shown = this.#reading.shown(this.#choice);
    const links = this.#averagesCross() ? this.#reading.links(this.#shown) : [];
    this.#alignment = links.length ? this.document.alignment : null;
    const { lines } = this.#wording.parts[this.#choice.part];
    this.words.show(this.#shown, links, lines, this.#freshRows(), this.#wording.fresh);
    this.map.show(this.#shown, `Map of ${this.#choice.part} attention, ${placeName(this.#choice)}`);
    if (this.#pinned && !this.#has(this.#pinned)) this.#pinned = null;
    this.#drawHeads();
    this.words.mark(this.#pinned);
    this.#light(this.#pinned);
  }

  #drawControls() {
    const { layers, heads } = this.#reading.size(this.#choice.part);
    const parts = this.#reading.parts.map((value) => ({ value, ...this.#wording.parts[value] }));
    this.partSwitch.show(parts, this.#choice.part);
    this.layerMenu.show(numbered(layers), String(this.#choice.layer ?? ALL));
    this.headMenu.show(numbered(heads), String(this.#choice.head ?? ALL));
    this.unitSwitch.show(UNITS, this.#choice.unit);
    this.pictureSwitch.show(PICTURES, this.#choice.picture);
  }

  #drawHeads() {
    if (!this.#reading.parts.length) return;
    this.heads.show(this.#reading, this.#choice, this.#changes, this.#wording.other);
    const kinds = this.kinds.filter((kind) => kind in WISHES);
    const keys = { silence: "Shift-click or S silences", flatten: "Alt-click or F flattens" };
    const hints = ["Each small map is a head.", ...kinds.map((kind) => `${keys[kind]}.`)];
    if (this.heads.marksSome()) hints.push(`A dot: without it ${this.#wording.other}.`);
    this.headHint.textContent = hints.join(" ");
  }

  #showOutcome(before, after) {
    const target = (this.document.before ?? this.document.target).words;
    this.outcome.show(this.#changes, before, after, { source: this.document.source.words, target });
  }

  #byWords() {
    return this.#shown.rows.every(({ kind }) => kind === "word");
  }

  /** Whether all that the translation looked at is shown at once, word by word. */
  #averagesCross() {
    const { part, layer, head } = this.#choice;
    return part === "cross" && layer === null && head === null && this.#byWords();
  }

  #has({ side, index }) {
    return index < (side === "row" ? this.#shown.rows : this.#shown.columns).length;
  }

  #light(spot) {
    this.words.light(spot);
    this.forceButton.hidden = !this.#canForce();
    if (this.#forcing) return;
    this.readout.textContent = spot
      ? spotSentence(this.#shown, spot)
      : restingSentence(this.#choice, this.#alignment, this.words.hasLinks);
  }

  #point(cell) {
    if (cell) this.readout.textContent = cellSentence(this.#shown, cell);
    else this.#light(this.#pinned);
  }

  #pick(spot) {
    if (this.#forcing && spot.side === "column") {
      this.#link(spot.index);
      return;
    }
    const again = this.#pinned?.side === spot.side && this.#pinned.index === spot.index;
    this.#pin(again ? null : spot);
  }

  /** Mark and light one word, or none. */
  #pin(spot) {
    this.#pinned = spot;
    this.#force(false);
    this.words.mark(spot);
    this.#light(spot);
  }

  #act({ layer, head }, wish) {
    if (wish === "look") {
      const same = layer === this.#choice.layer && head === this.#choice.head;
      this.choose(same ? { layer: null, head: null } : { layer, head });
      return;
    }
    if (!this.kinds.includes(wish)) return;
    const there = (change) =>
      change.part === this.#choice.part && change.layer === layer && (change.head ?? null) === head;
    const others = this.several ? this.#changes.filter((change) => !there(change)) : [];
    const undone = this.#changes.some((change) => there(change) && change.kind === wish);
    const change = { kind: wish, part: this.#choice.part, layer, head };
    this.#change(undone ? others : [...others, change]);
  }

  #canForce() {
    const possible = this.kinds.includes("force") && this.#choice.part === "cross";
    if (!possible || this.#pinned?.side !== "row" || !this.#byWords()) return false;
    return this.#unchanged(this.#pinned.index) !== null;
  }

  /** The number that a word of the translation has in the unchanged one; null: it is new. */
  #unchanged(row) {
    const { before, target } = this.document;
    if (!before) return row;
    const steps = compare(before.words, target.words);
    return steps.find(({ after }) => after === row)?.before ?? null;
  }

  /** The rows whose words the unchanged translation does not have. */
  #freshRows() {
    const { before, target } = this.document;
    if (!before || this.#choice.part === "encoder") return new Set();
    const steps = compare(before.words, target.words);
    const fresh = new Set(steps.filter(({ kind }) => kind === "new").map(({ after }) => after));
    const isFresh = ({ kind, number }) => kind === "word" && fresh.has(number);
    return new Set(this.#shown.rows.flatMap((item, row) => (isFresh(item) ? [row] : [])));
  }

  /** Wait for the word that the chosen one shall look at, or no longer. */
  #force(on) {
    this.#forcing = on;
    this.element.classList.toggle("forcing", on);
    this.forceButton.textContent = on ? "Cancel" : FORCE;
    if (!on) return;
    const word = this.#shown.rows[this.#pinned.index].text;
    this.readout.textContent = `Choose the word of the sentence that “${word}” shall look at.`;
    this.words.focus("column");
  }

  #link(column) {
    const { kind, number } = this.#shown.columns[column];
    if (kind !== "word") {
      this.readout.textContent = "A link leads to a word: choose another.";
      return;
    }
    const target = this.#unchanged(this.#pinned.index);
    const change = { kind: "force", target, source: number, layer: null, head: null };
    const others = this.#changes.filter((other) => other.target !== target);
    this.#pin(null);
    this.#change(this.several ? [...others, change] : [change]);
  }

  /** Ask for the translation under other changes. */
  #change(changes) {
    const first = this.document.before?.text ?? null;
    this.#changes = changes;
    this.element.setAttribute("aria-busy", "true");
    this.#showOutcome(first, null);
    this.#drawHeads();
    this.onChange(changes);
  }
}

function numbered(count) {
  if (count < 2) return [];
  const numbers = [...Array(count).keys()].map(String);
  return [{ value: ALL, label: "average" }, ...numbers.map((value) => ({ value, label: value }))];
}
