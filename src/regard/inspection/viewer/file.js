/** The page of a file that was written by `regard look --html`: no server, one sentence or picture. */

import { PatchView } from "./patch_view.js";
import { themeSwitch } from "./theme.js";
import { AttentionView } from "./view.js";
import { wordingOf } from "./wording.js";

const look = JSON.parse(document.getElementById("look").textContent);
const kinds = look.without.length && !look.changes.length ? ["silence"] : [];
const options = { onChange: answer, kinds, several: false };
const View = look.source.picture === null ? AttentionView : PatchView;
const view = new View(document.getElementById("view"), options);

document.getElementById("tools").append(themeSwitch());
document.getElementById("model").textContent = look.model;
document.getElementById("footer").hidden = kinds.length === 0;
document.getElementById("computed").textContent = wordingOf(look).footer;
view.show(look);

/** Show an answer that was computed when the file was written. */
function answer(changes) {
  const [change] = changes;
  const isAsked = ({ part, layer, head }) =>
    part === change?.part && layer === change.layer && head === change.head;
  const found = look.without.find(isAsked);
  if (found) view.preview(changes, found.text);
  else view.show(look);
}
