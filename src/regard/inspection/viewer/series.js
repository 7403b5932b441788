/** The page of a forecast that was written by `regard look --html`: no server, one series. */

import { SeriesView } from "./series_view.js";
import { themeSwitch } from "./theme.js";

const look = JSON.parse(document.getElementById("look").textContent);
const view = new SeriesView(document.getElementById("view"));

document.getElementById("tools").append(themeSwitch());
document.getElementById("model").textContent = look.model;
view.show(look);
