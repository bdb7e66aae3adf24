/** Resolves `$ref`: a JSON pointer within the same schema. Other schemas are never fetched. */
import { invalidSchema } from '../gbnf/grammar-refusal.ts'
import type { DropKeyword } from '../gbnf/grammar-refusal.ts'

const LENGTH_MAX = 10_000

/** Throws `request.invalid_argument`. A reference to another document or to an anchor is dropped. */
export function resolvePointer(root: unknown, pointer: unknown, drop: DropKeyword): unknown {
  if (typeof pointer !== 'string')
    throw invalidSchema("'$ref' is not a JSON pointer into the schema")
  if (pointer.length > LENGTH_MAX)
    throw invalidSchema(`'$ref' of more than ${LENGTH_MAX} characters`)
  if (/%(?![0-9a-fA-F]{2})/.test(pointer))
    throw invalidSchema(`'${pointer}' is not a JSON pointer into the schema`)
  if (!/^#(\/|$)/.test(pointer)) {
    drop('$ref', `'$ref' to '${pointer}', which is not a JSON pointer into the schema`)
    return true
  }
  let value = root
  for (const part of decodeUriText(pointer).split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    const holder = value as Readonly<Record<string, unknown>>
    const isThere = typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    value = isThere ? holder[key] : undefined
  }
  if (value === undefined) throw invalidSchema(`'${pointer}' is not defined`)
  return value
}

/** Percent-encoded bytes need not be valid text. */
function decodeUriText(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (thrown) {
    if (thrown instanceof URIError)
      throw invalidSchema(`'${text}' is not a JSON pointer into the schema`)
    throw thrown
  }
}
