"use strict";
// The page's data, and helpers of all its scripts that build elements.

const data = JSON.parse(document.getElementById("data").textContent);
for (const { axes } of data.runs) { // runs share their lists, so equal lists are the same object
  for (const name of Object.keys(axes)) axes[name] = data.lists[axes[name]];
}
const dark = matchMedia("(prefers-color-scheme: dark)");
const at = id => document.getElementById(id);
const methods = new Map(data.methods.map(look => [look.name, { ...look, color: dark.matches ? look.dark : look.color }]));
const curves = new Map(data.curves.map(curve => [curve.name, { ...methods.get(curve.method), ...curve }]));

/** Set attributes and children of an element; text becomes text, never markup. */
function fill(element, attributes, ...children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const make = (tag, ...content) => fill(document.createElement(tag), ...content);

const draw = (tag, ...content) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), ...content);

/** A table. Cells are elements or text; the first cell of a row is its heading. */
function table(className, caption, headings, rows) {
  const head = make("thead", {}, make("tr", {}, ...headings.map(cell => make("th", { scope: "col" }, cell))));
  const cells = row => row.map(cell => (cell instanceof Element && cell.tagName === "TD" ? cell : make("td", {}, cell)));
  const body = rows.map(([first, ...row]) => make("tr", {}, make("th", { scope: "row" }, first), ...cells(row)));
  return make("table", { class: className }, make("caption", {}, caption), head, make("tbody", {}, ...body));
}

/** A region with a name that scrolls from the keyboard, for tables wider than the page. */
function scrolling(name, ...children) {
  return make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": name }, ...children);
}

/** A piece of a method's line with its marker. */
function swatch({ color, dash, glyph }) {
  const line = { d: "M0,7H30", stroke: color, "stroke-width": 2, "stroke-dasharray": dash === "solid" ? "none" : dash };
  const mark = draw("text", { x: 15, y: 11, "text-anchor": "middle", "font-size": 11, fill: color }, glyph);
  return draw("svg", { width: 30, height: 14, "aria-hidden": true }, draw("path", line), mark);
}

/** Text without meaning to plotly: no tags, no templates. */
const plain = text => text.replace(/[&<%]/g, character => `&#${character.charCodeAt(0)};`);

const plural = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

/** A number with at most `digits` digits: 12.3, 0.003, 1e-5. */
function short(value, digits = 3) {
  const rounded = Number(value.toPrecision(digits));
  return rounded && Math.abs(rounded) < 1e-3 ? rounded.toExponential() : String(rounded);
}

/** A number of bits with three digits and a unit. */
function inBits(bits) {
  const power = bits < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bits) / 3));
  return `${short(bits / 1000 ** power)} ${["", "k", "M", "G", "T"][power]}bit`;
}

const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;
