// The choices: the form, the address after the #, and the chosen runs.

const VALUES = ["x", "y", "lr", "filter"];
const SWITCHES = ["logx", "logy"];
const WITH = "with."; // prefix of a setting's key in the names of its check boxes
const GROUPS = ["methods", "tasks", "seeds", ...data.settings.map(({ key }) => WITH + key)];
const TASKS_AT_FIRST = 4;

let first; // the view that an empty address stands for

const boxes = id => [...at(id).querySelectorAll("input")];

const isUsuallyLog = { logx: ({ x }) => data.axes[x].log, logy: ({ y }) => data.metrics[y].log };

/** Read the choices by name: text, a switch, or a list. */
function read() {
  const view = {};
  for (const id of VALUES) view[id] = at(id).value.trim();
  for (const id of SWITCHES) view[id] = at(id).checked;
  for (const id of GROUPS) view[id] = boxes(id).filter(box => box.checked).map(box => box.value);
  return view;
}

/** Fill in the form from an address. Missing and wrong entries get their first values. */
function write(hash) {
  const entries = new URLSearchParams(hash.slice(1)), view = {};
  for (const id of VALUES) {
    at(id).value = entries.get(id) ?? first[id];
    if (!at(id).checkValidity()) at(id).value = first[id];
    view[id] = at(id).value;
  }
  for (const id of SWITCHES) at(id).checked = entries.has(id) ? entries.get(id) === "true" : isUsuallyLog[id](view);
  for (const id of GROUPS) {
    const values = entries.has(id) ? entries.getAll(id) : first[id];
    for (const box of boxes(id)) box.checked = values.includes(box.value);
  }
}

/** Keep a view in the address. */
function remember(view) {
  const entries = new URLSearchParams();
  for (const [name, value] of Object.entries(view)) {
    const usual = isUsuallyLog[name]?.(view) ?? first[name];
    if (String(value) === String(usual)) continue;
    for (const one of Array.isArray(value) && value.length ? value : [value]) entries.append(name, one);
  }
  history.replaceState(null, "", `#${entries}`);
}

/** Check boxes for entries {name, label}, and a button for all or none of them. */
function addChoices(id, entries, checked = entries.length) {
  for (const [i, entry] of entries.entries()) {
    const box = make("input", { type: "checkbox", name: id, value: entry.name });
    box.checked = i < checked;
    const look = entry.color ? [swatch({ dash: "solid", ...entry })] : [];
    at(id).append(make("div", {}, make("label", {}, box, ...look, make("span", {}, entry.label))));
  }
  if (entries.length < 2) return;
  const all = make("button", { type: "button", class: "all", "aria-label": `all or none of the ${id}` }, "all / none");
  all.addEventListener("click", () => {
    const checked = !boxes(id).every(box => box.checked);
    for (const box of boxes(id)) box.checked = checked;
    show();
  });
  at(id).append(all);
}

function buildForm() {
  const options = entries => Object.entries(entries).map(([name, { label }]) => make("option", { value: name }, label));
  addChoices("methods", [...methods.values()]);
  addChoices("tasks", data.tasks, TASKS_AT_FIRST);
  const seeds = [...new Set(data.runs.map(run => run.seed))].sort((a, b) => a - b);
  addChoices("seeds", seeds.map(seed => ({ name: seed, label: String(seed) })));
  for (const { key, values } of data.settings) {
    const place = make("div", { id: WITH + key, class: "choices inline" });
    at("settings").append(make("fieldset", {}, make("legend", {}, key), place));
    addChoices(WITH + key, values.map(value => ({ name: value, label: value })));
  }
  at("x").append(...options(data.axes));
  at("y").append(...options(data.metrics));
  if ("grad_norm" in data.metrics) at("y").value = "grad_norm";
  first = read();
}

const words = new Map(data.runs.map(run => [run, [
  run.task, run.method, curves.get(run.curve).label, `seed=${run.seed}`, run.status, run.folder, run.commit,
  ...Object.entries(run.settings).map(([key, value]) => `${key}=${value}`),
].join(" ").toLowerCase()]));

/** The chosen runs that contain every word of the filter. A word key=value must match the whole value. A setting that a
 * run lacks excludes nothing. */
function chosenRuns(view) {
  const asked = view.filter.toLowerCase().split(/\s+/).filter(Boolean).map(word => (/=./.test(word) ? `${word} ` : word));
  return data.runs.filter(run =>
    view.tasks.includes(run.task) && view.methods.includes(run.method) && view.seeds.includes(String(run.seed)) &&
    Object.entries(run.settings).every(([key, value]) => view[WITH + key].includes(value)) &&
    asked.every(word => `${words.get(run)} `.includes(word)));
}
