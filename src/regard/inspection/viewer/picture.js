/** The page of a picture that was written by `regard look --html`: no server, one caption. */

import { PictureView } from "./picture_view.js";
import { themeSwitch } from "./theme.js";

const look = JSON.parse(document.getElementById("look").textContent);
const view = new PictureView(document.getElementById("view"));

document.getElementById("tools").append(themeSwitch());
document.getElementById("model").textContent = look.model;
view.show(look);
