import { describe, expect, it } from 'vitest'
import {
  BlockEngine,
  decodeOf,
  prefill,
  requestOf,
  serve,
  startWorker,
} from '../../../test/worker/kv-workers.ts'
import { until } from '../../../test/until.ts'
import type { HostedWorker } from '../worker/hosted-worker.ts'

const OPEN_METRICS = 'application/openmetrics-text'
const TRACE_ID = 'a1'.repeat(16)
const trace = (flags: string): string => `00-${TRACE_ID}-${'b2'.repeat(8)}-${flags}`

async function exemplarsOf({ metrics }: HostedWorker): Promise<readonly string[]> {
  const { body } = await metrics.page(OPEN_METRICS)
  const lines = body.split('\n').filter((line) => line.includes(' # '))
  return lines.map((line) => {
    expect(line).toContain(` # {trace_id="${TRACE_ID}"} `)
    return /^baton_worker_(\w+)_bucket\{/.exec(line)?.[1] ?? line
  })
}

describe("the histograms of a worker's requests", () => {
  it('a traced request with two legs - is the exemplar on both workers, also of the KV transfer', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    const request = requestOf('a', 18, { traceparent: trace('01') })
    await serve(to, decodeOf(request, await prefill(from, request)))
    await until('the offer is released', () => from.hosted.worker.health().openOffers === 0)
    const leg = ['request_seconds', 'queue_seconds', 'first_token_seconds']
    expect(await exemplarsOf(from.hosted)).toEqual([...leg, 'kv_offer_held_seconds'])
    expect(await exemplarsOf(to.hosted)).toEqual([...leg, 'kv_pull_seconds'])
    expect((await from.hosted.metrics.page(undefined)).body).not.toContain('trace_id')
  })

  it.each([
    ['not recorded', trace('00')],
    ['no trace', undefined],
    ['not well formed', `00-${'"}'.repeat(16)}-${'b2'.repeat(8)}-01`],
  ])('%s - is counted without an exemplar', async (_, traceparent) => {
    const worker = await startWorker(new BlockEngine(), 'agg')
    const request = requestOf('a', 18, traceparent === undefined ? {} : { traceparent })
    await serve(worker, request)
    expect(await exemplarsOf(worker.hosted)).toEqual([])
    expect(await worker.hosted.metrics.text()).toMatch(
      /baton_worker_request_seconds_count(\{.*\})? 1$/m,
    )
  })

  it('before the first request - every histogram is there with zero', async () => {
    const { hosted } = await startWorker(new BlockEngine(), 'agg')
    expect(await hosted.metrics.text()).toMatch(/baton_worker_kv_pull_seconds_count(\{.*\})? 0$/m)
  })
})
