// Hands text over to other programs.

/** Copies a text; where the browser does not let pages do that, has it saved as a file. True: copied. */
export async function copy(text, name) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    anchor.download = name;
    anchor.click();
    // The browser reads the data after click() has returned and does not tell when it is done.
    setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
    return false;
  }
}
