// What happens at the beginning and whenever something else is chosen.

/** Draw everything that depends on the form, and keep it in the address: as a step of its own, or in the last one's place. */
function show(isStep = true) {
  const view = read();
  remember(view, isStep);
  const isModelled = view.x === "modelled_seconds";
  at("network").hidden = !isModelled;
  if (isModelled && !["bandwidth", "latency", "computing"].every(id => at(id).checkValidity())) return;
  const network = {
    bandwidth: Number(view.bandwidth), latency: Number(view.latency), topology: view.topology, overlap: view.overlap,
    computing: view.computing === "" ? null : Number(view.computing),
  };
  const tasks = data.tasks.filter(task => view.tasks.includes(task.name));
  const chosen = chosenRuns(view), byTask = trialsByTask(chosen, view.y);
  const lines = drawPanels(tasks, view, network, byTask);
  at("drawn").textContent = drawnInWords(lines);
  at("reading").textContent = reading(tasks, view);
  showTargets(tasks, view, byTask);
  showRuns(view, chosen);
}

const trialsByTask = (runs, metric) => new Map(data.tasks.map(({ name }) =>
  [name, trialsByCurve(runs.filter(run => run.task === name), metric)]));

/** How much is drawn of what there is, in words. */
function drawnInWords(lines) {
  const drawn = [...new Set(lines.flatMap(({ seeds }) => seeds.map(({ run }) => run)))];
  const some = (what, all, key) => {
    const left = all.filter(({ name }) => !drawn.some(run => run[key] === name)).map(({ label }) => label);
    const which = left.length ? ` (not ${left.slice(0, 4).join(", ")}${left.length > 4 ? ", …" : ""})` : "";
    return `${all.length - left.length} of ${plural(all.length, what)}${which}`;
  };
  const parts = [some("task", data.tasks, "task"), some("method", data.methods, "method")];
  return `Drawn: ${parts.join(", ")}, ${drawn.length} of ${plural(data.runs.length, "run")}.`;
}

/** How the curves are to be read, in words. */
function reading(tasks, view) {
  const rules = [...new Set(tasks.map(({ rule }) => rule))];
  return [
    view.lr === "best" ? `Each method with ${rules.join(", or, on other tasks, ")}.` :
      "A line for each step size: the larger, the stronger.",
    data.axes[view.x].about,
    fewer() ? `Not all evaluations: ${fewer()}.` : "",
  ].filter(Boolean).join(" ");
}

function start() {
  const narrow = matchMedia("(max-width: 900px)");
  let typed = null; // the field that was typed in last: what is typed there next is no step of its own
  at("choose").open = !narrow.matches;
  narrow.addEventListener("change", () => { at("choose").open = !narrow.matches; });
  dark.addEventListener("change", () => location.reload());
  buildForm();
  write(location.hash);
  const changed = ({ target }) => {
    const { id, value, type } = target;
    if (["x", "y"].includes(id)) at(`log${id}`).checked = isUsuallyLog[id](value);
    show(["checkbox", "select-one"].includes(type) || typed !== target);
    typed = target;
  };
  at("controls").addEventListener("submit", event => event.preventDefault());
  for (const id of ["controls", "levels"]) at(id).addEventListener("input", changed);
  at("runs").parentElement.addEventListener("toggle", () => { const view = read(); showRuns(view, chosenRuns(view)); });
  window.addEventListener("hashchange", () => { write(location.hash); show(false); });
  showHeader(trialsByTask(data.runs, first.y));
  showClaims();
  show(false);
}

if (data.runs.length) start();
else {
  at("summary").textContent = `No runs yet, looked for ${data.made}.`;
  at("content").replaceChildren(at("empty").content);
}
