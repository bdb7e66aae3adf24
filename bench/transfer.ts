/**
 * Speed of KV and token transfers between two processes of this machine, each compared with a baseline in the same run.
 *
 *   npx tsx bench/transfer.ts [--json out.json] [--rounds 5] [--only kv|tokens|memory|hand-over|stages] [--kind tcp]
 *
 * - KV: pulls of 1 MB to 1 GB in blocks of 1 MB, compared with a bare socket that moves the same bytes in the same
 *   pieces into memory of the same kind, and with memcpy (`transfer/kv-speed.ts`). Blocks go into the engines' store,
 *   which reuses memory; `fresh` uses memory that the process has never touched; `checked` has checksums, which are on
 *   by default (`--kv-checksums`), computed by the sender in advance, or (`new`) during the pull.
 * - Tokens: TOKENS frames of 64 streams from worker to sink, compared with the same bytes through a bare socket.
 * - Memory: the cost of untouched memory for a pull, in turns with memory prepared in advance
 *   (`transfer/pull-memory.ts`).
 * - Stages: the time of each step of a hand-over, one after the other (`transfer/stages.ts`).
 * - Hand-over: with the real engine, the time from the end of the prefill to the first token of the decode worker.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { readOptions } from './load/options.ts'
import { measureHandOver, runHandOverWorker } from './transfer/hand-over.ts'
import { measureKv } from './transfer/kv-speed.ts'
import { measurePullMemory } from './transfer/pull-memory.ts'
import { measureStages } from './transfer/stages.ts'
import { runSender } from './transfer/sender.ts'
import type { SenderAddress } from './transfer/sender.ts'
import { measureTokens } from './transfer/token-speed.ts'

const { values } = readOptions({
  options: {
    json: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    sender: { type: 'boolean', default: false },
    worker: { type: 'string' },
    only: { type: 'string', default: '' },
    kind: { type: 'string', default: '' },
  },
})

const rounds = Number(values.rounds)
const MODEL = 'models/storyteller/storyteller-q8_0.gguf'

async function withSender<T>(measure: (address: SenderAddress) => Promise<T>): Promise<T> {
  const args = ['--import', 'tsx', fileURLToPath(import.meta.url), '--sender']
  const sender = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    for await (const line of createInterface({ input: sender.stdout })) {
      return await measure(JSON.parse(line) as SenderAddress)
    }
    throw new Error('the sender did not start')
  } finally {
    sender.kill()
  }
}

async function main(): Promise<void> {
  const all: Record<string, readonly object[]> = {}
  const isWanted = (name: string): boolean => values.only === '' || values.only === name
  await withSender(async (address) => {
    if (isWanted('kv')) all['kv'] = await measureKv(address, { rounds, kind: values.kind })
    if (isWanted('tokens')) all['tokens'] = [await measureTokens(address, rounds)]
  })
  if (isWanted('memory')) all['memory'] = await measurePullMemory(rounds)
  if (isWanted('hand-over')) {
    all['handOver'] = await measureHandOver(rounds)
  }
  if (isWanted('stages')) all['stages'] = await measureStages(MODEL, rounds)
  for (const table of Object.values(all)) console.table(table)
  if (values.json) writeFileSync(values.json, JSON.stringify(all, null, 2))
}

if (values.worker === 'prefill' || values.worker === 'decode') {
  await runHandOverWorker(values.worker)
} else await (values.sender ? runSender() : main())
