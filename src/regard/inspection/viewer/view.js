/** The viewer: what a model attended to when it translated a sentence or read a text. */

import { headColour, HeadChips } from "./compare.js";
import { Menu, Switch } from "./controls.js";
import { compare } from "./difference.js";
import { isolated, make } from "./elements.js";
import { HeadGrid, placeName } from "./heads.js";
import { Info } from "./info.js";
import { HeatMap, scaleTop } from "./maps.js";
import { NeuronView } from "./neurons.js";
import { Candidates, Outcome } from "./outcomes.js";
import { Reading } from "./reading.js";
import { bandSentence, cellSentence, restingSentence, spotSentence, who } from "./sentences.js";
import { whenThemeChanges } from "./theme.js";
import { BeamTree } from "./tree.js";
import {
  ALL,
  HEADS_INFO,
  headsName,
  numberOf,
  numbered,
  PICTURES,
  SCALES,
  segmentOptions,
  UNITS,
  WISHES,
} from "./view_options.js";
import { wordingOf } from "./wording.js";
import { isEven, WordLines } from "./words.js";

const LONG = 64; // of so many columns, small maps begin on scales of their own
const LARGE = 4_000_000; // numbers of all maps together, of which the average is not shown first
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
  #choice = {
    part: "cross",
    layer: null,
    head: null,
    unit: "words",
    picture: "lines",
    heads: [],
    segments: [null, null],
  };
  #bands = [];
  #top = 1;
  #scale = null;
  #shown = null;
  #alignment = null;
  #pinned = null;
  #forcing = false;
  #wish = "look";
  #changes = [];
  #pair = null;

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
    this.neurons = new NeuronView((pair) => (this.#pair = pair));
    this.chips = new HeadChips((heads) => this.choose({ heads, head: null }));
    this.heads = new HeadGrid((place, wish) => this.#act(place, wish ?? this.#wish));
    this.outcome = new Outcome(this.kinds.length ? (kept) => this.#change(kept) : null);
    this.candidates = new Candidates();
    this.tree = new BeamTree();
    this.#compose();
    element.addEventListener("keydown", (event) => event.key === "Escape" && this.#pin(null));
    whenThemeChanges(() => {
      this.map.repaint();
      this.heads.repaint();
      this.neurons.repaint();
    });
  }

  /** The document that is shown; null before the first. */
  get document() {
    return this.#reading?.look ?? null;
  }

  /**
   * The part, layer, head, unit and picture that are looked at, null standing for the average; the
   * heads that are compared, as layers and heads; and the segments that look and are looked at.
   */
  get choice() {
    return { ...this.#choice };
  }

  /** Draw a look document. What was chosen stays chosen, where the document has it. */
  show(look) {
    this.#reading = new Reading(look);
    this.#changes = look.changes;
    this.#pinned = this.#pair = this.#scale = null;
    this.#force(false);
    this.element.removeAttribute("aria-busy");
    this.notes.replaceChildren(...look.notes.map((note) => make("li", {}, note)));
    this.notes.hidden = look.notes.length === 0;
    this.#wording = wordingOf(look);
    this.candidates.show(look.candidates, look.kind, this.#wording.candidates);
    this.tree.show(look.tree, look.candidates);
    this.#showOutcome(look.before?.text ?? null, look.target.text);
    this.choose(this.#isLarge() ? { layer: this.#choice.layer ?? 0, head: this.#choice.head ?? 0 } : {});
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
    const changed = JSON.stringify(choice) !== JSON.stringify(this.#choice);
    this.#choice = choice;
    this.#draw();
    if (changed) this.onChoice(this.choice);
  }

  #makeControls() {
    this.partSwitch = new Switch("Attention", (part) => this.choose({ part }));
    this.layerMenu = new Menu("Layer", (value) => this.choose({ layer: numberOf(value), heads: [] }));
    this.headMenu = new Menu("Head", (value) => this.choose({ head: numberOf(value), heads: [] }));
    this.segmentMenu = new Menu("Sentences", (value) => this.choose({ segments: JSON.parse(value) }));
    this.scaleSwitch = new Switch("Scale of the small maps", (scale) => {
      this.#scale = scale;
      this.#drawHeads();
    });
    this.unitSwitch = new Switch("Shown as", (unit) => this.choose({ unit }));
    this.pictureSwitch = new Switch("Picture", (picture) => this.choose({ picture }));
    this.wishSwitch = new Switch("A click on a head", (wish) => (this.#wish = wish));
    const wishes = ["look", "compare", ...this.kinds].filter((kind) => kind in WISHES);
    this.wishSwitch.show(wishes.map((kind) => WISHES[kind]), this.#wish);
  }

  #compose() {
    this.readout = make("p", { class: "readout", role: "status" });
    const on = { click: () => (this.#forcing ? this.#pin(this.#pinned) : this.#force(true)) };
    const attributes = { type: "button", class: "action", hidden: true, on };
    this.forceButton = make("button", attributes, FORCE);
    const menus = [this.partSwitch, this.layerMenu, this.headMenu, this.segmentMenu];
    const controls = [...menus, this.unitSwitch, this.pictureSwitch].map(({ element }) => element);
    this.title = make("h2", { class: "shown-title" });
    this.toolbar = make("div", { class: "toolbar" }, ...controls);
    this.notes = make("ul", { class: "notes", "aria-label": "Notes", hidden: true });
    this.stage = make(
      "section",
      { class: "card stage", "aria-label": "Attention between words" },
      this.notes,
      this.toolbar,
      this.chips.element,
      this.title,
      this.words.element,
      this.map.element,
      this.neurons.element,
      make("div", { class: "telling" }, this.readout, this.forceButton),
      this.outcome.element,
    );
    this.headHint = make("p", { class: "hint" });
    this.headInfo = new Info("heads", HEADS_INFO);
    const title = make("div", { class: "card-title" }, make("h2", {}, "Heads"), this.headInfo.button);
    const switches = [this.scaleSwitch.element, this.wishSwitch.element];
    this.headCard = make(
      "section",
      { class: "card heads-card" },
      make("div", { class: "card-head" }, title, make("div", { class: "card-tools" }, ...switches)),
      this.headHint,
      this.headInfo.note,
      this.heads.element,
      this.outcome.brief,
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
    const picture = among(choice.picture, PICTURES.map(({ value }) => value));
    const unit = among(choice.unit, UNITS.map(({ value }) => value));
    const nowhere = { part, layer: null, head: null, unit, picture, heads: [], segments: [null, null] };
    if (part === null) return nowhere;
    const { layers } = this.#reading.size(part);
    const single = picture === "neurons";
    const layer = within(choice.layer, layers) ?? (single || !this.#reading.averages(part) ? 0 : null);
    const head = within(choice.head, this.#reading.layer(part, layer ?? 0).heads) ?? (single ? 0 : null);
    const has = ([one, other]) => one < layers && other < this.#reading.layer(part, one).heads;
    const compared = (choice.heads ?? []).filter(has);
    const sides = this.#reading.segments(part);
    const [from, to] = choice.segments ?? [null, null];
    const segments = [within(from, sides.rows.length), within(to, sides.columns.length)];
    const unable = single && !this.#reading.layer(part, layer).hasVectors;
    const drawn = unable ? "lines" : picture;
    return { ...nowhere, layer, head, picture: drawn, heads: compared, segments };
  }

  /** Whether the maps are so many numbers that the average of all takes a while. */
  #isLarge() {
    return this.#reading.parts.some((part) => this.#reading.cells(part) > LARGE);
  }

  #draw() {
    const attends = this.#reading.parts.length > 0;
    const { part, layer, head, picture } = this.#choice;
    this.toolbar.hidden = this.headCard.hidden = this.title.hidden = !attends;
    this.words.element.hidden = !attends || picture !== "lines";
    this.map.element.hidden = !attends || picture !== "map";
    this.neurons.element.hidden = !attends || picture !== "neurons";
    this.chips.element.hidden = true;
    if (!attends) {
      this.say("This model does not attend: there is nothing to see between the words.");
      return;
    }
    this.#drawControls();
    this.#shown = this.#reading.shown(this.#choice);
    this.#bands = this.#comparedHeads();
    const links = this.#averagesCross() ? this.#reading.links(this.#shown) : [];
    this.#alignment = links.length ? this.document.alignment : null;
    const weights = this.#bands.length ? this.#bands.map(({ values }) => values) : [this.#shown.values];
    this.#top = Math.max(...weights.map(scaleTop));
    if (picture === "lines") this.#drawWords(links);
    if (picture === "map") {
      this.map.show(this.#shown, `Map of ${part} attention, ${placeName(this.#choice)}`, this.#top);
    }
    if (picture === "neurons") {
      const shown = this.#reading.shown({ ...this.#choice, unit: "pieces", segments: [null, null] });
      this.neurons.show(this.#reading.layer(part, layer), head, shown, this.#pair);
    }
    if (this.#pinned && !this.#has(this.#pinned)) this.#pinned = null;
    this.#drawHeads();
    this.words.mark(this.#pinned);
    this.#light(this.#pinned);
  }

  #drawWords(links) {
    const { lines } = this.#wording.parts[this.#choice.part];
    this.chips.show(this.#reading, this.#choice, this.#choice.heads);
    this.words.show(this.#shown, {
      links,
      names: lines,
      fresh: this.#freshRows(),
      hint: this.#wording.fresh,
      bands: this.#bands,
      top: links.length ? 1 : this.#top,
    });
  }

  /** The heads that are compared, each with its weights, name and colour. */
  #comparedHeads() {
    if (this.#choice.picture !== "lines") return [];
    const { heads } = this.#reading.size(this.#choice.part);
    return this.#choice.heads.map(([layer, head]) => ({
      name: placeName({ layer, head }),
      colour: headColour(layer, head, heads),
      values: this.#reading.valuesAt({ ...this.#choice, layer, head }, this.#choice),
    }));
  }

  /** Which attention is shown, always written above it. */
  #titleText(spot) {
    const { part, heads, picture } = this.#choice;
    const { title } = this.#wording.parts[part];
    const shown =
      heads.length && picture === "lines"
        ? headsName(heads)
        : who(this.#alignment && picture === "lines" && !spot ? this.#alignment : this.#choice);
    return `${title}: ${shown}`;
  }

  #drawControls() {
    const { part, layer } = this.#choice;
    const { layers } = this.#reading.size(part);
    const own = this.#reading.layer(part, layer ?? 0);
    const parts = this.#reading.parts.map((value) => ({ value, ...this.#wording.parts[value] }));
    const averages = this.#reading.averages(part) && this.#choice.picture !== "neurons";
    this.partSwitch.show(parts, part);
    this.layerMenu.show(numbered(layers, averages), String(layer ?? ALL));
    this.headMenu.show(numbered(own.heads, this.#choice.picture !== "neurons"), String(this.#choice.head ?? ALL));
    this.segmentMenu.show(segmentOptions(this.#reading.segments(part)), JSON.stringify(this.#choice.segments));
    this.unitSwitch.show(this.#choice.picture === "neurons" ? [] : UNITS, this.#choice.unit);
    const pictures = PICTURES.filter(({ value }) => value !== "neurons" || own.hasVectors);
    this.pictureSwitch.show(pictures, this.#choice.picture);
  }

  #drawHeads() {
    if (!this.#reading.parts.length) return;
    const { part, heads: compared } = this.#choice;
    const { heads, columns } = this.#reading.size(part);
    this.#scale ??= columns > LONG ? "own" : "same";
    this.scaleSwitch.show(SCALES, this.#scale);
    const colours = new Map(compared.map(([layer, head]) => [`${layer}.${head}`, headColour(layer, head, heads)]));
    this.heads.show(this.#reading, this.#choice, {
      changes: this.#changes,
      other: this.#wording.other,
      own: this.#scale === "own",
      colours,
    });
    this.headCard.classList.toggle("wide", heads > 8);
    const kinds = this.kinds.filter((kind) => kind in WISHES);
    const keys = { silence: "Shift-click or S silences it.", flatten: "Alt-click or F flattens it." };
    const scale =
      this.#scale === "own"
        ? "Each has its own scale: its strongest colour is its largest share."
        : "In all of them the strongest colour is 100%.";
    const hints = ["Each small map is a head.", scale];
    if (this.heads.marksSome()) hints.push(`A dot: without it ${this.#wording.other}.`);
    this.headHint.textContent = hints.join(" ");
    const clicks = ["A click shows a head above.", "Ctrl-click or C compares it with others."];
    this.headInfo.text = HEADS_INFO + [...clicks, ...kinds.map((kind) => keys[kind])].join(" ");
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
    this.title.textContent = this.#titleText(spot);
    this.forceButton.hidden = !this.#canForce();
    if (this.#forcing) return;
    this.readout.hidden = this.#choice.picture === "neurons";
    this.readout.textContent = spot ? this.#spotText(spot) : this.#restingText();
  }

  #spotText(spot) {
    if (this.#bands.length) return bandSentence(this.#shown, spot, this.#bands);
    return spotSentence(this.#shown, spot);
  }

  #restingText() {
    const { rows, columns, values } = this.#shown;
    const row = (place) => values.subarray(place * columns.length, (place + 1) * columns.length);
    const anyLine = this.words.hasLinks;
    const even = !anyLine && rows.length > 1 && rows.slice(1).every((_, place) => isEven(row(place + 1)));
    const drawn = { alignment: this.#alignment, anyLine, even, bands: this.#bands, top: this.#top };
    return restingSentence(this.#choice, drawn);
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
    if (spot) this.words.reveal(spot);
    this.#light(spot);
  }

  #act({ layer, head }, wish) {
    if (wish === "look") {
      const same = layer === this.#choice.layer && head === this.#choice.head;
      const average = same && !this.#isLarge();
      this.choose(average ? { layer: null, head: null } : { layer, head, heads: [] });
      this.stage.scrollIntoView?.({ block: "nearest" });
      return;
    }
    if (wish === "compare") {
      this.#compare(layer, head);
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

  /** Add a head to those that are compared, or take it away; a layer's average adds all its heads. */
  #compare(layer, head) {
    const { part, heads } = this.#choice;
    const count = this.#reading.layer(part, layer).heads;
    const places = head === null ? [...Array(count).keys()].map((one) => [layer, one]) : [[layer, head]];
    const among = (some) => ([one, other]) => some.some(([a, b]) => a === one && b === other);
    const fresh = places.filter((place) => !among(heads)(place));
    const kept = fresh.length ? [...heads, ...fresh] : heads.filter((place) => !among(places)(place));
    this.choose({ heads: kept, layer, head: null, picture: "lines" });
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
    this.readout.textContent = `Choose the word of the sentence that “${isolated(word)}” shall look at.`;
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
