/** Tests replies of an engine that answers with text instead of ids. */
import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../base/index.ts'
import { finishChunk, textChunk, usageOf } from '../request/index.ts'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'

const A = workerIdOf(1)
const B = workerIdOf(2)
const encode = (text: string): number[] =>
  Array.from(storyteller().tokenizer.encode(text, { special: true }))

describe('an engine that answers with text', () => {
  it.each([true, false])(
    'its text is the reply, and its usage is used (stream: %s)',
    async (stream) => {
      const it_ = new ScriptedFrontend({
        script: (run) =>
          run
            .routed(A)
            .chunk(textChunk('Once '))
            .chunk(textChunk('upon'))
            .chunk(finishChunk('stop', { text: ' a time', usage: usageOf(40, 9, 30) })),
      })
      const reply = await it_.chat(
        stream ? { stream, stream_options: { include_usage: true } } : {},
      )
      expect(stream ? reply.text() : reply.json.choices[0].message.content).toBe('Once upon a time')
      expect(it_.ends[0]).toMatchObject({ promptTokens: 40, completionTokens: 9, cachedTokens: 30 })
    },
  )

  it('no usage - each piece counts as one token', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => run.chunk(textChunk('a')).chunk(textChunk('b')).ends('stop'),
    })
    expect((await it_.chat()).json.usage.completion_tokens).toBe(2)
  })

  it('a stop string across pieces - ends the reply there', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => run.chunk(textChunk('one EN')).chunk(textChunk('D two')).ends('stop'),
    })
    const reply = await it_.chat({ stop: ['END'] })
    expect(reply.json.choices[0]).toMatchObject({
      message: { content: 'one ' },
      finish_reason: 'stop',
    })
    expect(it_.runs[0]?.cancels).toEqual(['stop'])
  })

  it('a worker is lost - the request continues after the text so far, usage covers both attempts', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => {
        if (nth === 0) run.routed(A).chunk(textChunk('Once upon')).fails('transport.disconnected')
        else {
          const usage = usageOf(run.request.tokenIds.length, 3)
          run.routed(B).chunk(finishChunk('stop', { text: ' a time', usage }))
        }
      },
    })
    const reply = await it_.chat({ max_tokens: 20 })
    const soFar = encode('Once upon')
    const [first, second] = it_.requests
    expect(reply.json.choices[0].message.content).toBe('Once upon a time')
    expect(Array.from(second?.tokenIds ?? [])).toEqual([
      ...Array.from(first?.tokenIds ?? []),
      ...soFar,
    ])
    expect(second).toMatchObject({ resumedTokens: soFar.length })
    expect(reply.json.usage).toMatchObject({
      prompt_tokens: first?.tokenIds.length,
      completion_tokens: soFar.length + 3,
    })
  })

  it('more cached tokens than prompt tokens - are limited to the prompt', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => run.says('a').ends('stop', { usage: usageOf(3, 1, 100_000) }),
    })
    const { usage } = (await it_.chat()).json
    expect(usage.prompt_tokens_details.cached_tokens).toBe(usage.prompt_tokens)
  })
})
