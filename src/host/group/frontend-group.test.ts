/** Tests the parent of several frontends behind one port, with small programs that report like a frontend. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { FrontendGroup } from './frontend-group.ts'

/** `life`: the body of the program; `starts` is the number of its starts. */
function groupOf(life: string, options: { readonly restarts: number; readonly pingMs?: number }) {
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
  const group = new FrontendGroup({
    script,
    args: [],
    environment: {},
    host: '127.0.0.1',
    port: 0,
    count: 1,
    startDeadlineMs: 60_000,
    restartsPerMinuteMax: options.restarts,
    ...(options.pingMs === undefined ? {} : { pingMs: options.pingMs }),
    onEvent: (event) =>
      told.push(event.kind === 'died' ? `${event.kind}: ${event.how}` : event.kind),
  })
  onTestFinished(() => {
    group.kill()
    rmSync(folder, { recursive: true, force: true })
  })
  return { group, told, starts: () => readFileSync(starts, 'utf8').length }
}

describe('FrontendGroup', () => {
  it('a frontend that hangs - is killed and replaced', async () => {
    const life = `pong(); ready(); if (start === 1) setTimeout(() => { for (;;); }, 100)`
    const { group, told } = groupOf(life, { restarts: 3, pingMs: 200 })
    await group.start()
    const [hung] = group.pids
    await until('another is there', () => told.includes('restarted'))
    expect(told).toEqual(['died: it did not answer pings', 'restarted'])
    expect(group.pids).toHaveLength(1)
    expect(group.pids).not.toContain(hung)
  })

  it('a start that fails - is followed by another', async () => {
    const life = `pong(); if (start === 2) process.exit(3); ready()`
    const { group, told } = groupOf(life, { restarts: 3 })
    await group.start()
    process.kill(group.pids[0] ?? 0, 'SIGKILL')
    await until('another is there', () => told.includes('restarted'))
    expect(told).toEqual(['died: SIGKILL', 'restarted'])
  })

  it('no frontend is left and all restarts are used up - waiting callers are told', async () => {
    const life = `if (start > 1) process.exit(3); pong(); ready()`
    const { group, told, starts } = groupOf(life, { restarts: 2 })
    await group.start()
    process.kill(group.pids[0] ?? 0, 'SIGKILL')
    await expect(group.lost).rejects.toThrow(
      'no frontend is left: 2 restarts within a minute; a frontend exited during its start',
    )
    expect([told, starts()]).toEqual([['died: SIGKILL', 'gave-up'], 3])
  })
})
