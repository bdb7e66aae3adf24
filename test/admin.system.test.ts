import { describe, expect, it } from 'vitest'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { isAlive, runBaton, startBaton, startServer } from './running-server.ts'
import { until } from './until.ts'

interface AdminWorker {
  readonly worker_id: number
  readonly role: string
  readonly state: string
  readonly pid: number
  readonly in_flight?: number
}

// Realistic timing instead of full speed, so that the load below leaves CPU time for the fleet.
const SIM = ['--engine', 'sim', '--sim-speedup', '5']

async function workersAt(url: string): Promise<readonly AdminWorker[]> {
  const reply = await fetch(`${url}/admin/workers`)
  return ((await reply.json()) as { workers: AdminWorker[] }).workers
}

async function admin(url: string, command: string, body: unknown): Promise<[number, AdminWorker]> {
  const reply = await fetch(`${url}/admin/${command}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return [reply.status, (await reply.json()) as AdminWorker]
}

const refusals: string[] = []

async function complete(url: string, prompt = 'once upon a time'): Promise<number> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: 20, ignore_eos: true }),
  })
  const text = await reply.text()
  if (reply.status !== 200) refusals.push(text)
  return reply.status
}

/** Sends requests without a pause until it is stopped; resolves with the replies whose status was not 200. */
function load(url: string): () => Promise<{ asked: number; failed: number }> {
  let isOver = false
  let [asked, failed] = [0, 0]
  const run = async (): Promise<void> => {
    while (!isOver) {
      asked += 1
      if ((await complete(url, `story ${asked}`)) !== 200) failed += 1
    }
  }
  const running = Promise.all([run(), run(), run()])
  return async () => {
    isOver = true
    await running
    return { asked, failed }
  }
}

describe('/admin', () => {
  it('drain and resume - no request is lost with one of two workers drained; draining the last worker makes the model unavailable', async () => {
    const server = await startServer([...SIM, '--aggregated', '2'])
    onTestFinished(async () => void (await server.stop()))
    const [first, second] = await workersAt(server.url)
    const end = load(server.url)
    const [status, drained] = await admin(server.url, 'drain', { worker_id: first?.worker_id })
    expect([status, drained.worker_id]).toEqual([200, first?.worker_id])
    await until('it is drained', async () => {
      const reply = await fetch(`${server.url}/admin/workers/${first?.worker_id}`)
      return ((await reply.json()) as AdminWorker).state === 'drained'
    })
    await until('the list says so', async () => {
      const states = (await workersAt(server.url)).map(({ state }) => state)
      return states.toSorted().join() === 'drained,serving'
    })
    expect((await admin(server.url, 'resume', { worker_id: String(first?.worker_id) }))[0]).toBe(
      200,
    )
    await until('it serves again', async () =>
      (await workersAt(server.url)).every(({ state }) => state === 'serving'),
    )
    expect(await end()).toMatchObject({ failed: 0 })
    for (const { worker_id } of [first, second] as AdminWorker[]) {
      expect((await admin(server.url, 'drain', { worker_id }))[0]).toBe(200)
    }
    await until('no worker is left', async () => (await complete(server.url)) === 503)
    expect((await admin(server.url, 'resume', { worker_id: second?.worker_id }))[0]).toBe(200)
    await until('one is back', async () => (await complete(server.url)) === 200)
  })

  it('invalid calls - an unknown worker, an invalid field or an in-process worker is refused with an error that names it', async () => {
    const server = await startServer([...SIM, '--aggregated', '1', '--in-process'])
    onTestFinished(async () => void (await server.stop()))
    const [worker] = await workersAt(server.url)
    const answers = [
      await admin(server.url, 'drain', { worker_id: 1 }),
      await admin(server.url, 'drain', { id: 1 }),
      await admin(server.url, 'drain', {}),
      await admin(server.url, 'restart', { worker_id: worker?.worker_id }),
      await admin(server.url, 'weights', { version: 'x', weight: 1 }),
      await admin(server.url, 'weights', { worker_id: worker?.worker_id, weight: -1 }),
    ]
    expect(answers.map(([status]) => status)).toEqual([404, 400, 400, 409, 400, 400])
    expect((await admin(server.url, 'drain', { worker_id: worker?.worker_id }))[0]).toBe(200)
    expect((await admin(server.url, 'resume', { worker_id: worker?.worker_id }))[0]).toBe(200)
    expect(await complete(server.url)).toBe(200)
  })
})

describe('baton roll', () => {
  it('under baton serve - every worker is replaced and no request fails', async () => {
    const server = await startServer([...SIM, '--prefill', '1', '--decode', '1'])
    onTestFinished(async () => void (await server.stop()))
    const before = await workersAt(server.url)
    refusals.length = 0
    const end = load(server.url)
    const rolled = await runBaton(['roll', '--url', server.url, '--timeout-seconds', '60'])
    expect(rolled.printed).toMatch(/1 of 2\) is replaced[^]*2 of 2\) is replaced/)
    expect(rolled.exitCode).toBe(0)
    const { asked, failed } = await end()
    expect(refusals).toEqual([])
    expect([asked > 0, failed]).toEqual([true, 0])
    refusals.length = 0
    const after = await workersAt(server.url)
    const ids = new Set([...before, ...after].map(({ worker_id }) => worker_id))
    expect([after.length, ids.size]).toEqual([2, 4])
    await until('the old processes are gone', () => before.every(({ pid }) => !isAlive(pid)))
  })

  it('standalone workers - the last worker of a role is rolled only with --force, and its successor is awaited', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-roll-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const where = ['--discovery', `file:${folder}`]
    const start = async () =>
      await startBaton(['worker', ...where, ...SIM, '--grace-seconds', '0'], /ready/)
    const one = await start()
    const frontend = await startBaton(['frontend', ...where, '--port', '0'], /http:\/\/\S+\d/)
    onTestFinished(() => void frontend.process.kill('SIGKILL'))
    const url = /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
    await until('it serves', async () => (await complete(url)) === 200)
    const refused = await runBaton(['roll', '--url', url])
    expect([refused.exitCode, refused.printed]).toEqual([1, expect.stringContaining('--force')])
    const rolling = runBaton(['roll', '--url', url, '--force', '--timeout-seconds', '60'])
    expect(await one.ended).toBe(0)
    const two = await start()
    onTestFinished(() => void two.process.kill('SIGKILL'))
    expect((await rolling).exitCode).toBe(0)
  })

  it('no server, or an invalid role - prints one line and exits with a nonzero code', async () => {
    expect((await runBaton(['roll', '--url', 'http://127.0.0.1:1'])).exitCode).toBe(1)
    expect((await runBaton(['roll', '--role', 'x'])).exitCode).toBe(2)
  })
})

describe('role: auto', () => {
  it('a decode worker - becomes a prefill worker and back, drained in between, without lost requests', async () => {
    const args = [...SIM, '--prefill', '1', '--decode', '2', '--auto-roles']
    const server = await startServer(args)
    onTestFinished(async () => void (await server.stop()))
    const roles = async () => (await workersAt(server.url)).map(({ role }) => role).toSorted()
    const decode = async () =>
      (await workersAt(server.url)).find(
        ({ role, state }) => role === 'decode' && state === 'serving',
      )
    const [fixed] = (await workersAt(server.url)).filter(({ role }) => role === 'prefill')
    refusals.length = 0
    const end = load(server.url)
    const worker_id = (await decode())?.worker_id
    expect((await admin(server.url, 'role', { worker_id, role: 'aggregated' }))[0]).toBe(400)
    expect(
      (await admin(server.url, 'role', { worker_id: fixed?.worker_id, role: 'decode' }))[0],
    ).toBe(409)
    expect(
      (await admin(server.url, 'role', { worker_id, role: 'prefill', reason: 'a test' }))[0],
    ).toBe(200)
    await until(
      'it is a prefill worker',
      async () => (await roles()).join() === 'decode,prefill,prefill',
    )
    await expect.poll(server.printed).toContain('a test')
    const changed = (await workersAt(server.url)).find(
      ({ role, worker_id: id }) => role === 'prefill' && id !== fixed?.worker_id,
    )
    expect(
      (await admin(server.url, 'role', { worker_id: changed?.worker_id, role: 'decode' }))[0],
    ).toBe(200)
    await until('it decodes again', async () => (await roles()).join() === 'decode,decode,prefill')
    expect(await end()).toMatchObject({ failed: 0 })
    expect(refusals).toEqual([])
  })
})
