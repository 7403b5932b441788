/** A look document of a caption: how much its words looked at the regions of the picture. */

import { LayerMaps } from "./layer_maps.js";

/**
 * Whose look: no layer or head (null) is the average of them, no word all words on average.
 * @typedef {{layer: number|null, head: number|null, word: number|null}} Choice
 */

export class CaptionReading {
  #maps; // of each layer and head: a row of regions for each word

  /** @param {Object} look a document of `CaptionAnswer.render` */
  constructor(look) {
    const layers = look.layers.map((layer) => new LayerMaps(layer));
    this.look = look;
    this.layers = layers.length;
    this.heads = layers[0].heads;
    this.words = layers[0].rows;
    this.regions = layers[0].columns;
    this.#maps = layers.map((layer) => Array.from({ length: layer.heads }, (_, head) => layer.map(head)));
  }

  /**
   * The shares of all regions, from 0 to 1.
   * @param {Choice} choice
   */
  looked({ layer, head, word }) {
    const shares = new Float32Array(this.regions);
    const maps = chosen(layer, this.layers).flatMap((l) => chosen(head, this.heads).map((h) => this.#maps[l][h]));
    const words = chosen(word, this.words);
    for (const map of maps) {
      for (const row of words) {
        for (let at = 0; at < this.regions; at += 1) shares[at] += map[row * this.regions + at];
      }
    }
    return shares.map((sum) => sum / Math.max(maps.length * words.length, 1));
  }

  /** How much each word looked at a region, in a layer and head. */
  looking({ layer, head }, region) {
    return chosen(null, this.words).map((word) => this.looked({ layer, head, word })[region]);
  }

  // -- what `HeadGrid` asks for ------------------------------------------------------------------

  size() {
    return { layers: this.layers, heads: this.heads };
  }

  layer() {
    return { heads: this.heads };
  }

  cells() {
    return this.layers * this.heads * this.words * this.regions;
  }

  matters() {
    return false; // what is said without a head is not in the document
  }

  shown({ layer, head, segments: word }) {
    const items = (count) => Array.from({ length: count }, () => ({ sink: null }));
    const [rows, columns] = this.look.grid;
    return { rows: items(rows), columns: items(columns), values: this.looked({ layer, head, word }) };
  }
}

/** The number, or all of them. */
function chosen(number, count) {
  return number === null ? [...Array(count).keys()] : [number];
}
