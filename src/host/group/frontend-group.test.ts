/** Tests the parent of several frontends behind one port, with small programs that report like a frontend. */
import cluster from 'node:cluster'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { VirtualClock } from '../../sim/index.ts'
import { FrontendGroup } from './frontend-group.ts'

/** `life`: the body of the program; `starts` is the number of its starts. */
function groupOf(
  life: string,
  options: {
    readonly count?: number
    readonly pingMs?: number
    /** Called with each text before the pause that it names passes. */
    readonly onTold?: (text: string) => void
  } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'baton-group-'))
  const [script, starts] = [join(folder, 'child.cjs'), join(folder, 'starts')]
  writeFileSync(starts, '')
  writeFileSync(
    script,
    `const { appendFileSync, readFileSync } = require('node:fs')
    appendFileSync(${JSON.stringify(starts)}, '.')
    const start = readFileSync(${JSON.stringify(starts)}, 'utf8').length
    const pong = () => process.on('message', ({ kind }) => kind === 'ping' && process.send({ kind: 'pong' }))
    const ready = () => process.send({ kind: 'ready', port: 1 })
    process.on('disconnect', () => process.exit())
    ${life}`,
  )
  const told: string[] = []
  const clock = new VirtualClock()
  const group = new FrontendGroup({
    script,
    args: [],
    environment: {},
    host: '127.0.0.1',
    port: 0,
    count: options.count ?? 1,
    clock,
    startDeadlineMs: 60_000,
    ...(options.pingMs === undefined ? {} : { pingMs: options.pingMs }),
    onEvent: (event) => {
      if (event.kind === 'restarted') told.push('restarted')
      else {
        const why = event.kind === 'died' ? event.how : event.reason
        const { againInMs } = event
        const text = `${event.kind}: ${why}, ${againInMs === null ? 'lost' : `${againInMs / 1000} s`}`
        told.push(text)
        options.onTold?.(text)
        void clock.run(clock.nowMs() + (againInMs ?? 0))
      }
    },
  })
  onTestFinished(() => {
    group.kill()
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    group,
    told,
    starts: () => readFileSync(starts, 'utf8').length,
    /** What the n-th frontend was told. */
    noted: (start: number) => {
      const path = `${script}.${start}`
      return existsSync(path) ? readFileSync(path, 'utf8') : null
    },
  }
}

describe('FrontendGroup', () => {
  it('a frontend that hangs - is killed and replaced', async () => {
    const life = `pong(); ready(); if (start === 1) setTimeout(() => { for (;;); }, 100)`
    const { group, told } = groupOf(life, { pingMs: 200 })
    await group.start()
    const [hung] = group.pids
    await until('another is there', () => told.includes('restarted'))
    expect(told).toEqual(['died: it did not answer pings, 0 s', 'restarted'])
    expect(group.pids).toHaveLength(1)
    expect(group.pids).not.toContain(hung)
  })

  it('starts that fail - are followed by others after growing pauses', async () => {
    const failed = `process.send({ kind: 'failed', error: { code: 'host.disk_full', message: 'no space is left' } })`
    const life = `pong(); if (start === 2 || start === 3) process.exit(3); if (start === 4) ${failed}; else ready()`
    const { group, told } = groupOf(life)
    await group.start()
    process.kill(group.pids[0] ?? 0, 'SIGKILL')
    await until('another is there', () => told.includes('restarted'))
    const exited = 'not-started: a frontend exited during its start (exit code 3)'
    expect(told).toEqual([
      'died: SIGKILL, 0 s',
      `${exited}, 1 s`,
      `${exited}, 2 s`,
      'not-started: no space is left, 4 s',
      'restarted',
    ])
  })

  it('a process that cannot be created - is a failed start', async () => {
    const { cwd } = cluster.settings
    onTestFinished(() => void (cluster.settings.cwd = cwd))
    const { group, told } = groupOf('pong(); ready()', {
      onTold: (text) => {
        const isDeath = text.startsWith('died')
        cluster.settings.cwd = isDeath ? join(tmpdir(), 'baton-no-such-folder') : cwd
      },
    })
    await group.start()
    process.kill(group.pids[0] ?? 0, 'SIGKILL')
    await until('another is there', () => told.includes('restarted'))
    expect(told).toEqual([
      'died: SIGKILL, 0 s',
      expect.stringMatching(/^not-started: a frontend could not be created: .*ENOENT, 1 s$/),
      'restarted',
    ])
  })

  it('one frontend serves - the other is started again without end, and both are told the notes', async () => {
    const notes = `process.on('message', ({ kind, note }) => kind === 'note' && appendFileSync(__filename + '.' + start, note.text))`
    const life = `pong(); ${notes}; if (start > 2 && start < 12) process.exit(3); ready()`
    const { group, told, noted } = groupOf(life, { count: 2 })
    await group.start()
    group.note('worker', { kind: 'worker-away', text: 'a worker is away' })
    process.kill(group.pids[1] ?? 0, 'SIGKILL')
    await until('another is there', () => told.includes('restarted'))
    expect(told.map((text) => text.split(', ')[1]?.split(' ')[0])).toEqual([
      '0',
      '1',
      '2',
      '4',
      '8',
      '16',
      '32',
      '60',
      '60',
      '60',
      undefined,
    ])
    await until('the new one is told', () => noted(12) === 'a worker is away')
    await until('the other one is told', () => noted(1) === 'a worker is away')
  })

  it.each([
    'process.exit(3)',
    `process.send({ kind: 'failed', error: { code: 'runtime.internal', message: 'x' } })`,
  ])(
    'no frontend is left and starts keep failing (%s) - waiting callers are told',
    async (failure) => {
      const life = `if (start > 1) ${failure}; else { pong(); ready() }`
      const { group, told, starts } = groupOf(life)
      await group.start()
      process.kill(group.pids[0] ?? 0, 'SIGKILL')
      await expect(group.lost).rejects.toThrow('no frontend is left: 6 failures in a row; ')
      expect([told.length, told.at(-1)?.endsWith('lost'), starts()]).toEqual([6, true, 6])
    },
  )
})
