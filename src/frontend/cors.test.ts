import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'
import { authentication, cors } from './index.ts'

const PAGE = 'https://chat.example'
const clock = { nowMs: () => 0, epochMs: () => 0, after: () => ({ cancel: () => undefined }) }

const start = (origins: readonly string[], keys = false): ScriptedFrontend =>
  new ScriptedFrontend({
    options: {
      middleware: [cors(origins), ...(keys ? [authentication({ clock, keyOf: () => null })] : [])],
    },
  })

const originOf = async (it_: ScriptedFrontend, origin: string) =>
  (await it_.send('GET', '/v1/models', { headers: { origin } })).headers[
    'access-control-allow-origin'
  ]

describe('cors', () => {
  it.each([
    ['http://localhost:3000', true],
    ['http://127.0.0.1', true],
    ['https://[::1]:5173', true],
    [PAGE, false],
    ['http://localhost.evil.example', false],
    ['http://localhost:3000.evil.example', false],
    ['null', false],
  ])('without configured origins - %s: %s', async (origin, isAllowed) => {
    expect(await originOf(start([]), origin)).toBe(isAllowed ? origin : undefined)
  })

  it('configured origins - those that are listed, or all', async () => {
    expect(await originOf(start([PAGE]), PAGE)).toBe(PAGE)
    expect(await originOf(start([PAGE]), `${PAGE}:8443`)).toBeUndefined()
    expect(await originOf(start(['*']), 'https://any.example')).toBe('https://any.example')
  })

  it('a preflight - is answered before authentication, and grants nothing to other origins', async () => {
    const it_ = start([PAGE], true)
    const ask = (origin: string, path = '/v1/chat/completions') =>
      it_.send('OPTIONS', path, {
        headers: {
          origin,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'authorization,content-type',
        },
      })
    const reply = await ask(PAGE)
    expect([reply.status, reply.headers]).toEqual([
      204,
      expect.objectContaining({
        'access-control-allow-origin': PAGE,
        'access-control-allow-methods': expect.stringContaining('POST'),
        'access-control-allow-headers': 'authorization,content-type',
        vary: 'origin',
      }),
    ])
    const other = await ask('https://evil.example')
    expect(other.headers['access-control-allow-origin']).toBeUndefined()
    expect(other.headers['access-control-allow-headers']).toBeUndefined()
  })

  it('a refusal - can be read by the page, with its message', async () => {
    const reply = await start([PAGE], true).chat({}, { origin: PAGE })
    expect([reply.status, reply.headers['access-control-allow-origin']]).toEqual([401, PAGE])
    expect(reply.headers['access-control-expose-headers']).toContain('x-request-id')
  })

  it('no Origin header - no CORS headers; OPTIONS that is no preflight has no route', async () => {
    const it_ = start([PAGE])
    const { headers } = await it_.chat()
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    expect((await it_.send('OPTIONS', '/v1/models', {})).status).toBe(405)
  })
})
