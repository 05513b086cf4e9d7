/* What a model says, as elements. Whatever a model writes is untrusted: raw HTML in it becomes text, what the Markdown made of the rest goes
   through DOMPurify, which keeps a short list of harmless tags, and the page's policy would run nothing even then. Without the two libraries
   the text is shown as it is. */
const TAGS = ["p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6",
  "table", "thead", "tbody", "tr", "th", "td", "a"];
const { marked, DOMPurify } = window;
export const hasMarkdown = Boolean(marked && DOMPurify?.isSupported);

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

if (hasMarkdown) {
  marked.use({
    gfm: true, mangle: false, headerIds: false,
    renderer: {
      html: (html) => escape(html),
      image: (href, title, text) => escape(text || href || ""), /* an image's address could carry the conversation away */
    },
  });
}

function addCopyButton(pre) {
  const box = document.createElement("div"), button = document.createElement("button");
  box.className = "code";
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre); /* no clipboard without https: the reader copies what is selected */
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  pre.replaceWith(box);
  box.append(pre, button);
}

export function showText(element, text) {
  if (!hasMarkdown) {
    element.classList.add("plain");
    element.textContent = text;
    return;
  }
  const clean = DOMPurify.sanitize(marked.parse(text), {
    ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "align", "start"], ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i, RETURN_DOM_FRAGMENT: true,
  });
  for (const link of clean.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  clean.querySelectorAll("pre").forEach(addCopyButton);
  element.replaceChildren(clean);
}
