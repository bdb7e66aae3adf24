import { describe, expect, it } from 'vitest'
import { openApiDocument } from '../../api/index.ts'
import { docsPage } from './docs-page.ts'

describe('/docs', () => {
  const text = docsPage(openApiDocument('1.2.3'))

  it('every operation has its fields, bounds and replies', () => {
    expect(text).toContain('<b>POST</b> <code>/v1/chat/completions</code>')
    expect(text).toContain('<code>temperature</code></td><td>number</td><td>≥ 0, ≤ 2</td>')
    expect(text).toContain('200: <a href="#ChatCompletion">ChatCompletion</a>')
    expect(text).toContain('Parameters: <code>id</code> (path)')
  })

  it('every schema that is linked is on the page', () => {
    const ids = new Set([...text.matchAll(/ id="(\w+)"/g)].map(([, id]) => id))
    const links = [...text.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
    expect(links.length).toBeGreaterThan(50)
    expect(links.filter((id) => !ids.has(id))).toEqual([])
  })

  it('texts of the document are escaped on the page', () => {
    const evil = '<img src=x onerror="alert(1)">'
    const schema = { type: 'object', properties: { [evil]: { const: evil, description: evil } } }
    const page = docsPage({
      openapi: '3.1.0',
      info: { title: evil, version: evil },
      paths: { [evil]: { get: { operationId: evil, summary: evil, responses: {} } } },
      components: { schemas: { [evil]: schema } },
    })
    expect(page).not.toContain('<img')
    expect(page.match(/&lt;img/g)?.length).toBeGreaterThanOrEqual(6)
  })
})
