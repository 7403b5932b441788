/** A picture that a model read in patches: what the class token, or a patch, looked at. */

import { Menu, Switch } from "./controls.js";
import { make, percent, probability } from "./elements.js";
import { cellAt, cellBeside, cellCentre, cellName } from "./grid_cells.js";
import { HeadsCard } from "./heads_card.js";
import { Info } from "./info.js";
import { Candidates, Outcome } from "./outcomes.js";
import { PatchReading } from "./patch_reading.js";
import { PictureFrame, Shading } from "./picture_frame.js";
import { who } from "./sentences.js";
import { whenThemeChanges } from "./theme.js";
import { ALL, numberOf, numbered, WISHES } from "./view_options.js";
import { wordingOf } from "./wording.js";

const SOURCES = [
  { value: "layer", label: "One layer" },
  { value: "rollout", label: "Rollout", title: "All layers up to one, traced back to the picture" },
];
const NAMES = { class: "the class token", mean: "all patches on average" };
const INFO =
  "The model cuts the picture into square patches and lets them look at each other, layer by layer. Some models " +
  "add a class token, which belongs to no patch and from which the answer is read. Coloured patches, or bright ones, " +
  "were looked at; the line below says how much the strongest stands for. Rollout follows the looks of all " +
  "layers back to the picture: in each layer half of what a place holds comes from where it looked, and half from " +
  "itself (Abnar and Zuidema 2020). In a Swin model a patch looks only at those in its own window; windows are " +
  "drawn where they lie in the picture.";

/** Draws look documents of pictures; `onChange` as in `AttentionView`, for silenced heads alone. */
export class PatchView {
  #reading = null;
  #wording = null;
  #choice = { part: "encoder", layer: 0, head: null, source: "layer", query: "class", unit: "pieces" };
  #pointed = null;
  #wish = "look";
  #changes = [];

  /** @param {HTMLElement} element @param {{onChange?: (changes: Object[]) => void, kinds?: string[]}} options */
  constructor(element, { onChange = () => {}, kinds = [] } = {}) {
    Object.assign(this, { element, onChange, kinds });
    this.sources = new Switch("What is shown", (source) => this.#choose({ source }));
    this.layers = new Menu("Layer", (value) => this.#choose({ layer: numberOf(value) }));
    this.heads = new Menu("Head", (value) => this.#choose({ head: numberOf(value) }));
    this.queries = new Menu("Looks", (query) => this.#hold(null, query));
    this.wishes = new Switch("A click on a head", (wish) => (this.#wish = wish));
    const act = (place, wish) => this.#act(place, wish ?? this.#wish);
    this.headsCard = new HeadsCard(act, () => this.#drawHeads(), this.wishes.element);
    this.outcome = new Outcome(kinds.length ? (kept) => this.onChange(kept) : null);
    this.candidates = new Candidates();
    this.#compose();
    whenThemeChanges(() => {
      this.headsCard.grid.repaint();
      if (this.#reading) this.#draw();
    });
  }

  /** Draw a look document. */
  show(look) {
    const isFirst = this.#reading === null;
    this.#reading = new PatchReading(look);
    this.#wording = wordingOf(look);
    this.#changes = look.changes;
    this.frame.show(look.source.picture.image, `The picture: ${look.target.text}`);
    this.notes.replaceChildren(...look.notes.map((note) => make("li", {}, note)));
    this.notes.hidden = look.notes.length === 0;
    const [best] = look.candidates;
    const share = make("span", { class: "score" }, probability(best.score));
    this.answer.replaceChildren(make("bdi", {}, best.text), " ", share);
    this.candidates.show(look.candidates, look.kind, this.#wording.candidates);
    this.#showOutcome(look.before?.text ?? null, look.target.text);
    const last = this.#reading.size("encoder").layers - 1;
    this.#choose(isFirst ? { layer: last, head: null, query: this.#reading.queries[0] } : {});
  }

  /** Show what the answer becomes under `changes`, of which only the text is known. */
  preview(changes, text) {
    this.#changes = changes;
    this.#showOutcome(this.#reading.look.target.text, text);
    this.#drawHeads();
  }

  #showOutcome(before, after) {
    this.outcome.show(this.#changes, before, after, { source: [], target: [] });
  }

  #compose() {
    const info = new Info("patches", INFO);
    const keys = "The picture: arrow keys move from patch to patch, Enter keeps one, Escape lets go";
    this.frame = new PictureFrame(keys, {
      point: (place) => this.#point(place),
      click: (place) => this.#hold(place),
      key: (event) => this.#key(event),
      shadeClass: "patches",
    });
    this.shading = new Shading(this.frame, "patch", () => this.#draw());
    this.title = make("h2", { class: "shown-title" });
    this.told = make("p", { class: "readout", role: "status" });
    this.answer = make("p", { class: "patch-answer" });
    this.notes = make("ul", { class: "notes", "aria-label": "Notes", hidden: true });
    const controls = [this.sources, this.layers, this.heads, this.queries, this.shading.switch];
    const menus = controls.map(({ element }) => element);
    const text = make(
      "div",
      { class: "picture-text" },
      this.answer,
      make("div", { class: "picture-menus" }, ...menus, info.button),
      info.note,
      this.title,
      this.told,
      this.shading.line,
      this.outcome.element,
      this.notes,
    );
    const stage = make("section", { class: "card stage", "aria-label": "Attention between patches" });
    stage.append(make("div", { class: "picture-view" }, this.frame.element, text));
    this.headsCard.element.append(this.outcome.brief);
    this.element.classList.add("regard-view");
    this.element.replaceChildren(stage, this.headsCard.element, this.candidates.element);
  }

  #choose(wanted) {
    const choice = { ...this.#choice, ...wanted };
    const own = this.#reading.layer("encoder", choice.layer ?? 0).heads;
    if (choice.head !== null && choice.head >= own) choice.head = null;
    this.#choice = choice;
    this.#drawControls();
    this.#draw();
    this.#drawHeads();
  }

  #drawControls() {
    const { layers } = this.#reading.size("encoder");
    const { layer, head, source, query } = this.#choice;
    const own = this.#reading.layer("encoder", layer).heads;
    this.sources.show(layers > 1 ? SOURCES : [], source);
    this.layers.show(numbered(layers, false), String(layer));
    this.heads.show(source === "rollout" ? [] : numbered(own), String(head ?? ALL));
    const places = this.#reading.queries.map((value) => ({ value, label: NAMES[value] }));
    const patch = Array.isArray(query) ? [{ value: "patch", label: this.#queryName(query) }] : [];
    this.queries.show([...places, ...patch], Array.isArray(query) ? "patch" : query);
  }

  /** The query that is shown: the patch that is pointed at, or what was chosen. */
  get #query() {
    return this.#pointed ?? this.#choice.query;
  }

  #draw() {
    const { source, layer } = this.#choice;
    const query = this.#query;
    const looked = source === "rollout"
      ? this.#reading.rollout({ layer, query })
      : this.#reading.looked({ ...this.#choice, query });
    this.shading.draw(looked.grid, looked.weights);
    this.frame.mark(Array.isArray(query) ? cellAt(query, this.#grid) : null, this.#grid);
    const name = this.#queryName(query);
    const shown = source === "rollout" ? `rollout of layers 0 to ${layer}` : who(this.#choice);
    this.title.textContent = `What ${name} looked at: ${shown}`;
    this.told.textContent = this.#tell(looked);
  }

  /** The grid of who looks. */
  get #grid() {
    return this.#reading.grid(this.#choice.layer);
  }

  #tell({ grid: [, columns], weights, rest }) {
    const seen = [...weights.keys()].filter((patch) => weights[patch] > 0);
    const order = seen.sort((a, b) => weights[b] - weights[a]).slice(0, 3);
    const named = order.map((patch) => {
      const { row, column } = cellName(patch, columns);
      return `row ${row} column ${column}: ${percent(weights[patch])}`;
    });
    const own = rest > 0.005 ? `; ${percent(rest)} on the class token itself` : "";
    const most = named.length ? `Most at ${named.join(", ")}` : "No patch was looked at";
    return `${most}${own}. Point at a patch to see what it looked at.`;
  }

  #queryName(query) {
    if (!Array.isArray(query)) return NAMES[query];
    const { row, column } = cellName(cellAt(query, this.#grid), this.#grid[1]);
    return `the patch in row ${row}, column ${column}`;
  }

  #drawHeads() {
    const looks = this.#queryName(this.#choice.query);
    const options = { looks, changes: this.#changes, other: this.#wording.other };
    this.headsCard.show(this.#reading, { ...this.#choice, segments: this.#choice.query }, options);
    this.wishes.show(this.kinds.includes("silence") ? [WISHES.look, WISHES.silence] : [], this.#wish);
  }

  #act({ layer, head }, wish) {
    if (wish !== "silence" || !this.kinds.includes("silence")) {
      this.#choose({ layer, head, source: "layer" });
      return;
    }
    const same = (change) => change.layer === layer && (change.head ?? null) === head;
    const undone = this.#changes.some(same);
    this.onChange(undone ? [] : [{ kind: "silence", part: "encoder", layer, head }]);
  }

  #point(query) {
    this.#pointed = query;
    this.#draw();
  }

  /** Keep a patch as the one that looks, or one of the others. */
  #hold(place, query = place) {
    const patch = (one) => Array.isArray(one) && cellAt(one, this.#grid);
    const again = Array.isArray(query) && patch(query) === patch(this.#choice.query);
    this.#pointed = null;
    if (query === "patch") return;
    this.#choose({ query: again ? this.#reading.queries[0] : query });
  }

  #key(event) {
    if (event.key === "Escape") this.#hold(null, this.#reading.queries[0]);
    if (event.key === "Enter" && this.#pointed) this.#hold(this.#pointed);
    const query = this.#query;
    const now = Array.isArray(query) ? cellAt(query, this.#grid) : null;
    const patch = cellBeside(now, event.key, this.#grid);
    if (patch === null) return;
    event.preventDefault();
    this.#point(cellCentre(patch, this.#grid));
  }
}
