/**
 * The OpenAPI document as a page of the documentation site: every operation with its fields, their bounds and its replies.
 *
 * Pure: the document that a running frontend serves at `/openapi.json` in, Markdown out.
 */
import { fieldsOf, operationsOf, typeOf } from '../src/api/index.ts'
import type { Content, OpenApi, OperationEntry, Schema, TypePart } from '../src/api/index.ts'

export function openApiPage(document: OpenApi): string {
  return [
    '# OpenAPI',
    '',
    `This page lists every operation of the HTTP API of Baton ${document.info.version}. It is generated from the OpenAPI 3.1 document that every`,
    'frontend serves at `/openapi.json` (and as a page at `/docs`); client generators can use [openapi.json](/openapi.json). The schemas are',
    'the ones that validate the requests. [HTTP API](./docs/http-api.md) explains the fields, [errors](./docs/errors.md) lists the errors.',
    ...operationsOf(document).flatMap(({ method, path, operation }) => [
      '',
      `## \`${method} ${path}\``,
      '',
      `${operation.summary}.`,
      ...parameterLines(operation),
      ...bodyLines(operation.requestBody),
      '',
      `Answers ${replyText(operation)}.`,
    ]),
    '',
    '## Replies',
    ...Object.entries(document.components.schemas).flatMap(([name, schema]) => [
      '',
      `### ${name}`,
      ...fieldTable(schema),
    ]),
    '',
  ].join('\n')
}

function parameterLines({ parameters = [] }: OperationEntry): string[] {
  const named = parameters.map(({ name, in: place }) => `\`${name}\` (${place})`)
  return named.length === 0 ? [] : ['', `Parameters: ${named.join(', ')}.`]
}

function bodyLines(body: OperationEntry['requestBody']): string[] {
  return Object.entries(body?.content ?? {}).flatMap(([type, { schema }]) => [
    '',
    `Body (\`${type}\`${body?.required === true ? '' : ', may be left out'}):`,
    ...fieldTable(schema),
  ])
}

function replyText({ responses }: OperationEntry): string {
  const { default: refused, ...good } = responses
  const replies = Object.entries(good).map(
    ([status, { content }]) => `${status} with ${contentText(content)}`,
  )
  const other = refused === undefined ? [] : [`otherwise ${contentText(refused.content)}`]
  return [...replies, ...other].join(', ')
}

function contentText(content: Content): string {
  return Object.entries(content)
    .map(([type, { schema }]) => ('$ref' in schema ? typeText(schema) : `\`${type}\``))
    .join(' or ')
}

function fieldTable(schema: Schema): string[] {
  const rows = fieldsOf(schema).map(
    ({ path, type, notes }) =>
      `| \`${path}\` | ${type.map(markdown).join('')} | ${notes.replaceAll('|', '\\|')} |`,
  )
  if (rows.length === 0) return ['', `${typeText(schema)}.`]
  return ['', '| field | type | |', '|---|---|---|', ...rows]
}

const typeText = (schema: Schema): string => typeOf(schema).map(markdown).join('')

function markdown({ kind, text }: TypePart): string {
  if (kind === 'schema') return `[${text}](#${text.toLowerCase()})`
  return kind === 'value' ? `\`${text.replaceAll('|', '\\|')}\`` : text
}
