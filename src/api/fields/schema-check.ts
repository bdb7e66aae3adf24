/** Validates a body with a zod schema; errors name the field. */
import type { z } from 'zod'
import { BatonError } from '../../base/index.ts'

/** Returns the parsed body, or throws `request.invalid_argument` or `request.unsupported_parameter`. */
export function checked<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body)
  if (result.success) return result.data
  throw refusalOf(result.error.issues)
}

function refusalOf(issues: readonly z.core.$ZodIssue[]): BatonError {
  const issue = deepest(issues)
  if (issue === undefined) return new BatonError('request.invalid_argument', 'invalid request')
  const path = pathText(issue.path)
  if (issue.code === 'unrecognized_keys') {
    const names = issue.keys.map((key) => (path === '' ? key : `${path}.${key}`))
    return new BatonError(
      'request.unsupported_parameter',
      `unsupported parameter(s): ${names.map((name) => `\`${name}\``).join(', ')}`,
      { data: { param: names[0] ?? '' } },
    )
  }
  const subject = path === '' ? 'the request' : `\`${path}\``
  const message = issue.message.replace(MISSING, 'is missing')
  return new BatonError('request.invalid_argument', `${subject}: ${message}`, {
    data: { param: path },
  })
}

/** zod's message for a required field. */
const MISSING = /^Invalid input: expected [\w ]+, received undefined$/
/** zod's message for a union without a message of its own. */
const NO_WORDS = 'Invalid input'

/**
 * Of the failed branches of a union, the issue of the branch that matched furthest explains best what is wrong; a
 * branch of another type is used only if there is no other.
 */
function deepest(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue | undefined {
  const first = issues[0]
  if (first?.code !== 'invalid_union') return first
  let best: z.core.$ZodIssue | undefined
  for (const branch of first.errors) {
    const issue = deepest(branch)
    if (issue === undefined || issue.path.length === 0) continue
    if (best === undefined || reachOf(issue) > reachOf(best)) best = issue
  }
  // No branch matched the type: the union's own message lists the alternatives, if it has one.
  const isOfNone = best?.path.length === 1 && reachOf(best) < 0 && first.message !== NO_WORDS
  if (best === undefined || isOfNone) return first
  return { ...best, path: [...first.path, ...best.path] }
}

/** How far a branch matched: the index in a list; -1 if the value is of another type. */
function reachOf({ path }: z.core.$ZodIssue): number {
  if (path.at(-1) === 'type') return -1
  return typeof path[0] === 'number' ? path[0] : 0
}

function pathText(path: readonly PropertyKey[]): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else text += text === '' ? String(step) : `.${String(step)}`
  }
  return text
}
