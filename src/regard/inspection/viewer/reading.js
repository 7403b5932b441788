/** A look document, ready to be asked for the maps that are drawn. */

export const VERSION = 1;
export const PARTS = ["cross", "encoder", "decoder"];
const SPACE = "\u2581";
const LINE_END = "<0x0A>";

/**
 * A row or column of a map.
 * @typedef {Object} Item
 * @property {string} text
 * @property {"word"|"piece"|"special"} kind
 * @property {number} number of the word or piece in its sentence
 * @property {boolean} joined whether it goes on with the word of the item before it
 * @property {boolean} continued whether the next item goes on with its word
 * @property {number|null} sink the share that rests here whatever the row; null: it is no sink
 *
 * A map as it is drawn: `values` goes row by row.
 * @typedef {{rows: Item[], columns: Item[], values: Float32Array}} Shown
 *
 * What is looked at: an absent layer or head (null) stands for the average.
 * @typedef {{part: string, layer: number|null, head: number|null, unit: "words"|"pieces"}} Choice
 */

export class Reading {
  #bytes;

  /** @param {Object} look a look document, as `pipelines/viewer_document.py` has it */
  constructor(look) {
    if (look.version !== VERSION) {
      throw new Error(`a look document of version ${look.version}; this viewer draws ${VERSION}`);
    }
    this.look = look;
    /** The parts that the model has. */
    this.parts = PARTS.filter((part) => part in look.parts);
    this.#bytes = new Map(this.parts.map((part) => [part, unpack(look.parts[part].weights)]));
  }

  /** How many layers, heads, rows and columns of pieces a part has. */
  size(part) {
    const [layers, heads, rows, columns] = this.look.parts[part].shape;
    return { layers, heads, rows, columns };
  }

  /** One map between pieces, row by row; null stands for the average over layers or heads. */
  pieces(part, layer, head) {
    const { layers, heads, rows, columns } = this.size(part);
    const cells = rows * columns;
    const bytes = this.#bytes.get(part);
    const mean = new Float32Array(cells);
    const chosen = places(layers, heads, layer, head);
    for (const [one, other] of chosen) {
      const first = (one * heads + other) * cells;
      for (let cell = 0; cell < cells; cell += 1) mean[cell] += bytes[first + cell];
    }
    const scale = 255 * chosen.length;
    return mean.map((sum) => sum / scale);
  }

  /**
   * The map of a choice, by words or by pieces. The pieces of a column's word are summed, those of
   * a row's averaged. A sink stands apart from the word that it is in.
   * @param {Choice} choice
   * @returns {Shown}
   */
  shown({ part, layer, head, unit }) {
    const { rows, columns } = this.axes(part);
    const values = this.pieces(part, layer, head);
    const sinks = this.sinks(part, layer, head);
    const byWords = unit === "words" && rows.words.length > 0 && columns.words.length > 0;
    const down = byWords ? wordGroups(rows) : pieceGroups(rows);
    const across = byWords ? wordGroups(columns, sinks) : pieceGroups(columns, sinks);
    return {
      rows: down.map((group) => group.item),
      columns: across.map((group) => group.item),
      values: merge(values, columns.pieces.length, down, across),
    };
  }

  /** The sentences along the two sides of a part: what looks, and what is looked at. */
  axes(part) {
    const { source, target, given, given_word_of: wordOf } = this.look;
    if (part === "encoder") return { rows: source, columns: source };
    if (part === "cross") return { rows: target, columns: source };
    return { rows: target, columns: { pieces: given, words: target.words, word_of: wordOf } };
  }

  /** The sinks of at least half of the chosen heads, as a map from column to mean share. */
  sinks(part, layer, head) {
    const { layers, heads } = this.size(part);
    const chosen = new Set(places(layers, heads, layer, head).map(String));
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
    return found !== undefined && found.text !== target.text;
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

/** The `layer, head` pairs that a choice averages. */
function places(layers, heads, layer, head) {
  const pairs = [];
  for (let one = 0; one < layers; one += 1) {
    for (let other = 0; other < heads; other += 1) {
      if ((layer ?? one) === one && (head ?? other) === other) pairs.push([one, other]);
    }
  }
  return pairs;
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
    const item = { text, kind: "word", number, joined: false, continued: false, sink };
    return [{ item, members: meant.length ? meant : own[number] }, ...parked.map(apart)];
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
  const item = { text: legible(piece), kind, number: place, joined, continued, sink };
  return { item, members: [place] };
}

/** Sums over the members of columns, means over those of rows. */
function merge(values, width, down, across) {
  const merged = new Float32Array(down.length * across.length);
  down.forEach((row, r) => {
    across.forEach((column, c) => {
      let sum = 0;
      for (const i of row.members) for (const j of column.members) sum += values[i * width + j];
      merged[r * across.length + c] = sum / Math.max(1, row.members.length);
    });
  });
  return merged;
}

function unpack(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
