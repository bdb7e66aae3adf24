/**
 * A decision of the router: every candidate with its cost terms, and the choice with other weights.
 */
import type { DecisionRecord } from '../../router/index.ts'
import { h } from '../data/dom.ts'
import { ms, shortId } from '../data/format.ts'
import { costsUnder, loweredTerms } from './what-if.ts'

export function decisionView(decision: DecisionRecord): HTMLElement {
  const { phase, outcome, queuedMs, ranksEligible, ranksSeen, promptBlocks } = decision
  const what =
    outcome.kind === 'routed'
      ? `worker ${shortId(outcome.workerId)} (${outcome.reason}), which had ${outcome.overlapBlocks} of ${promptBlocks} blocks cached`
      : `refused: ${outcome.message}`
  const element = h(
    'section',
    { class: 'decision' },
    h('h3', {}, `${phase}: ${what}`),
    h(
      'p',
      {},
      `${ranksEligible} of ${ranksSeen} ranks were eligible; ${ms(queuedMs)} in the router's queue; mode ${decision.mode}.`,
      decision.disaggregation === undefined ? '' : ` ${decision.disaggregation}`,
    ),
  )
  if (decision.candidates.length > 0) element.append(new Candidates(decision).element)
  for (const { workerId, dpRank, reason } of decision.excluded) {
    element.append(h('p', {}, `Excluded: worker ${shortId(workerId)} rank ${dpRank}: ${reason}`))
  }
  return element
}

class Candidates {
  readonly element = h('div', { class: 'wide' })
  readonly #decision: DecisionRecord
  readonly #lowered: readonly string[] | null
  readonly #weights: Record<string, number>
  readonly #body = h('tbody')

  constructor(decision: DecisionRecord) {
    this.#decision = decision
    this.#lowered = loweredTerms(decision)
    this.#weights = Object.fromEntries(decision.terms.map(({ name, weight }) => [name, weight]))
    const { terms } = decision
    this.element.append(
      h(
        'table',
        { class: 'candidates' },
        h('caption', {}, 'Candidates, and “what if” with other weights'),
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ...['Worker', 'Rank', 'Cost', ...terms.map(({ name }) => name)].map((head) =>
              h('th', { scope: 'col' }, head),
            ),
          ),
          h(
            'tr',
            {},
            h('th', { scope: 'row', colspan: 3 }, 'weight'),
            ...terms.map((term) => h('td', {}, this.#weightField(term))),
          ),
        ),
        this.#body,
      ),
    )
    this.#fill()
  }

  #weightField({ name, role, unit }: DecisionRecord['terms'][number]): HTMLElement | string {
    if (role === 'factor') return 'factor'
    if (this.#lowered === null) return String(this.#weights[name])
    return h('input', {
      type: 'number',
      step: 'any',
      value: this.#weights[name],
      'aria-label': `weight of ${name}, per ${unit}${role === 'credit' ? ', taken off' : ''}`,
      input: (event) => {
        const value = Number((event.target as HTMLInputElement).value)
        if (Number.isFinite(value)) this.#weights[name] = value
        this.#fill()
      },
    })
  }

  #fill(): void {
    const { candidates, terms, outcome } = this.#decision
    const costs =
      this.#lowered === null
        ? candidates.map(({ cost }) => cost)
        : costsUnder(this.#decision, this.#weights, this.#lowered)
    const best = Math.min(...costs)
    const rows = candidates.map(({ workerId, dpRank, terms: values }, i) => {
      const isTaken =
        outcome.kind === 'routed' && outcome.workerId === workerId && outcome.dpRank === dpRank
      const marks = [isTaken ? 'taken' : '', costs[i] === best ? 'lowest' : '']
      return h(
        'tr',
        { class: marks.join(' ').trim() || null },
        h(
          'th',
          { scope: 'row' },
          h('abbr', { title: workerId }, shortId(workerId)),
          ` ${marks.filter((mark) => mark !== '').join(', ')}`,
        ),
        ...[dpRank, costs[i] ?? 0, ...terms.map(({ name }) => values[name] ?? 0)].map((value) =>
          h('td', { class: 'number' }, String(Number(value.toFixed(2)))),
        ),
      )
    })
    this.#body.replaceChildren(...rows)
  }
}
