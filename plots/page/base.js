"use strict";
// What all parts of the page share.

const data = JSON.parse(document.getElementById("data").textContent);
for (const { axes } of data.runs) { // which share their lists
  for (const name of Object.keys(axes)) axes[name] = data.lists[axes[name]];
}
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

/** Which runs have only some of their evaluations on the page, and how many, in words; empty where none has. */
function fewer() {
  const cut = data.runs.filter(run => run.axes.round.length < run.evaluations);
  if (!cut.length) return "";
  const most = count => cut.reduce((so_far, run) => Math.max(so_far, count(run)), 0);
  const [shown, all] = [most(run => run.axes.round.length), most(run => run.evaluations)];
  return `${cut.length} of ${data.runs.length} runs are here with up to ${shown} of their up to ${all} evaluations`;
}

/** A number of bits with three digits and a unit. */
function inBits(bits) {
  const power = bits < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bits) / 3));
  return `${short(bits / 1000 ** power)} ${["", "k", "M", "G", "T"][power]}bit`;
}
