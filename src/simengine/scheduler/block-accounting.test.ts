import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../../kv/index.ts'
import { BlockEvents } from '../blocks/block-events.ts'
import { BlockPool } from '../blocks/block-pool.ts'
import { createSchedulerConfig } from './scheduler-config.ts'
import { SimScheduler } from './sim-scheduler.ts'
import type { SimSequence } from './sim-sequence.ts'

/** The pool as a plain list, by the words of its description. */
class NaivePool {
  readonly blocks: { id: number; hash: number | null; refs: number; idleSince: number }[] = []
  readonly capacity: number
  #time = 0

  constructor(capacity: number) {
    this.capacity = capacity
  }

  get inactive(): typeof this.blocks {
    return this.blocks.filter((block) => block.refs === 0).sort((a, b) => a.idleSince - b.idleSince)
  }

  has(hash: number): boolean {
    return this.blocks.some((block) => block.hash === hash)
  }

  of(id: number): (typeof this.blocks)[number] {
    return this.blocks.find((block) => block.id === id)!
  }

  drop(id: number): void {
    this.blocks.splice(this.blocks.indexOf(this.of(id)), 1)
  }

  allocate(id: number): void {
    if (this.blocks.length === this.capacity) this.drop(this.inactive[0]!.id)
    this.blocks.push({ id, hash: null, refs: 1, idleSince: 0 })
  }

  release(id: number): void {
    const block = this.of(id)
    block.refs -= 1
    if (block.refs > 0) return
    if (block.hash === null) this.drop(id)
    else block.idleSince = ++this.#time
  }
}

/** The cached blocks according to a subscriber of the events. */
class Listener {
  readonly resident = new Set<string>()
  /** Blocks in host memory and on disk. */
  readonly host = new Set<string>()
  readonly disk = new Set<string>()

  hear(events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind === 'cleared') {
        for (const each of [this.resident, this.host, this.disk]) each.clear()
        continue
      }
      const resident = event.tier === 'device' ? this.resident : this[event.tier]
      if (event.kind === 'stored' && event.parent !== null)
        expect(resident.has(event.parent.join(':'))).toBe(true)
      for (let i = 0; i < event.hashes.length; i += 2) {
        const key = `${event.hashes[i]}:${event.hashes[i + 1]}`
        if (event.kind === 'stored') {
          expect(resident.has(key)).toBe(false)
          resident.add(key)
        } else expect(resident.delete(key)).toBe(true)
      }
    }
  }
}

describe('BlockPool - compared with a naive pool', () => {
  it('counts, finds, evicts and reports the same under random use', () => {
    const command = fc.tuple(
      fc.constantFrom('allocate', 'publish', 'reuse', 'release', 'release', 'evict'),
      fc.nat(1000),
    )
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.array(command, { maxLength: 120 }),
        (capacity, commands) => {
          const events = new BlockEvents()
          const pool = new BlockPool(capacity, events)
          const naive = new NaivePool(capacity)
          const listener = new Listener()
          const held: number[] = []
          for (const [kind, n] of commands) {
            const pick = held[n % Math.max(1, held.length)]
            if (kind === 'allocate') {
              const block = pool.allocate()
              expect(block < 0).toBe(
                naive.blocks.length === capacity && naive.inactive.length === 0,
              )
              if (block >= 0) {
                naive.allocate(block)
                held.push(block)
              }
            } else if (kind === 'publish' && pick !== undefined && naive.of(pick).hash === null) {
              const hash = n % 9
              pool.publish(pick, [hash, 7], 0)
              naive.of(pick).hash = hash
            } else if (kind === 'reuse') {
              const block = pool.find(n % 9, 7)
              expect(block >= 0).toBe(naive.has(n % 9))
              if (block >= 0) {
                pool.reuse(block)
                naive.of(block).refs += 1
                held.push(block)
              }
            } else if (kind === 'release' && pick !== undefined) {
              pool.release(pick)
              naive.release(pick)
              held.splice(held.indexOf(pick), 1)
            } else if (kind === 'evict') {
              expect(pool.evictInactive()).toBe(naive.inactive.length)
              for (const { id } of naive.inactive) naive.drop(id)
            }
            listener.hear(events.take())
            expect(pool.freeCount).toBe(capacity - naive.blocks.length)
            expect(pool.inactiveCount).toBe(naive.inactive.length)
            const hashes = new Set(
              naive.blocks.flatMap(({ hash }) => (hash === null ? [] : [hash])),
            )
            expect([...listener.resident].sort()).toEqual(
              [...hashes].map((hash) => `${hash}:7`).sort(),
            )
            // A subscriber that joins now and gets the held blocks has the same state.
            const newcomer = new Listener()
            newcomer.hear(pool.held())
            expect(newcomer.resident).toEqual(listener.resident)
          }
        },
      ),
      { numRuns: 300 },
    )
  })
})

interface Job {
  readonly group: number
  readonly promptTokens: number
  readonly outputTokens: number
  readonly submitStep: number
  readonly cancelStep: number | null
  readonly priority: number
  readonly isTransferred: boolean
}

interface Live {
  readonly job: Job
  readonly sequence: SimSequence<number>
  tokens: number
}

const BLOCK = 4
const BLOCKS = 16

const jobOf = fc.record({
  group: fc.nat(2),
  promptTokens: fc.integer({ min: 1, max: 40 }),
  outputTokens: fc.integer({ min: 1, max: 20 }),
  submitStep: fc.nat(30),
  cancelStep: fc.option(fc.nat(60), { nil: null, freq: 4 }),
  priority: fc.nat(1),
  isTransferred: fc.boolean(),
})

const configOf = fc.record({
  engineType: fc.constantFrom('vllm', 'trtllm', 'sglang'),
  maxSequences: fc.constantFrom(1, 3, null),
  tokenBudget: fc.constantFrom(64, 7, null),
  prefixCaching: fc.boolean(),
  chunkedPrefill: fc.boolean(),
  preemption: fc.constantFrom('lifo', 'fifo'),
  waitingOrder: fc.constantFrom('arrival', 'longest-prefix'),
  speculation: fc.option(
    fc.constantFrom(
      { drafts: 1, acceptRates: [1] },
      { drafts: 3, acceptRates: [0.9, 0.5, 0.5] },
      { drafts: 5, acceptRates: [1, 1, 1, 1, 1] },
    ),
  ),
  offload: fc.option(
    fc.record({
      hostBlocks: fc.integer({ min: 1, max: 30 }),
      diskBlocks: fc.nat(30),
      batchBlocks: fc.constantFrom(1, 3, Infinity),
      bandwidth: fc.record({
        deviceToHost: fc.constantFrom(0, 0.1, 100),
        hostToDevice: fc.constantFrom(0, 0.1, 100),
        hostToDisk: fc.constantFrom(0, 0.1),
        diskToHost: fc.constantFrom(0, 0.1),
      }),
    }),
  ),
})

function hashesOf(job: Job, index: number): Uint32Array {
  // The first five blocks are the group's, the rest is the request's own.
  const count = Math.floor(job.promptTokens / BLOCK)
  return Uint32Array.from({ length: 2 * count }, (_, i) => {
    const at = i >> 1
    if (i % 2 === 0) return at
    return at < 5 ? job.group : 100 + index
  })
}

function checkBlocks(scheduler: SimScheduler<number>, live: readonly Live[]): void {
  const used = new Set<number>()
  for (const { sequence } of live) {
    for (const block of sequence.blocks) used.add(block)
    expect(new Set(sequence.blocks).size).toBe(sequence.blocks.length)
    expect(sequence.blocks.length).toBeGreaterThanOrEqual(
      Math.ceil(sequence.computedTokens / BLOCK),
    )
    if (sequence.state !== 'running') expect(sequence.blocks).toHaveLength(0)
  }
  expect(scheduler.pool.activeCount).toBe(used.size)
  const { freeCount, inactiveCount, activeCount } = scheduler.pool
  expect(freeCount + inactiveCount + activeCount).toBe(BLOCKS)
}

describe('SimScheduler - block accounting under random workloads', () => {
  it('uses exactly the blocks of its sequences, reports them, and releases all', () => {
    fc.assert(
      fc.property(fc.array(jobOf, { minLength: 1, maxLength: 12 }), configOf, (jobs, options) => {
        const { offload, speculation, ...rest } = options
        const withTiers = options.prefixCaching && offload !== null
        const config = createSchedulerConfig({
          ...rest,
          ...(withTiers ? { offload } : {}),
          ...(speculation === null ? {} : { speculation }),
          blockCount: BLOCKS,
          blockTokens: BLOCK,
          kvBytesPerToken: 1e6,
          kvTransferBandwidth: 1,
        })
        const scheduler = new SimScheduler<number>(config, (sequence, block) => {
          sequence.hashes.push(block, 1000 + sequence.owner)
        })
        const listener = new Listener()
        const live: Live[] = []
        const done: Live[] = []
        let nowMs = 0
        let pending = jobs.length
        for (let turn = 0; pending > 0 || live.length > 0; turn++) {
          expect(turn).toBeLessThan(3000)
          for (const [index, job] of jobs.entries()) {
            if (job.submitStep !== turn) continue
            pending -= 1
            const { promptTokens, outputTokens, priority, isTransferred } = job
            if (scheduler.refusal(promptTokens, outputTokens) !== null) continue
            const promptHashes = hashesOf(job, index)
            const submit = {
              owner: index,
              promptTokens,
              promptHashes,
              outputTokens,
              priority,
              isTransferred,
            }
            live.push({ job, sequence: scheduler.submit(submit, nowMs), tokens: 0 })
          }
          for (const each of live.filter(({ job }) => job.cancelStep === turn)) {
            scheduler.cancel(each.sequence)
            live.splice(live.indexOf(each), 1)
          }
          const step = scheduler.step(nowMs)
          listener.hear(step?.kvEvents ?? scheduler.takeKvEvents())
          if (step === null) {
            const wakeMs = scheduler.nextWakeMs(nowMs)
            if (live.length > 0 || scheduler.tiers === null)
              expect(wakeMs === null).toBe(live.length === 0)
            nowMs = wakeMs ?? nowMs
          } else {
            // Recomputing output tokens after a preemption is not charged for, so a step may take no time.
            expect(step.endMs).toBeGreaterThanOrEqual(nowMs)
            if (options.engineType === 'trtllm') expect(step.preempted).toHaveLength(0)
            let told = 0
            for (const sequence of step.emitted) {
              const each = live.find((one) => one.sequence === sequence)!
              const more = sequence.generatedTokens - each.tokens
              expect(more >= 1 && more <= 1 + (speculation?.drafts ?? 0)).toBe(true)
              each.tokens += more
              told += more
            }
            expect(step.outputTokens).toBe(told)
            for (const sequence of step.completed) {
              const each = live.find((one) => one.sequence === sequence)!
              live.splice(live.indexOf(each), 1)
              done.push(each)
            }
            nowMs = step.endMs
          }
          checkBlocks(scheduler, live)
          expect(scheduler.pool.cachedHashCount).toBe(listener.resident.size)
          const { hostCount = 0, diskCount = 0 } = scheduler.tiers ?? {}
          expect([hostCount, diskCount]).toEqual([listener.host.size, listener.disk.size])
          expect(hostCount).toBeLessThanOrEqual(offload?.hostBlocks ?? 0)
          expect(diskCount).toBeLessThanOrEqual(offload?.diskBlocks ?? 0)
        }
        for (const { job, tokens } of done) expect(tokens).toBe(job.outputTokens)
        expect(scheduler.pool.activeCount).toBe(0)
        expect(scheduler.isIdle).toBe(true)
      }),
      { numRuns: 120 },
    )
  })
})
