/** The domains that KV must not leave (required topology): which prefill and decode ranks each has, in the present fleet. */
import { requiredTaint } from '../configuration/topology.ts'
import type { KvRouter } from '../decide/kv-router.ts'

export interface TransferDomain {
  readonly prefill: number[]
  readonly decode: readonly number[]
}

export class TransferDomains {
  readonly #prefill: KvRouter
  readonly #decode: KvRouter
  /** By prefill slot. */
  readonly #bySlot = new Map<number, TransferDomain>()
  /** Of both fleets together. */
  #version = -1

  constructor(prefill: KvRouter, decode: KvRouter) {
    this.#prefill = prefill
    this.#decode = decode
  }

  /** False: KV may go anywhere. */
  get areRequired(): boolean {
    this.#refresh()
    return this.#bySlot.size > 0
  }

  /** Null: the KV of this prefill rank may go anywhere. */
  of(slot: number): TransferDomain | null {
    this.#refresh()
    return this.#bySlot.get(slot) ?? null
  }

  #refresh(): void {
    const [prefill, decode] = [this.#prefill, this.#decode]
    const version = prefill.fleetVersion + decode.fleetVersion
    if (this.#version === version) return
    this.#version = version
    this.#bySlot.clear()
    const domains = new Map<string, TransferDomain>()
    for (const slot of prefill.slots) {
      const taint = requiredTaint(prefill.cardAt(slot), prefill.config.topology)
      if (taint === null) continue
      const domain = domains.get(taint) ?? { prefill: [], decode: this.#decodeRanks(taint) }
      domains.set(taint, domain)
      domain.prefill.push(slot)
      this.#bySlot.set(slot, domain)
    }
  }

  #decodeRanks(taint: string): readonly number[] {
    const { slots } = this.#decode
    return slots.filter(
      (slot) =>
        this.#decode.cardAt(slot).mode === 'decode' && this.#decode.taintsOf(slot).has(taint),
    )
  }
}
