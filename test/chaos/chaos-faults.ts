/**
 * The faults of a chaos run, drawn from a seed: which fault, at which process, for how long, and the pause until
 * the next. A seed always draws the same list. How much of the list a run reaches depends on the machine, and so
 * does whether the process is up at that moment: if it is down, the fault is skipped.
 */
import type { Random } from '../../src/base/index.ts'
import type { FaultyProxy } from '../faulty-proxy.ts'
import type { ChaosFleet, Kind, Member } from './chaos-fleet.ts'

export const FAULTS = [
  'kill worker',
  'kill worker',
  'stop worker',
  'kill frontend',
  'stop frontend',
  'kill NATS',
  'stop NATS',
  'cut workers from NATS',
  'cut frontends from NATS',
  'cut worker from frontends',
  'cut worker from frontends for long',
  'cut worker from one frontend',
  'hold what worker and frontends say',
  'slow link to worker',
] as const
type Fault = (typeof FAULTS)[number]

const PAUSE_MS = { least: 300, most: 1500 }
const LASTS_MS = { least: 300, most: 4000 }
/** Longer than the timeout after which either side gives up on a silent connection (20 s). Once per run. */
const LONG_MS = 23_000
/** Slower than the time of one token. */
const SLOW_MS = { least: 20, most: 300 }

export class ChaosFaults {
  readonly counts: Record<string, number> = {}
  readonly #running = new Set<Promise<void>>()
  /** Excludes processes and links that are already down. */
  readonly #away = new Set<unknown>()

  readonly #round: Fault[] = []
  readonly #fleet: ChaosFleet
  readonly #random: Random

  constructor(fleet: ChaosFleet, random: Random) {
    this.#fleet = fleet
    this.#random = random
  }

  /** Injects faults until stopped; resolves when all that was stopped or cut is restored. */
  async runUntil(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      this.#begin(this.#next())
      await pause(this.#between(PAUSE_MS))
    }
    await Promise.all(this.#running)
    await this.#fleet.settled()
  }

  #begin(fault: Fault): void {
    const draw = this.#random.next()
    const lastsMs = this.#between(LASTS_MS)
    const { nats, workersProxy, frontendsProxy } = this.#fleet
    switch (fault) {
      case 'kill worker':
        return this.#kill(fault, draw, 'decode', 'prefill')
      case 'kill frontend':
        return this.#kill(fault, draw, 'frontend')
      case 'stop worker':
        return this.#stop(fault, draw, lastsMs, 'decode', 'prefill')
      case 'stop frontend':
        return this.#stop(fault, draw, lastsMs, 'frontend')
      case 'kill NATS':
        return this.#for(
          fault,
          nats,
          lastsMs,
          () => nats.kill(),
          () => nats.restart(),
        )
      case 'stop NATS':
        return this.#for(
          fault,
          nats,
          lastsMs,
          () => nats.suspend(),
          () => nats.resume(),
        )
      case 'cut workers from NATS':
        return this.#for(
          fault,
          workersProxy,
          lastsMs,
          () => workersProxy.cut(),
          () => workersProxy.mend(),
        )
      case 'cut frontends from NATS':
        return this.#for(
          fault,
          frontendsProxy,
          lastsMs,
          () => frontendsProxy.cut(),
          () => frontendsProxy.mend(),
        )
      case 'cut worker from frontends':
        return this.#onLink(fault, draw, lastsMs, (proxy) => {
          proxy.cut()
          return () => proxy.mend()
        })
      case 'cut worker from frontends for long':
        if (fault in this.counts) return
        return this.#onLink(fault, draw, LONG_MS, (proxy) => {
          proxy.cut()
          return () => proxy.mend()
        })
      case 'cut worker from one frontend':
        return this.#onLink(fault, draw, lastsMs, (proxy) => proxy.cutOne(draw))
      case 'hold what worker and frontends say':
        return this.#onLink(fault, draw, lastsMs, (proxy) => {
          proxy.hold()
          return () => proxy.letGo()
        })
      case 'slow link to worker': {
        const slowMs = SLOW_MS.least + draw * (SLOW_MS.most - SLOW_MS.least)
        return this.#onLink(fault, draw, lastsMs, (proxy) => {
          proxy.delay(slowMs)
          return () => proxy.delay(0)
        })
      }
    }
  }

  /** The links between the frontends and whatever worker runs in that place at the moment. */
  #onLink(
    fault: Fault,
    draw: number,
    lastsMs: number,
    begin: (proxy: FaultyProxy) => () => void,
  ): void {
    const proxy = this.#placeOf(draw, ['decode', 'prefill'])?.link?.proxy
    if (proxy === undefined) return
    let end: () => void = () => undefined
    this.#for(
      fault,
      proxy,
      lastsMs,
      () => {
        end = begin(proxy)
      },
      () => end(),
    )
  }

  #kill(fault: Fault, draw: number, ...kinds: readonly Kind[]): void {
    const member = this.#placeOf(draw, kinds)
    // A client that retries needs another frontend.
    if (this.#fleet.of(...kinds).length < 2) return
    if (member?.isUp !== true || this.#away.has(member)) return
    this.#count(fault)
    this.#fleet.kill(member)
  }

  #stop(fault: Fault, draw: number, lastsMs: number, ...kinds: readonly Kind[]): void {
    const member = this.#placeOf(draw, kinds)
    if (member?.isUp !== true) return
    const { process } = member.baton
    this.#for(
      fault,
      member,
      lastsMs,
      () => process.kill('SIGSTOP'),
      () => process.kill('SIGCONT'),
    )
  }

  #placeOf(draw: number, kinds: readonly Kind[]): Member | undefined {
    const places = this.#fleet.places(...kinds)
    return places[Math.floor(draw * places.length)]
  }

  #for(
    fault: Fault,
    what: unknown,
    lastsMs: number,
    begin: () => unknown,
    end: () => unknown,
  ): void {
    if (this.#away.has(what)) return
    this.#away.add(what)
    this.#count(fault)
    const run = async (): Promise<void> => {
      await begin()
      await pause(lastsMs)
      await end()
      this.#away.delete(what)
    }
    const running = run().finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  #count(fault: Fault): void {
    this.counts[fault] = (this.counts[fault] ?? 0) + 1
  }

  /** Every fault once per round in a drawn order, so that each run has all of them. */
  #next(): Fault {
    if (this.#round.length === 0) this.#round.push(...FAULTS)
    const [drawn] = this.#round.splice(Math.floor(this.#random.next() * this.#round.length), 1)
    return drawn ?? FAULTS[0]
  }

  #between({ least, most }: { readonly least: number; readonly most: number }): number {
    return least + this.#random.next() * (most - least)
  }
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}
