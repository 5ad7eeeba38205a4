// Start the page, and redraw it after every choice.

/** Draw everything that depends on the form, and keep it in the address. */
function show() {
  const view = read(), tasks = data.tasks.filter(task => view.tasks.includes(task.name)), chosen = chosenRuns(view);
  remember(view);
  const lines = drawPanels(tasks, view, chosen);
  at("drawn").textContent = drawnInWords(lines);
  const rules = [...new Set(tasks.map(({ rule }) => rule))].join(", or, on other tasks, ");
  const each = "A line for each step size: the larger, the stronger.";
  at("reading").textContent = `${view.lr === "best" ? `Each method with ${rules}.` : each} ${data.axes[view.x].about}`;
  showTargets(tasks, view, chosen);
  showRuns(view, chosen);
}

/** Say how many of the tasks, methods and runs are drawn. */
function drawnInWords(lines) {
  const drawn = new Set(lines.flatMap(({ seeds }) => seeds.map(({ run }) => run)));
  const some = (what, all, key) => `${new Set([...drawn].map(run => run[key])).size} of ${plural(all.length, what)}`;
  const parts = [some("task", data.tasks, "task"), some("method", data.methods, "method")];
  return `Drawn: ${parts.join(", ")}, ${drawn.size} of ${plural(data.runs.length, "run")}.`;
}

function start() {
  at("choose").open = !matchMedia("(max-width: 900px)").matches;
  dark.addEventListener("change", () => location.reload());
  buildForm();
  write(location.hash);
  at("controls").addEventListener("submit", event => event.preventDefault());
  at("controls").addEventListener("input", ({ target: { id } }) => {
    if (["x", "y"].includes(id)) at(`log${id}`).checked = isUsuallyLog[`log${id}`](read());
    show();
  });
  window.addEventListener("hashchange", () => { write(location.hash); show(); });
  showHeader();
  showClaims();
  show();
}

if (data.runs.length) start();
else {
  at("summary").textContent = `No runs yet, looked for ${data.made}.`;
  at("content").replaceChildren(at("empty").content);
}
