// What is chosen: the form, the address behind the #, and the runs that follow from them.

const VALUES = ["x", "y", "lr", "filter", "bandwidth", "latency", "computing", "topology", "levels"];
const SWITCHES = ["logx", "logy", "overlap"];
const WITH = "with."; // before a setting's key: the name of its check boxes
const GROUPS = ["methods", "tasks", "seeds", ...data.settings.map(({ key }) => WITH + key)];
const TASKS_AT_FIRST = 4;

let first; // the view that an empty address stands for

const boxes = id => [...at(id).querySelectorAll("input")];

/** Check the boxes with these values alone; all of them without any. */
function choose(id, values) {
  for (const box of boxes(id)) box.checked = !values || values.has(box.value);
}

const isUsuallyLog = { x: name => data.axes[name].log, y: name => !data.metrics[name].higher };

/** What is chosen, by name: text, a switch, or a list. */
function read() {
  const view = {};
  for (const id of VALUES) view[id] = at(id).value.trim();
  for (const id of SWITCHES) view[id] = at(id).checked;
  for (const id of GROUPS) view[id] = boxes(id).filter(box => box.checked).map(box => box.value);
  return view;
}

/** Fill in what an address says; what it leaves out, or says wrongly, is as at first. */
function write(hash) {
  const entries = new URLSearchParams(hash.slice(1));
  for (const id of VALUES) {
    at(id).value = entries.get(id) ?? first[id];
    if (!at(id).checkValidity()) at(id).value = first[id];
  }
  const usual = usually(at("x").value, at("y").value);
  for (const id of SWITCHES) at(id).checked = entries.has(id) ? entries.get(id) === "true" : usual[id];
  for (const id of GROUPS) choose(id, new Set(entries.has(id) ? entries.getAll(id) : first[id]));
}

/** The first view with the usual scales of these axes. */
const usually = (x, y) => ({ ...first, logx: isUsuallyLog.x(x), logy: isUsuallyLog.y(y) });

/** Keep a view in the address, as a step that Back undoes or in the place of the last one. */
function remember(view, isStep) {
  const entries = new URLSearchParams(), usual = usually(view.x, view.y);
  for (const [name, value] of Object.entries(view)) {
    if (String(value) === String(usual[name])) continue;
    for (const one of Array.isArray(value) && value.length ? value : [value]) entries.append(name, one);
  }
  if (`#${entries}` === (location.hash || "#")) return;
  history[isStep ? "pushState" : "replaceState"](null, "", `#${entries}`);
}

/** Check boxes for entries {name, label}. A click on a name chooses it alone, a double click all. */
function addChoices(id, entries, checked = entries.length) {
  for (const [i, entry] of entries.entries()) {
    const box = make("input", { type: "checkbox", name: id, value: entry.name, "aria-label": `show ${entry.label}` });
    box.checked = i < checked;
    const isolated = event => {
      choose(id, event.detail > 1 ? null : new Set([String(entry.name)]));
      show();
    };
    const look = entry.color ? [swatch({ dash: "solid", ...entry })] : [];
    const name = button({ class: "only", title: ISOLATES }, isolated, ...look, make("span", {}, entry.label));
    at(id).append(make("div", {}, make("label", {}, box), name));
  }
  if (entries.length < 2) return;
  at(id).append(button({ class: "all", "aria-label": `all or none of the ${id}` }, () => {
    choose(id, boxes(id).every(box => box.checked) ? new Set() : null);
    show();
  }, "all / none"));
}

const ISOLATES = "click: this one alone; double click: all";

function buildForm() {
  const option = (name, label) => make("option", { value: name }, label);
  addChoices("methods", [...methods.values()]);
  addChoices("tasks", data.tasks, TASKS_AT_FIRST);
  const seeds = [...new Set(data.runs.map(run => run.seed))].sort((a, b) => a - b);
  addChoices("seeds", seeds.map(seed => ({ name: seed, label: String(seed) })));
  for (const { key, values } of data.settings) {
    const place = make("div", { id: WITH + key, class: "choices inline" });
    at("settings").append(make("fieldset", {}, make("legend", {}, key), place));
    addChoices(WITH + key, values.map(value => ({ name: value, label: value })));
  }
  at("x").append(...Object.entries(data.axes).map(([name, { label }]) => option(name, label)));
  at("y").append(...Object.entries(data.metrics).map(([name, { label }]) => option(name, label)));
  if ("grad_norm" in data.metrics) at("y").value = "grad_norm";
  at("topology").append(...Object.keys(FORMS).map(name => option(name, name)));
  for (const id of ["bandwidth", "latency", "computing", "topology"]) at(id).value = data.network[id] ?? "";
  at("overlap").checked = data.network.overlap;
  for (const id of ["x", "y"]) at(`log${id}`).checked = isUsuallyLog[id](at(id).value);
  first = read();
}

const words = new Map(data.runs.map(run => [run, [
  run.task, run.method, curves.get(run.curve).label, `seed=${run.seed}`, run.status, run.folder, run.commit,
  ...Object.entries(run.settings).map(([key, value]) => `${key}=${value}`),
].join(" ").toLowerCase()]));

/** The runs that are chosen and in which every word of the filter stands. A setting that a run lacks excludes nothing. */
function chosenRuns(view) {
  const asked = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = { task: new Set(view.tasks), method: new Set(view.methods), seed: new Set(view.seeds.map(Number)) };
  const settings = data.settings.map(({ key }) => [key, new Set(view[WITH + key])]);
  return data.runs.filter(run =>
    Object.entries(chosen).every(([name, values]) => values.has(run[name])) &&
    settings.every(([key, values]) => !Object.hasOwn(run.settings, key) || values.has(run.settings[key])) &&
    asked.every(word => words.get(run).includes(word)));
}

/** The curves {run, trial} of these runs that measure something, one a step size; those of one curve by its name. */
function trialsByCurve(runs, metric) {
  const trials = runs.flatMap(run => run.trials.map(trial => ({ run, trial }))).filter(({ trial }) => trial[metric]);
  return new Map([...curves.keys()].map(name => [name, trials.filter(({ run }) => run.curve === name)])
    .filter(([, some]) => some.length));
}
