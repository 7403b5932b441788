/** A look document, ready to be asked for the maps that are drawn. */

import { LayerMaps } from "./layer_maps.js";

export const VERSION = 2;
export const PARTS = ["cross", "encoder", "decoder"];
const SPACE = "\u2581";
const LINE_END = "<0x0A>";
const REMEMBERED = 24; // maps of single heads: those of a layer, mostly

/**
 * A row or column of a map.
 * @typedef {Object} Item
 * @property {string} text
 * @property {"word"|"piece"|"special"} kind
 * @property {number} number of the word or piece in its sentence
 * @property {number} place of its first piece
 * @property {boolean} joined whether it goes on with the word of the item before it
 * @property {boolean} continued whether the next item goes on with its word
 * @property {number|null} sink the share that rests here whatever the row; null: it is no sink
 * @property {string|null} begins the name of the segment that it is the first of
 *
 * A map as it is drawn: `values` goes row by row.
 * @typedef {{rows: Item[], columns: Item[], values: Float32Array}} Shown
 *
 * What is looked at: an absent layer or head (null) stands for the average, and `segments` are the
 * segments that look and are looked at, null: all.
 * @typedef {{part: string, layer: number|null, head: number|null, unit: "words"|"pieces",
 *   segments?: [number|null, number|null]}} Choice
 */

export class Reading {
  #layers;
  #maps = new Map();

  /** @param {Object} look a look document, as `tasks/families/viewer_document.py` has it */
  constructor(look) {
    if (look.version !== VERSION) {
      throw new Error(`a look document of version ${look.version}; this viewer draws ${VERSION}`);
    }
    this.look = look;
    /** The parts that the model has. */
    this.parts = PARTS.filter((part) => part in look.parts);
    const layers = (part) => look.parts[part].layers.map((layer) => new LayerMaps(layer));
    this.#layers = new Map(this.parts.map((part) => [part, layers(part)]));
  }

  /** How many layers, heads, rows and columns of pieces a part has; the most, where layers differ. */
  size(part) {
    const layers = this.#layers.get(part);
    const most = (name) => Math.max(0, ...layers.map((layer) => layer[name]));
    const [heads, rows, columns] = ["heads", "rows", "columns"].map(most);
    return { layers: layers.length, heads, rows, columns };
  }

  /** One layer of a part. @returns {LayerMaps} */
  layer(part, layer) {
    return this.#layers.get(part)[layer];
  }

  /** Whether maps of this part can be averaged over its layers: these have rows and columns alike. */
  averages(part) {
    const [first, ...others] = this.#layers.get(part);
    const alike = ({ rows, columns }) => rows === first.rows && columns === first.columns;
    return others.every(alike);
  }

  /** How many numbers all maps of a part hold. */
  cells(part) {
    const counts = this.#layers.get(part).map(({ heads, rows, columns }) => heads * rows * columns);
    return sum(counts);
  }

  /**
   * One map between pieces, row by row; null stands for the average over layers or heads. Rows that
   * are not among those `wanted`, if any are named, may be zeros.
   */
  pieces(part, layer, head, wanted = null) {
    const chosen = this.#places(part, layer, head);
    if (chosen.length === 1) return this.#map(part, ...chosen[0], wanted);
    const { rows, columns } = this.layer(part, chosen[0][0]);
    const mean = new Float32Array(rows * columns);
    const share = 1 / chosen.length;
    for (const [one, other] of chosen) {
      const map = this.#map(part, one, other, wanted);
      for (let cell = 0; cell < mean.length; cell += 1) mean[cell] += share * map[cell];
    }
    return mean;
  }

  /** The map of one head, of which the last few are kept if all rows are wanted. */
  #map(part, layer, head, wanted) {
    const key = `${part}.${layer}.${head}`;
    const kept = this.#maps.get(key);
    if (wanted !== null) return kept ?? this.layer(part, layer).map(head, wanted);
    const map = kept ?? this.layer(part, layer).map(head);
    this.#maps.delete(key);
    this.#maps.set(key, map);
    if (this.#maps.size > REMEMBERED) this.#maps.delete(this.#maps.keys().next().value);
    return map;
  }

  /** The `layer, head` pairs that a choice averages. */
  #places(part, layer, head) {
    const layers = this.#layers.get(part);
    const pairs = layers.flatMap(({ heads }, one) => [...Array(heads).keys()].map((other) => [one, other]));
    return pairs.filter(([one, other]) => (layer ?? one) === one && (head ?? other) === other);
  }

  /**
   * The map of a choice, by words or by pieces. The pieces of a column's word are summed, those of
   * a row's averaged. A sink stands apart from the word that it is in.
   * @param {Choice} choice
   * @param {number} most rows: of more, some are left out, evenly
   * @param {Map<number, number>} sinks that stand apart: those of the choice
   * @returns {Shown}
   */
  shown(choice, most = Infinity, sinks = this.sinks(choice.part, choice.layer, choice.head)) {
    const { part, layer, head, unit, segments = [null, null] } = choice;
    const { rows, columns } = this.axes(part, layer);
    const byWords = unit === "words" && rows.words.length > 0 && columns.words.length > 0;
    const all = within(byWords ? wordGroups(rows) : pieceGroups(rows), rows, segments[0]);
    const every = Math.ceil(all.length / most) || 1;
    const down = every === 1 ? all : all.filter((_, row) => row % every === 0);
    const groups = byWords ? wordGroups(columns, sinks) : pieceGroups(columns, sinks);
    const across = within(groups, columns, segments[1]);
    const wanted = every === 1 ? null : new Set(down.flatMap(({ members }) => members));
    const values = this.pieces(part, layer, head, wanted);
    return {
      rows: down.map((group) => group.item),
      columns: across.map((group) => group.item),
      values: merge(values, columns.pieces.length, down, across),
    };
  }

  /** The weights of a choice where the sinks of another stand apart, so that their columns are alike. */
  valuesAt(choice, { part, layer, head }) {
    return this.shown(choice, Infinity, this.sinks(part, layer, head)).values;
  }

  /** The segments along the two sides of a part: none where a side is one sentence. */
  segments(part) {
    const { rows, columns } = this.axes(part);
    return { rows: rows.segments ?? [], columns: columns.segments ?? [] };
  }

  /** The sentences along the two sides of a part: what looks, and what is looked at. */
  axes(part, layer = null) {
    const { source, target, given, given_word_of: wordOf } = this.look;
    const { grid, rows } = this.layer(part, layer ?? 0);
    if (part === "encoder") {
      const own = grid === null || rows === source.pieces.length ? source : patches(grid);
      return { rows: own, columns: own };
    }
    if (part === "cross") return { rows: target, columns: source };
    const columns = { ...target, pieces: given, word_of: wordOf };
    return { rows: target, columns };
  }

  /** The sinks of at least half of the chosen heads, as a map from column to mean share. */
  sinks(part, layer, head) {
    const chosen = new Set(this.#places(part, layer, head).map(String));
    const shares = new Map();
    for (const sink of this.look.sinks) {
      if (sink.part !== part || !chosen.has(`${sink.layer},${sink.head}`)) continue;
      shares.set(sink.column, [...(shares.get(sink.column) ?? []), sink.share]);
    }
    const common = [...shares].filter(([, found]) => 2 * found.length >= chosen.size);
    return new Map(common.map(([column, found]) => [column, sum(found) / found.length]));
  }

  /** Whether the translation is known to be another one without a head (null: all of a layer). */
  matters(part, layer, head) {
    const { without, target } = this.look;
    const isAsked = (one) => one.part === part && one.layer === layer && one.head === head;
    const found = without.find(isAsked);
    return found !== undefined && this.#meant(found.text) !== this.#meant(target.text);
  }

  /** What counts of an answer: of a class its name, not how likely it is. */
  #meant(text) {
    return this.look.kind === "class" ? text.replace(/ [\d.]+%$/, "") : text;
  }

  /**
   * The alignment's links between the items of a map by words.
   * @param {Shown} shown
   * @returns {[number, number][]} columns and rows
   */
  links({ rows, columns }) {
    const [column, row] = [wordPlaces(columns), wordPlaces(rows)];
    const links = this.look.alignment?.links ?? [];
    return links.map(([source, target]) => [column.get(source), row.get(target)]);
  }
}

/** A piece as people read it: without the mark of the space before it, and with one of line ends. */
export function legible(piece) {
  if (piece === LINE_END) return "↵";
  return piece.replaceAll(SPACE, " ").trim() || "␣";
}

/** The places of a grid of patches, as an axis. */
function patches([rows, columns]) {
  const pieces = Array.from({ length: rows * columns }, (_, place) => {
    return `${Math.floor(place / columns)},${place % columns}`;
  });
  return { pieces, words: pieces, word_of: pieces.map((_, place) => place) };
}

/** The groups of one segment, or of all; the first of each segment says so. */
function within(groups, { segments = [] }, wanted) {
  if (!segments?.length) return groups;
  const segmentOf = ({ item }) =>
    segments.findIndex(({ start, end }) => item.place >= start && item.place < end);
  let last = -1;
  return groups.flatMap((group) => {
    const segment = segmentOf(group);
    if (wanted !== null && segment !== wanted) return [];
    const begins = segment !== last && segment >= 0 ? segments[segment].name : null;
    last = segment;
    return [{ ...group, item: { ...group.item, begins } }];
  });
}

/** Where each word stands among some items. */
function wordPlaces(items) {
  const places = new Map();
  items.forEach(({ kind, number }, place) => kind === "word" && places.set(number, place));
  return places;
}

/**
 * Groups of pieces, each with the item that stands for it: a word and its pieces. A piece that is a
 * sink stands alone behind its word, unless it is all of the word; other pieces of no word are left
 * out.
 */
function wordGroups({ pieces, words, word_of: wordOf }, sinks = new Map()) {
  const own = words.map(() => []);
  wordOf.forEach((word, place) => word !== null && own[word].push(place));
  const apart = (place) => pieceGroup(pieces[place], place, wordOf, sinks);
  const alone = [...sinks.keys()].filter((place) => wordOf[place] === null);
  const before = alone.filter((place) => wordOf.slice(0, place).every((word) => word === null));
  const behind = alone.filter((place) => !before.includes(place));
  const groups = words.flatMap((text, number) => {
    const meant = own[number].filter((place) => !sinks.has(place));
    const parked = meant.length ? own[number].filter((place) => sinks.has(place)) : [];
    const shares = meant.length ? [] : own[number].map((place) => sinks.get(place));
    const sink = shares.length ? sum(shares) : null;
    const members = meant.length ? meant : own[number];
    const place = members[0] ?? 0;
    const flags = { joined: false, continued: false, begins: null };
    const item = { text, kind: "word", number, place, ...flags, sink };
    return [{ item, members }, ...parked.map(apart)];
  });
  return [...before.map(apart), ...groups, ...behind.map(apart)];
}

function pieceGroups({ pieces, word_of: wordOf }, sinks = new Map()) {
  return pieces.map((piece, place) => pieceGroup(piece, place, wordOf, sinks));
}

function pieceGroup(piece, place, wordOf, sinks) {
  const word = wordOf[place];
  const kind = word === null ? "special" : "piece";
  const goesOn = (other) => word !== null && wordOf[other] === word;
  const [joined, continued] = [goesOn(place - 1), goesOn(place + 1)];
  const sink = sinks.get(place) ?? null;
  const text = legible(piece);
  const item = { text, kind, number: place, place, joined, continued, begins: null, sink };
  return { item, members: [place] };
}

/** Sums over the members of columns, means over those of rows. */
function merge(values, width, down, across) {
  const columnOf = new Int32Array(width).fill(-1);
  across.forEach(({ members }, column) => members.forEach((place) => (columnOf[place] = column)));
  const merged = new Float32Array(down.length * across.length);
  down.forEach(({ members }, row) => {
    const share = 1 / members.length;
    const first = row * across.length;
    for (const piece of members) {
      for (let place = 0; place < width; place += 1) {
        const column = columnOf[place];
        if (column >= 0) merged[first + column] += share * values[piece * width + place];
      }
    }
  });
  return merged;
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
