
(() => {
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");
const make = (name, attributes = {}, ...children) => {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) {
    if (k in e && typeof v !== "string") e[k] = v; else e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
};
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Curves.

const dashes = [[], [8, 5], [3, 4]];
const lineColor = s => color(s.color < 0 ? "--soft" : "--c" + s.color % 6);
const lineDash = s => dashes[(s.dash + (s.color > 5 ? 1 : 0)) % dashes.length];
const faint = c => c + "2e"; // makes a colour #rrggbb almost transparent
const trim = x => String(Number(x.toPrecision(6)));

function said(chart, s, i) {
  if (s.values[i] === null || s.values[i] === undefined) return "–";
  if (s.text && s.text[i]) return chart.percent && !/%/.test(s.text[i]) ? (100 * s.values[i]).toFixed(1) + " %, " + s.text[i] : s.text[i];
  return chart.percent ? (100 * s.values[i]).toFixed(1) + " %" : s.values[i].toFixed(4);
}

function draw(figure, chart) {
  const stepped = uPlot.paths.stepped, paths = {
    step: stepped({align: -1}), bins: stepped({align: 1}), line: uPlot.paths.linear(), points: uPlot.paths.linear(), dots: () => null,
  };
  const place = make("div", {class: "plot", role: "img", "aria-label": chart.title + ". The slider below it reads its values."});
  const at = make("p", {class: "at"});
  const readout = make("ul", {class: "readout"});
  const slider = make("input", {type: "range", min: "0", max: String(chart.x.length - 1), step: "1", value: "0", "aria-label": chart.title + ": " + chart.xLabel});
  figure.append(place, slider, at, readout);
  const values = chart.series.map(() => make("span"));
  const keys = chart.series.map(() => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS(svg.namespaceURI, "line");
    for (const [k, v] of Object.entries({x1: 0, x2: 28, y1: 4, y2: 4, "stroke-width": 3})) line.setAttribute(k, v);
    svg.append(line);
    return svg;
  });
  chart.series.forEach((s, k) => readout.append(make("li", {}, keys[k], make("span", {}, s.name + ": ", values[k]))));
  // The slider stops only where a series has a value. Series of the shape "line" do not count.
  let present = chart.x.map((_, i) => i).filter(i => chart.series.some(s => s.shape !== "line" && s.values[i] !== null));
  if (!present.length) present = chart.x.map((_, i) => i);
  slider.max = String(present.length - 1);
  const show = k => {
    const i = present[k];
    slider.value = String(k);
    at.textContent = chart.xLabel + " " + trim(chart.x[i]);
    chart.series.forEach((s, j) => { values[j].textContent = said(chart, s, i); });
    slider.setAttribute("aria-valuetext", at.textContent + ": " + chart.series.map((s, j) => s.name + " " + values[j].textContent).join("; "));
    return i;
  };
  let plot, own = false;
  const build = () => {
    if (plot) plot.destroy();
    const table = [chart.x], lines = [{}], bands = [];
    const banded = (low, high, fill) => {
      table.push(high, low);
      const n = lines.push({show: true, width: 0, points: {show: false}, paths: paths.step}, {show: true, width: 0, points: {show: false}, paths: paths.step});
      bands.push({series: [n - 2, n - 1], fill});
    };
    for (const s of chart.series) {
      if (s.low && s.shape === "step") banded(s.low, s.high, faint(lineColor(s)));
    }
    const first = lines.length;
    for (const s of chart.series) {
      table.push(s.values);
      lines.push({
        label: s.name, stroke: lineColor(s), width: 2, dash: lineDash(s), paths: paths[s.shape], spanGaps: s.shape !== "bins",
        points: {show: s.shape === "points" || s.shape === "dots", size: 7, fill: lineColor(s)},
      });
    }
    const axis = (label, percent) => ({
      label, labelSize: 22, size: percent ? 56 : 44, stroke: color("--soft"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
      grid: {stroke: color("--line"), width: 1}, ticks: {stroke: color("--line"), width: 1},
      values: (_, ticks) => ticks.map(t => percent ? Math.round(100 * t) + " %" : trim(t)),
    });
    keys.forEach((svg, k) => {
      svg.firstChild.setAttribute("stroke", lineColor(chart.series[k]));
      svg.firstChild.setAttribute("stroke-dasharray", lineDash(chart.series[k]).join(" "));
    });
    const highest = Math.max(...chart.series.flatMap(s => [...s.values, ...(s.high || [])]).filter(v => v !== null));
    plot = new uPlot({
      width: Math.max(240, place.clientWidth), height: 280, legend: {show: false}, series: lines, bands,
      cursor: {drag: {x: false, y: false}, y: false, points: {show: (u, k) => k >= first ? undefined : false}},
      scales: {x: {time: false, range: (_, low, high) => [low, high]}, y: {range: [0, highest > .5 && chart.percent ? 1 : 1.08 * (highest || 1)]}},
      axes: [axis(chart.xLabel, false), axis(chart.yLabel, chart.percent)],
      hooks: {
        setCursor: [u => {
          if (own || u.cursor.idx === null || u.cursor.idx === undefined) return;
          const k = present.findIndex(i => i >= u.cursor.idx);
          show(k < 0 ? present.length - 1 : k);
        }],
        draw: [u => bars(u, chart)],
      },
    }, table, place);
  };
  // Error bars of points that have a band.
  const bars = (u, chart) => {
    for (const s of chart.series) {
      if (!s.low || s.shape !== "dots") continue;
      u.ctx.save();
      u.ctx.strokeStyle = lineColor(s);
      u.ctx.lineWidth = devicePixelRatio;
      u.ctx.setLineDash([]);
      u.ctx.beginPath();
      s.low.forEach((low, i) => {
        if (low === null) return;
        const x = u.valToPos(chart.x[i], "x", true);
        u.ctx.moveTo(x, u.valToPos(low, "y", true));
        u.ctx.lineTo(x, u.valToPos(s.high[i], "y", true));
      });
      u.ctx.stroke();
      u.ctx.restore();
    }
  };
  const point = k => {
    const i = show(k);
    own = true;
    plot.setCursor({left: plot.valToPos(chart.x[i], "x"), top: 0});
    own = false;
  };
  slider.addEventListener("input", () => point(Number(slider.value)));
  build();
  show(Math.min(present.length - 1, Math.floor(present.length / 4)));
  for (const m of [dark, paper]) m.addEventListener("change", build);
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    plot.setSize({width: Math.max(240, width), height: 280});
  }).observe(place);
  figure.append(list(chart));
}

// list returns the values of a chart as a table, which is made when the reader opens it.
function list(chart) {
  const details = make("details", {}, make("summary", {}, "Values as a table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const every = Math.ceil(chart.x.length / 60);
    const body = make("tbody");
    chart.x.forEach((x, i) => {
      if (i % every) return;
      body.append(make("tr", {}, make("th", {scope: "row"}, trim(x)), ...chart.series.map(s => make("td", {}, said(chart, s, i)))));
    });
    details.append(make("div", {class: "values", tabindex: "0", role: "region", "aria-label": chart.title + ", values"},
      make("table", {}, make("thead", {}, make("tr", {}, make("th", {scope: "col"}, chart.xLabel), ...chart.series.map(s => make("th", {scope: "col"}, s.name)))), body)));
  });
  return details;
}

document.querySelectorAll(".chart").forEach(f => draw(f, data.charts[Number(f.dataset.chart)]));

// Examples: only the rows in sight are in the document.

const className = k => k in data.classNames && data.classNames[k] !== String(k) ? k + " " + data.classNames[k] : String(k);
const result = (run, i) => run.prediction[i] < 0 ? "abstained" : run.label[i] < 0 ? "unknown" : run.prediction[i] === run.label[i] ? "right" : "wrong";
const columns = [
  {name: "Index", of: (run, i) => run.index[i]},
  {name: "Input, noisy", shown: run => run.sheets, fill: picture},
  {name: "Label", of: (run, i) => run.label[i], text: (run, i) => run.label[i] < 0 ? "–" : className(run.label[i]), kind: "name"},
  {name: "Certified", of: (run, i) => run.prediction[i], text: (run, i) => run.prediction[i] < 0 ? "–" : className(run.prediction[i]), kind: "name"},
  {name: "Result", of: result, text: result},
  {name: "Radius", title: run => run.norm + " radius", of: (run, i) => run.prediction[i] < 0 ? -1 : run.shown[i] === "∞" ? Infinity : run.radius[i], text: (run, i) => run.shown[i] || "–"},
  {name: "Votes", kind: "minor", shown: run => run.confidence, of: (run, i) => run.confidence[i], text: (run, i) => (100 * run.confidence[i]).toFixed(1) + " %"},
  {name: "Without noise", kind: "minor", shown: run => run.clean, of: (run, i) => run.clean[i], text: (run, i) => run.clean[i] < 0 ? "–" : className(run.clean[i])},
  {name: "Samples", kind: "minor", shown: run => run.n, of: (run, i) => run.n[i]},
];

// sheet returns the CSS class of a sheet's pictures. The sheet becomes an image when one of its pictures is first in sight.
const sheets = new Map();
function sheet(run, k) {
  const key = data.runs.indexOf(run) + "-" + k;
  if (!sheets.has(key)) {
    const bytes = Uint8Array.from(atob(run.sheets[k]), c => c.charCodeAt(0));
    const url = URL.createObjectURL(new Blob([bytes], {type: bytes[0] === 0x89 ? "image/png" : "image/jpeg"}));
    const rules = document.styleSheets[0];
    rules.insertRule(".s" + key + " { background-image: url(" + url + "); }", rules.cssRules.length);
    sheets.set(key, "s" + key);
  }
  return sheets.get(key);
}
function picture(cell, run, i) {
  if (i >= run.drawn) return;
  const each = run.columns * run.rows, k = Math.floor(i / each), place = i % each;
  const lines = Math.ceil(Math.min(run.drawn - k * each, each) / run.columns);
  ["input", "noisy sample"].forEach((what, right) => {
    const p = make("span", {class: "picture " + sheet(run, k), role: "img", "aria-label": what + " of example " + run.index[i]});
    p.style.width = run.width * run.scale + "px";
    p.style.height = run.height * run.scale + "px";
    p.style.backgroundSize = 2 * run.columns * run.pitch[0] * run.scale + "px " + lines * run.pitch[1] * run.scale + "px";
    p.style.backgroundPosition = -(2 * (place % run.columns) + right) * run.pitch[0] * run.scale + "px " + -Math.floor(place / run.columns) * run.pitch[1] * run.scale + "px";
    cell.append(p);
  });
}

const form = document.getElementById("filters"), rows = document.getElementById("rows"), count = document.getElementById("count");
const field = id => document.getElementById(id);
form.hidden = false;
let run, shown, order, sort = {column: 0, up: true}, rowHeight, body, above, below, last = "";

function choose() {
  run = data.runs[Number(field("run").value)];
  shown = columns.filter(c => !c.shown || c.shown(run));
  rowHeight = run.sheets ? run.height * run.scale + 8 : 40;
  sort = {column: 0, up: true};
  above = make("tr", {class: "gap", "aria-hidden": "true"}, make("td", {colspan: String(shown.length)}));
  below = above.cloneNode(true);
  body = make("tbody");
  const head = make("tr", {"aria-rowindex": "1"});
  shown.forEach((c, k) => {
    const cell = make("th", {scope: "col", class: c.kind === "minor" ? "minor" : ""});
    if (c.of) {
      const button = make("button", {type: "button"}, c.title ? c.title(run) : c.name);
      button.addEventListener("click", () => {
        sort = {column: k, up: sort.column === k ? !sort.up : true};
        arrange();
      });
      cell.append(button);
    } else {
      cell.append(make("span", {}, c.name));
    }
    head.append(cell);
  });
  rows.replaceChildren(make("table", {}, make("thead", {}, head), body));
  filter();
}

function filter() {
  const words = field("search").value.trim().toLowerCase();
  const wanted = field("result").value;
  const number = id => field(id).value === "" ? null : Number(field(id).value);
  const least = number("least"), most = number("most");
  order = [];
  for (let i = 0; i < run.index.length; i++) {
    const radius = run.shown[i] === "∞" ? Infinity : run.radius[i];
    if (wanted && result(run, i) !== wanted) continue;
    if (least !== null && !(radius >= least) || most !== null && !(radius <= most)) continue;
    if (words && String(run.index[i]) !== words && ![run.label[i], run.prediction[i]].some(c => c >= 0 && (String(c) === words || className(c).toLowerCase().includes(words) && !/^\d+$/.test(words)))) continue;
    order.push(i);
  }
  const of = run.index.length.toLocaleString("en");
  count.textContent = order.length === run.index.length ? of + " examples" : order.length.toLocaleString("en") + " of " + of + " examples";
  arrange();
}

function arrange() {
  const key = shown[sort.column].of, sign = sort.up ? 1 : -1;
  const keys = new Map(order.map(i => [i, key(run, i)]));
  order.sort((i, j) => {
    const a = keys.get(i), b = keys.get(j);
    return sign * (a < b ? -1 : a > b ? 1 : 0) || i - j;
  });
  rows.querySelectorAll("thead th").forEach((cell, k) => {
    if (k === sort.column) cell.setAttribute("aria-sort", sort.up ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
  const table = rows.firstElementChild;
  table.setAttribute("aria-rowcount", String(order.length + 1));
  rows.scrollTop = 0;
  last = "";
  fill();
}

// fill puts the rows in sight, and some around them, into the document.
function fill(all) {
  const spare = 8, from = all ? 0 : Math.max(0, Math.floor(rows.scrollTop / rowHeight) - spare);
  const to = all ? Math.min(order.length, all) : Math.min(order.length, from + Math.ceil(rows.clientHeight / rowHeight) + 2 * spare);
  const now = from + "-" + to;
  if (now === last) return;
  last = now;
  above.firstChild.style.height = from * rowHeight + "px";
  below.firstChild.style.height = all ? "0" : (order.length - to) * rowHeight + "px";
  const made = [];
  for (let k = from; k < to; k++) {
    const i = order[k];
    const row = make("tr", {"aria-rowindex": String(k + 2)});
    row.style.height = rowHeight + "px";
    for (const c of shown) {
      const cell = make("td", {class: [c.kind, c.name === "Result" ? result(run, i) : ""].filter(Boolean).join(" ")});
      if (c.fill) c.fill(cell, run, i);
      else {
        const text = String(c.text ? c.text(run, i) : c.of(run, i));
        cell.textContent = text;
        if (c.kind === "name") cell.title = text;
      }
      row.append(cell);
    }
    made.push(row);
  }
  body.replaceChildren(above, ...made, below);
}

let waiting = false;
rows.addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; fill(); });
}, {passive: true});
new ResizeObserver(() => fill()).observe(rows);
form.addEventListener("submit", e => e.preventDefault());
form.addEventListener("reset", () => setTimeout(choose));
for (const id of ["search", "result", "least", "most"]) field(id).addEventListener("input", filter);
field("run").addEventListener("input", choose);
addEventListener("beforeprint", () => fill(50)); // paper does not scroll, so print the first rows
addEventListener("afterprint", () => { last = ""; fill(); });
choose();
})();
