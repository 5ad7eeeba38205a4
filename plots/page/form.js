// The form beside the curves, which is all that the page remembers, and its mirror in the address behind the #.

const VALUES = ["x", "y", "lr", "bandwidth", "latency", "levels"];
const SWITCHES = ["logx", "logy", "shared"];
const GROUPS = ["methods", "tasks", "seeds"];
const TASKS_AT_FIRST = 4;

/** What is chosen: lists of strings by name. */
function read() {
  const view = {};
  for (const id of VALUES) view[id] = [at(id).value.trim()];
  for (const id of SWITCHES) view[id] = [at(id).checked ? "1" : "0"];
  for (const id of GROUPS) view[id] = [...at(id).querySelectorAll("input:checked")].map(box => box.value);
  return view;
}

function write(view) {
  for (const id of VALUES) at(id).value = view[id][0];
  for (const id of ["lr", "bandwidth", "latency"]) {
    if (!at(id).checkValidity()) at(id).value = atFirst[id][0];
  }
  for (const id of SWITCHES) at(id).checked = view[id][0] === "1";
  for (const id of GROUPS) {
    for (const box of at(id).querySelectorAll("input")) box.checked = view[id].includes(box.value);
  }
}

/** Whether an axis is logarithmic until something else is asked for. */
function isUsuallyLog(id, name) {
  return id === "x" ? ["bits", "bits_up", "bits_down", "modelled_seconds"].includes(name) : !data.metrics[name].higher;
}

/** The view that stands for what an address leaves out: the first one, with the usual scales of its axes. */
function usual(x, y) {
  return { ...atFirst, logx: [isUsuallyLog("x", x) ? "1" : "0"], logy: [isUsuallyLog("y", y) ? "1" : "0"] };
}

/** What is not as usual in a view, as the part of an address behind the #. */
function toHash(view) {
  const entries = new URLSearchParams();
  const left = usual(view.x[0], view.y[0]);
  for (const [name, chosen] of Object.entries(view)) {
    if (JSON.stringify(chosen) === JSON.stringify(left[name])) continue;
    for (const value of chosen.length ? chosen : [""]) entries.append(name, value);
  }
  return `#${entries}`;
}

/** The view of an address; names that mean nothing here are as if left out. */
function fromHash(hash) {
  const entries = new URLSearchParams(hash.slice(1));
  const known = (id, names) => (Object.hasOwn(names, entries.get(id)) ? entries.get(id) : atFirst[id][0]);
  const [x, y] = [known("x", data.axes), known("y", data.metrics)];
  const left = usual(x, y);
  const view = Object.keys(left).map(name => [name, entries.has(name) ? entries.getAll(name) : left[name]]);
  return { ...Object.fromEntries(view), x: [x], y: [y] };
}

/** A line with its marker, as methods are drawn. */
function swatch(look) {
  const shapes = {
    circle: "M19,7a4,4 0 1,0 -8,0a4,4 0 1,0 8,0Z", square: "M11.5,3.5h7v7h-7Z", diamond: "M15,2l5,5l-5,5l-5,-5Z",
    "triangle-up": "M15,2.5l4.5,8h-9Z", "triangle-down": "M15,11.5l4.5,-8h-9Z", "triangle-left": "M10.5,7l8,-4.5v9Z",
    "triangle-right": "M19.5,7l-8,-4.5v9Z", cross: "M13.5,3h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5Z",
    x: "M12,3l3,3l3,-3l1,1l-3,3l3,3l-1,1l-3,-3l-3,3l-1,-1l3,-3l-3,-3Z", pentagon: "M15,2.5l4.5,3.3l-1.7,5.2h-5.6l-1.7,-5.2Z",
    hexagon: "M15,2.5l4,2.2v4.6l-4,2.2l-4,-2.2v-4.6Z",
    star: "M15,2l1.5,3.2l3.5,.5l-2.5,2.5l.6,3.5l-3.1,-1.7l-3.1,1.7l.6,-3.5l-2.5,-2.5l3.5,-.5Z",
  };
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const dash = look.dash === "solid" ? "none" : look.dash.replaceAll("px", "");
  const parts = [
    ["path", { d: "M0,7H30", stroke: look.color, "stroke-width": 2, "stroke-dasharray": dash }],
    ["path", { d: shapes[look.symbol], fill: look.color, stroke: "white", "stroke-width": 0.8 }],
  ];
  for (const [name, value] of Object.entries({ width: 30, height: 14, "aria-hidden": true })) svg.setAttribute(name, value);
  for (const [tag, attributes] of parts) {
    const part = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    svg.append(part);
  }
  return svg;
}

/** Check boxes for entries of {name, label}, with a button for all or none where there are many. */
function choices(id, entries, checked) {
  for (const [i, entry] of entries.entries()) {
    const box = make("input", { type: "checkbox", name: id, value: entry.name });
    box.checked = i < checked;
    at(id).append(make("label", {}, box, ...(entry.color ? [swatch(entry)] : []), make("span", {}, entry.label)));
  }
  if (entries.length < 4) return;
  const button = make("button", { type: "button", class: "all", "aria-label": `all or none of the ${id}` }, "all / none");
  button.addEventListener("click", () => {
    const boxes = [...at(id).querySelectorAll("input")], all = boxes.every(box => box.checked);
    for (const box of boxes) box.checked = !all;
    show();
  });
  at(id).append(button);
}

function build() {
  choices("methods", data.methods, data.methods.length);
  choices("tasks", data.tasks, TASKS_AT_FIRST);
  const seeds = [...new Set(data.runs.map(run => run.seed))].sort((a, b) => a - b);
  choices("seeds", seeds.map(seed => ({ name: seed, label: String(seed) })), seeds.length);
  for (const [name, label] of Object.entries(data.axes)) at("x").append(make("option", { value: name }, label));
  for (const [name, { label }] of Object.entries(data.metrics)) at("y").append(make("option", { value: name }, label));
  if ("grad_norm" in data.metrics) at("y").value = "grad_norm";
  for (const id of ["x", "y"]) at(`log${id}`).checked = isUsuallyLog(id, at(id).value);
  at("bandwidth").value = data.link.bandwidth;
  at("latency").value = data.link.latency;
  at("shared").checked = data.link.shared;
}

/** Numbers that someone typed; null where one is none. */
function typedLevels(text) {
  const levels = text.split(/[\s,;]+/).filter(Boolean).map(Number);
  return levels.every(Number.isFinite) ? levels : null;
}
