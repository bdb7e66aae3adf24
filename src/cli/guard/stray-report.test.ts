import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { reportStray } from './stray-report.ts'

interface Line {
  readonly err: { readonly message: string; readonly stack: string; readonly code?: string }
  readonly engine: string
  readonly msg: string
}

/** The lines of a report; a real logger writes them. */
function reported(thrown: unknown): readonly string[] {
  const lines: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void lines.push(line) })
  reportStray(logger, thrown, { engine: '/user/engine.js' }, 'unhandled error of the engine')
  return lines
}

const NO_READING = (): never => {
  throw new Error('not to be read')
}
const withGetter = (name: string): Error =>
  Object.defineProperty(new Error('its text'), name, { enumerable: true, get: NO_READING })
/** The field can be read `times` times. */
const withWornGetter = (times: number): Error => {
  let left = times
  const get = () => (left-- > 0 ? 'x' : NO_READING())
  return Object.defineProperty(new Error('its text'), 'field', { enumerable: true, get })
}
const circular = (): Error => {
  const error: Error & { own?: unknown } = new Error('its text')
  error.own = { error, list: [error] }
  error.cause = error
  return error
}
const LONG = 50_000_000

describe('a report about an unhandled error of an engine', () => {
  it.each([
    ['an error', new Error('its text')],
    ['a text', 'its text'],
    ['an error of another class', new TypeError('its text')],
    ['a field that cannot be read', withGetter('field')],
    ['a field that can be read once', withWornGetter(1)],
    ['a field that can be read twice', withWornGetter(2)],
    ['a name that cannot be read', withGetter('name')],
    ['a stack that cannot be read', withGetter('stack')],
    ['a cause that cannot be read', withGetter('cause')],
    [
      'a field that cannot be converted',
      Object.assign(new Error('its text'), { toJSON: NO_READING }),
    ],
    ['a circular error', circular()],
    ['a field of 50 MB', Object.assign(new Error('its text'), { field: 'x'.repeat(LONG) })],
    ['a cause of 50 MB', new Error('its text', { cause: new Error('x'.repeat(LONG)) })],
    ['an integer without a limit', Object.assign(new Error('its text'), { field: 10n })],
    ['a message of 300 KB', new Error('its text'.padEnd(300_000, ' y'))],
    ['a message of 50 MB', new Error('its text'.padEnd(LONG, ' y'))],
    ['a text of 1 MB', 'its text'.padEnd(1_000_000, ' y')],
  ])('%s - is one line that any log takes, with the message and the engine', (_, thrown) => {
    const lines = reported(thrown)
    expect(lines).toHaveLength(1)
    const [line = ''] = lines
    expect(line.length).toBeLessThan(64 * 1024)
    const { err, engine, msg } = JSON.parse(line) as Line
    expect(err.message).toMatch(/^its text/)
    expect(engine).toBe('/user/engine.js')
    expect(msg).toMatch(/^unhandled error of the engine/)
  })

  it.each([
    ['nothing', undefined, 'undefined'],
    ['an object without a text', Object.create(null) as unknown, 'cannot be converted to text'],
    ['a message that cannot be read', withGetter('message'), 'cannot be converted to text'],
    ['a proxy', new Proxy({}, { getPrototypeOf: NO_READING, get: NO_READING }), 'to text'],
  ])('%s - is reported, too', (_, thrown, text) => {
    const lines = reported(thrown)
    expect(lines).toHaveLength(1)
    expect((JSON.parse(lines[0] ?? '') as Line).err.message).toContain(text)
  })

  it('a short error keeps its fields, a long one its stack', () => {
    const error = Object.assign(new Error('its text'), { code: 'EIO' })
    expect(JSON.parse(reported(error)[0] ?? '')).toMatchObject({ err: { code: 'EIO' } })
    const long = new TypeError('y'.repeat(1_000_000))
    const { err } = JSON.parse(reported(long)[0] ?? '') as Line
    expect(err.stack).toMatch(/^TypeError: y+…\n\s+at .*stray-report\.test/)
  })
})
