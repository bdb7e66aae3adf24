import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../../test/router/manual-clock.ts'
import type { ChatAnswer } from './chat-answer.ts'
import { speedText, Talk } from './chat-talk.ts'
import { PasteCollector } from './question-lines.ts'

const ANSWER: ChatAnswer = {
  requestId: 'r1',
  text: 'Paris.',
  workers: { prefill_worker_id: '1', decode_worker_id: '2' },
  ttftMs: 50,
  durationMs: 1050,
  promptTokens: 20,
  cachedTokens: 16,
  completionTokens: 11,
}

function start() {
  const printed: string[] = []
  const saved = new Map<string, string>()
  const settings = { url: 'http://x', model: 'a', maxTokens: 5, temperature: null }
  const talk = new Talk(settings, null, {
    print: (text) => void printed.push(text),
    models: () => Promise.resolve(['a', 'b']),
    explain: (requestId) => Promise.resolve(`why ${requestId}`),
    save: (file, content) => {
      if (file.startsWith('/nowhere')) throw new Error('no such folder')
      saved.set(file, content)
    },
  })
  return { talk, printed, saved }
}

describe('commands of baton chat', () => {
  it('/system - the system message is sent with every question until it is removed', async () => {
    const { talk } = start()
    await talk.command('/system  Be   brief.')
    expect(talk.asked('Q')).toEqual([
      { role: 'system', content: 'Be   brief.' },
      { role: 'user', content: 'Q' },
    ])
    await talk.command('/system')
    expect(talk.system).toBe('Be   brief.')
    await talk.command('/system -')
    expect(talk.asked('Q')).toHaveLength(1)
  })

  it('/model - shows and selects a model; a model that does not exist is refused', async () => {
    const { talk, printed } = start()
    await talk.command('/model b')
    expect([talk.settings.model, printed.at(-1)]).toEqual(['b', '  a\n* b'])
    await talk.command('/model c')
    expect([talk.settings.model, printed.at(-1)]).toEqual(['b', 'no model c; the server has: a, b'])
  })

  it.each([
    ['0', 0],
    ['2', 2],
    ['2.1', null],
    ['-0.1', null],
    ['x', null],
  ])('/temp %s - %s', async (text, value) => {
    const { talk } = start()
    await talk.command(`/temp ${text}`)
    expect(talk.settings.temperature).toBe(value)
  })

  it('/temp - sets the temperature and restores the server’s default', async () => {
    const { talk } = start()
    await talk.command('/temp 1')
    await talk.command('/temp -')
    expect(talk.settings.temperature).toBeNull()
  })

  it('/retry - asks again without the previous answer', async () => {
    const { talk, printed } = start()
    expect(await talk.command('/retry')).toBeNull()
    expect(printed).toEqual(['nothing has been asked yet'])
    talk.answered('Where?', ANSWER)
    expect(await talk.command('/retry')).toEqual({ ask: 'Where?' })
    expect(talk.asked('Where?')).toEqual([{ role: 'user', content: 'Where?' }])
  })

  it('/save - writes JSON or Markdown; a file that cannot be written is reported', async () => {
    const { talk, printed, saved } = start()
    talk.answered('Where?', ANSWER)
    await talk.command('/save talk.json')
    expect(JSON.parse(saved.get('talk.json') ?? '')).toEqual({
      model: 'a',
      messages: [
        { role: 'user', content: 'Where?' },
        { role: 'assistant', content: 'Paris.' },
      ],
    })
    await talk.command('/save talk.md')
    expect(saved.get('talk.md')).toContain('**assistant**\n\nParis.')
    await talk.command('/save /nowhere/x')
    expect(printed.at(-1)).toMatch(/^! /)
  })

  it('/explain, /worker, /stats, /new, /quit', async () => {
    const { talk, printed } = start()
    await talk.command('/explain')
    talk.answered('Where?', ANSWER)
    await talk.command('/explain')
    await talk.command('/worker')
    await talk.command('/stats')
    expect(printed).toEqual([
      'no answer yet',
      'why r1',
      'prefill worker id: 1\ndecode worker id: 2',
      expect.stringContaining('mean TTFT 50 ms'),
    ])
    await talk.command('/new')
    expect(talk.asked('Q')).toHaveLength(1)
    expect(await talk.command('/quit')).toBe('quit')
  })

  it('the statistics line below an answer', () => {
    expect(speedText(ANSWER)).toBe(
      '11 tokens, TTFT 50 ms, 10 tokens/s, 16 of 20 prompt tokens reused',
    )
    expect(speedText({ ...ANSWER, ttftMs: null, completionTokens: 0, cachedTokens: null })).toBe(
      '0 tokens',
    )
  })
})

describe('a paste', () => {
  function collector() {
    const clock = new ManualClock()
    const asked: string[] = []
    return { clock, asked, paste: new PasteCollector(clock, (question) => asked.push(question)) }
  }

  it('lines between bracketed paste marks - are one question when Enter is pressed', () => {
    const { clock, asked, paste } = collector()
    paste.key('paste-start')
    paste.line('one')
    clock.advance(10_000)
    paste.line('two')
    paste.key('paste-end')
    expect(asked).toEqual([])
    paste.line('three')
    clock.advance(15)
    expect(asked).toEqual(['one\ntwo\nthree'])
  })

  it('a paste without marks - lines within 15 ms of each other are one question, a later line is another', () => {
    const { clock, asked, paste } = collector()
    paste.line('one')
    clock.advance(14)
    paste.line('two')
    clock.advance(14)
    expect(asked).toEqual([])
    clock.advance(1)
    paste.line('three')
    clock.advance(15)
    expect(asked).toEqual(['one\ntwo', 'three'])
  })

  it('the end of the input - the remaining lines are asked once', () => {
    const { clock, asked, paste } = collector()
    paste.line('last')
    paste.end()
    clock.advance(15)
    expect(asked).toEqual(['last'])
  })
})
