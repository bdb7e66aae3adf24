/**
 * The fleet page: figures, warnings, requests on their way from prefill to decode, workers with their load.
 */
import { workerAddress, workerSums } from '../../frontend/index.ts'
import type { FleetView, LoggedRequest, ModelView, WorkerView } from '../../frontend/index.ts'
import { h, table } from '../data/dom.ts'
import { count, ms, percent, shortId } from '../data/format.ts'
import { refreshChildren } from '../data/refresh.ts'
import type { Store } from '../data/store.ts'
import { MovingRequests } from './moving-requests.ts'

/** More rows are not listed. */
const ROWS_MAX = 200

export class FleetPage {
  readonly element = h('section', { 'aria-label': 'Fleet' })
  readonly #store: Store
  readonly #figures = h('dl', { class: 'figures' })
  readonly #warnings = h('div', { role: 'status', 'aria-live': 'polite' })
  readonly #workers = h('div', { class: 'wide' })
  readonly #moving = new MovingRequests()
  #warned = ''

  constructor(store: Store) {
    this.#store = store
    this.element.append(
      h('h1', {}, 'Fleet'),
      this.#warnings,
      this.#figures,
      this.#moving.element,
      this.#workers,
    )
  }

  update(changed: readonly LoggedRequest[]): void {
    const { fleet } = this.#store
    if (fleet === null) return
    this.#showWarnings(fleet)
    this.#showFigures(fleet)
    this.#moving.update(fleet, changed)
    refreshChildren(this.#workers, fleet.models.map(workersTable))
  }

  /** Only new warnings are announced by a screen reader. */
  #showWarnings(fleet: FleetView): void {
    const texts = warningsOf(fleet)
    if (texts.join('\n') === this.#warned) return
    this.#warned = texts.join('\n')
    this.#warnings.replaceChildren(
      ...(texts.length === 0
        ? []
        : [h('ul', { class: 'warnings' }, ...texts.map((text) => h('li', {}, text)))]),
    )
  }

  #showFigures(fleet: FleetView): void {
    const { rates, requests } = this.#store
    const { sums } = fleet
    const ended = [...requests.values()].filter(({ end }) => end?.outcome === 'success').slice(-100)
    const ttft = ended.flatMap(({ end }) => (end?.ttftMs === undefined ? [] : [end.ttftMs]))
    const queued = fleet.models.reduce(
      (sum, { prefill, decode }) => sum + prefill.queuedRequests + decode.queuedRequests,
      0,
    )
    const { frontends } = fleet
    const figures: [string, string, string][] = [
      [
        'In flight',
        count(fleet.requestsInFlight),
        queued > 0 ? `${count(queued)} queued${frontends > 1 ? ' at this frontend' : ''}` : '',
      ],
      [
        'Requests per second',
        rates.requestsPerSecond.toFixed(1),
        `${count(sums.received)} in total`,
      ],
      [
        'Tokens per second',
        count(rates.tokensPerSecond),
        `${count(sums.completionTokens)} generated`,
      ],
      ['TTFT, median', ms(median(ttft)), `of the last ${ended.length}`],
      ['Prompt from cache', percent(sums.cachedTokens, sums.promptTokens), 'of all prompt tokens'],
      ['Failed', count(sums.failed), `${count(sums.migrated)} migrated`],
      ...(frontends > 1
        ? [['Frontends', count(frontends), 'figures are of all'] satisfies [string, string, string]]
        : []),
    ]
    refreshChildren(
      this.#figures,
      figures.map(([name, value, note]) =>
        h('div', {}, h('dt', {}, name), h('dd', {}, value, h('small', {}, note))),
      ),
    )
  }
}

function warningsOf(fleet: FleetView): string[] {
  return [
    ...(fleet.draining ? ['This frontend is shutting down and accepts no new requests.'] : []),
    ...(fleet.notes ?? []).map(({ text }) => text),
    ...(fleet.discoveryFault === null
      ? []
      : [`Discovery is unreachable, known workers stay in use: ${fleet.discoveryFault}`]),
    ...(fleet.models.length === 0 ? ['No worker has registered yet.'] : []),
    ...fleet.models.flatMap((model) => [
      ...(model.ready ? [] : [`${model.name} cannot be served: ${model.reason ?? ''}`]),
      ...model.warnings.map((warning) => `${model.name}: ${warning}`),
      ...model.workers
        .filter(({ state }) => state !== 'serving')
        .map(({ workerId, state, reason }) => `worker ${workerId} is ${state}: ${reason ?? ''}`),
    ]),
  ]
}

function workersTable(model: ModelView): HTMLElement {
  const { workers, disaggregation } = model
  const share = percent(disaggregation.disaggregated, disaggregation.requests)
  const how =
    disaggregation.state === 'active'
      ? `prefill and decode on separate workers in ${share} of requests`
      : ''
  const caption = [`${model.name}: ${count(workers.length + model.workersNotListed)} workers`, how]
  const hidden = Math.max(0, workers.length - ROWS_MAX) + model.workersNotListed
  return h(
    'div',
    {},
    table(
      caption.filter((part) => part !== '').join(', '),
      ['Worker', 'Role', 'Engine', 'Address', 'State', 'Running', 'Queued', 'KV in use', 'Prompts'],
      workers.slice(0, ROWS_MAX).map(workerRow),
    ),
    hidden > 0 && h('p', {}, `${count(hidden)} more workers are not listed.`),
  )
}

function workerRow(worker: WorkerView): (Node | string | number)[] {
  const { workerId, role, engine } = worker
  const { running, queued, prompts, kvShare: used, state } = workerSums(worker)
  return [
    h('abbr', { title: workerId }, shortId(workerId)),
    h('span', { class: `role ${role}` }, role),
    engine,
    workerAddress(worker),
    h('span', { class: `state ${worker.state}` }, state),
    running,
    queued,
    used === null
      ? '–'
      : h(
          'span',
          { class: 'bar' },
          h('meter', { min: 0, max: 1, value: used.toFixed(3), 'aria-label': 'KV in use' }),
          ` ${Math.round(100 * used)} %`,
        ),
    prompts,
  ]
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? null
}
