/**
 * The last requests; a selected one with its phases as a waterfall and its routing decisions.
 */
import type { LoggedRequest } from '../../frontend/index.ts'
import type { DecisionRecord } from '../../router/index.ts'
import { h, table } from '../data/dom.ts'
import { count, ms, percent, shortId } from '../data/format.ts'
import { askJson } from '../data/server.ts'
import type { Store } from '../data/store.ts'
import { decisionView } from './decision-view.ts'
import { waterfall } from './waterfall.ts'

const ROWS = 60

interface Explained {
  readonly request_id: string
  readonly model: string
  readonly decisions: readonly DecisionRecord[]
  readonly request?: LoggedRequest
}

export class RequestsPage {
  readonly element = h('section', { 'aria-label': 'Requests' })
  readonly #store: Store
  #shown: string | null = null

  constructor(store: Store) {
    this.#store = store
  }

  /** Null: the list. */
  show(requestId: string | null): void {
    this.#shown = requestId
    if (requestId === null) this.#list()
    else void this.#one(requestId)
  }

  update(): void {
    // A row under the pointer must not move.
    if (this.#shown === null && !this.element.matches(':hover, :focus-within')) this.#list()
  }

  #list(): void {
    const requests = [...this.#store.requests.values()].toReversed().slice(0, ROWS)
    this.element.replaceChildren(
      h('h1', {}, 'Requests'),
      h('form', { class: 'search', submit: (event) => search(event) }, searchField()),
      h(
        'div',
        { class: 'wide' },
        table(
          'The last requests, a sample under load',
          [
            'Time',
            'Request',
            'Endpoint',
            'Outcome',
            'Workers',
            'TTFT',
            'Whole',
            'In',
            'Cached',
            'Out',
          ],
          requests.map(row),
        ),
      ),
    )
  }

  async #one(requestId: string): Promise<void> {
    const back = h('p', {}, h('a', { href: '#/requests' }, '← all requests'))
    const title = h('h1', {}, `Request ${requestId}`)
    this.element.replaceChildren(back, title, h('p', {}, 'loading'))
    try {
      const path = `/debug/requests/${encodeURIComponent(requestId)}`
      const { request, decisions, model } = await askJson<Explained>(path)
      if (this.#shown !== requestId) return
      this.element.replaceChildren(
        back,
        title,
        h('p', {}, request === undefined ? `Model ${model}.` : summary(request)),
        ...(request === undefined ? [] : [h('h2', {}, 'Phases'), waterfall(request)]),
        h('h2', {}, 'Decisions'),
        ...(decisions.length === 0 ? [h('p', {}, 'No decision is kept.')] : []),
        ...decisions.map(decisionView),
      )
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      this.element.replaceChildren(back, title, h('p', { class: 'failed' }, why))
    }
  }
}

function row(request: LoggedRequest): (Node | string | number)[] {
  const { requestId, endpoint, startedEpochMs, end, phases } = request
  const workers = phases.filter(({ kind }) => kind === 'routed').map(({ workerId }) => workerId)
  return [
    new Date(startedEpochMs).toLocaleTimeString(),
    h(
      'a',
      { href: `#/requests/${encodeURIComponent(requestId)}`, title: requestId },
      requestId.length > 13 ? `${requestId.slice(0, 12)}…` : requestId,
    ),
    endpoint.replaceAll('_', ' '),
    h('span', { class: `outcome ${end?.outcome ?? 'running'}` }, end?.outcome ?? 'running'),
    workers.map((workerId) => shortId(workerId ?? '')).join(' → '),
    ms(end?.ttftMs),
    ms(end?.durationMs),
    end === null ? '–' : count(end.promptTokens),
    end === null ? '–' : percent(end.cachedTokens ?? 0, end.promptTokens),
    end === null ? '–' : count(end.completionTokens),
  ]
}

function summary({ model, endpoint, end }: LoggedRequest): string {
  const what = `${endpoint.replaceAll('_', ' ')} with ${model}`
  if (end === null) return `${what}, running.`
  const failed = end.errorCode === undefined ? '' : ` (${end.errorCode})`
  return (
    `${what}: ${end.outcome}${failed}, status ${end.status}, TTFT ${ms(end.ttftMs)}, ITL ${ms(end.itlMs)}, ` +
    `${count(end.promptTokens)} tokens in (${percent(end.cachedTokens ?? 0, end.promptTokens)} cached), ` +
    `${count(end.completionTokens)} out.`
  )
}

function searchField(): HTMLElement {
  return h(
    'label',
    {},
    'Look up a request id ',
    h('input', { name: 'id', type: 'search', autocomplete: 'off' }),
  )
}

function search(event: Event): void {
  event.preventDefault()
  const id = new FormData(event.target as HTMLFormElement).get('id')
  if (typeof id === 'string' && id.trim() !== '') {
    location.hash = `#/requests/${encodeURIComponent(id.trim())}`
  }
}
