// The table of runs, sorted by any of its columns.

const MOST_ROWS = 300; // until all are asked for

const sorting = { column: -1, down: false, all: false };

/** Columns {name, of}: what stands there of a run, a number or text. */
function runColumns(view) {
  const metric = view.y[0], { label, higher } = data.metrics[metric];
  const best = values => values.reduce((a, b) => (higher ? Math.max(a, b) : Math.min(a, b)));
  const last = run => run.trials.map(trial => trial[metric]?.at(-1)).filter(value => Number.isFinite(value));
  return [
    { name: "folder", of: run => run.folder },
    { name: "task", of: run => run.task },
    { name: "method", of: run => methods.get(run.method).label },
    ...data.settings.map(({ key }) => ({ name: key, of: run => run.settings[key] ?? "" })),
    { name: "seed", of: run => run.seed },
    { name: "step sizes", of: run => run.trials[0].lr,
      text: run => run.trials.map(trial => short(trial.lr) + (trial.above ? " (ends above its start)" : "")).join(", ") },
    { name: `last ${label}`, of: run => (last(run).length ? best(last(run)) : "") },
    { name: "rounds done", of: run => run.axes.round.at(-1), text: run => `${run.axes.round.at(-1)} of ${run.rounds}` },
    { name: "status", of: run => run.status },
    { name: "workers, ranks", of: run => run.workers, text: run => `${run.workers}, ${run.ranks}` },
    { name: "commit", of: run => run.commit },
  ];
}

const inOrder = new Intl.Collator("en", { numeric: true }).compare;

/** Numbers by value, texts that are numbers too, others by letters; what is missing comes last, downwards too. */
function compared(a, b, down) {
  if (a === "" || b === "") return (a === "") - (b === "");
  return (Number(a) - Number(b) || inOrder(String(a), String(b))) * (down ? -1 : 1);
}

function showRuns(view, chosen) {
  at("runs-summary").textContent = `${chosen.length} of ${plural(data.runs.length, "run")}: those chosen, with links to their folders`;
  if (!at("runs").parentElement.open) return;
  const columns = runColumns(view), by = columns[sorting.column];
  const sorted = by ? [...chosen].sort((a, b) => compared(by.of(a), by.of(b), sorting.down)) : chosen;
  const shown = sorting.all ? sorted : sorted.slice(0, MOST_ROWS);
  const rows = shown.map(run => columns.map(({ of, text }, i) => {
    if (i === 0) return make("a", { href: run.href }, run.folder);
    const value = of(run);
    return text ? text(run) : typeof value === "number" ? short(value) : value;
  }));
  const headings = columns.map(({ name }, i) => {
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => {
      Object.assign(sorting, { down: sorting.column === i && !sorting.down, column: i });
      showRuns(view, chosen);
      at("runs").querySelectorAll("thead button")[i].focus();
    });
    return button;
  });
  const made = table("runs", "", headings, rows);
  if (by) made.tHead.rows[0].cells[sorting.column].setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
  at("runs").replaceChildren(made);
  if (shown.length === sorted.length) return;
  const more = make("button", { type: "button" }, `all ${sorted.length}, not the first ${MOST_ROWS} alone`);
  more.addEventListener("click", () => { sorting.all = true; showRuns(view, chosen); });
  at("runs").append(more);
}
