/** Validates requests and replies against the operation in `/openapi.json`. */
import { z } from 'zod'

interface ReplySchema {
  readonly content?: Readonly<
    Record<string, { readonly schema: Readonly<Record<string, unknown>> }>
  >
}

interface Operation {
  readonly requestBody?: ReplySchema
  readonly responses: Readonly<Record<string, ReplySchema>>
}

export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  }
}

interface Answered {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** The validation errors of a reply as text; null if it is valid. */
export function faultOfReply(
  document: ApiDocument,
  method: string,
  path: string,
  { status, contentType, body }: Answered,
): string | null {
  const responses = document.paths[path]?.[method]?.responses
  if (responses === undefined) return 'no such operation'
  const said = responses[String(status)] ?? (status === 200 ? undefined : responses['default'])
  if (said === undefined) return `status ${status} is not in the document`
  const type = contentType.split(';')[0] ?? ''
  const content = said.content?.[type]
  if (content === undefined) return `${type} is not in the document for ${status}`
  if (type !== 'application/json') return null
  const checked = schemaOf(document, content.schema).safeParse(JSON.parse(body))
  return checked.success ? null : JSON.stringify(checked.error.issues)
}

/** The same for a request. */
export function faultOfRequest(
  document: ApiDocument,
  method: string,
  path: string,
  body: unknown,
): string | null {
  const content = document.paths[path]?.[method]?.requestBody?.content?.['application/json']
  if (content === undefined) return 'no JSON is in the document'
  const checked = schemaOf(document, content.schema).safeParse(body)
  return checked.success ? null : JSON.stringify(checked.error.issues)
}

/** A schema of the document together with the schemas that it refers to. */
function schemaOf({ components }: ApiDocument, schema: object): z.ZodType {
  const $defs = components.schemas
  const text = JSON.stringify({ ...schema, $defs }).replaceAll('#/components/schemas/', '#/$defs/')
  return z.fromJSONSchema(JSON.parse(text) as Parameters<typeof z.fromJSONSchema>[0])
}
