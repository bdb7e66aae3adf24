/**
 * `/docs`: every operation with its fields and replies as an HTML page without scripts, made from the OpenAPI
 * document.
 */
import { escapeHtml } from '../../base/index.ts'
import { fieldsOf, operationsOf, typeOf } from '../../api/index.ts'
import type { Content, OpenApi, OperationEntry, Schema, TypePart } from '../../api/index.ts'

const STYLE = `
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
details{border:1px solid #8885;border-radius:.4rem;margin:.4rem 0;padding:.3rem .8rem}
summary{cursor:pointer}summary b{display:inline-block;min-width:4.5rem}summary span{opacity:.75;margin-left:.6rem}
div{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}td{padding:.15rem 1rem .15rem 0;vertical-align:top;border-top:1px solid #8883}
`

export function docsPage(document: OpenApi): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Baton HTTP API</title>
<link rel="icon" href="data:,"><style>${STYLE}</style></head>
<body>
<h1>Baton HTTP API</h1>
<p>Version ${escapeHtml(document.info.version)}. For generators of clients: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
<h2>Operations</h2>
${operationsOf(document).map(operationHtml).join('\n')}
<h2>Replies</h2>
${Object.entries(document.components.schemas).map(schemaHtml).join('\n')}
</body>
</html>
`
}

function operationHtml(named: ReturnType<typeof operationsOf>[number]): string {
  const { method, path, operation } = named
  const title = `<b>${method}</b> <code>${escapeHtml(path)}</code><span>${escapeHtml(operation.summary)}</span>`
  const inside = [
    parametersHtml(operation),
    bodyHtml(operation.requestBody),
    repliesHtml(operation),
  ].join('')
  return `<details><summary>${title}</summary>${inside}</details>`
}

function schemaHtml([name, schema]: readonly [string, Schema]): string {
  return `<details id="${escapeHtml(name)}" open><summary><code>${escapeHtml(name)}</code></summary>${fieldsHtml(schema)}</details>`
}

function parametersHtml({ parameters = [] }: OperationEntry): string {
  const named = parameters.map(
    ({ name, in: place }) => `<code>${escapeHtml(name)}</code> (${escapeHtml(place)})`,
  )
  return named.length === 0 ? '' : `<p>Parameters: ${named.join(', ')}</p>`
}

function bodyHtml(body: OperationEntry['requestBody']): string {
  return Object.entries(body?.content ?? {})
    .map(([type, { schema }]) => {
      const optional = body?.required === true ? '' : ', optional'
      return `<p>Body: <code>${escapeHtml(type)}</code>${optional}</p>${fieldsHtml(schema)}`
    })
    .join('')
}

function repliesHtml({ responses }: OperationEntry): string {
  const replies = Object.entries(responses).map(
    ([status, { content }]) =>
      `${status === 'default' ? 'otherwise' : escapeHtml(status)}: ${contentHtml(content)}`,
  )
  return `<p>Answers ${replies.join(', ')}</p>`
}

function contentHtml(content: Content): string {
  return Object.entries(content)
    .map(([type, { schema }]) =>
      '$ref' in schema ? typeHtml(typeOf(schema)) : `<code>${escapeHtml(type)}</code>`,
    )
    .join(' or ')
}

function fieldsHtml(schema: Schema): string {
  const rows = fieldsOf(schema).map(
    ({ path, type, notes }) =>
      `<tr><td><code>${escapeHtml(path)}</code></td><td>${typeHtml(type)}</td><td>${escapeHtml(notes)}</td></tr>`,
  )
  if (rows.length === 0) return `<p>${typeHtml(typeOf(schema))}</p>`
  return `<div><table>${rows.join('')}</table></div>`
}

function typeHtml(type: readonly TypePart[]): string {
  return type
    .map(({ kind, text }) => {
      const safe = escapeHtml(text)
      if (kind === 'schema') return `<a href="#${safe}">${safe}</a>`
      return kind === 'value' ? `<code>${safe}</code>` : safe
    })
    .join('')
}
