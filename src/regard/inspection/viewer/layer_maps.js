/** The maps of one layer: weights as they were stored, or computed from queries and keys. */

import { bytes, halves, shorts, singles } from "./arrays.js";

const LEVELS = 255; // the byte of the largest weight of a row

/**
 * The queries and keys of a head.
 * @typedef {{queries: Float32Array, keys: Float32Array, width: number, scale: number}} Vectors
 */

export class LayerMaps {
  #layer;
  #unpacked = new Map();

  /** @param {Object} layer a `ViewerLayer` of `inspection/viewer/layer_maps.py` */
  constructor(layer) {
    this.#layer = layer;
    [this.heads, this.rows, this.columns] = layer.shape;
    /** Rows and columns of the patches of a picture; null: of no picture. */
    this.grid = layer.grid;
    this.causal = layer.causal;
    this.hasVectors = layer.queries !== null;
  }

  /**
   * The weights of a head, row by row.
   * @param {number} head
   * @param {Set<number>|null} wanted rows: the others may be zeros; null: all
   * @returns {Float32Array}
   */
  map(head, wanted = null) {
    return this.#layer.weights === null ? this.#computed(head, wanted) : this.#stored(head);
  }

  /** @param {number} head @returns {Vectors} */
  vectors(head) {
    const queries = this.#unpack("queries", halves);
    const keys = this.#unpack("keys", halves);
    const width = queries.length / (this.heads * this.rows);
    const part = (all, count) => all.subarray(head * count * width, (head + 1) * count * width);
    return {
      queries: part(queries, this.rows),
      keys: part(keys, this.columns),
      width,
      scale: this.#layer.scale,
    };
  }

  /** What is added to the scores of a row: null if nothing is. @returns {Float32Array|null} */
  bias(head, row) {
    if (this.#layer.bias === null) return null;
    const bias = this.#unpack("bias", halves);
    const width = bias.length / (this.heads * this.rows);
    const first = (head * this.rows + row) * width;
    return this.#inPlace(row, bias.subarray(first, first + width));
  }

  #stored(head) {
    const { rows, columns } = this;
    const levels = this.#unpack("weights", bytes);
    const peaks = this.#unpack("peaks", singles);
    const width = levels.length / Math.max(1, this.heads * rows);
    const map = new Float32Array(rows * columns);
    const seen = this.#layer.seen === null ? null : this.#unpack("seen", shorts);
    for (let row = 0; row < rows; row += 1) {
      const first = (head * rows + row) * width;
      const unit = peaks[head * rows + row] / LEVELS;
      for (let n = 0; n < width; n += 1) {
        map[row * columns + (seen === null ? n : seen[row * width + n])] = levels[first + n] * unit;
      }
    }
    return map;
  }

  #computed(head, wanted) {
    const { rows, columns } = this;
    const { queries, keys, width, scale } = this.vectors(head);
    const map = new Float32Array(rows * columns);
    for (let row = 0; row < rows; row += 1) {
      if (wanted && !wanted.has(row)) continue;
      const count = this.causal ? row + 1 : columns;
      const query = queries.subarray(row * width, (row + 1) * width);
      softmax(map.subarray(row * columns, row * columns + count), query, keys, scale);
    }
    return map;
  }

  /** The values of the columns that a row sees, each at its column. */
  #inPlace(row, values) {
    if (this.#layer.seen === null) return values;
    const seen = this.#unpack("seen", shorts);
    const placed = new Float32Array(this.columns);
    values.forEach((value, n) => (placed[seen[row * values.length + n]] = value));
    return placed;
  }

  #unpack(name, read) {
    if (!this.#unpacked.has(name)) this.#unpacked.set(name, read(this.#layer[name]));
    return this.#unpacked.get(name);
  }
}

/** Write the softmax of scale * (query · key), for as many keys as `weights` has room for. */
function softmax(weights, query, keys, scale) {
  const width = query.length;
  let most = -Infinity;
  for (let column = 0, at = 0; column < weights.length; column += 1, at += width) {
    const score = scale * dot(query, keys, at, width);
    weights[column] = score;
    if (score > most) most = score;
  }
  let total = 0;
  for (let column = 0; column < weights.length; column += 1) {
    total += weights[column] = Math.exp(weights[column] - most);
  }
  for (let column = 0; column < weights.length; column += 1) weights[column] /= total;
}

/** The product of a query with the key that begins at `at`: four sums at once are faster. */
function dot(query, keys, at, width) {
  let [a, b, c, d] = [0, 0, 0, 0];
  let n = 0;
  for (; n + 3 < width; n += 4) {
    a += query[n] * keys[at + n];
    b += query[n + 1] * keys[at + n + 1];
    c += query[n + 2] * keys[at + n + 2];
    d += query[n + 3] * keys[at + n + 3];
  }
  for (; n < width; n += 1) a += query[n] * keys[at + n];
  return a + b + c + d;
}
