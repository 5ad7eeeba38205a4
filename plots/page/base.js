"use strict";
// What all parts of the page share.

const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);

/** An element with attributes and children; text becomes text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Text that plotly shows as it is: neither its tags nor its templates. */
const plain = text => text.replace(/[&<%]/g, character => `&#${character.charCodeAt(0)};`);

/** A number with three digits: 12.3, 0.003, 1e-5. */
function short(value) {
  const rounded = Number(value.toPrecision(3));
  return rounded && Math.abs(rounded) < 1e-3 ? rounded.toExponential() : String(rounded);
}

/** A number of bits with three digits and a unit. */
function inBits(bits) {
  const power = bits < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bits) / 3));
  return `${short(bits / 1000 ** power)} ${["", "k", "M", "G", "T"][power]}bit`;
}
