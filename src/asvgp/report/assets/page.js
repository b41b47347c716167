// Puts the figures into the page, and follows its colours.

const sheets = [];

function start() {
  const shared = new Map(); // curves over the same input move together
  for (const figure of document.querySelectorAll("figure[data-figure]")) {
    const data = JSON.parse(document.getElementById(figure.dataset.figure).textContent);
    if (data.kind === "map") {
      sheets.push(...new MapFigure(figure, data).sheets);
      continue;
    }
    const { lower, upper, cells, together } = data.curve;
    if (!shared.has(data.link)) {
      const share = (together > 1 ? 40 * together : 0.05) / cells; // nothing more to see within
      const least = (upper - lower) * Math.min(Math.max(share, 1e-9), 1);
      shared.set(data.link, new Visible(lower, upper, least));
    }
    sheets.push(new CurvePanel(figure, data, shared.get(data.link)).sheet);
  }
}

function repaint() {
  for (const sheet of sheets) sheet.now();
}

function followColours() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    repaint();
  });
  dark.addEventListener("change", () => { name(); repaint(); });
  name();
  // Paper is white.
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; repaint(); });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    repaint();
  });
}

function offerCopies() {
  for (const block of document.querySelectorAll("div.code")) {
    const button = block.querySelector("button");
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = block.querySelector("code").textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch { // pages from a disk may not: select it instead
        getSelection().selectAllChildren(block.querySelector("code"));
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

start();
followColours();
offerCopies();
