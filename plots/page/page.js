// What happens at the beginning and whenever something else is chosen.

function showHeader() {
  const { title, line } = finding();
  document.title = [data.study || "Results", title].filter(Boolean).join(": ");
  at("title").textContent = data.study || "Results";
  at("finding").textContent = line;
  const commits = data.commits.slice(0, 3).map(({ commit, runs }) => `${commit} (${plural(runs, "run")})`);
  const others = data.commits.length > 3 ? `, and ${plural(data.commits.length - 3, "other commit")}` : "";
  at("summary").textContent =
    `${plural(data.runs.length, "run")} of ${plural(data.methods.length, "method")} on ${plural(data.tasks.length, "task")}, ` +
    `read ${data.made}. Code: ${commits.join(", ")}${others}.`;
  const unfinished = data.runs.filter(run => run.status !== "finished");
  if (unfinished.length) {
    const some = unfinished.slice(0, 5).map(run =>
      `${run.task}, ${run.method}, seed ${run.seed}: ${run.status}, round ${run.axes.round.at(-1)} of ${run.rounds}`);
    notice(`${plural(unfinished.length, "run")} not finished, drawn dotted. ${some.join("; ")}${unfinished.length > 5 ? "; …" : ""}.`);
  }
  if (data.older) notice(`${plural(data.older, "older run")} with the settings of later ones left out.`);
  if (fewer()) {
    notice(`Too many evaluations for one page: ${fewer()}. These are the first, the last, those with the lowest and the ` +
      "highest value of each quantity among a method’s runs, and others between. A page of fewer runs (task=…, " +
      "algorithm=…) has more of them; python -m experiments.report points=all has all, however large it gets.");
  }
  const marked = data.figures.filter(figure => figure.note);
  if (marked.length) {
    const notes = [...new Set(marked.map(figure => figure.note))];
    const kinds = [...new Set(notes.map(note => note.split(/[:;,]/)[0]))].join(", ");
    const summary = make("summary", {}, `${plural(marked.length, "figure")} with claims: ${kinds}`);
    at("notices").append(make("details", { class: "notice" }, summary, ...notes.map(note => make("p", {}, note))));
  }
}

function notice(text) {
  at("notices").append(make("p", { class: "notice" }, text));
}

/** Draw everything that depends on the form, and keep it in the address: as a step of its own, or in the last one's place. */
function show(isStep = true) {
  const view = read();
  remember(view, isStep);
  const isModelled = view.x[0] === "modelled_seconds";
  at("network").hidden = !isModelled;
  if (isModelled && !["bandwidth", "latency", "computing"].every(id => at(id).checkValidity())) return;
  const network = {
    bandwidth: Number(view.bandwidth[0]), latency: Number(view.latency[0]),
    topology: view.topology[0], overlap: view.overlap[0] === "1",
    computing: view.computing[0] === "" ? null : Number(view.computing[0]),
  };
  const tasks = data.tasks.filter(task => view.tasks.includes(task.name));
  const chosen = chosenRuns(view), grouped = byCurve(chosen);
  const lines = drawPanels(tasks, view, network, grouped);
  at("drawn").textContent = drawnInWords(view, chosen, lines);
  showTargets(tasks, view, grouped);
  showRuns(view, chosen);
}

function showNothing() {
  at("summary").textContent = `No runs yet, looked for ${data.made}.`;
  at("content").replaceChildren(make("div", { class: "empty" },
    make("p", {}, "Here will be curves, bits to reach a level, and claims. Start a run, or a small study with its claims, then make this page again:"),
    make("p", {}, make("code", {}, "python -m experiments.run algorithm=cd_adam task=logreg/breast_cancer")),
    make("p", {}, make("code", {}, "python -m experiments.reproduce figure=demo")),
    make("p", {}, make("code", {}, "python -m experiments.report"))));
}

let atFirst;

if (data.runs.length) {
  const narrow = matchMedia("(max-width: 900px)");
  let typed = null; // the field that was typed in last: what is typed there next is no step of its own
  at("choose").open = !narrow.matches;
  narrow.addEventListener("change", () => { at("choose").open = !narrow.matches; });
  dark.addEventListener("change", () => location.reload());
  build();
  atFirst = read();
  write(fromHash(location.hash));
  const changed = ({ target }) => {
    const { id, value, type } = target;
    if (["x", "y"].includes(id)) at(`log${id}`).checked = isUsuallyLog(id, value);
    if (["x", "y", "logx", "logy"].includes(id)) zooms.clear();
    show(["checkbox", "select-one"].includes(type) || typed !== target);
    typed = target;
  };
  at("controls").addEventListener("submit", event => event.preventDefault());
  at("controls").addEventListener("input", changed);
  at("levels").addEventListener("input", changed);
  at("runs").parentElement.addEventListener("toggle", () => { const view = read(); showRuns(view, chosenRuns(view)); });
  window.addEventListener("hashchange", () => { write(fromHash(location.hash)); show(false); });
  showHeader();
  showClaims();
  show(false);
} else {
  showNothing();
}
