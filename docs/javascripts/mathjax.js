// Formulas are set by the copy of MathJax beside this file, on the pages that have some.
window.MathJax = {
  tex: {
    inlineMath: [["\\(", "\\)"]],
    displayMath: [["\\[", "\\]"]],
    processEscapes: true,
  },
  options: { ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex" },
};
if (document.querySelector(".arithmatex")) {
  const set = document.createElement("script");
  set.src = new URL("mathjax/tex-chtml.js", document.currentScript.src).href;
  document.head.appendChild(set);
}
