/**
 * What the kit found, rule by rule.
 */
import { CONFORMANCE_RULES } from './conformance-rules.ts'
import type { ConformanceRule } from './conformance-rules.ts'

export interface ConformanceFailure {
  readonly rule: ConformanceRule
  /** What was seen. */
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
 * Collects. A fault breaks one rule and, most often, what is looked at behind it: of a check, and of what the engine says
 * by itself, only the first failure is kept.
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

  /** Not tried, since what it needs has failed; so what needs it is not tried either. */
  giveUp(check: string): void {
    this.#failed.add(check)
  }

  hasFailed(check: string): boolean {
    return this.#failed.has(check)
  }

  /** `of`: whose failure it is, unless it is that of the check that runs. */
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

/** The report as lines for a person; empty when everything passed. */
export function describeFailures(report: ConformanceReport): string {
  return report.failures
    .map(({ rule, message }) => `${rule}: ${CONFORMANCE_RULES[rule]} Seen: ${message}`)
    .join('\n')
}
