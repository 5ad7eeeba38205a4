// How things look: the page's colours, those of methods where its ground is dark, and lines with their markers.

const dark = matchMedia("(prefers-color-scheme: dark)");
const CONTRAST = 4.5; // of a line with a dark ground, at least

const style = getComputedStyle(document.documentElement);
const ofPage = Object.fromEntries(["page", "ink", "quiet", "grid"].map(name => [name, style.getPropertyValue(`--${name}`).trim()]));

const pixel = make("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });

/** Red, green and blue of any colour that a browser knows. */
function channels(color) {
  pixel.fillStyle = color;
  pixel.fillRect(0, 0, 1, 1);
  return [...pixel.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

/** Relative luminance as in WCAG 2. */
function luminance(color) {
  const [red, green, blue] = color.map(value => value / 255)
    .map(value => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The colour itself; on a dark ground with as much white as it takes to be seen. */
function seen(color) {
  if (!dark.matches) return color;
  const own = channels(color), ground = luminance(channels(ofPage.page));
  let share = 0, mixed = own;
  while (share < 1 && (luminance(mixed) + 0.05) / (ground + 0.05) < CONTRAST) {
    share += 0.05;
    mixed = own.map(value => Math.round(value + (255 - value) * share));
  }
  return share ? `rgb(${mixed.join()})` : color;
}

const methods = new Map(data.methods.map(method => [method.name, { ...method, color: seen(method.color) }]));
const curves = new Map(data.curves.map(curve => {
  const { color, symbol } = methods.get(curve.method);
  return [curve.name, { ...curve, color, symbol }];
}));

/** A line with its marker, as methods are drawn. */
function swatch(look) {
  const shapes = {
    circle: "M19,7a4,4 0 1,0 -8,0a4,4 0 1,0 8,0Z", square: "M11.5,3.5h7v7h-7Z", diamond: "M15,2l5,5l-5,5l-5,-5Z",
    "triangle-up": "M15,2.5l4.5,8h-9Z", "triangle-down": "M15,11.5l4.5,-8h-9Z", "triangle-left": "M10.5,7l8,-4.5v9Z",
    "triangle-right": "M19.5,7l-8,-4.5v9Z", cross: "M13.5,3h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5Z",
    x: "M12,3l3,3l3,-3l1,1l-3,3l3,3l-1,1l-3,-3l-3,3l-1,-1l3,-3l-3,-3Z", pentagon: "M15,2.5l4.5,3.3l-1.7,5.2h-5.6l-1.7,-5.2Z",
    hexagon: "M15,2.5l4,2.2v4.6l-4,2.2l-4,-2.2v-4.6Z",
    star: "M15,2l1.5,3.2l3.5,.5l-2.5,2.5l.6,3.5l-3.1,-1.7l-3.1,1.7l.6,-3.5l-2.5,-2.5l3.5,-.5Z",
  };
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const dash = look.dash === "solid" ? "none" : look.dash.replaceAll("px", "");
  const parts = [
    ["path", { d: "M0,7H30", stroke: look.color, "stroke-width": 2, "stroke-dasharray": dash }],
    ["path", { d: shapes[look.symbol], fill: look.color, stroke: ofPage.page, "stroke-width": 0.8 }],
  ];
  for (const [name, value] of Object.entries({ width: 30, height: 14, "aria-hidden": true })) svg.setAttribute(name, value);
  for (const [tag, attributes] of parts) {
    const part = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    svg.append(part);
  }
  return svg;
}
