// The tables below the curves: bits to reach a level, claims, and runs; and what they say in a sentence.

/** A task's curves with finished runs, their trials, levels and the bits to each of them. */
function bitsToLevels(task, byCurve, metric, typed = []) {
  const { higher } = data.metrics[metric];
  const rows = [...byCurve].map(([name, trials]) => ({ curve: curves.get(name), trials: trials.filter(({ run }) => run.latest) }))
    .filter(({ trials }) => trials.length);
  const levels = typed.length ? typed : rows.length ? task.levels[metric] : [];
  for (const row of rows) row.bits = levels.map(level => bitsToReach(row.trials, metric, level, higher));
  return { rows, levels };
}

const levelInWords = (level, metric) => (data.metrics[metric].higher ? `${short(100 * level)} %` : short(level));

function showTargets(tasks, view, byTask) {
  const { label, higher } = data.metrics[view.y];
  const typed = view.levels.split(/[\s,;]+/).filter(Boolean).map(Number);
  at("levels").setCustomValidity(typed.every(Number.isFinite) ? "" : "numbers, separated by spaces");
  at("targets-title").textContent = `Bits to reach a ${label}`;
  at("targets-side").textContent = higher ? "above" : "below";
  at("targets-fewer").textContent = fewer() && `Only evaluations on this page count, so bits are upper bounds: ${fewer()}.`;
  if (!typed.every(Number.isFinite)) return;
  at("targets").replaceChildren(...tasks.map(task => {
    const { rows, levels } = bitsToLevels(task, byTask.get(task.name), view.y, typed);
    const why = rows.length ? "no level lies between start and best" : "not measured by these methods and seeds";
    if (!levels.length) return make("p", { class: "note" }, `${task.label}: ${why}`);
    const reached = levels.map((_, i) => rows.map(({ bits }) => bits[i]?.bits).filter(bits => bits !== undefined));
    const cells = rows.map(({ curve, trials, bits }) => [
      curveCell(curve, trials), ...bits.map((found, i) => targetCell(found, least(reached[i]), greatest(reached[i]))),
    ]);
    const headings = ["method", ...levels.map(level => levelInWords(level, view.y))];
    const made = scrolling(`Bits to levels on ${task.label}`, table("targets", task.label, headings, cells));
    made.dataset.task = task.name;
    return made;
  }));
}

function curveCell(curve, trials) {
  const finished = trials.every(({ run }) => run.status === "finished");
  return make("span", {}, swatch(curve), ` ${curve.label}`, make("small", {}, finished ? "" : " not finished"));
}

function targetCell(found, fewest, most) {
  if (!found) return make("td", {}, "–");
  if (!found.bits) return make("td", { "data-bits": 0 }, "at the start");
  const { bits, low, high, round, lr } = found;
  const title = `${bits} bits${low < high ? `, seeds ${low} to ${high}` : ""}`;
  return make("td", { "data-bits": bits, "data-round": round, "data-lr": lr, title },
    make("span", { class: bits === fewest ? "fewest" : "" }, inBits(bits)), most > bits ? ` (${short(most / bits)}×)` : "",
    make("small", {}, `${short(round)} rounds, step ${short(lr)}`));
}

/** What runs of a task say: the hardest level that two methods reached, and who took the fewest and the most bits to it. */
function findingOn(task, byCurve, metric) {
  const { rows, levels } = bitsToLevels(task, byCurve, metric);
  const several = new Set(rows.map(({ curve }) => curve.method)).size > 1; // methods, each with its best variant
  const name = curve => (several ? methods.get(curve.method).label : curve.label);
  for (const [i, level] of [...levels.entries()].reverse()) {
    const reached = rows.filter(({ bits }) => bits[i]?.bits).map(row => ({ name: name(row.curve), bits: row.bits[i].bits }));
    const best = [...Map.groupBy(reached, one => one.name).values()].map(some => some.reduce((a, b) => (b.bits < a.bits ? b : a)));
    if (best.length < 2) continue;
    const [fewest, ...others] = best.sort((a, b) => a.bits - b.bits), most = others.at(-1);
    if (fewest.bits === most.bits) return null;
    const times = `${short(most.bits / fewest.bits)}× fewer bits than ${most.name}`;
    const goal = `${data.metrics[metric].label} of ${levelInWords(level, metric)}`;
    return { title: `${fewest.name}: ${times}`, line: `${task.label}: ${fewest.name} took ${inBits(fewest.bits)} to a ${goal}, ${times}.` };
  }
  return null;
}

const MOST_FINDINGS = 2;

function showHeader(byTask) {
  const found = data.tasks.map(task => findingOn(task, byTask.get(task.name), first.y)).filter(Boolean);
  const more = found.length > MOST_FINDINGS ? ` So on ${plural(found.length - MOST_FINDINGS, "other task")}.` : "";
  at("title").textContent = data.study || "Results";
  document.title = [data.study || "Results", ...(found.length === 1 ? [found[0].title] : [])].join(": ");
  at("finding").textContent = found.length ? found.slice(0, MOST_FINDINGS).map(({ line }) => line).join(" ") + more :
    `No two curves took different bits to a common level of the ${data.metrics[first.y].label}.`;
  const commits = data.commits.slice(0, 3).map(([commit, runs]) => `${commit} (${plural(runs, "run")})`);
  const others = data.commits.length > 3 ? `, and ${plural(data.commits.length - 3, "other commit")}` : "";
  at("summary").textContent =
    `${plural(data.runs.length, "run")} of ${plural(data.methods.length, "method")} on ${plural(data.tasks.length, "task")}, ` +
    `read ${data.made}. Code: ${commits.join(", ")}${others}.`;
  showNotices();
}

function showNotices() {
  const notice = (...children) => at("notices").append(make("div", { class: "notice" }, ...children));
  const unfinished = data.runs.filter(run => run.status !== "finished").map(run =>
    `${run.task}, ${run.method}, seed ${run.seed}: ${run.status}, round ${run.axes.round.at(-1)} of ${run.rounds}`);
  if (unfinished.length) {
    const some = unfinished.slice(0, 5).join("; ") + (unfinished.length > 5 ? "; …" : "");
    notice(`${plural(unfinished.length, "run")} not finished, drawn dotted. ${some}.`);
  }
  if (data.older) notice(`${plural(data.older, "older run")} with the settings of later ones left out.`);
  for (const text of data.identical) notice(text);
  if (fewer()) notice(`Too many evaluations for one page: ${fewer()}. python -m experiments.report points=all has all.`);
}

/** How many runs have only some of their evaluations on the page, in words; empty where none has. */
function fewer() {
  const cut = data.runs.filter(run => run.axes.round.length < run.evaluations);
  if (!cut.length) return "";
  const [shown, all] = [greatest(cut.map(run => run.axes.round.length)), greatest(cut.map(run => run.evaluations))];
  return `${cut.length} of ${data.runs.length} runs are here with up to ${shown} of their up to ${all} evaluations`;
}

function showClaims() {
  const none = ["None yet. Claims are judged where figures are made: ",
    make("code", {}, "python -m experiments.reproduce figure=demo")];
  if (!data.figures.length) at("claims").append(make("p", { class: "note" }, ...none));
  for (const [i, figure] of data.figures.entries()) {
    const parts = Map.groupBy(figure.claims, ({ step_size }) => (["best", "paper's"].includes(step_size) ? "" : "equal"));
    const [main, equal] = parts.has("") ? [parts.get(""), parts.get("equal") ?? []] : [figure.claims, []];
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
  const open = count("not decidable");
  return `${count("holds")} of ${claims.length} hold, ${count("fails")} fail${open ? `, ${open} not decidable` : ""}`;
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

/** The columns of the table of runs: a name, what it is sorted by, and what stands there if that differs. */
function runColumns({ y }) {
  const { label, higher } = data.metrics[y];
  const last = run => run.trials.map(trial => trial[y]?.at(-1)).filter(Number.isFinite);
  const sizes = run => run.trials.map(({ lr, above }) => short(lr) + (above ? " (ends above its start)" : "")).join(", ");
  return [
    ["folder", run => run.folder, run => make("a", { href: run.href }, run.folder)],
    ["task", run => run.task],
    ["method", run => methods.get(run.method).label],
    ...data.settings.map(({ key }) => [key, run => run.settings[key] ?? ""]),
    ["seed", run => run.seed],
    ["step sizes", run => run.trials[0].lr, sizes],
    [`last ${label}`, run => (last(run).length ? (higher ? greatest(last(run)) : least(last(run))) : "")],
    ["rounds done", run => run.axes.round.at(-1), run => `${run.axes.round.at(-1)} of ${run.rounds}`],
    ["status", run => run.status],
    ["workers, ranks", run => run.workers, run => `${run.workers}, ${run.ranks}`],
    ["commit", run => run.commit],
  ];
}

const sorting = { column: -1, down: false };
const inOrder = new Intl.Collator("en", { numeric: true }).compare;

/** Numbers by value, also those in text, other text by letters; what is missing comes last, downwards too. */
function compared(a, b, down) {
  if (a === "" || b === "") return (a === "") - (b === "");
  return (Number(a) - Number(b) || inOrder(String(a), String(b))) * (down ? -1 : 1);
}

function showRuns(view, chosen) {
  at("runs-summary").textContent = `${chosen.length} of ${plural(data.runs.length, "run")}: those chosen, with links to their folders`;
  if (!at("runs").parentElement.open) return;
  const columns = runColumns(view), [, key] = columns[sorting.column] ?? [];
  const sorted = key ? [...chosen].sort((a, b) => compared(key(a), key(b), sorting.down)) : chosen;
  const text = value => (typeof value === "number" ? short(value) : value);
  const rows = sorted.map(run => columns.map(([, of, shown]) => (shown ? shown(run) : text(of(run)))));
  const headings = columns.map(([name], i) => button({}, () => {
    Object.assign(sorting, { down: sorting.column === i && !sorting.down, column: i });
    showRuns(view, chosen);
    at("runs").querySelectorAll("thead button")[i].focus();
  }, name));
  const made = table("runs", "", headings, rows);
  if (key) made.tHead.rows[0].cells[sorting.column].setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
  at("runs").replaceChildren(made);
}
