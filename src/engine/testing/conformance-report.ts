/** The results of the conformance kit, rule by rule. */
import { CONFORMANCE_RULES } from './conformance-rules.ts'
import type { ConformanceRule } from './conformance-rules.ts'

export interface ConformanceFailure {
  readonly rule: ConformanceRule
  /** What was observed. */
  readonly message: string
}

export interface ConformanceSkip {
  readonly check: string
  readonly reason: string
}

export interface ConformanceReport {
  readonly passed: boolean
  readonly failures: readonly ConformanceFailure[]
  /** Checks that could not be made, and why. */
  readonly skips: readonly ConformanceSkip[]
  /** Names of the checks that were made. */
  readonly checks: readonly string[]
}

/**
 * Collects results. A fault often violates one rule and everything that is checked after it, so only the first
 * failure of each check (and of the engine's own reports) is kept.
 */
export class ReportBuilder {
  readonly #failed = new Set<string>()
  readonly #failures: ConformanceFailure[] = []
  readonly #skips: ConformanceSkip[] = []
  readonly #checks: string[] = []

  check(name: string): void {
    this.#checks.push(name)
  }

  skip(check: string, reason: string): void {
    this.#skips.push({ check, reason })
  }

  /** The check was not made because one that it needs has failed; checks that need this one are not made either. */
  giveUp(check: string): void {
    this.#failed.add(check)
  }

  hasFailed(check: string): boolean {
    return this.#failed.has(check)
  }

  /** `of`: the check that failed, if it is not the current one. */
  fail(rule: ConformanceRule, message: string, of = this.#checks.at(-1) ?? ''): void {
    if (this.#failed.has(of)) return
    this.#failed.add(of)
    if (this.#failures.some((failure) => failure.rule === rule)) return
    this.#failures.push({ rule, message })
  }

  build(): ConformanceReport {
    return {
      passed: this.#failures.length === 0,
      failures: this.#failures,
      skips: this.#skips,
      checks: this.#checks,
    }
  }
}

/** The failures as lines of text; empty if everything passed. */
export function describeFailures(report: ConformanceReport): string {
  return report.failures
    .map(({ rule, message }) => `${rule}: ${CONFORMANCE_RULES[rule]} Seen: ${message}`)
    .join('\n')
}
