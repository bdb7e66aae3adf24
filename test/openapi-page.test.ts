import { describe, expect, it } from 'vitest'
import { openApiPage } from '../scripts/openapi-page.ts'
import type { OpenApi } from '../src/api/index.ts'
import { ScriptedFrontend } from './frontend/scripted-frontend.ts'

/** The API page of the documentation site is generated from the document that a frontend serves. */
const document = (await new ScriptedFrontend().get('/openapi.json')).json as OpenApi
const page = openApiPage(document)
const sectionOf = (heading: string): string =>
  page.split(`\n${heading}\n`)[1]?.split('\n#')[0] ?? ''

describe('the OpenAPI page of the site', () => {
  it('every operation - has a section with its summary', () => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { summary }]) => ({ method, path, summary })),
    )
    expect(operations.length).toBeGreaterThan(50)
    for (const { method, path, summary } of operations)
      expect(sectionOf(`## \`${method.toUpperCase()} ${path}\``)).toContain(`${summary}.`)
  })

  it('fields - have their bounds, whether they are required, and their nested fields', () => {
    const chat = sectionOf('## `POST /v1/chat/completions`')
    expect(chat).toContain('| `temperature` | number | ≥ 0, ≤ 2 |')
    expect(chat).toContain('| `messages` | list of object | required, items ≥ 1 |')
    expect(chat).toContain(
      '| `nvext.agent_hints.priority` | integer | ≥ -2147483648, ≤ 2147483647 |',
    )
    expect(chat).toContain('200 with [ChatCompletion](#chatcompletion) or `text/event-stream`')
  })

  it('form fields, parameters and descriptions - are shown', () => {
    const files = sectionOf('## `POST /v1/files`')
    expect(files).toContain('Body (`multipart/form-data`):')
    expect(files).toContain('| `file` | string | required |')
    expect(sectionOf('## `GET /v1/files/{id}/content`')).toContain('Parameters: `id` (path).')
    expect(sectionOf('## `GET /metrics`')).toContain('200 with `text/plain`')
  })

  it('every linked reply - has a section at the target of the link', () => {
    const links = [...page.matchAll(/\]\(#(\w+)\)/g)].map(([, anchor]) => anchor)
    const headings = [...page.matchAll(/^### (\w+)$/gm)].map(([, name = '']) => name.toLowerCase())
    expect(new Set(links).size).toBeGreaterThan(10)
    expect(headings).toEqual(expect.arrayContaining(links))
  })

  it('tables - have three columns in every row', () => {
    const rows = page.split('\n').filter((line) => line.startsWith('|'))
    for (const row of rows) expect([row, row.split(/(?<!\\)\|/).length]).toEqual([row, 5])
  })
})
