/**
 * Creates the page's elements without a framework. Text is always set as text, so nothing from a server or a model
 * becomes markup.
 */
import { count } from './format.ts'

type Child = Node | string | null | false

type Attributes = Readonly<
  Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>
>

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  return filled(document.createElement(tag), attributes, children)
}

export function svg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Tag] {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children)
}

function filled<E extends Element>(
  element: E,
  attributes: Attributes,
  children: readonly Child[],
): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value)
    else if (value === true) element.setAttribute(name, '')
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, String(value))
  }
  for (const child of children) {
    if (typeof child === 'string') element.append(child.replace(TURNS_AROUND, '\uFFFD'))
    else if (child !== null && child !== false) element.append(child)
  }
  return element
}

/** Characters that change the text direction, also of the text after a name that contains one. */
const TURNS_AROUND = /[\u202A-\u202E\u2066-\u2069]/g

/** The column heads, and a cell for each value; numbers are right-aligned. */
export function table(
  caption: string,
  heads: readonly string[],
  rows: readonly (readonly (Child | number)[])[],
): HTMLTableElement {
  const isNumber = heads.map((_, column) => rows.some((row) => typeof row[column] === 'number'))
  const cellClass = (column: number): string | null => (isNumber[column] === true ? 'number' : null)
  return h(
    'table',
    {},
    h('caption', {}, caption),
    h(
      'thead',
      {},
      h('tr', {}, ...heads.map((head, i) => h('th', { scope: 'col', class: cellClass(i) }, head))),
    ),
    h(
      'tbody',
      {},
      ...rows.map((row) =>
        h(
          'tr',
          {},
          ...row.map((cell, i) =>
            h('td', { class: cellClass(i) }, typeof cell === 'number' ? count(cell) : cell),
          ),
        ),
      ),
    ),
  )
}
