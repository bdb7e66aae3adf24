import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from './free-port.ts'
import { BatonsInTurn } from './in-turn.ts'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'
import { until } from './until.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))

function chat(
  args: readonly string[],
  lines: readonly string[],
): Promise<{ code: number | null; printed: string }> {
  const child = spawn(process.execPath, [MAIN, 'chat', ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let printed = ''
  const take = (bytes: Buffer): void => {
    printed += bytes.toString()
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  child.stdin.end(lines.map((line) => `${line}\n`).join(''))
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, printed }))
  })
}

describe('baton chat', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer([])
  })
  afterAll(async () => {
    await server.stop()
  })

  it('a conversation - streams the answer, names the workers, ends with /quit', async () => {
    const { code, printed } = await chat(
      ['--url', server.url, '--temperature', '0'],
      ['Repeat after me: lamp zafi tiger', '/worker', '/quit', 'never asked'],
    )
    expect(code).toBe(0)
    expect(printed).toContain('Talking to storyteller')
    expect(printed).toContain('lamp zafi tiger')
    for (const [, id] of server.printed().matchAll(/ id (\d+)$/gm)) expect(printed).toContain(id)
  })

  it('commands - an unknown one lists the available ones; end of input ends the chat', async () => {
    const { code, printed } = await chat(['--url', server.url], ['/dance'])
    expect(code).toBe(0)
    expect(printed).toContain('unknown command /dance')
    expect(printed).toContain('/worker')
  })

  it('an unknown model - prints one line with the available models and exits with 1', async () => {
    const { code, printed } = await chat(['--url', server.url, '--model', 'nope'], ['hello'])
    expect([code, printed]).toEqual([1, expect.stringContaining('The server has: storyteller')])
    expect(printed).not.toContain('Talking to')
  })

  it('after each answer - prints the number of tokens, TTFT and speed', async () => {
    const { printed } = await chat(['--url', server.url], ['Hello', '/stats', '/explain'])
    expect(printed).toMatch(/\(\d+ tokens, TTFT \d+ ms, \d+ tokens\/s/)
    expect(printed).toContain('mean TTFT')
    expect(printed).toMatch(/decode at .*: worker \d+/)
  })

  /** `script` of util-linux provides the terminal. */
  it.skipIf(process.platform !== 'linux')(
    'several lines pasted into a terminal - are one question',
    async () => {
      const state = mkdtempSync(join(tmpdir(), 'baton-chat-'))
      const command = `"${process.execPath}" "${MAIN}" chat --url ${server.url} --max-tokens 5`
      const child = spawn('script', ['-qec', command, '/dev/null'], {
        stdio: ['pipe', 'pipe', 'ignore'],
        env: { ...process.env, XDG_STATE_HOME: state, TERM: 'xterm' },
      })
      let printed = ''
      child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
      await until('it asks', () => printed.includes('\u001B[?2004h'))
      child.stdin.write('\u001B[200~first line\nsecond line\nthird\u001B[201~')
      child.stdin.write('\r')
      await until('it has answered', () => /TTFT \d+ ms/.test(printed))
      child.stdin.write('/save ' + join(state, 'talk.json') + '\r')
      await until('the chat is saved', () => printed.includes('2 messages are in'))
      child.stdin.write('/quit\r')
      await new Promise((resolve) => {
        child.once('close', resolve)
      })
      const saved = JSON.parse(readFileSync(join(state, 'talk.json'), 'utf8')) as {
        messages: { content: string }[]
      }
      expect(saved.messages[0]?.content).toBe('first line\nsecond line\nthird')
      expect(readFileSync(join(state, 'baton', 'chat-history'), 'utf8')).toContain('/save')
      rmSync(state, { recursive: true, force: true })
    },
  )

  it.skipIf(process.platform !== 'linux')(
    'Ctrl-C - clears typed and pasted text, and ends the chat on an empty line',
    async () => {
      const state = mkdtempSync(join(tmpdir(), 'baton-chat-'))
      const command = `"${process.execPath}" "${MAIN}" chat --url ${server.url} --max-tokens 5`
      const child = spawn('script', ['-qec', command, '/dev/null'], {
        stdio: ['pipe', 'pipe', 'ignore'],
        env: { ...process.env, XDG_STATE_HOME: state, TERM: 'xterm' },
      })
      const closed = new Promise((resolve) => child.once('close', resolve))
      let printed = ''
      child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
      await until('it asks', () => printed.includes('\u001B[?2004h'))
      child.stdin.write('not this')
      await until('the text is shown', () => printed.includes('not this'))
      child.stdin.write('\u0003')
      child.stdin.write('\u001B[200~nor this\nnor that\u001B[201~')
      await until('the paste is shown', () => printed.includes('nor that'))
      child.stdin.write('\u0003')
      child.stdin.write('but this\r')
      await until('it has answered', () => /TTFT \d+ ms/.test(printed))
      const file = join(state, 'talk.json')
      child.stdin.write(`/save ${file}\r`)
      await until('the chat is saved', () => printed.includes('2 messages are in'))
      const saved = JSON.parse(readFileSync(file, 'utf8')) as { messages: { content: string }[] }
      expect(saved.messages[0]?.content).toBe('but this')
      // This terminal has no size, so nothing is wrapped.
      expect(printed).toContain(saved.messages[1]?.content.trim())
      child.stdin.write('\u0003')
      expect(await closed).toBe(0)
      rmSync(state, { recursive: true, force: true })
    },
  )

  it('a failed answer - sets the exit code when input is a script', async () => {
    const tooLong = 'word '.repeat(5000)
    const { code, printed } = await chat(['--url', server.url], [tooLong, '/quit'])
    expect([code, printed]).toEqual([1, expect.stringContaining('! ')])
  })

  it('no server - prints one line that says what to do', async () => {
    const ended = await batons.run(['chat', '--url', `http://127.0.0.1:${await freePort()}`])
    expect(ended.exitCode).toBe(1)
    expect(ended.printed).toMatch(
      /^baton: no server at http:\/\/127\.0\.0\.1:\d+: [^\n]*baton serve[^\n]*\n$/,
    )
  })

  it('explain - shows the routing decisions of a request', async () => {
    const requestId = '0b5f3d3e-8f0f-4c58-9a3d-0f5f0d5a7a11'
    await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': requestId },
      body: JSON.stringify({
        model: 'storyteller',
        max_tokens: 2,
        messages: [{ role: 'user', content: 'Hello' }],
      }),
    })
    const ended = await batons.run(['explain', requestId, '--url', server.url])
    expect(ended.exitCode).toBe(0)
    expect(ended.printed).toMatch(/^prefill at .*: worker \d+ rank 0 \(lowest cost\)/m)
    expect(ended.printed).toMatch(/^decode at .*: worker \d+ rank 0 \(lowest cost\)/m)
    const json = await batons.run(['explain', requestId, '--json', '--url', server.url])
    expect(JSON.parse(json.printed)).toMatchObject({
      decisions: [{ phase: 'prefill' }, { phase: 'decode' }],
    })
    const unknown = await batons.run(['explain', 'nope', '--url', server.url])
    expect(unknown).toMatchObject({
      exitCode: 1,
      printed: expect.stringMatching(/^baton: .*not known/),
    })
  })
})
