/** The state of the page, and its form in the fragment of a URL, which servers do not see. */

/**
 * @typedef {"cross" | "encoder" | "decoder"} Part
 * @typedef {{kind: "silence" | "flatten", part: Part, layer: number,
 *   head: number | null}} HeadChange
 * @typedef {{kind: "force", target: number, source: number, layer: number | null,
 *   head: number | null}} LinkChange words are counted from 0
 * @typedef {HeadChange | LinkChange} Change
 * @typedef {{part: Part | null, layer: number | null, head: number | null,
 *   unit: "words" | "pieces", picture: "lines" | "map" | "neurons",
 *   heads: [number, number][]}} Choice of what is shown; no layer or head: the average; no part: a
 *   model without attention; `heads` are compared, each a layer and a head
 * @typedef {{text: string, source: string, target: string, sentence: number,
 *   choice: Choice | null, changes: Change[]}} PageState `sentence` is the selected one, from 0
 */

const PARTS = ["cross", "encoder", "decoder"];
const ALL = "*";

/** Longer links are cut short by mail programs and messengers. */
export const LINK_LIMIT = 8000;

/** @param {number | null} number */
const write = (number) => number ?? ALL;

/** @param {string | undefined} field with a number: null for all, undefined if malformed */
function read(field) {
  if (field === ALL) return null;
  return /^\d{1,4}$/.test(field ?? "") ? Number(field) : undefined;
}

/** @param {Change} change */
function writeChange(change) {
  const { kind, layer, head } = change;
  const what = kind === "force" ? [change.target, change.source] : [change.part];
  return [kind, ...what, write(layer), write(head)].join(".");
}

/**
 * @param {string} text
 * @returns {Change | null} null if malformed
 */
function readChange(text) {
  const [kind, ...fields] = text.split(".");
  if (kind === "force") {
    const [target, source, layer, head] = fields.map(read);
    const named = typeof target === "number" && typeof source === "number";
    if (!named || layer === undefined || head === undefined) return null;
    return { kind, target, source, layer, head };
  }
  const place = readPlace(fields);
  if ((kind !== "silence" && kind !== "flatten") || !place || place.layer === null) return null;
  return { kind, ...place };
}

/**
 * @param {string[]} fields a part, a layer and a head
 * @returns {{part: Part, layer: number | null, head: number | null} | null}
 */
function readPlace([part, ...numbers]) {
  const [layer, head] = numbers.map(read);
  if (!PARTS.includes(part) || layer === undefined || head === undefined) return null;
  return { part: /** @type {Part} */ (part), layer, head };
}

/**
 * @param {string} text such as `cross.1.*.words.lines`, and heads that are compared: `.0-3_1-5`
 * @returns {Choice | null}
 */
function readChoice(text) {
  const [part, layer, head, unit, picture, heads] = text.split(".");
  const place = readPlace([part, layer, head]);
  return place && {
    ...place,
    unit: unit === "pieces" ? unit : "words",
    picture: picture === "map" || picture === "neurons" ? picture : "lines",
    heads: readHeads(heads),
  };
}

/**
 * @param {string | undefined} text such as `0-3_1-5`: layers and heads; malformed ones are left out
 * @returns {[number, number][]}
 */
function readHeads(text = "") {
  const pairs = text.split("_").map((pair) => pair.split("-").map(read));
  const isPair = ([layer, head]) => typeof layer === "number" && typeof head === "number";
  return /** @type {[number, number][]} */ (pairs.filter((pair) => pair.length === 2 && isPair(pair)));
}

/** @param {PageState} state whose fragment is returned, without `#`; empty without a text */
export function toFragment(state) {
  if (!state.text) return "";
  const fields = new URLSearchParams({ from: state.source, to: state.target });
  if (state.choice?.part) {
    const { part, layer, head, unit, picture, heads } = state.choice;
    const compared = heads.map((place) => place.join("-")).join("_");
    const look = [part, write(layer), write(head), unit, picture, ...(compared ? [compared] : [])];
    fields.append("look", look.join("."));
  }
  if (state.sentence) fields.append("sentence", String(state.sentence));
  for (const change of state.changes) fields.append("change", writeChange(change));
  fields.append("text", state.text);
  return fields.toString();
}

/**
 * The state in a fragment; malformed parts are left out.
 *
 * @param {string} fragment with or without its `#`
 * @returns {PageState}
 */
export function fromFragment(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    text: fields.get("text") ?? "",
    source: fields.get("from") ?? "",
    target: fields.get("to") ?? "",
    sentence: read(fields.get("sentence") ?? undefined) ?? 0,
    choice: readChoice(fields.get("look") ?? ""),
    changes: fields.getAll("change").map(readChange).filter((change) => change !== null),
  };
}
