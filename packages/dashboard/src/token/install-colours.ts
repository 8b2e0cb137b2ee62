/** The rules of colours.ts, given to the page as a sheet: no style stands in its markup. */
import { colourRules } from "./colours.ts";

const sheet = new CSSStyleSheet();
colourRules().forEach((rule, i) => {
  sheet.insertRule(rule, i);
});
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
