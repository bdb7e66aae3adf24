/** Forward mode: an engine answers quickly, but with errors of its own. */
import { describe, expect, it } from 'vitest'
import { jsonResponse } from '../upstream/transcripts.ts'
import { ask } from './gateway-kit.ts'
import {
  ASK,
  CHAT,
  chunk,
  engine,
  gatewayOf,
  idle,
  metricsOf,
  STREAM_HEAD,
  WHOLE,
} from './faulty-engines.ts'
import { until } from '../until.ts'

const OOM = { error: { message: 'CUDA out of memory.', type: 'Internal Server Error', code: 500 } }
const FAILED = jsonResponse(500, OOM)

/** `status/error_type` of the requests that a gateway has counted. */
async function countedIn(
  gateway: Parameters<typeof metricsOf>[0],
): Promise<Record<string, number>> {
  const lines = (await metricsOf(gateway)).matchAll(
    /^baton_frontend_requests_total\{.*status="(\w+)",error_type="([\w.]*)"\} (\d+)$/gm,
  )
  return Object.fromEntries(
    [...lines].map(([, status, type, n]) => [`${status}/${type}`, Number(n)]),
  )
}

describe('an engine that answers everything with 500', () => {
  it('does not attract requests that then fail: another engine answers all of them', async () => {
    // Both are idle, so that either may be asked first: that one fails.
    let failing: number | null = null
    const answerOf = (at: number) => () => {
      failing ??= at
      return failing === at ? FAILED : WHOLE
    }
    const engines = [await engine(answerOf(0)), await engine(answerOf(1))]
    const gateway = await gatewayOf(engines)
    for (let number = 0; number < 12; number++) {
      expect((await ask(gateway.port, CHAT, ASK)).status).toBe(200)
    }
    await idle(gateway)
  })

  it('all engines - the client gets the answer unchanged, and it counts as an error', async () => {
    const engines = [await engine(() => FAILED), await engine(() => FAILED)]
    const gateway = await gatewayOf(engines)
    const { status, head, body } = await ask(gateway.port, CHAT, ASK)
    expect([status, JSON.parse(body.toString())]).toEqual([500, OOM])
    expect(head).toMatch(/^content-type: application\/json/im)
    expect(engines.map(({ asked }) => asked.length)).toEqual([1, 1])
    await until(
      'it is counted',
      async () => (await countedIn(gateway))['error/backend.engine_shutdown'] === 1,
    )
  })

  it('the only engine - each client gets the answer unchanged, also directly after another failure', async () => {
    const only = await engine(() => FAILED)
    const gateway = await gatewayOf([only])
    for (let number = 0; number < 3; number++) {
      const { status, body } = await ask(gateway.port, CHAT, ASK)
      expect([status, JSON.parse(body.toString())]).toEqual([500, OOM])
    }
    expect(only.asked).toHaveLength(3)
  })
})

describe('errors that the client reads in the words of the engine', () => {
  it.each([
    [
      'a refusal',
      jsonResponse(400, { error: { message: 'no' } }),
      'error/backend.invalid_argument',
    ],
    ['a successful status', jsonResponse(200, OOM), 'error/backend.engine_shutdown'],
    [
      'an event of a stream',
      `${STREAM_HEAD}${chunk(`data: ${JSON.stringify(OOM)}\n\ndata: [DONE]\n\n`)}0\r\n\r\n`,
      'error/backend.engine_shutdown',
    ],
  ])('%s - is unchanged, and counts as an error', async (_, answer, counted) => {
    const gateway = await gatewayOf([await engine(() => answer)])
    const { body } = await ask(gateway.port, CHAT, ASK)
    expect(answer.replace(/\r\n/g, '')).toContain(body.toString().trim().split('\n')[0])
    expect(body.toString().match(/"error"/g)).toHaveLength(1)
    await until('it is counted', async () => (await countedIn(gateway))[counted] === 1)
    expect(Object.keys(await countedIn(gateway))).toEqual([counted])
    await idle(gateway)
  })
})
