// The mirror of the form in the address behind the #, a step of the browser's history for every change.

/** The view that stands for what an address leaves out: the first one, with the usual scales of its axes. */
function usual(x, y) {
  return { ...atFirst, logx: [isUsuallyLog("x", x) ? "1" : "0"], logy: [isUsuallyLog("y", y) ? "1" : "0"] };
}

/** What is not as usual in a view, as the part of an address behind the #. */
function toHash(view) {
  const entries = new URLSearchParams();
  const left = usual(view.x[0], view.y[0]);
  for (const [name, chosen] of Object.entries(view)) {
    if (JSON.stringify(chosen) === JSON.stringify(left[name])) continue;
    for (const value of chosen.length ? chosen : [""]) entries.append(name, value);
  }
  return `#${entries}`;
}

/** The view of an address; names that mean nothing here are as if left out. */
function fromHash(hash) {
  const entries = new URLSearchParams(hash.slice(1));
  const known = (id, names) => (Object.hasOwn(names, entries.get(id)) ? entries.get(id) : atFirst[id][0]);
  const [x, y] = [known("x", data.axes), known("y", data.metrics)];
  const left = usual(x, y);
  const view = Object.keys(left).map(name => [name, entries.has(name) ? entries.getAll(name) : left[name]]);
  return { ...Object.fromEntries(view), x: [x], y: [y] };
}

/** Keep a view in the address, as a step that Back undoes or in the place of the last one. */
function remember(view, isStep) {
  const hash = toHash(view);
  if (hash === (location.hash || "#")) return;
  if (isStep) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}
