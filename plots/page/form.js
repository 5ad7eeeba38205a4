// The form beside the curves: what it holds, and how it is filled in.

const VALUES = ["x", "y", "lr", "filter", "bandwidth", "latency", "computing", "topology", "levels"];
const SWITCHES = ["logx", "logy", "overlap"];
const GROUPS = ["methods", "tasks", "seeds", ...data.settings.map(({ key }) => WITH + key)];
const TASKS_AT_FIRST = 4;

const zooms = new Map(); // by task the ranges [x, x, y, y] that its panel shows a part of, in powers of ten where logarithmic

/** What is chosen: lists of strings by name. */
function read() {
  const view = {};
  for (const id of VALUES) view[id] = [at(id).value.trim()];
  for (const id of SWITCHES) view[id] = [at(id).checked ? "1" : "0"];
  for (const id of GROUPS) view[id] = boxes(id).filter(box => box.checked).map(box => box.value);
  view.zoom = [...zooms].map(([task, range]) => [...range, task].join());
  return view;
}

function write(view) {
  for (const id of VALUES) at(id).value = view[id][0];
  for (const id of ["lr", "bandwidth", "latency", "computing", "topology"]) {
    if (!at(id).checkValidity()) at(id).value = atFirst[id][0];
  }
  for (const id of SWITCHES) at(id).checked = view[id][0] === "1";
  for (const id of GROUPS) choose(id, new Set(view[id]));
  zooms.clear();
  for (const [, numbers, task] of view.zoom.map(text => text.match(/^((?:[^,]+,){4})(.*)$/)).filter(Boolean)) {
    const range = numbers.split(",").slice(0, 4).map(Number);
    if (range.every(Number.isFinite)) zooms.set(task, range);
  }
}

const boxes = id => [...at(id).querySelectorAll("input")];

/** Check the boxes with these values alone; all of them without any. */
function choose(id, values) {
  for (const box of boxes(id)) box.checked = !values || values.has(box.value);
}

/** Whether an axis is logarithmic until something else is asked for. */
function isUsuallyLog(id, name) {
  return id === "x" ? ["bits", "bits_up", "bits_down", "modelled_seconds"].includes(name) : !data.metrics[name].higher;
}

/** Check boxes for entries of {name, label}. A click on a name chooses it alone, a double click all. */
function choices(id, entries, checked = entries.length) {
  for (const [i, entry] of entries.entries()) {
    const box = make("input", { type: "checkbox", name: id, value: entry.name });
    box.checked = i < checked;
    const name = make("button", { type: "button", class: "only", title: "click: this one alone; double click: all" },
      ...(entry.color ? [swatch(entry)] : []), make("span", {}, entry.label));
    name.addEventListener("click", event => {
      choose(id, event.detail > 1 ? null : new Set([String(entry.name)]));
      show();
    });
    at(id).append(make("div", {}, make("label", {}, box, make("span", { class: "hidden" }, `show ${entry.label}`)), name));
  }
  if (entries.length < 2) return;
  const button = make("button", { type: "button", class: "all", "aria-label": `all or none of the ${id}` }, "all / none");
  button.addEventListener("click", () => {
    choose(id, boxes(id).every(box => box.checked) ? new Set() : null);
    show();
  });
  at(id).append(button);
}

function build() {
  choices("methods", [...methods.values()]);
  choices("tasks", data.tasks, TASKS_AT_FIRST);
  const seeds = [...new Set(data.runs.map(run => run.seed))].sort((a, b) => a - b);
  choices("seeds", seeds.map(seed => ({ name: seed, label: String(seed) })));
  for (const { key, values } of data.settings) {
    at("settings").append(make("fieldset", {}, make("legend", {}, key), make("div", { id: WITH + key, class: "choices inline" })));
    choices(WITH + key, values.map(value => ({ name: value, label: value })));
  }
  for (const [name, label] of Object.entries(data.axes)) at("x").append(make("option", { value: name }, label));
  for (const [name, { label }] of Object.entries(data.metrics)) at("y").append(make("option", { value: name }, label));
  if ("grad_norm" in data.metrics) at("y").value = "grad_norm";
  for (const id of ["x", "y"]) at(`log${id}`).checked = isUsuallyLog(id, at(id).value);
  for (const name of Object.keys(FORMS)) at("topology").append(make("option", { value: name }, name));
  for (const id of ["bandwidth", "latency", "computing", "topology"]) at(id).value = data.network[id] ?? "";
  at("overlap").checked = data.network.overlap;
}

/** Numbers that someone typed; null where one is none. */
function typedLevels(text) {
  const levels = text.split(/[\s,;]+/).filter(Boolean).map(Number);
  return levels.every(Number.isFinite) ? levels : null;
}
