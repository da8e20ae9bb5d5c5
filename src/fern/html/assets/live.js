"use strict";
(() => {
  // Colours of the page's scheme; the figures themselves keep theirs, which are seen on either.
  const scheme = () => {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim();
    const line = style.getPropertyValue("--line").trim();
    return { ink, line, dark: matchMedia("(prefers-color-scheme: dark)").matches };
  };

  // Lines as dark as ink would not be seen on a dark page.
  const lighter = () => {
    const { ink } = scheme();
    return { "#222222": ink, "#444444": ink, "#0b4f8a": "#8ec5ff", "#0072B2": "#56B4E9" };
  };

  const themed = (layout) => {
    const { ink, line } = scheme();
    const axis = { color: ink, gridcolor: line, zerolinecolor: line, linecolor: line };
    const made = { ...layout, font: { ...layout.font, color: ink } };
    if (layout.shapes && scheme().dark)
      made.shapes = layout.shapes.map((one) => (one.line && lighter()[one.line.color]
        ? { ...one, line: { ...one.line, color: lighter()[one.line.color] } } : one));
    for (const [name, value] of Object.entries(layout)) {
      if (/^[xy]axis\d*$/.test(name)) made[name] = { ...axis, ...value };
      if (/^scene\d*$/.test(name)) {
        made[name] = { ...value };
        for (const side of ["xaxis", "yaxis", "zaxis"])
          made[name][side] = { ...axis, ...value[side], showbackground: false };
      }
    }
    return made;
  };

  const seen = (data) => {
    const { dark } = scheme();
    if (!dark) return data;
    const swap = lighter();
    return data.map((trace) => {
      const made = { ...trace };
      for (const part of ["line", "marker"])
        if (made[part] && swap[made[part].color]) made[part] = { ...made[part], color: swap[made[part].color] };
      if (made.fillcolor) made.fillcolor = made.fillcolor.replace(/,0\.85\)$/, ",0.45)");
      return made;
    });
  };

  const settings = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["toImage", "lasso2d", "select2d"] };

  const draw = async (held) => {
    const figure = held.closest("figure");
    const { data, layout } = JSON.parse(held.textContent);
    const place = document.createElement("div");
    place.className = "plotly";
    if (layout.meta) place.style.setProperty("--least", `${Number(layout.meta)}px`); // on a phone it scrolls sideways
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", figure.querySelector("svg").getAttribute("aria-label") || "");
    const box = document.createElement("div");
    box.className = "scroll moving";
    box.append(place);
    held.after(box);
    figure.classList.add("moves");
    try {
      await Plotly.newPlot(place, seen(data), themed(layout), settings);
      if (figure.id.endsWith("fan")) box.scrollLeft = box.scrollWidth; // on a small screen the forecast, not its past
    } catch {
      figure.classList.remove("moves"); // a browser that cannot (no WebGL): the still figure stays
      box.remove();
      return;
    }
    if (place.querySelector(".no-webgl")) {
      figure.classList.remove("moves");
      box.remove();
      return;
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      Plotly.react(place, seen(data), themed(layout), settings);
    });
  };

  // A figure is drawn when it comes near: a page of many opens at once.
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries)
      if (entry.isIntersecting) {
        watch.unobserve(entry.target);
        draw(entry.target.querySelector("script.live"));
      }
  }, { rootMargin: "600px" });
  for (const held of document.querySelectorAll("script.live")) watch.observe(held.closest("figure"));
})();
