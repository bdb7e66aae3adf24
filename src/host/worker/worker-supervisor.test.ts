import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { WorkerSupervisor } from './worker-supervisor.ts'
import type { SupervisorEvent } from './worker-supervisor.ts'

/** A child whose n-th start does what the n-th letter says: up, dies silently, fails with a report. */
function supervise(lives: string) {
  const folder = mkdtempSync(join(tmpdir(), 'baton-supervisor-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const starts = join(folder, 'starts')
  writeFileSync(starts, '')
  const script = join(folder, 'child.mjs')
  writeFileSync(
    script,
    `import { appendFileSync, readFileSync } from 'node:fs'
    const life = ${JSON.stringify(lives)}[readFileSync(${JSON.stringify(starts)}).length] ?? 'u'
    appendFileSync(${JSON.stringify(starts)}, life)
    process.on('disconnect', () => process.exit(0))
    process.on('SIGTERM', () => process.exit(0))
    if (life === 'd') process.exit(9)
    if (life === 'u') process.send({ kind: 'ready', workerId: '1', port: 1 })
    if (life === 'f') process.send(
      { kind: 'failed', error: { code: 'model.load_failed', message: 'no such model' } },
      () => process.exit(1),
    )`,
  )
  const events: SupervisorEvent[] = []
  const supervisor = new WorkerSupervisor({
    script,
    startDeadlineMs: 60_000,
    restartsPerMinuteMax: 3,
    onEvent: (event) => events.push(event),
  })
  onTestFinished(() => supervisor.kill())
  return {
    supervisor,
    events,
    started: () => readFileSync(starts, 'utf8'),
    startAll: () => supervisor.startAll([{ name: 'decode 1', args: [] }]),
  }
}

describe('WorkerSupervisor', () => {
  it('a restart that dies silently - is tried again', async () => {
    const { supervisor, events, started, startAll } = supervise('uddu')
    const [worker] = await startAll()
    process.kill(worker?.pid ?? 0, 'SIGKILL')
    await until('the worker has restarted', () => events.length === 2)
    expect(events).toMatchObject([
      { kind: 'died', name: 'decode 1', how: 'SIGKILL' },
      { kind: 'restarted', worker: { name: 'decode 1' } },
    ])
    expect(started()).toBe('uddu')
    expect(await supervisor.stop(10_000)).toEqual([])
  })

  it('too many restarts - no further one, and the reason is reported', async () => {
    const { events, started, startAll } = supervise('uddddd')
    const [worker] = await startAll()
    process.kill(worker?.pid ?? 0, 'SIGKILL')
    await until('it is given up', () => events.length === 2)
    expect(events[1]).toMatchObject({
      kind: 'gave-up',
      reason: 'worker decode 1 exited during its start (exit code 9)',
    })
    expect(started()).toBe('uddd')
  })

  it('a worker that reports an error - is not started again', async () => {
    const { events, started, startAll } = supervise('uf')
    const [worker] = await startAll()
    process.kill(worker?.pid ?? 0, 'SIGKILL')
    await until('it is given up', () => events.length === 2)
    expect(events[1]).toMatchObject({ kind: 'gave-up', reason: 'no such model' })
    expect(started()).toBe('uf')
  })

  it("the first start - fails with the worker's error", async () => {
    const { startAll } = supervise('f')
    await expect(startAll()).rejects.toMatchObject({ code: 'model.load_failed' })
  })
})
