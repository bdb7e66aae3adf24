/**
 * Keeps all digits of worker ids in `nvext`: they are u64, and `JSON.parse` reads numbers as doubles.
 *
 * Only the member `nvext` of the body is changed: the same names in user data (a tool's schema, a document) are left
 * alone.
 */
import { endOfString, isRecord } from '../../base/index.ts'

const FIELDS = ['backend_instance_id', 'prefill_worker_id', 'decode_worker_id'] as const
const FIELD = new RegExp(`(?<!\\\\)"(${FIELDS.join('|')})"\\s*:\\s*([0-9]{16,20})(?=[\\s,}])`, 'g')

/** `text` is the JSON from which `body` was parsed. Ids that a double cannot hold become decimal text. */
export function exactWorkerIds(body: unknown, text: string): unknown {
  if (!isRecord(body) || !isRecord(body['nvext'])) return body
  const { nvext } = body
  if (!FIELDS.some((field) => isInexact(nvext[field]))) return body
  const exact = JSON.parse(memberText(text, 'nvext').replace(FIELD, '"$1":"$2"')) as unknown
  return { ...body, nvext: exact }
}

function isInexact(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)
}

/** The JSON text of a member of the outermost object; if it occurs several times, of the last one, which is valid. */
function memberText(json: string, name: string): string {
  let depth = 0
  let found = ''
  let start = -1
  let at = 0
  while (at < json.length) {
    const unit = json[at]
    if (unit === '"') {
      const end = endOfString(json, at)
      const isName = depth === 1 && start < 0 && json.slice(at + 1, end - 1) === name
      at = end
      if (!isName) continue
      const colon = /\s*:/y
      colon.lastIndex = at
      // A string followed by a colon is a key, otherwise a value.
      if (colon.test(json)) {
        at = colon.lastIndex
        start = at
      }
      continue
    }
    if (unit === '{' || unit === '[') depth += 1
    else if (unit === '}' || unit === ']') depth -= 1
    const isOver = depth === 0 || (depth === 1 && unit === ',')
    if (start >= 0 && isOver) {
      found = json.slice(start, at)
      start = -1
    }
    at += 1
  }
  return found
}
