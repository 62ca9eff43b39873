// What a page has the browser do: keep settings from one visit to the next, show a theme, save and
// copy texts, and load a style sheet once a part of the page needs it.

// ---- Settings -----------------------------------------------------------------------------------
// Where the browser may keep nothing, for example because it blocks all cookies, each access throws,
// and the page is to work all the same.

/** What was kept under a name; null if nothing was. */
export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // It holds for this visit only.
  }
}

export function forget(name) {
  try {
    localStorage.removeItem(name);
  } catch {
    // Nothing was kept.
  }
}

/**
 * Shows the theme that the user chose last, or else the system's, and the other one after a click on
 * `button`; changed(theme) is called each time.
 */
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

// ---- Files --------------------------------------------------------------------------------------

/** Has the browser save a blob as a file. */
export function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  // The browser reads the data after click() has returned and does not tell when it is done.
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

/** Copies a text; where the browser does not let pages do that, has it saved as a file. True: copied. */
export async function copy(text, name) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    save(new Blob([text], { type: "text/plain" }), name);
    return false;
  }
}

/** Resolves when the rules of a style sheet apply. */
export function loadStyle(href) {
  if (document.querySelector(`link[href="${href}"]`)) return null;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  return new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = () => {
      link.remove();
      reject(new Error("The server does not answer."));
    };
    document.head.append(link);
  });
}
