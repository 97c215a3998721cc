"use strict";
// Choices, schemes, keys and tables of the page; the charts themselves are plotly's.
(() => {
  const study = JSON.parse(document.getElementById("study").textContent);
  const plotly = window.Plotly || window.moduleName;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const spoken = document.getElementById("spoken");
  const choices = study.choices;
  const hidden = new Set();
  let showsSeeds = false;
  let isPrinted = false;
  const PRINTED_PX = 640; // fits A4 and Letter
  const each = (selector, act, from = document) => from.querySelectorAll(selector).forEach(act);
  const config = {
    responsive: true,
    displaylogo: false,
    // All buttons by name: those of later versions might send something.
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };

  // What all charts look like, below what each of them has of its own.
  const AXIS = {
    gridcolor: "@line",
    linecolor: "@soft",
    zerolinecolor: "@line",
    tickcolor: "@soft",
    automargin: true,
    title: { standoff: 8 },
  };
  const LAYOUT = {
    paper_bgcolor: "@paper",
    plot_bgcolor: "@paper",
    font: { color: "@ink", size: 13, family: "system-ui, sans-serif" },
    height: 460,
    margin: { l: 8, r: 12, t: 34, b: 8 },
    hovermode: "closest",
    hoverlabel: { bgcolor: "@paper", font: { color: "@ink" }, align: "left" },
    legend: { orientation: "h", x: 0, y: -0.24, yanchor: "top", itemsizing: "trace", traceorder: "normal" },
    modebar: { color: "@soft", activecolor: "@ink", bgcolor: "@paper" },
    barmode: "stack",
    bargap: 0.35,
    xaxis: AXIS,
    yaxis: AXIS,
  };
  // A line at a target.
  const SHAPE = {
    type: "line", layer: "below", xref: "paper", x0: 0, x1: 1,
    line: { color: "@soft", width: 1.2 },
    label: { textposition: "start", font: { color: "@soft", size: 11 } },
  };
  const ERROR = { type: "data", symmetric: false, thickness: 1.5, width: 4 };
  const LINE = { type: "scatter", showlegend: false, mode: "lines" };
  const TRACES = {
    band: { ...LINE, line: { width: 0 }, hoverinfo: "skip" },
    seed: { ...LINE, line: { width: 1, shape: "hv" } },
    order: { ...LINE, hoverinfo: "skip", line: { color: "@soft", width: 1 } },
    front: {
      ...LINE, name: "Pareto front", showlegend: true, hoverinfo: "skip",
      marker: { size: 18, symbol: "circle-open", color: "@soft" },
      line: { color: "@soft", width: 1.5, dash: "dot", shape: "hv" },
    },
    point: { ...LINE, mode: "markers", marker: { size: 7 } },
    mean: { ...LINE, showlegend: true },
    part: {
      type: "bar", orientation: "h",
      marker: {
        line: { color: "@paper", width: 0.5 },
        pattern: { fgcolor: "@paper", fillmode: "overlay", size: 7, solidity: 0.2 },
      },
    },
  };

  // Objects are joined key by key; any other value of a chart replaces the shared one.
  function joined(shared, own) {
    const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
    if (!isObject(shared) || !isObject(own)) return own === undefined ? shared : own;
    const keys = Object.keys({ ...shared, ...own });
    return Object.fromEntries(keys.map((key) => [key, joined(shared[key], own[key])]));
  }

  function completed(variant) {
    const layout = joined(LAYOUT, variant.layout);
    if (layout.shapes) layout.shapes = layout.shapes.map((shape) => joined(SHAPE, shape));
    const traces = variant.traces.map((trace) => {
      const whole = joined(TRACES[trace.meta.role], trace);
      const arm = `arm${trace.meta.arm}`;
      if (trace.meta.arm !== undefined) {
        const color = `@${arm}${{ band: "-band", seed: "-pale", point: "-pale" }[trace.meta.role] || ""}`;
        Object.assign(whole, { legendgroup: arm, fillcolor: color });
        whole.line = { ...whole.line, color };
        whole.marker = joined({ color, line: { color } }, whole.marker);
      }
      for (const error of ["error_x", "error_y"]) {
        if (whole[error] && whole[error].array) whole[error] = joined({ ...ERROR, color: `@${arm}` }, whole[error]);
      }
      return whole;
    });
    return { ...variant, layout, traces };
  }
  for (const name of Object.keys(study.charts)) study.charts[name] = study.charts[name].map(completed);

  // "@arm0" becomes the colour of that name in the present scheme.
  function colored(value, palette) {
    if (typeof value === "string" && value.startsWith("@")) {
      return palette[value.slice(1)] || value;
    }
    if (Array.isArray(value)) {
      return typeof value[0] === "number" ? value : value.map((entry) => colored(entry, palette));
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value).map(([key, entry]) => [key, colored(entry, palette)])
      );
    }
    return value;
  }

  function visibilityOf(trace) {
    if (trace.meta.role === "seed" && !showsSeeds) return false;
    if (!hidden.has(trace.meta.arm)) return true;
    return trace.showlegend ? "legendonly" : false;
  }

  // Largest number of an axis over its smallest.
  function spanOf(traces, axis) {
    let [least, most] = [Infinity, 0];
    for (const value of traces.flatMap((trace) => trace[axis])) {
      if (value > 0) [least, most] = [Math.min(least, value), Math.max(most, value)];
    }
    return most > 0 ? most / least : 1;
  }

  class Chart {
    constructor(section) {
      this.section = section;
      this.plot = section.querySelector(".plot");
      this.caption = section.querySelector("figcaption");
      this.variants = study.charts[section.dataset.chart];
      this.log = {};
      this.at = { curve: -1, point: 0 };
      each("[data-log]", (box) => {
        box.addEventListener("change", () => {
          this.log[box.dataset.log] = box.checked;
          this.draw();
        });
      }, section);
      section.querySelector("[data-reset]").addEventListener("click", () => this.reset());
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.plot.addEventListener("blur", () => plotly.Fx.unhover(this.plot));
    }

    variant() {
      const fits = (variant) =>
        Object.entries(variant.choice).every(([key, value]) => choices[key] === value);
      return this.variants.find(fits) || this.variants[0];
    }

    draw() {
      const palette = study.palettes[dark.matches && !isPrinted ? "dark" : "light"];
      const variant = this.variant();
      const layout = colored(variant.layout, palette);
      for (const [axis, isLog] of Object.entries(this.log)) {
        if (isLog) {
          layout[axis].type = "log";
          layout[axis].tickformat = layout[axis].tickformat || "~g";
          layout[axis].dtick = spanOf(variant.traces, axis[0]) < 5 ? "D1" : "D2";
          delete layout[axis].rangemode;
        }
      }
      if (isPrinted) layout.width = PRINTED_PX;
      else if (this.plot.clientWidth < 600) layout.font.size = 12;
      const traces = variant.traces.map((trace) => ({
        ...colored(trace, palette),
        visible: visibilityOf(trace),
      }));
      // A zoom outlives a change of scheme or of arms, but not of the axes.
      layout.uirevision = JSON.stringify([variant.choice, this.log]);
      this.plot.setAttribute("aria-label", variant.finding);
      this.caption.textContent = variant.caption;
      this.at = { curve: -1, point: 0 };
      const isNew = !this.plot.classList.contains("js-plotly-plot");
      plotly.react(this.plot, traces, layout, config);
      if (isNew) this.listen();
    }

    // A legend of many rows makes a chart higher: it would push its axes together until it covers them.
    fit() {
      const legend = this.plot.querySelector(".legend");
      const more = Math.max(0, Math.round(legend ? legend.getBBox().height : 0) - 30);
      const height = this.variant().layout.height + more;
      if (Math.abs(height - this.plot._fullLayout.height) > 1) plotly.relayout(this.plot, { height });
    }

    listen() {
      this.fit();
      this.plot.on("plotly_afterplot", () => this.fit());
      const armOf = (event) => event.data[event.curveNumber].meta.arm;
      this.plot.on("plotly_legendclick", (event) => {
        const arm = armOf(event);
        if (arm === undefined) return true;
        show(arm, hidden.has(arm));
        return false;
      });
      this.plot.on("plotly_legenddoubleclick", (event) => {
        const arm = armOf(event);
        if (arm === undefined) return true;
        const isAlone = hidden.size === study.arms.length - 1 && !hidden.has(arm);
        study.arms.forEach((_, other) => mark(other, isAlone || other === arm));
        drawAll();
        return false;
      });
    }

    reset() {
      plotly.relayout(this.plot, { "xaxis.autorange": true, "yaxis.autorange": this.upright() });
    }

    // Bars are listed from the top.
    upright() {
      return this.variant().layout.yaxis.autorange || true;
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const act = {
        ArrowRight: () => this.step(0, 1),
        ArrowLeft: () => this.step(0, -1),
        ArrowDown: () => this.step(1, 0),
        ArrowUp: () => this.step(-1, 0),
        "+": () => this.zoom(0.6),
        "=": () => this.zoom(0.6),
        "-": () => this.zoom(1 / 0.6),
        0: () => this.reset(),
        Escape: () => plotly.Fx.unhover(this.plot),
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    }

    // Numbers of the curves that have values to read.
    curves() {
      const wanted = (trace) =>
        trace.visible === true && ["mean", "part"].includes(trace.meta.role) && trace.x.length > 0;
      return this.plot.data.map((_, number) => number).filter((n) => wanted(this.plot.data[n]));
    }

    step(curves, points) {
      const numbers = this.curves();
      if (!numbers.length) return;
      const before = numbers.indexOf(this.at.curve);
      const index = before < 0 ? 0 : (before + curves + numbers.length) % numbers.length;
      const trace = this.plot.data[numbers[index]];
      const num = trace.x.length;
      const stride = Math.max(1, Math.round(num / 40));
      const point = before < 0 ? this.at.point : this.at.point + points * stride;
      this.at = { curve: numbers[index], point: Math.min(Math.max(point, 0), num - 1) };
      plotly.Fx.hover(this.plot, [{ curveNumber: this.at.curve, pointNumber: this.at.point }]);
      // Plotly draws at most one label each 50 ms.
      clearTimeout(this.speaking);
      this.speaking = setTimeout(() => this.speak(), 120);
    }

    speak() {
      const lines = [...this.plot.querySelectorAll(".hovertext .line")];
      const labels = lines.length ? lines : [...this.plot.querySelectorAll(".hovertext text")];
      spoken.textContent = labels.map((line) => line.textContent).filter(Boolean).join(", ");
    }

    zoom(factor) {
      const axis = this.plot._fullLayout.xaxis;
      const [low, high] = axis.range.map(Number);
      const trace = this.plot.data[this.at.curve];
      let center = (low + high) / 2;
      if (trace && typeof trace.x[this.at.point] === "number") {
        center = axis.type === "log" ? Math.log10(trace.x[this.at.point]) : trace.x[this.at.point];
      }
      const half = ((high - low) / 2) * factor;
      plotly.relayout(this.plot, { "xaxis.range": [center - half, center + half] });
    }
  }

  const shown = [];
  const drawAll = () => shown.forEach((chart) => chart.draw());

  function mark(arm, isShown) {
    if (isShown) hidden.delete(arm);
    else hidden.add(arm);
    each(`input[data-arm="${arm}"]`, (box) => { box.checked = isShown; });
  }

  function show(arm, isShown) {
    mark(arm, isShown);
    drawAll();
  }

  // A table: a button in each head sorts, which a keyboard reaches too.
  function sortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const original = [...body.rows];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" }[
          head.getAttribute("aria-sort")
        ];
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", next);
        const rows = next === "none" ? original : sorted(original, column, next === "descending");
        body.replaceChildren(...rows);
      });
    });
  }

  function sorted(rows, column, isDescending) {
    const sign = isDescending ? -1 : 1;
    const keyOf = (row) => {
      const cell = row.cells[column];
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
    };
    return [...rows].sort((one, other) => {
      const [a, b] = [keyOf(one), keyOf(other)];
      if (typeof a === "number" && typeof b === "number") {
        if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
        return sign * (a - b);
      }
      return sign * String(a).localeCompare(String(b), "en", { numeric: true });
    });
  }

  function filtered(table) {
    const wanted = [];
    each(`select[data-table="${table.dataset.name}"]`, (select) => {
      const head = [...table.tHead.rows[0].cells].findIndex(
        (cell) => cell.dataset.column === select.dataset.filter
      );
      if (select.value) wanted.push([head, select.value]);
    });
    each("tbody tr", (row) => {
      row.hidden = !wanted.every(([column, value]) => row.cells[column].textContent === value);
    }, table);
  }

  each("[hidden]", (part) => { part.hidden = false; });
  each("table.sortable", sortable);
  each("select[data-filter]", (select) => {
    select.addEventListener("change", () =>
      filtered(document.querySelector(`table[data-name="${select.dataset.table}"]`))
    );
  });
  each("section.chart", (section) => { shown.push(new Chart(section)); });
  each("select[data-choice]", (select) => {
    select.value = choices[select.dataset.choice];
    select.addEventListener("change", () => {
      choices[select.dataset.choice] = select.value;
      each(`select[data-choice="${select.dataset.choice}"]`, (other) => {
        other.value = select.value;
      });
      drawAll();
    });
  });
  each("input[data-arm]", (box) => {
    box.addEventListener("change", () => show(Number(box.dataset.arm), box.checked));
  });
  each("input[data-seeds]", (box) => {
    box.addEventListener("change", () => {
      showsSeeds = box.checked;
      drawAll();
    });
  });
  dark.addEventListener("change", drawAll);
  // Paper is white and has a width of its own, and a fold cannot be opened on it.
  const folds = document.querySelectorAll("details:not([open])");
  [["beforeprint", true], ["afterprint", false]].forEach(([name, isNow]) => {
    window.addEventListener(name, () => {
      isPrinted = isNow;
      folds.forEach((fold) => { fold.open = isNow; });
      drawAll();
    });
  });
  drawAll();
  document.documentElement.dataset.drawn = "true";
})();
