// The page's theme, light or dark: what the user chose last, or else what the system has.
import { keep, recall } from "./kept.js";

/** Shows it, and the other one after a click on `button`; changed(theme) is called each time. */
export function followTheme(button, changed = () => {}) {
  const root = document.documentElement.dataset;
  const show = (theme) => {
    root.theme = theme;
    changed(theme);
  };
  button.onclick = () => {
    const theme = root.theme === "dark" ? "light" : "dark";
    keep("theme", theme);
    show(theme);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  show(recall("theme") ?? (dark ? "dark" : "light"));
}
