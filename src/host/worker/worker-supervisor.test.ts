/** Tests the supervisor with small programs that report like a worker; its pauses pass in virtual time. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { VirtualClock } from '../../sim/index.ts'
import { WorkerSupervisor } from './worker-supervisor.ts'
import type { SupervisorEvent } from './worker-supervisor.ts'

/**
 * A child whose n-th start does what the n-th letter says: up; dies silently; fails with a report, and does not exit if
 * the letter is large; hangs; is up and asks to be replaced.
 */
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
    process.on('disconnect', () => process.exit(0))
    process.on('SIGTERM', () => process.exit(0))
    appendFileSync(${JSON.stringify(starts)}, life)
    if (life === 'd') process.exit(9)
    if (life === 'u' || life === 'r') process.send({ kind: 'ready', workerId: '1', port: 1 })
    if (life === 'r') process.send({ kind: 'replace-me' })
    if (life === 'f' || life === 'F') process.send(
      { kind: 'failed', error: { code: 'host.disk_full', message: 'no space is left' } },
      () => life === 'f' && process.exit(1),
    )`,
  )
  const clock = new VirtualClock()
  const events: SupervisorEvent[] = []
  const supervisor = new WorkerSupervisor({
    script,
    clock,
    startDeadlineMs: 1e9,
    onEvent: (event) => events.push(event),
  })
  onTestFinished(() => supervisor.kill())
  const args: string[] = []
  return {
    supervisor,
    events,
    /** Arguments of the next starts. */
    args,
    clock,
    started: () => readFileSync(starts, 'utf8'),
    startAll: () => supervisor.startAll([{ name: 'decode 1', args }]),
    pass: (ms: number) => clock.run(clock.nowMs() + ms),
    /** Waits for the n-th event and lets the pause that it names pass. */
    passAfter: async (count: number): Promise<SupervisorEvent | undefined> => {
      await until(`event ${count}`, () => events.length >= count)
      const event = events[count - 1]
      if (event !== undefined && 'againInMs' in event) {
        await clock.run(clock.nowMs() + event.againInMs)
      }
      return event
    },
  }
}

function killed(pid = 0): void {
  process.kill(pid, 'SIGKILL')
}

function isAlive(pid = 0): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

describe('WorkerSupervisor', () => {
  it('a worker that died - is started again at once, and after failed starts with growing pauses until it is up', async () => {
    const { supervisor, events, started, startAll, passAfter } = supervise('uddfffffffu')
    const [worker] = await startAll()
    killed(worker?.pid)
    for (let event = 1; event <= 10; event++) await passAfter(event)
    await until('the worker has restarted', () => events.length === 11)
    const silent = 'worker decode 1 exited during its start (exit code 9)'
    const full = { kind: 'not-started', code: 'host.disk_full', reason: 'no space is left' }
    expect(events).toMatchObject([
      { kind: 'died', name: 'decode 1', pid: worker?.pid, how: 'SIGKILL', againInMs: 0 },
      { kind: 'not-started', name: 'decode 1', reason: silent, againInMs: 1_000 },
      { kind: 'not-started', reason: silent, againInMs: 2_000 },
      { ...full, againInMs: 4_000 },
      { ...full, againInMs: 8_000 },
      { ...full, againInMs: 16_000 },
      { ...full, againInMs: 32_000 },
      { ...full, againInMs: 60_000 },
      { ...full, againInMs: 60_000 },
      { ...full, againInMs: 60_000 },
      { kind: 'restarted', worker: { name: 'decode 1' } },
    ])
    expect(started()).toBe('uddfffffffu')
    expect(await supervisor.stop(10_000)).toEqual([])
  })

  it('a worker that dies right after each start - is started ever more rarely, and at once after it has served', async () => {
    const { events, startAll, pass, passAfter } = supervise('')
    const [first] = await startAll()
    killed(first?.pid)
    for (let round = 1; round <= 8; round++) {
      await passAfter(2 * round - 1)
      const restarted = await passAfter(2 * round)
      if (round === 8) await pass(10_000)
      if (restarted?.kind === 'restarted') killed(restarted.worker.pid)
    }
    await until('the last death', () => events.length === 17)
    const pauses = events.flatMap((event) => (event.kind === 'died' ? [event.againInMs] : []))
    expect(pauses).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 0])
  })

  it('a pause - does not delay the end, and nothing is started after it', async () => {
    const { supervisor, events, started, startAll, pass, passAfter } = supervise('uf')
    const [worker] = await startAll()
    killed(worker?.pid)
    await passAfter(1)
    await until('the start has failed', () => events.length === 2)
    expect(await supervisor.stop(10_000)).toEqual([])
    await pass(600_000)
    expect([started(), events.length]).toEqual(['uf', 2])
  })

  it('a process that fails to start and does not exit - is killed before the next start', async () => {
    const { events, started, startAll, pass, passAfter } = supervise('uF')
    const [worker] = await startAll()
    killed(worker?.pid)
    await passAfter(1)
    await until('it has started', () => started() === 'uF')
    await until('it is killed and the failure is told', async () => {
      await pass(1_000)
      return events.length === 2
    })
    expect(events[1]).toMatchObject({ kind: 'not-started', code: 'host.disk_full' })
    await passAfter(2)
    await until('the next one is up', () => events.length === 3)
  })

  it('a process that cannot be created - is a failed start, and other workers continue', async () => {
    const { supervisor, events, args, startAll, passAfter } = supervise('')
    const [worker] = await startAll()
    const [other] = await supervisor.startAll([{ name: 'decode 2', args: [] }])
    // The system refuses such an argument at once, as it does when it has no memory for a process.
    args.push('\0')
    killed(worker?.pid)
    await passAfter(1)
    await passAfter(2)
    args.pop()
    await passAfter(3)
    await until('the worker has restarted', () => events.length === 4)
    expect(events.slice(1)).toMatchObject([
      { kind: 'not-started', reason: expect.stringContaining('could not be created: ') as string },
      { kind: 'not-started' },
      { kind: 'restarted' },
    ])
    expect(isAlive(other?.pid)).toBe(true)
  })

  it('the end during a replacement - ends the old and the new process', async () => {
    const { supervisor, started, startAll } = supervise('rh')
    const [old] = await startAll()
    await until('the replacement starts', () => started() === 'rh')
    expect(await supervisor.stop(10_000)).toEqual([])
    expect(isAlive(old?.pid)).toBe(false)
  })

  it('the old process dies while its replacement fails to start - it is started again', async () => {
    const { events, started, startAll, pass, passAfter } = supervise('rFu')
    const [old] = await startAll()
    await until('the replacement starts', () => started() === 'rF')
    killed(old?.pid)
    await until('the old one is gone', () => !isAlive(old?.pid))
    await until('the replacement is killed', async () => {
      await pass(1_000)
      return events.length === 1
    })
    await passAfter(1)
    await until('another one is up', () => events.length === 2)
    expect(events).toMatchObject([{ kind: 'not-started', againInMs: 0 }, { kind: 'restarted' }])
  })

  it("the first start - fails with the worker's error", async () => {
    const { startAll } = supervise('f')
    await expect(startAll()).rejects.toMatchObject({ code: 'host.disk_full' })
  })
})
