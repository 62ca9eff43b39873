// What the browser keeps from one visit to the next. Where it may keep nothing, for example because
// it blocks all cookies, each access throws, and the page is to work all the same.

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
