/** KV events that a server announces and that cannot be used: the server serves, and the reason is told. */
import { expect, it, onTestFinished } from 'vitest'
import { Packr } from 'msgpackr'
import type { ZmqModule } from '../../src/host/simengine/zmq-kv-rank.ts'
import { loadZmqClient } from '../../src/upstream/events/zmq-client.ts'
import { until } from '../until.ts'
import { startedWithConfig } from './engine-kit.ts'
import { block, stored } from './kv-event-payloads.ts'
import { KvPublisher } from './kv-publisher.ts'
import { startGateway } from '../forward/gateway-kit.ts'
import { fakeServer, jsonResponse } from './transcripts.ts'
import type { FakeServer } from './transcripts.ts'

const METRICS = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n'

/** A vLLM server that announces the KV events of `rank` at `endpoint`. */
async function vllmWith(endpoint: string, rank: string): Promise<FakeServer> {
  const about: Readonly<Record<string, unknown>> = {
    '/health': {},
    '/v1/models': { data: [{ id: 'm', max_model_len: 4096, owned_by: 'vllm' }] },
    '/kv_event_sources': { [rank]: { endpoint, topic: '', enable_kv_cache_events: true } },
  }
  const server = await fakeServer(({ path }) => {
    if (path === '/metrics') {
      return `HTTP/1.1 200 OK\r\nContent-Length: ${METRICS.length}\r\n\r\n${METRICS}`
    }
    const found = about[path]
    return found === undefined ? jsonResponse(404, {}) : jsonResponse(200, found)
  })
  onTestFinished(() => server.close())
  return server
}

async function startedWith(endpoint: string, rank = '0') {
  const { url } = await vllmWith(endpoint, rank)
  const notes: string[] = []
  const onNote = (note: string): unknown => notes.push(note)
  const { engine, config } = await startedWithConfig({ url, kind: 'vllm', onNote })
  onTestFinished(() => engine.cleanup())
  engine.observe({ kvEvents: () => undefined, load: () => undefined })
  return { config, notes }
}

it.each(['inproc://x', 'tcp://*', 'tcp://*:0'])(
  'an endpoint that cannot be used (%s) - the server serves without its events, and a note says why',
  async (endpoint) => {
    const { config, notes } = await startedWith(endpoint)
    expect(config.model).toBe('m')
    expect(config.kvCacheBlockSize).toBeUndefined()
    expect(notes.join('\n')).toContain(`KV events of rank 0 cannot be used (${endpoint})`)
  },
)

it('a rank that the server does not have - its events are not read, and a note says why', async () => {
  const { config, notes } = await startedWith('tcp://127.0.0.1:9', '1')
  expect(config.kvCacheBlockSize).toBeUndefined()
  expect(notes.join('\n')).toContain('KV events of rank 1: the server reports 1 ranks')
})

it('an endpoint that can be used - is used, without a note', async () => {
  const { config, notes } = await startedWith('tcp://127.0.0.1:9')
  expect(config.kvCacheBlockSize).toBe(16)
  expect(notes).toEqual([])
})

const zmq = await loadZmqClient()

it.skipIf(zmq === null)(
  'blocks of another size - are named in /health of the gateway',
  async () => {
    const publisher = await KvPublisher.listen(zmq as unknown as ZmqModule)
    const { url } = await vllmWith(publisher.events, '0')
    const flags = { forward: false, model: 'models/storyteller' }
    const gateway = await startGateway([{ url: `vllm+${url}` }], flags)
    onTestFinished(async () => {
      await gateway.close()
      publisher.close()
    })
    const payload = new Packr({ useRecords: false }).pack([
      1,
      [stored([1], null, block(0, 2), { block_size: 32 })],
      0,
    ])
    let warnings: readonly string[] = []
    await until('the warning is there', async () => {
      await publisher.send(publisher.keep(payload))
      const health = await fetch(`${gateway.url}/health`)
      ;({ warnings } = (await health.json()) as { warnings: readonly string[] })
      return warnings.length > 0
    })
    expect(warnings.join('\n')).toMatch(
      /upstream .* KV events that are not used for routing: KV events of rank 0: they name blocks of 32 tokens, but the server reports 16/,
    )
  },
)
