// The tables below the curves: bits to reach a level, and claims.

/** A table from a caption, headings, and rows whose cells are elements or text; the first cell of a row is its heading. */
function table(className, caption, headings, rows) {
  const heading = (cell, scope) => make("th", { scope }, cell);
  const head = make("thead", {}, make("tr", {}, ...headings.map(cell => heading(cell, "col"))));
  const body = make("tbody", {}, ...rows.map(([first, ...cells]) =>
    make("tr", {}, heading(first, "row"), ...cells.map(cell => cell instanceof Element ? cell : make("td", {}, cell)))));
  return make("table", { class: className }, ...(caption ? [make("caption", {}, caption)] : []), head, body);
}

/** Attributes of what holds a table that may be wider than the page: to be scrolled from the keyboard too. */
const scrolling = name => ({ class: "scroll", role: "region", tabindex: "0", "aria-label": name });

function showTargets(tasks, view, grouped) {
  const metric = view.y[0], { label, higher } = data.metrics[metric];
  at("targets-title").textContent = `Bits to reach a ${label}`;
  at("targets-note").textContent =
    `Bits of one worker, both directions, at the first evaluation at the level or ${higher ? "above" : "below"} it, with the ` +
    "step size of the grid that got there with the fewest, in every seed (means over seeds). A dash: none did. In " +
    "parentheses: how many times fewer bits than the method that took the most to get there." +
    (fewer() && ` Only evaluations on this page count, so bits are upper bounds: ${fewer()}.`);
  const levels = typedLevels(view.levels[0]);
  at("levels").setCustomValidity(levels ? "" : "numbers, separated by spaces");
  if (levels) at("targets").replaceChildren(...tasks.map(task => targetsOf(task, grouped.get(task.name), metric, higher, levels)));
}

/** One task's table. */
function targetsOf(task, ofTask, metric, higher, typed) {
  const rows = [...curves.values()].filter(curve => ofTask.has(curve.name))
    .map(curve => ({ curve, found: trialsOf(ofTask.get(curve.name)).filter(({ run, trial }) => run.settled && trial[metric]) }))
    .filter(({ found }) => found.length);
  const levels = typed.length ? typed : usualLevels(rows.flatMap(row => row.found), metric, higher);
  if (!levels.length) {
    const why = rows.length ? "no level lies between start and best" : "not measured by these methods and seeds";
    return make("p", { class: "note" }, `${task.label}: ${why}`);
  }
  const reached = rows.map(row => levels.map(level => bitsToReach(row.found, metric, level, higher)));
  const most = levels.map((_, i) => Math.max(...reached.map(cells => cells[i]?.bits ?? 0)));
  const fewest = levels.map((_, i) => Math.min(...reached.map(cells => cells[i]?.bits ?? Infinity)));
  const body = rows.map(({ curve, found }, k) => [
    curveCell(curve, found),
    ...reached[k].map((found, i) => targetCell(found, found?.bits === fewest[i], most[i])),
  ]);
  const headings = ["method", ...levels.map(level => higher ? `${short(100 * level)} %` : short(level))];
  return make("div", { ...scrolling(`Bits to levels on ${task.label}`), "data-task": task.name }, table("targets", task.label, headings, body));
}

function curveCell(curve, found) {
  const finished = found.every(({ run }) => run.status === "finished");
  const cell = make("span", {}, swatch(curve), ` ${curve.label}`);
  if (!finished) cell.append(make("small", {}, " not finished"));
  return cell;
}

function targetCell(found, isFewest, most) {
  if (!found) return make("td", {}, "–");
  if (!found.bits) return make("td", { "data-bits": 0 }, "at the start");
  const spread = found.low < found.high ? `, seeds ${found.low} to ${found.high}` : "";
  const attributes = { "data-bits": found.bits, "data-round": found.round, "data-lr": found.lr, title: `${found.bits} bits${spread}` };
  const ratio = most > found.bits ? ` (${short(most / found.bits)}×)` : "";
  return make("td", attributes,
    make("span", { class: isFewest ? "fewest" : "" }, inBits(found.bits)), ratio,
    make("small", {}, `${short(found.round)} rounds, step ${short(found.lr)}`));
}

function showClaims() {
  at("claims").replaceChildren(...data.figures.map((figure, i) => figureClaims(figure, i === 0)));
  if (!data.figures.length) {
    at("claims").append(make("p", { class: "note" }, "None yet. Claims are judged where figures are made: ",
      make("code", {}, "python -m experiments.reproduce figure=demo")));
  }
}

/** A figure's claims: those with the paper's and with best step sizes, and on demand those with equal ones. */
function figureClaims(figure, open) {
  const isNamed = claim => ["best", "paper's"].includes(claim.step_size);
  const best = figure.claims.filter(isNamed);
  const others = figure.claims.filter(claim => !isNamed(claim));
  const summary = make("summary", {}, make("strong", {}, figure.name), tally(best.length ? best : others));
  const place = make("div", scrolling(`Claims of ${figure.name}`), claimsTable(best.length ? best : others));
  const details = make("details", open ? { open: "" } : {}, summary);
  if (figure.note) details.append(make("p", { class: "notice" }, figure.note));
  details.append(make("p", { class: "note" }, make("a", { href: figure.href }, "the figure’s report"), ", with how each claim is measured"));
  if (best.length && others.length) {
    const box = make("input", { type: "checkbox" });
    box.addEventListener("change", () => place.replaceChildren(claimsTable(box.checked ? figure.claims : best)));
    details.append(make("label", { class: "check note" }, box, `also with equal step sizes for all methods: ${tally(others)}`));
  }
  details.append(place);
  return details;
}

function tally(claims) {
  const count = verdict => claims.filter(claim => claim.verdict === verdict).length;
  const open = count("not decidable");
  return `${count("holds")} of ${claims.length} hold, ${count("fails")} fail${open ? `, ${open} not decidable` : ""}`;
}

function claimsTable(claims) {
  const kinds = { holds: "holds", fails: "fails" };
  const ordered = [...claims].sort((a, b) => claims.findIndex(claim => sameClaim(claim, a)) - claims.findIndex(claim => sameClaim(claim, b)));
  const rows = ordered.map((claim, i) => {
    const repeated = i > 0 && sameClaim(ordered[i - 1], claim);
    const verdict = make("td", { class: `verdict ${kinds[claim.verdict] || "open"}` }, claim.verdict);
    return [repeated ? "" : claim.number, repeated ? "" : claim.statement, claim.task, claim.step_size, verdict, claim.measured];
  });
  return table("claims", "", ["claim", "statement", "task", "step size", "verdict", "measured"], rows);
}

const sameClaim = (one, other) => one.number === other.number && one.statement === other.statement;
