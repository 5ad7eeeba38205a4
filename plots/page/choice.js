// Which runs a view asks for, and in words what it leaves out.

const WITH = "with."; // before a setting's key: the name of its check boxes

const words = new Map(data.runs.map(run => [run, [
  run.task, run.method, curves.get(run.curve).label, `seed=${run.seed}`, run.status, run.folder, run.commit,
  ...Object.entries(run.settings).map(([key, value]) => `${key}=${value}`),
].join(" ").toLowerCase()]));

/** The runs of the chosen methods, tasks, seeds and settings in which every word of the filter stands. A run passes
 * by settings that it does not have. */
function chosenRuns(view) {
  const [ofMethods, ofTasks, seeds] = ["methods", "tasks", "seeds"].map(name => new Set(view[name]));
  const settings = data.settings.map(({ key }) => [key, new Set(view[WITH + key])]);
  const asked = view.filter[0].toLowerCase().split(/\s+/).filter(Boolean);
  return data.runs.filter(run =>
    ofMethods.has(run.method) && ofTasks.has(run.task) && seeds.has(String(run.seed)) &&
    settings.every(([key, values]) => !Object.hasOwn(run.settings, key) || values.has(run.settings[key])) &&
    asked.every(word => words.get(run).includes(word)));
}

/** The runs of each curve on each task. */
function byCurve(runs) {
  const found = new Map(data.tasks.map(task => [task.name, new Map()]));
  for (const run of runs) {
    const ofTask = found.get(run.task);
    if (!ofTask.has(run.curve)) ofTask.set(run.curve, []);
    ofTask.get(run.curve).push(run);
  }
  return found;
}

const plural = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

/** What is drawn of what there is, in words: tasks, methods, and runs with why others are not. */
function drawnInWords(view, chosen, lines) {
  const drawn = new Set(lines.flatMap(line => line.curves.map(({ run }) => run)));
  const some = (what, all, names) => {
    const left = all.filter(one => !names.has(one.name)).map(one => one.label);
    const which = left.length ? ` (not ${left.slice(0, 4).join(", ")}${left.length > 4 ? ", …" : ""})` : "";
    return `${all.length - left.length} of ${plural(all.length, what)}${which}`;
  };
  const others = chosen.filter(run => !drawn.has(run));
  const notBest = others.filter(run => lines.some(({ curve, curves: [first] }) => curve.name === run.curve &&
    first.run.task === run.task) && view.lr[0] === "best");
  const why = [
    [data.runs.length - chosen.length, "not chosen"],
    [notBest.length, "with step sizes other than the best"],
    [others.length - notBest.length, "without what is drawn"],
  ].filter(([count]) => count).map(([count, reason]) => `${count} ${reason}`);
  return `Drawn: ${some("task", data.tasks, new Set([...drawn].map(run => run.task)))}, ` +
    `${some("method", data.methods, new Set([...drawn].map(run => run.method)))}, ` +
    `${drawn.size} of ${plural(data.runs.length, "run")}${why.length ? ` (${why.join(", ")})` : ""}.`;
}
