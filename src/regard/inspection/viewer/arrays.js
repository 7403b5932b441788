/** Arrays in base64, as `inspection/viewer/layer_maps.py` writes them. */

/** @param {string} text in base64 @returns {Uint8Array} */
export function bytes(text) {
  const letters = atob(text);
  const found = new Uint8Array(letters.length);
  for (let at = 0; at < found.length; at += 1) found[at] = letters.charCodeAt(at);
  return found;
}

/** @param {string} text @returns {Float32Array} of numbers of 32 bits */
export function singles(text) {
  return new Float32Array(bytes(text).buffer);
}

/** @param {string} text @returns {Uint16Array} */
export function shorts(text) {
  return new Uint16Array(bytes(text).buffer);
}

/** @param {string} text @returns {Float32Array} of numbers of 16 bits */
export function halves(text) {
  const table = halfTable();
  const codes = shorts(text);
  const found = new Float32Array(codes.length);
  for (let at = 0; at < found.length; at += 1) found[at] = table[codes[at]];
  return found;
}

/** The number of each code of IEEE 754's 16 bits: made once. */
function halfTable() {
  halfTable.made ??= Float32Array.from({ length: 65536 }, (_, code) => {
    const sign = code & 0x8000 ? -1 : 1;
    const exponent = (code >> 10) & 31;
    const fraction = code & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  });
  return halfTable.made;
}
