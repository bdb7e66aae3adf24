/** vLLM that pushes KV: the first prefill leg reports the server's id, after that both legs run at once. */
import { afterEach, describe, expect, it } from 'vitest'
import { startGateway } from '../forward/gateway-kit.ts'
import type { Gateway } from '../forward/gateway-kit.ts'
import { until } from '../until.ts'
import { eventResponse, fakeServer, jsonResponse } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

const IDENTITY = {
  remote_engine_id: 'engine-p',
  remote_host: '10.0.0.4',
  remote_port: 5600,
  tp_size: 2,
  pp_size: 1,
  transfer_mode: 'push',
}
const PREFILLED = jsonResponse(200, {
  choices: [{ index: 0, token_ids: [735], finish_reason: 'length' }],
  kv_transfer_params: {
    ...IDENTITY,
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_block_ids: [[1, 2]],
    remote_request_id: 'cmpl-x-0-abcdef01',
    remote_num_tokens: 27,
  },
})
const DECODED = eventResponse([
  { choices: [{ index: 0, token_ids: [735, 706], finish_reason: 'length' }] },
  {
    choices: [],
    usage: {
      prompt_tokens: 27,
      completion_tokens: 2,
      prompt_tokens_details: { cached_tokens: 26 },
    },
  },
  '[DONE]',
])

async function vllm(answer: (request: SeenRequest) => string | null): Promise<FakeServer> {
  const server = await fakeServer((request) => {
    if (request.path === '/v1/completions') return answer(request)
    if (request.path === '/health') return jsonResponse(200, {})
    const data = [{ id: 'm', owned_by: 'vllm', max_model_len: 4096 }]
    return request.path === '/v1/models' ? jsonResponse(200, { data }) : jsonResponse(404, {})
  })
  open.push(server)
  return server
}

async function gatewayOf(p: FakeServer, d: FakeServer): Promise<Gateway> {
  const upstream = `prefill=vllm+${p.url},decode=vllm+${d.url}`
  const flags = { upstream, forward: false, model: 'models/storyteller', enforceDisagg: true }
  const gateway = await startGateway([], flags)
  open.push(gateway)
  return gateway
}

async function chat(gateway: Gateway): Promise<number> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'm',
      max_tokens: 2,
      messages: [{ role: 'user', content: 'Tell me a story' }],
    }),
  })
  await response.text()
  return response.status
}

const asked = ({ seen }: FakeServer): readonly SeenRequest[] =>
  seen.filter(({ path }) => path === '/v1/completions')
const paramsOf = (request: SeenRequest | undefined): unknown =>
  (JSON.parse(request?.body ?? '{}') as Record<string, unknown>)['kv_transfer_params']

describe('a prefill server that pushes KV', () => {
  it('legs - run one after the other the first time, then at once with the same request id', async () => {
    let waiting: (() => void) | null = null
    const p = await vllm(({ socket }) => {
      if (asked(p).length === 1) return PREFILLED
      waiting = () => socket.end(PREFILLED)
      return null
    })
    const d = await vllm(() => DECODED)
    const gateway = await gatewayOf(p, d)
    expect(await chat(gateway)).toBe(200)
    expect(paramsOf(asked(d)[0])).toMatchObject({ remote_block_ids: [[1, 2]] })
    const second = chat(gateway)
    // Prefill has not answered when decode is asked.
    await until('both are asked', () => asked(d).length === 2 && asked(p).length === 2)
    const [, first] = asked(p)
    const [, decode] = asked(d)
    const id = decode?.headers['x-request-id']
    expect(first?.headers['x-request-id']).toBe(id)
    expect(id).toMatch(/^[0-9a-f-]{36}\.[0-9a-f-]{36}$/)
    expect(paramsOf(decode)).toEqual({
      ...IDENTITY,
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [],
      remote_request_id: `cmpl-${id}-0`,
    })
    expect(paramsOf(first)).toMatchObject({ do_remote_decode: true })
    expect(await second).toBe(200)
    waiting!()
  })

  it('decode reports no cached tokens - its byte counter does not include pushed KV', async () => {
    const p = await vllm(() => PREFILLED)
    const d = await vllm(() => DECODED.replace('"cached_tokens":26', '"cached_tokens":0'))
    const gateway = await gatewayOf(p, d)
    expect(await chat(gateway)).toBe(200)
    const health = await (await fetch(`${gateway.url}/health`)).text()
    expect(health).not.toContain('0 of 1 decode legs')
  })

  it.each([
    ['fails', jsonResponse(500, { error: { message: 'x' } })],
    [
      'hands nothing over',
      jsonResponse(200, { choices: [{ index: 0, token_ids: [1], finish_reason: 'length' }] }),
    ],
  ])('prefill %s while decode waits - the decode request is aborted', async (_name, answer) => {
    let left = 0
    const p = await vllm(() => (asked(p).length === 1 ? PREFILLED : answer))
    const d = await vllm(({ socket }) => {
      if (asked(d).length === 1) return DECODED
      socket.once('close', () => {
        left += 1
      })
      return null
    })
    const gateway = await gatewayOf(p, d)
    expect(await chat(gateway)).toBe(200)
    expect(await chat(gateway)).toBeGreaterThanOrEqual(500)
    // A few attempts instead of one after each short wait.
    expect(asked(p).length).toBeLessThan(8)
    await until('the decode request is aborted', () => left > 0 && left === asked(d).length - 1)
  })

  it('decode fails while prefill computes - the prefill request is aborted', async () => {
    let left = 0
    const p = await vllm(({ socket }) => {
      if (asked(p).length === 1) return PREFILLED
      socket.once('close', () => {
        left += 1
      })
      return null
    })
    const d = await vllm(() =>
      asked(d).length === 1 ? DECODED : jsonResponse(400, { error: { message: 'no' } }),
    )
    const gateway = await gatewayOf(p, d)
    expect(await chat(gateway)).toBe(200)
    expect(await chat(gateway)).toBe(400)
    await until('the prefill request is aborted', () => left > 0)
  })
})
