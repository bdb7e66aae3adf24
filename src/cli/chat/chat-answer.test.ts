import { createServer } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { askForAnswer } from './chat-answer.ts'

async function serverThatSays(...pieces: readonly object[]): Promise<string> {
  const server = createServer((_, reply) => {
    reply.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const delta of pieces) reply.write(`data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`)
    reply.end('data: [DONE]\n\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

describe('the answer of baton chat', () => {
  it("escape sequences in the model's output - are not sent to the terminal but kept in the saved text", async () => {
    const evil = 'one\u001B]0;title\u0007\ntwo\u009B2J'
    const url = await serverThatSays({ reasoning_content: evil }, { content: evil })
    let shown = ''
    const screen = { columns: 80, hasColor: false, write: (text: string) => void (shown += text) }
    const settings = { url, model: 'm', maxTokens: 9, temperature: null }
    const { text } = await askForAnswer(settings, [], screen, new AbortController().signal)
    expect(text).toBe(evil)
    expect(shown.match(/one ]0;title\s*\n\s*two 2J/g)).toHaveLength(2)
    // oxlint-disable-next-line no-control-regex -- the test checks that control characters are absent
    expect(shown).not.toMatch(/[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/)
  })

  it('an answer without usage because it was stopped - its pieces are counted', async () => {
    const url = await serverThatSays({ reasoning_content: 'a' }, { content: 'b' }, { content: 'c' })
    const screen = { columns: 80, hasColor: false, write: () => undefined }
    const settings = { url, model: 'm', maxTokens: 9, temperature: null }
    const answer = await askForAnswer(settings, [], screen, new AbortController().signal)
    expect(answer.completionTokens).toBe(3)
  })

  it.each([
    ['without colours', false, '[thinking] why\n\n[answer] so\n\n[thinking] but\n\n[answer] yes\n'],
    ['with colours', true, '\u001B[2mwhy\u001B[0m\n\nso\n\n\u001B[2mbut\u001B[0m\n\nyes\n'],
  ])(
    'thinking, also between parts of the answer and by either name, %s - is told from the answer',
    async (_, hasColor, expected) => {
      const url = await serverThatSays(
        { reasoning_content: 'why' },
        { content: 'so' },
        { reasoning: 'but' },
        { content: 'yes' },
      )
      let shown = ''
      const screen = { columns: 80, hasColor, write: (text: string) => void (shown += text) }
      const settings = { url, model: 'm', maxTokens: 9, temperature: null }
      const { text } = await askForAnswer(settings, [], screen, new AbortController().signal)
      expect(text).toBe('soyes')
      expect(shown).toBe(expected)
    },
  )
})
