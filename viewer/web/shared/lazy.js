// Loads what a page needs only once a part of it is opened.

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
