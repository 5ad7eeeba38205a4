// The tables below the curves: bits to reach a level, claims, and runs.

const levelInWords = (level, metric) => (data.metrics[metric].unit === "share" ? `${short(100 * level, 12)} %` : short(level, 12));

/** Show the bits to the usual levels, for curves with chosen runs. */
function showTargets(tasks, view, runs) {
  const { label, better } = data.metrics[view.y];
  at("targets-title").textContent = `Bits to reach a ${label}`;
  at("targets-side").textContent = better === "higher" ? "above" : "below";
  at("targets").replaceChildren(...tasks.map(task => {
    const { levels, rows } = task.targets[view.y] ?? { levels: [], rows: {} };
    const why = !(view.y in task.targets) ? "not measured" : better ? "no level lies between start and best" : "the task does not say which way is better";
    if (!levels.length) return make("p", { class: "note" }, `${task.label}: ${why}`);
    const chosen = new Set(runs.filter(run => run.task === task.name).map(run => run.curve));
    const shown = Object.entries(rows).filter(([name]) => chosen.has(name));
    const least = levels.map((_, i) => Math.min(...shown.map(([, cells]) => cells[i].bits ?? Infinity)));
    const cells = shown.map(([name, cells]) => [
      make("span", {}, swatch(curves.get(name)), ` ${curves.get(name).label}`),
      ...cells.map((cell, i) => targetCell(cell, least[i])),
    ]);
    const headings = ["method", ...levels.map(level => levelInWords(level, view.y))];
    const made = scrolling(`Bits to levels on ${task.label}`, table("targets", task.label, headings, cells));
    made.dataset.task = task.name;
    return made;
  }));
}

function targetCell({ bits, round, lr }, least) {
  if (bits === null) return "–";
  if (!bits) return "at the start";
  return make("td", { title: `${bits} bits` }, make("span", { class: bits === least ? "fewest" : "" }, inBits(bits)),
    make("small", {}, `${short(round)} rounds, step ${short(lr)}`));
}

function showHeader() {
  at("title").textContent = document.title = data.study || "Results";
  at("summary").textContent =
    `${plural(data.runs.length, "run")} of ${plural(data.methods.length, "method")} on ${plural(data.tasks.length, "task")}, ` +
    `read ${data.made}.`;
  at("notices").append(...data.notices.map(text => make("div", { class: "notice" }, text)));
}

function showClaims() {
  const none = ["None yet. Claims are judged where figures are made: ",
    make("code", {}, "python -m experiments.reproduce figure=demo")];
  if (!data.figures.length) at("claims").append(make("p", { class: "note" }, ...none));
  for (const [i, figure] of data.figures.entries()) {
    const isNamed = ({ step_size }) => Number.isNaN(Number(step_size));
    const [main, equal] = [figure.claims.filter(isNamed), figure.claims.filter(claim => !isNamed(claim))];
    const details = make("details", i ? {} : { open: "" }, make("summary", {}, make("strong", {}, figure.name), tally(main)));
    if (figure.note) details.append(make("p", { class: "notice" }, figure.note));
    const link = make("a", { href: figure.href }, "the figure’s report");
    details.append(make("p", { class: "note" }, link, " says how each claim is measured"), claimsTable(figure, main));
    if (equal.length) {
      const summary = make("summary", {}, `with equal step sizes for all methods: ${tally(equal)}`);
      details.append(make("details", { class: "equal" }, summary, claimsTable(figure, equal)));
    }
    at("claims").append(details);
  }
}

function tally(claims) {
  const count = verdict => claims.filter(claim => claim.verdict === verdict).length;
  return `${count("holds")} of ${claims.length} hold, ${count("fails")} fail, ${count("not decidable")} not decidable`;
}

function claimsTable(figure, claims) {
  const verdict = ({ verdict }) =>
    make("td", { class: `verdict ${["holds", "fails"].includes(verdict) ? verdict : "open"}` }, verdict);
  const rows = claims.map(claim => [
    claim.number, claim.statement, claim.task, claim.step_size, verdict(claim), claim.measured,
  ]);
  const headings = ["claim", "statement", "task", "step size", "verdict", "measured"];
  return scrolling(`Claims of ${figure.name}`, table("claims", "", headings, rows));
}

/** Show the table of runs. It exists only while it is open, because thousands of rows would fill a phone's memory. */
function showRuns(view, chosen) {
  const place = at("runs"), details = place.closest("details");
  at("runs-summary").textContent = `${chosen.length} of ${plural(data.runs.length, "run")}: those chosen, with links to their folders`;
  details.ontoggle = () => place.replaceChildren(...(details.open ? [runsTable(view, chosen)] : []));
  details.ontoggle();
}

function runsTable({ y }, chosen) {
  const { label, better } = data.metrics[y], keys = data.settings.map(({ key }) => key);
  const rows = chosen.map(run => {
    const last = run.trials.map(trial => trial[y]?.at(-1)).filter(Number.isFinite);
    const ends = better && last.length ? [Math[better === "higher" ? "max" : "min"](...last)] : last;
    return [
      make("a", { href: run.href }, run.folder), run.task, methods.get(run.method).label,
      ...keys.map(key => run.settings[key] ?? ""), run.seed,
      run.trials.map(({ lr, above }) => short(lr) + (above ? " (ends above its start)" : "")).join(", "),
      ends.map(end => short(end)).join(", "),
      `${run.axes.round.at(-1)} of ${run.rounds}`, run.status, run.workers, run.commit,
    ];
  });
  const headings = ["folder", "task", "method", ...keys, "seed", "step sizes", `last ${label}`, "rounds done", "status", "workers", "commit"];
  return table("runs", "", headings, rows);
}
