/**
 * A frontend changes to another group of agreeing workers while requests run and wait in its router: each of them is
 * answered.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startBaton } from './running-server.ts'
import type { RunningBaton } from './running-server.ts'

/** A worker runs so many requests at a time; the others wait in the router. */
const ONE_AT_A_TIME = JSON.stringify({ max_num_seqs: 1 })
const CLIENTS = 24

async function start(args: readonly string[], ready: RegExp): Promise<RunningBaton> {
  const baton = await startBaton(args, ready)
  onTestFinished(async () => {
    baton.process.kill('SIGKILL')
    await baton.ended
  })
  return baton
}

function startWorker(folder: string, args: readonly string[] = []): Promise<RunningBaton> {
  const sim = ['--engine', 'sim', '--sim-args', ONE_AT_A_TIME, '--grace-seconds', '0']
  return start(['worker', '--discovery', `file:${folder}`, ...sim, ...args], /ready/)
}

async function startFrontend(folder: string): Promise<string> {
  const fixed = ['--discovery', `file:${folder}`, '--port', '0', '--model-forget-seconds', '0.5']
  const frontend = await start(['frontend', ...fixed], /http:\/\/[\d.]+:\d+/)
  return /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
}

interface Health {
  readonly models: readonly { readonly workers: readonly { readonly pid: number }[] }[]
}

async function pidsOf(url: string): Promise<readonly (number | undefined)[]> {
  const health = (await (await fetch(`${url}/health`)).json()) as Health
  return (health.models[0]?.workers ?? []).map(({ pid }) => pid).toSorted((a, b) => a - b)
}

/** The answer's status, and its text if it is an error. */
async function complete(url: string): Promise<string> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once', max_tokens: 8 }),
  })
  const text = await reply.text()
  return reply.ok ? '200' : `${reply.status} ${text}`
}

describe('baton frontend - changes to another group of workers under load', () => {
  it.each([
    ['aggregated', [[]]],
    [
      'prefill and decode',
      [
        ['--mode', 'prefill'],
        ['--mode', 'decode'],
      ],
    ],
  ] as const)('%s - every request is answered with 200', async (_, roles) => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-fleet-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const startGroup = (args: readonly string[], count: number): Promise<RunningBaton[]> =>
      Promise.all(
        Array.from({ length: count }, () =>
          roles.map((role) => startWorker(folder, [...role, ...args])),
        ).flat(),
      )
    const pids = (group: readonly RunningBaton[]) =>
      group.map(({ process }) => process.pid ?? 0).toSorted((a, b) => a - b)
    const before = await startGroup(['--sim-block-size', '32'], 1)
    const url = await startFrontend(folder)
    await expect.poll(() => pidsOf(url)).toEqual(pids(before))
    let hasChanged = false
    const answers: string[] = []
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (!hasChanged) answers.push(await complete(url))
      answers.push(await complete(url))
    })
    const after = await startGroup([], 2)
    await expect.poll(() => pidsOf(url), { timeout: 50_000 }).toEqual(pids(after))
    hasChanged = true
    await Promise.all(clients)
    expect([...new Set(answers)]).toEqual(['200'])
  })
})
