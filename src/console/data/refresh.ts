/**
 * Updates an element to the content of a new one by changing only differences, so that focus, selection and reading
 * position are kept.
 *
 * For elements whose listeners do not change, because the new elements are dropped.
 */
function refresh(old: Element, made: Element): void {
  for (const name of old.getAttributeNames())
    if (!made.hasAttribute(name)) old.removeAttribute(name)
  for (const { name, value } of made.attributes)
    if (old.getAttribute(name) !== value) old.setAttribute(name, value)
  refreshChildren(old, [...made.childNodes])
}

/** The same for the children of an element. */
export function refreshChildren(element: Element, after: readonly Node[]): void {
  const before = [...element.childNodes]
  for (const [i, node] of after.entries()) {
    const there = before[i]
    if (there === undefined) element.append(node)
    else if (there instanceof Element && node instanceof Element && isAlike(there, node))
      refresh(there, node)
    else if (there instanceof Text && node instanceof Text) {
      if (there.data !== node.data) there.data = node.data
    } else there.replaceWith(node)
  }
  for (const node of before.slice(after.length)) node.remove()
}

function isAlike(old: Element, made: Element): boolean {
  return old.tagName === made.tagName && old.namespaceURI === made.namespaceURI
}
