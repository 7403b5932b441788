/** A picture that a model read in patches: what the class token, or a patch, looked at. */

import { Menu, Switch } from "./controls.js";
import { make, percent, probability } from "./elements.js";
import { HeadGrid } from "./heads.js";
import { Info } from "./info.js";
import { shade } from "./maps.js";
import { Candidates, Outcome } from "./outcomes.js";
import { patchAt, PatchReading } from "./patch_reading.js";
import { who } from "./sentences.js";
import { whenThemeChanges } from "./theme.js";
import { ALL, SCALES, WISHES } from "./view_options.js";
import { wordingOf } from "./wording.js";

const STRONGEST = 0.82; // how dark a patch gets that is not looked at, or how coloured one that is
const SHADES = [
  { value: "colour", label: "Colour", title: "Patches that were looked at are coloured" },
  { value: "dark", label: "Darken", title: "Patches that were not looked at are dark" },
];
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
  #scale = "own";
  #shade = "colour";
  #changes = [];

  /** @param {HTMLElement} element @param {{onChange?: (changes: Object[]) => void, kinds?: string[]}} options */
  constructor(element, { onChange = () => {}, kinds = [] } = {}) {
    Object.assign(this, { element, onChange, kinds });
    const number = (value) => (value === ALL ? null : Number(value));
    this.sources = new Switch("What is shown", (source) => this.#choose({ source }));
    this.layers = new Menu("Layer", (value) => this.#choose({ layer: number(value) }));
    this.heads = new Menu("Head", (value) => this.#choose({ head: number(value) }));
    this.queries = new Menu("Looks", (query) => this.#hold(null, query));
    this.grid = new HeadGrid((place, wish) => this.#act(place, wish ?? this.#wish));
    this.wishes = new Switch("A click on a head", (wish) => (this.#wish = wish));
    this.shades = new Switch("How the picture is shaded", (shade) => {
      this.#shade = shade;
      this.#draw();
    });
    this.shades.show(SHADES, this.#shade);
    this.scales = new Switch("Scale of the small maps", (scale) => {
      this.#scale = scale;
      this.#drawHeads();
    });
    this.outcome = new Outcome(kinds.length ? (kept) => this.onChange(kept) : null);
    this.candidates = new Candidates();
    this.#compose();
    whenThemeChanges(() => {
      this.grid.repaint();
      if (this.#reading) this.#draw();
    });
  }

  /** Draw a look document. */
  show(look) {
    const isFirst = this.#reading === null;
    this.#reading = new PatchReading(look);
    this.#wording = wordingOf(look);
    this.#changes = look.changes;
    this.image.src = look.source.picture.image;
    this.image.alt = `The picture: ${look.target.text}`;
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
    this.image = make("img", { class: "picture-image", draggable: "false" });
    this.shade = make("canvas", { class: "picture-shade patches", "aria-hidden": "true" });
    this.mark = make("div", { class: "picture-mark", hidden: true });
    this.frame = make(
      "div",
      {
        class: "picture-frame",
        tabindex: 0,
        role: "application",
        "aria-label": "The picture: arrow keys move from patch to patch, Enter keeps one, Escape lets go",
        on: {
          pointermove: (event) => this.#point(this.#under(event)),
          pointerleave: () => this.#point(null),
          click: (event) => this.#hold(this.#under(event)),
          blur: () => this.#point(null),
          keydown: (event) => this.#key(event),
        },
      },
      this.image,
      this.shade,
      this.mark,
    );
    this.title = make("h2", { class: "shown-title" });
    this.told = make("p", { class: "readout", role: "status" });
    this.scaleLine = make("p", { class: "hint patch-scale" });
    this.answer = make("p", { class: "patch-answer" });
    this.notes = make("ul", { class: "notes", "aria-label": "Notes", hidden: true });
    const controls = [this.sources, this.layers, this.heads, this.queries, this.shades];
    const menus = controls.map(({ element }) => element);
    const text = make(
      "div",
      { class: "picture-text" },
      this.answer,
      make("div", { class: "picture-menus" }, ...menus, info.button),
      info.note,
      this.title,
      this.told,
      this.scaleLine,
      this.outcome.element,
      this.notes,
    );
    const stage = make("section", { class: "card stage", "aria-label": "Attention between patches" });
    stage.append(make("div", { class: "picture-view" }, this.frame, text));
    this.hint = make("p", { class: "hint" });
    const tools = make("div", { class: "card-tools" }, this.scales.element, this.wishes.element);
    const head = make("div", { class: "card-head" }, make("h2", {}, "Heads"), tools);
    this.headCard = make("section", { class: "card heads-card" }, head, this.hint, this.grid.element);
    this.element.classList.add("regard-view");
    this.element.replaceChildren(stage, this.headCard, this.candidates.element);
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
    const numbers = (count) => Array.from({ length: count }, (_, at) => ({ value: String(at), label: String(at) }));
    this.sources.show(layers > 1 ? SOURCES : [], source);
    this.layers.show(numbers(layers), String(layer));
    const average = { value: ALL, label: "average" };
    this.heads.show(source === "rollout" || own < 2 ? [] : [average, ...numbers(own)], String(head ?? ALL));
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
    this.#drawShade(looked);
    this.#drawMark(query);
    const name = this.#queryName(query);
    const shown = source === "rollout" ? `rollout of layers 0 to ${layer}` : who(this.#choice);
    this.title.textContent = `What ${name} looked at: ${shown}`;
    this.told.textContent = this.#tell(looked);
  }

  #drawShade({ grid: [rows, columns], weights }) {
    this.shade.width = columns;
    this.shade.height = rows;
    const pen = this.shade.getContext("2d");
    const cover = pen.createImageData(columns, rows);
    const most = Math.max(...weights, 1e-9);
    const coloured = this.#shade === "colour";
    const ink = coloured ? getComputedStyle(this.shade).color.match(/[\d.]+/g).slice(0, 3).map(Number) : [0, 0, 0];
    weights.forEach((weight, patch) => {
      const share = shade(weight / most);
      cover.data.set([...ink, Math.round(255 * STRONGEST * (coloured ? share : 1 - share))], 4 * patch);
    });
    pen.putImageData(cover, 0, 0);
    const [strong, none] = coloured ? ["most coloured", "Those without colour"] : ["brightest", "The darkest"];
    this.scaleLine.textContent = `The ${strong} patch was given ${percent(most)}. ${none} got nothing.`;
  }

  #drawMark(query) {
    this.mark.hidden = !Array.isArray(query);
    if (this.mark.hidden) return;
    const [rows, columns] = this.#grid;
    const patch = patchAt(query, [rows, columns]);
    const [row, column] = [Math.floor(patch / columns), patch % columns];
    Object.assign(this.mark.style, {
      top: `${(100 * row) / rows}%`,
      left: `${(100 * column) / columns}%`,
      height: `${100 / rows}%`,
      width: `${100 / columns}%`,
    });
  }

  /** The grid of who looks. */
  get #grid() {
    return this.#reading.grid(this.#choice.layer);
  }

  #tell({ grid: [, columns], weights, rest }) {
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
    const named = order.map((patch) => {
      return `row ${Math.floor(patch / columns) + 1} column ${(patch % columns) + 1}: ${percent(weights[patch])}`;
    });
    const own = rest > 0.005 ? `; ${percent(rest)} on the class token itself` : "";
    return `Most at ${named.join(", ")}${own}. Point at a patch to see what it looked at.`;
  }

  #queryName(query) {
    if (!Array.isArray(query)) return NAMES[query];
    const [rows, columns] = this.#grid;
    const patch = patchAt(query, [rows, columns]);
    return `the patch in row ${Math.floor(patch / columns) + 1}, column ${(patch % columns) + 1}`;
  }

  #drawHeads() {
    const { layers } = this.#reading.size("encoder");
    this.headCard.hidden = layers < 2 && this.#reading.size("encoder").heads < 2;
    const options = { changes: this.#changes, other: this.#wording.other, own: this.#scale === "own", colours: new Map() };
    this.grid.show(this.#reading, { ...this.#choice, segments: this.#choice.query }, options);
    this.headCard.classList.toggle("wide", this.#reading.size("encoder").heads > 8);
    this.wishes.show(this.kinds.includes("silence") ? [WISHES.look, WISHES.silence] : [], this.#wish);
    this.scales.show(SCALES.toReversed(), this.#scale);
    const scale = this.#scale === "own" ? "each on its own scale" : "all on one scale, up to 100 %";
    const dot = this.grid.marksSome() ? ` A dot: without it ${this.#wording.other}.` : "";
    this.hint.textContent = `Each small map is what ${this.#queryName(this.#choice.query)} looked at in a head, ${scale}.${dot}`;
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
    const patch = (one) => Array.isArray(one) && patchAt(one, this.#grid);
    const again = Array.isArray(query) && patch(query) === patch(this.#choice.query);
    this.#pointed = null;
    if (query === "patch") return;
    this.#choose({ query: again ? this.#reading.queries[0] : query });
  }

  /** The place of the pointer, in shares of the picture. */
  #under(event) {
    const box = this.frame.getBoundingClientRect();
    return [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
  }

  #key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") this.#hold(null, this.#reading.queries[0]);
    if (event.key === "Enter" && this.#pointed) this.#hold(this.#pointed);
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const now = this.#pointed ?? (Array.isArray(this.#choice.query) ? this.#choice.query : null);
    const [rows, columns] = this.#grid;
    const patch = now === null ? 0 : patchAt(now, [rows, columns]);
    const move = (at, by, count) => (Math.min(count - 1, Math.max(0, at + (now ? by : 0))) + 0.5) / count;
    this.#point([move(Math.floor(patch / columns), step[0], rows), move(patch % columns, step[1], columns)]);
  }
}
