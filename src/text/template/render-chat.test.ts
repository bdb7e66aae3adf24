import { describe, expect, it } from 'vitest'
import { storyteller } from '../../../test/frontend/scripted-frontend.ts'
import { ChatTemplate } from './chat-template.ts'
import { unusedMarker } from './continued-message.ts'
import { Pace, withoutPauses } from './paced-scan.ts'
import { renderChat, renderChatInSteps } from './render-chat.ts'
import type { ChatInput } from './render-chat.ts'

const { tokenizer } = storyteller()
const show = new ChatTemplate('{% for m in messages %}{{ m.content }}{% endfor %}')
const CONTROL = '<|im_start|>'
const MEGABYTE = 1024 * 1024
const long = '<|'.repeat(2 * MEGABYTE)
const user = (content: string, more: object = {}): ChatInput => ({
  messages: [{ role: 'user', content, ...more }],
})

class TooLong extends Error {}

/** Runs a rendering to its end and counts the pauses; `most`: characters that are not refused. */
function run(template: ChatTemplate, input: ChatInput, most = Infinity) {
  const asked: number[] = []
  const steps = renderChatInSteps(template, tokenizer, input, (text) => {
    asked.push(text.length)
    if (text.length > most) throw new TooLong()
  })
  let pauses = 0
  try {
    for (;;) {
      const step = steps.next()
      if (step.done === true) return { asked, pauses, text: step.value.text }
      pauses += 1
    }
  } catch (thrown) {
    if (!(thrown instanceof TooLong)) throw thrown
    return { asked, pauses, text: null }
  }
}

describe('a chat with much text that looks like control tokens', () => {
  it('too long - refused before anything is marked', () => {
    expect(run(show, user(long), MEGABYTE)).toEqual({ asked: [long.length], pauses: 0, text: null })
    const going = { ...user(long), continueFinalMessage: true }
    expect(run(show, going, MEGABYTE)).toMatchObject({ asked: [long.length], text: null })
  })

  it('not shown by the template - not refused, and marked in steps', () => {
    const { asked, pauses, text } = run(show, user('hi', { name: long }), MEGABYTE)
    expect([asked, text]).toEqual([[2, 2], 'hi'])
    expect(pauses).toBeGreaterThan(long.length / 500_000)
  })

  it('private-use characters beside it - looked for in steps', () => {
    const name = `${'\ue000'.repeat(4 * MEGABYTE)}${CONTROL}`
    const { pauses, text } = run(show, user('hi', { name }))
    expect(text).toBe('hi')
    expect(pauses).toBeGreaterThan(name.length / 500_000)
  })

  it('shown only because the template does not see the control tokens - refused when restored', () => {
    const template = new ChatTemplate(
      `{% for m in messages %}{% if '${CONTROL}' in m.content %}x{% else %}{{ m.content }}{% endif %}{% endfor %}`,
    )
    const content = CONTROL + long
    expect(run(template, user(content), MEGABYTE)).toMatchObject({
      asked: [1, content.length],
      text: null,
    })
    expect(run(template, user(content)).text === content).toBe(true)
  })

  it('rejected by the template only without marks - rendered with them', () => {
    const template = new ChatTemplate(
      `{% for m in messages %}{% if '${CONTROL}' in m.content %}{{ raise_exception('no') }}{% endif %}{{ m.content | length }}{% endfor %}`,
    )
    expect(run(template, user(CONTROL + long)).text).toBe(String(CONTROL.length + long.length))
  })

  it('very many texts that the template rejects - a pause before each form that is tried', () => {
    const reject = new ChatTemplate("{{ raise_exception('no') }}")
    const fields = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`f${at}`, 'x']))
    const calls = [{ id: 'c', function: { name: 'f', arguments: fields } }]
    const steps = renderChatInSteps(
      reject,
      tokenizer,
      user('hi', { tool_calls: calls }),
      () => undefined,
    )
    let pauses = 0
    expect(() => {
      while (steps.next().done !== true) pauses += 1
    }).toThrow('no')
    // With and without shortened ids, and with a list of tools or null.
    expect(pauses).toBe(4)
  })

  it('of usual length - rendered without a pause, and refused if it is too long', () => {
    expect(run(show, user(CONTROL.repeat(100)))).toEqual({
      asked: [1200],
      pauses: 0,
      text: CONTROL.repeat(100),
    })
    expect(run(show, user(CONTROL.repeat(100)), 1000).text).toBe(null)
  })
})

describe('a message that is continued', () => {
  it.each([
    'once',
    `once ${CONTROL}`,
    '\ue5a0\ue5a2',
    '\ue5a0\ue5a1\ue5a2\ue5a0\ue5a1\ue5a1\ue5a2<|',
    `\ue5a0${'\ue5a1'.repeat(1000)}`,
    `${'\ue5a0'.repeat(600)}\ue5a2<|\ue000`,
  ])('%j - the prompt ends with it', (content) => {
    const template = new ChatTemplate(
      "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}{{ 'end' }}",
    )
    const { text, literalRanges } = renderChat(template, tokenizer, {
      ...user(content),
      continueFinalMessage: true,
    })
    expect(text).toBe(CONTROL + content)
    const literal = literalRanges.filter((_, i) => i % 2 === 0).map((at) => text[at])
    expect(literal).toEqual(content.match(/<(?=\|)/g) ?? [])
  })

  it('the marker does not occur in the texts, and is found in steps', () => {
    const texts = ['\ue5a0\ue5a1\ue5a1\ue5a2', `${'\ue5a1'.repeat(MEGABYTE)}x`, 'y']
    const marker = withoutPauses(unusedMarker(texts, new Pace()))
    expect(marker.length).toBe(MEGABYTE + 3)
    expect(texts.some((text) => text.includes(marker))).toBe(false)
    expect(unusedMarker(texts, new Pace()).next().done).toBe(false)
  })
})
