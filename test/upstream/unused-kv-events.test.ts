/** KV events that a server announces and that cannot be used: the server serves, and the reason is told. */
import { expect, it, onTestFinished } from 'vitest'
import { startedWithConfig } from './engine-kit.ts'
import { fakeServer, jsonResponse } from './transcripts.ts'

const METRICS = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n'

/** A vLLM server that announces the KV events of `rank` at `endpoint`. */
async function vllmWith(endpoint: string, rank = '0') {
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
  const notes: string[] = []
  const { engine, config } = await startedWithConfig({
    url: server.url,
    kind: 'vllm',
    onNote: (note) => notes.push(note),
  })
  onTestFinished(async () => {
    await engine.cleanup()
    await server.close()
  })
  engine.observe({ kvEvents: () => undefined, load: () => undefined })
  return { config, notes }
}

it.each(['inproc://x', 'tcp://*', 'tcp://*:0'])(
  'an endpoint that cannot be used (%s) - the server serves without its events, and a note says why',
  async (endpoint) => {
    const { config, notes } = await vllmWith(endpoint)
    expect(config.model).toBe('m')
    expect(config.kvCacheBlockSize).toBeUndefined()
    expect(notes.join('\n')).toContain(`KV events of rank 0 cannot be used (${endpoint})`)
  },
)

it('an endpoint that can be used - is used, without a note', async () => {
  const { config, notes } = await vllmWith('tcp://127.0.0.1:9')
  expect(config.kvCacheBlockSize).toBe(16)
  expect(notes).toEqual([])
})
