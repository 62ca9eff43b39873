// Hands text over to other programs.

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
