import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runBaton, startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))

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

  it('talk - streams the answer, names the workers, leaves with /quit', async () => {
    const { code, printed } = await chat(
      ['--url', server.url, '--temperature', '0'],
      ['Repeat after me: lamp zafi tiger', '/worker', '/quit', 'never asked'],
    )
    expect(code).toBe(0)
    expect(printed).toContain('Talking to storyteller')
    expect(printed).toContain('lamp zafi tiger')
    for (const [, id] of server.printed().matchAll(/ id (\d+)$/gm)) expect(printed).toContain(id)
  })

  it('commands - an unknown one lists those that exist, the end of input ends the talk', async () => {
    const { code, printed } = await chat(['--url', server.url], ['/dance'])
    expect(code).toBe(0)
    expect(printed).toContain('unknown command /dance')
    expect(printed).toContain('/worker')
  })

  it('no server - one line that says what to do', async () => {
    const ended = await runBaton(['chat', '--url', 'http://127.0.0.1:9'])
    expect(ended.exitCode).toBe(1)
    expect(ended.printed).toMatch(
      /^baton: no server at http:\/\/127\.0\.0\.1:9: [^\n]*baton serve[^\n]*\n$/,
    )
  })

  it('explain - shows the decisions of a request', async () => {
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
    const ended = await runBaton(['explain', requestId, '--url', server.url])
    expect(ended.exitCode).toBe(0)
    expect(ended.printed).toMatch(/^prefill at .*: worker \d+ rank 0 \(lowest cost\)/m)
    expect(ended.printed).toMatch(/^decode at .*: worker \d+ rank 0 \(lowest cost\)/m)
    const json = await runBaton(['explain', requestId, '--json', '--url', server.url])
    expect(JSON.parse(json.printed)).toMatchObject({
      decisions: [{ phase: 'prefill' }, { phase: 'decode' }],
    })
    const unknown = await runBaton(['explain', 'nope', '--url', server.url])
    expect(unknown).toMatchObject({
      exitCode: 1,
      printed: expect.stringMatching(/^baton: .*not known/),
    })
  })
})
