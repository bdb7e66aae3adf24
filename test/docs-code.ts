/** The code blocks in README and docs, each with the language and the mark of its fence. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))

export const PAGES: readonly string[] = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path}`),
]

export interface Block {
  readonly page: string
  readonly language: string
  /** `no-run` after the language: the block needs a GPU, another machine or much time, or is a part of a program. */
  readonly mark: string
  readonly text: string
}

export const BLOCKS: readonly Block[] = PAGES.flatMap((page) => {
  const text = readFileSync(join(ROOT, page), 'utf8')
  return [...text.matchAll(/^```(\S*) *(.*)\n([\s\S]*?)^```$/gm)].map(
    ([, language = '', mark = '', body = '']) => ({ page, language, mark, text: body }),
  )
})

/** Lines that a reader types; lines joined by a backslash or an open quote are one. */
export function linesOf({ text }: Block): readonly string[] {
  const lines: string[] = []
  let open = ''
  for (const line of text.replaceAll(/\\\n\s*/g, ' ').split('\n')) {
    open += open === '' ? line : `\n${line}`
    if (open.split("'").length % 2 === 0) continue
    lines.push(open.replace(/\s#.*$/, '').trim())
    open = ''
  }
  return lines.filter((line) => line !== '')
}
