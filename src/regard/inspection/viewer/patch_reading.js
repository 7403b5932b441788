/** A look document of a picture that was read in patches: what one of them looked at, as a picture. */

import { cellAt } from "./grid_cells.js";
import { Reading } from "./reading.js";

const PART = "encoder";

/**
 * Who looks: the class token, all patches on average, or the patch at a place of the picture, given
 * in shares of its height and width, as layers may have grids of their own.
 * @typedef {"class"|"mean"|[number, number]} Query
 * The weights of a grid of patches, and what is left for tokens that are no patches.
 * @typedef {{grid: [number, number], weights: Float32Array, rest: number}} Looked
 */

export class PatchReading extends Reading {
  #rollouts = [];

  /** How many tokens that are no patches stand before them. */
  get first() {
    return this.look.source.picture.first;
  }

  /** The grid of a layer. */
  grid(layer) {
    return this.layer(PART, layer).grid;
  }

  /** Who may look, the one that the answer is read off first. */
  get queries() {
    return this.first ? ["class", "mean"] : ["mean"];
  }

  /**
   * What a query looked at in a layer and head; no head (null): the average.
   * @param {{layer: number, head: number|null, query: Query}} choice
   * @returns {Looked}
   */
  looked({ layer, head, query }) {
    const map = this.pieces(PART, layer, head);
    return this.#row(map, this.grid(layer), this.layer(PART, layer).columns, query, this.grid(layer));
  }

  /**
   * What a query looked at when it is traced back through all layers up to one: each looks half at
   * what it attends to and half at itself (Abnar and Zuidema 2020, section 3).
   * @returns {Looked}
   */
  rollout({ layer, query }) {
    const map = this.#rollout(layer);
    return this.#row(map, this.grid(layer), this.layer(PART, 0).columns, query, this.grid(0));
  }

  /** Small maps of heads, as `HeadGrid` asks for them. */
  shown({ layer, head, query }) {
    const { grid, weights } = this.looked({ layer, head, query });
    const items = (count) => Array.from({ length: count }, () => ({ sink: null }));
    return { rows: items(grid[0]), columns: items(grid[1]), values: weights };
  }

  /** The row of a query, or the mean of all patches' rows, over a grid of patches. */
  #row(map, [rows, columns], width, query, grid) {
    const patches = rows * columns;
    const sum = new Float32Array(width);
    const chosen = this.#places(query, rows, columns, patches);
    for (const place of chosen) {
      for (let at = 0; at < width; at += 1) sum[at] += map[place * width + at] / chosen.length;
    }
    const rest = sum.subarray(0, this.first).reduce((total, weight) => total + weight, 0);
    return { grid, weights: sum.slice(this.first), rest };
  }

  #places(query, rows, columns, patches) {
    if (query === "class") return [0];
    if (query === "mean") return Array.from({ length: patches }, (_, patch) => this.first + patch);
    return [this.first + cellAt(query, [rows, columns])];
  }

  /** The product of all layers up to one, row by row: what each of its places saw of the first grid. */
  #rollout(layer) {
    if (this.#rollouts[layer]) return this.#rollouts[layer];
    const { rows } = this.layer(PART, layer);
    const width = this.layer(PART, 0).columns;
    const before = layer === 0 ? identity(width) : this.#merged(layer);
    const map = this.pieces(PART, layer, null);
    const product = new Float32Array(rows * width);
    for (let row = 0; row < rows; row += 1) {
      for (let middle = 0; middle < rows; middle += 1) {
        const share = (map[row * rows + middle] + (row === middle ? 1 : 0)) / 2;
        if (share === 0) continue;
        for (let at = 0; at < width; at += 1) product[row * width + at] += share * before[middle * width + at];
      }
    }
    return (this.#rollouts[layer] = product);
  }

  /** The rollout before a layer: where patches were merged, the mean of those that became one. */
  #merged(layer) {
    const before = this.#rollout(layer - 1);
    const [from, to] = [this.grid(layer - 1), this.grid(layer)];
    const step = from[0] / to[0];
    if (step === 1) return before;
    const width = this.layer(PART, 0).columns;
    const merged = new Float32Array(to[0] * to[1] * width);
    for (let patch = 0; patch < from[0] * from[1]; patch += 1) {
      const [row, column] = [Math.floor(patch / from[1] / step), Math.floor((patch % from[1]) / step)];
      const target = (row * to[1] + column) * width;
      for (let at = 0; at < width; at += 1) merged[target + at] += before[patch * width + at] / step ** 2;
    }
    return merged;
  }
}

function identity(size) {
  const map = new Float32Array(size * size);
  for (let place = 0; place < size; place += 1) map[place * size + place] = 1;
  return map;
}
