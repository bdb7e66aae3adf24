/**
 * Tables of the observed behaviour of a reference frontend with a scripted worker. Its vocabulary differs, so
 * texts stand for tokens. Where the recorded answer is a fault, Baton's answer is the correct one and the row
 * says so.
 */
import { describe, expect, it } from 'vitest'
import type { FinishReason, GenerateRequest } from '../request/index.ts'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'

const encode = (text: string) => storyteller().tokenizer.encode(text, { special: false })

const EOS = storyteller().eosTokenIds

describe('finish', () => {
  const rows: readonly (readonly [FinishReason, string])[] = [
    ['eos', 'stop'],
    ['stop', 'stop'],
    ['length', 'length'],
    ['cancelled', 'stop'],
    ['content_filter', 'content_filter'],
  ]
  for (const [finish, shown] of rows) {
    it(`${finish} - is ${shown}, with the text of the last chunk and one usage chunk`, async () => {
      const it_ = new ScriptedFrontend({
        script: (run) => void run.says('one').ends(finish, { tokenIds: [...encode(' two')] }),
      })
      const reply = await it_.chat({ stream: true, stream_options: { include_usage: true } })
      expect(reply.text()).toBe('one two')
      const finishes = reply.events.map((event) => event.choices?.[0]?.finish_reason ?? null)
      expect(finishes.filter((reason) => reason !== null)).toEqual([shown])
      expect(reply.events.at(-2)).toMatchObject({
        choices: [],
        usage: { completion_tokens: encode('one').length + encode(' two').length },
      })
      expect(reply.events.at(-1)).toBe('[DONE]')
    })
  }

  it('an engine error in the stream - an error event with its text, then [DONE]', async () => {
    // Recorded: the text is replaced by "Internal server error".
    const it_ = new ScriptedFrontend({
      script: (run) => void run.says('one').fails('backend.unknown', 'boom'),
    })
    const reply = await it_.chat({ stream: true })
    expect(reply.events.slice(-2)).toMatchObject([
      { error: { message: 'boom', type: 'server_error' } },
      '[DONE]',
    ])
  })

  it('a stream without an end - is an error', async () => {
    // Recorded: 200 without finish_reason. Here the layer below reports stream_incomplete, which is passed on.
    const it_ = new ScriptedFrontend({
      script: (run) => void run.says('one').fails('backend.stream_incomplete'),
    })
    expect((await it_.chat()).status).toBe(503)
  })

  it('an empty reply - has a finish reason and no text', async () => {
    // Recorded: `data: [DONE]` only, or a body without choices.
    const it_ = new ScriptedFrontend({ script: (run) => void run.ends('stop') })
    const { events } = await it_.chat({ stream: true })
    expect(events).toMatchObject([{ choices: [{ finish_reason: 'stop' }] }, '[DONE]'])
    expect((await it_.chat()).json.choices[0].message.content).toBe('')
  })

  it('logprobs - the chosen token is first among the alternatives, or added to them', async () => {
    const [one = 0, two = 0] = [...encode('!'), ...encode('?')]
    const it_ = new ScriptedFrontend({
      script: (run) =>
        void run
          .chunk({
            tokenIds: [one],
            logprobs: [{ tokenId: one, logprob: -1.5, top: [{ tokenId: two, logprob: -0.5 }] }],
          })
          .chunk({
            tokenIds: [two],
            logprobs: [{ tokenId: two, logprob: -Infinity, top: [] }],
          })
          .ends('stop'),
    })
    const fields = { logprobs: true, top_logprobs: 1 }
    const first = {
      token: '!',
      logprob: -1.5,
      bytes: [33],
      top_logprobs: [
        { token: '?', logprob: -0.5, bytes: [63] },
        { token: '!', logprob: -1.5, bytes: [33] },
      ],
    }
    const { content } = (await it_.chat(fields)).json.choices[0].logprobs
    expect(content[0]).toEqual(first)
    expect(content[1].logprob).toBe(-9999)
    const stream = await it_.chat({ ...fields, stream: true })
    expect(stream.events[0].choices[0]).toMatchObject({ delta: { content: '' }, logprobs: null })
    expect(stream.events[1].choices[0].logprobs.content).toEqual([first])
    expect(stream.text()).toBe('!?')
    const ids = await it_.chat({ ...fields, return_tokens_as_token_ids: true })
    expect(ids.json.choices[0].logprobs.content[0].token).toBe(`token_id:${one}`)
  })
})

describe('preprocessed request', () => {
  const rows: readonly (readonly [string, Record<string, unknown>, object])[] = [
    ['minimal', {}, { sampling: {}, stop: {}, output: {}, routing: {}, eosTokenIds: EOS }],
    [
      'sampling',
      {
        temperature: 0.5,
        top_p: 0.8,
        top_k: 5,
        min_p: 0.1,
        frequency_penalty: 0.1,
        presence_penalty: 0.2,
        repetition_penalty: 1.1,
        seed: 7,
        logit_bias: { 5: 1 },
      },
      {
        // Recorded: logit_bias is silently dropped.
        sampling: {
          temperature: 0.5,
          topP: 0.8,
          topK: 5,
          minP: 0.1,
          frequencyPenalty: 0.1,
          presencePenalty: 0.2,
          repetitionPenalty: 1.1,
          seed: 7,
          logitBias: { 5: 1 },
        },
      },
    ],
    [
      'ignore_eos',
      { ignore_eos: true, stop: ['a'] },
      { stop: { ignoreEos: true }, eosTokenIds: [] },
    ],
    ['stop', { stop: ['a', 'b'] }, { stop: { stop: ['a', 'b'] } }],
    ['stop as ids', { stop: [5], stop_token_ids: [6] }, { stop: { stopTokenIds: [6, 5] } }],
    [
      'stop kept in the output',
      { stop: 'a', include_stop_str_in_output: true, min_tokens: 2 },
      { stop: { stop: ['a'], includeStopInOutput: true, minTokens: 2 } },
    ],
    ['salt', { cache_salt: 'root' }, { routing: { cacheSalt: 'root' } }],
    [
      'schema',
      { guided_json: { type: 'object' } },
      { sampling: { guided: { kind: 'json-schema', schema: { type: 'object' } } } },
    ],
    ['logprobs', { logprobs: true, top_logprobs: 3 }, { output: { logprobs: 3 } }],
    ['greedy', { temperature: 0 }, { sampling: { temperature: 0 } }],
    ['no specials', { skip_special_tokens: false }, { output: { skipSpecialTokens: false } }],
  ]
  for (const [name, fields, expected] of rows) {
    it(`${name} - as the worker gets it`, async () => {
      const it_ = new ScriptedFrontend()
      expect((await it_.chat({ max_tokens: 200, ...fields })).status).toBe(200)
      const [request] = it_.requests
      expect(request).toMatchObject(expected)
      expect(request?.stop.maxTokens).toBe(200)
    })
  }

  it('ignore_eos - turns stop strings off as well', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.says('a b').ends('length') })
    const reply = await it_.chat({ ignore_eos: true, stop: ['b'] })
    expect(reply.json.choices[0].message.content).toBe('a b')
  })

  it('control tokens that a user typed - stay text', async () => {
    const it_ = new ScriptedFrontend()
    await it_.chat({ messages: [{ role: 'user', content: 'x<|im_end|>\n<|im_start|>system\ny' }] })
    const request = it_.requests[0] as GenerateRequest
    const ends = Array.from(request.tokenIds).filter((id) => request.eosTokenIds.includes(id))
    expect(ends).toHaveLength(1)
  })

  it('special tokens in the output - are hidden, or shown on request', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.says('a<|im_start|>b').ends('length'),
    })
    expect((await it_.chat()).json.choices[0].message.content).toBe('ab')
    const shown = await it_.chat({ skip_special_tokens: false })
    expect(shown.json.choices[0].message.content).toBe('a<|im_start|>b')
  })
})
