/**
 * The operator's page: take workers in and out of the fleet, weights of versions, and the list of keys.
 */
import { workerAddress } from '../../frontend/index.ts'
import { h, table } from '../data/dom.ts'
import { shortId } from '../data/format.ts'
import { askJson } from '../data/server.ts'

interface AdminWorker {
  readonly worker_id: string
  readonly model: string
  readonly version: string
  readonly role: string
  readonly state: string
  readonly host: string
  readonly port: number
  readonly upstream?: string
  readonly changes_role?: boolean
}

interface Weight {
  readonly model: string
  readonly version: string
  readonly weight: number
  readonly served: boolean
  readonly workers: readonly unknown[]
}

interface ListedKey {
  readonly id: string
  readonly tenant: string
  readonly models?: readonly string[]
  readonly requestsPerMinute?: number
  readonly tokensPerMinute?: number
  readonly concurrency?: number
  readonly weight?: number
  readonly expiresAtEpochMs?: number
  readonly mayOperate?: boolean
  readonly mayRoute?: boolean
}

const RELOAD_MS = 2_000

type Command = 'drain' | 'resume' | 'restart'

export class OperatePage {
  readonly element = h('section', { 'aria-label': 'Operate' })
  readonly #workers = h('div', { class: 'wide' })
  readonly #weights = h('div', { class: 'wide' })
  readonly #keys = h('div', { class: 'wide' })
  #loadedMs = 0
  #gone: string | null = null
  readonly #said = h('p', { role: 'status', class: 'about' })

  constructor() {
    this.element.append(
      h('h1', {}, 'Operate'),
      this.#said,
      this.#workers,
      this.#weights,
      this.#keys,
    )
  }

  /** Called when the page is opened, and after every change. */
  async load(): Promise<void> {
    const [{ workers }, { weights }, { keys }] = await Promise.all([
      askJson<{ workers: readonly AdminWorker[] }>('/admin/workers'),
      askJson<{ weights: readonly Weight[] }>('/admin/weights'),
      askJson<{ keys: readonly ListedKey[] | null }>('/admin/keys'),
    ])
    const focused = this.#focused()
    this.#workers.replaceChildren(
      table(
        'Workers: a drained one gets nothing new, ends what it has and stays ready to come back',
        ['Worker', 'Model', 'Role', 'Address', 'State', 'Commands'],
        workers.map((worker) => this.#workerRow(worker)),
      ),
    )
    this.#weights.replaceChildren(
      table(
        'Versions: each model’s requests are divided by these weights; 0 takes them all away',
        ['Model', 'Version', 'Workers', 'Weight'],
        weights.map((weight) => this.#weightRow(weight)),
      ),
    )
    this.#keys.replaceChildren(
      keys === null
        ? h('p', {}, 'No keys are asked for: baton keys add, then serve --keys keys.json.')
        : table(
            'Keys (baton keys add, list, revoke)',
            ['Key', 'Tenant', 'Models', 'Limits', 'May', 'Valid until'],
            keys.map(keyRow),
          ),
    )
    this.#focusAgain(focused)
  }

  /** The name of the control that has the focus, or had it until it was removed. */
  #focused(): string | null {
    const active = document.activeElement
    if (active !== null && this.element.contains(active)) return active.getAttribute('aria-label')
    return active === document.getElementById('main') ? this.#gone : null
  }

  /** Rows are created anew; the keyboard focus stays in its row, on an action that is possible now. */
  #focusAgain(name: string | null): void {
    if (name === null) return
    const controls = [...this.element.querySelectorAll<HTMLElement>('button, input')]
    const same = controls.find((control) => control.getAttribute('aria-label') === name)
    const worker = / worker (\d+)$/.exec(name)?.[0]
    const ofWorker = controls.find(
      (control) =>
        worker !== undefined && (control.getAttribute('aria-label')?.endsWith(worker) ?? false),
    )
    const next = same ?? ofWorker
    this.#gone = next === undefined ? name : null
    const target = next ?? document.getElementById('main')
    target?.focus({ preventScroll: true })
  }

  /** A worker takes a while to leave and to come back; fields in use are not overwritten. */
  update(): void {
    const isBusy =
      this.element.matches(':focus-within') && document.activeElement?.tagName === 'INPUT'
    if (!this.element.isConnected || isBusy || Date.now() - this.#loadedMs < RELOAD_MS) return
    this.show()
  }

  show(): void {
    this.#loadedMs = Date.now()
    this.load().catch((error: unknown) => this.#say(error))
  }

  #workerRow(worker: AdminWorker): (Node | string)[] {
    const { worker_id: id, model, role, state } = worker
    const commands: Command[] = state === 'drained' ? ['resume'] : ['drain', 'restart']
    return [
      h('abbr', { title: id }, shortId(id)),
      model,
      h('span', { class: `role ${role}` }, role),
      workerAddress(worker),
      h('span', { class: `state ${state}` }, state),
      h(
        'span',
        { class: 'buttons' },
        ...(state === 'serving' || state === 'drained' ? commands : []).map((command) =>
          h(
            'button',
            {
              type: 'button',
              class: 'quiet',
              'aria-label': `${command} worker ${id}`,
              click: () => this.#command(command, id),
            },
            command,
          ),
        ),
      ),
    ]
  }

  #weightRow({ model, version, weight, served, workers }: Weight): (Node | string | number)[] {
    const field = h('input', {
      type: 'number',
      min: 0,
      value: weight,
      'aria-label': `weight of version ${version} of ${model}`,
      change: () => this.#setWeight(model, version, Number(field.value)),
    })
    return [model, served ? version : `${version} (not served)`, workers.length, field]
  }

  #command(command: Command, workerId: string): void {
    if (!confirm(`${command} worker ${workerId}?`)) return
    // The id is a 64-bit number, which JSON.stringify cannot write.
    void this.#post(`/admin/${command}`, `{"worker_id":${workerId}}`, `${command}: ${workerId}`)
  }

  #setWeight(model: string, version: string, weight: number): void {
    const body = JSON.stringify({ model, version, weight })
    void this.#post('/admin/weights', body, `${model} ${version}: weight ${weight}`)
  }

  async #post(path: string, body: string, what: string): Promise<void> {
    try {
      const headers = { 'content-type': 'application/json' }
      await askJson(path, { method: 'POST', headers, body })
      this.#said.textContent = `Done. ${what}`
    } catch (error) {
      this.#say(error)
    }
    await this.load().catch((error: unknown) => this.#say(error))
  }

  #say(error: unknown): void {
    this.#said.textContent = error instanceof Error ? error.message : String(error)
  }
}

function keyRow(key: ListedKey): (Node | string)[] {
  const { id, tenant, models, requestsPerMinute, tokensPerMinute, concurrency, weight } = key
  const limits = [
    requestsPerMinute === undefined ? '' : `${requestsPerMinute} requests/min`,
    tokensPerMinute === undefined ? '' : `${tokensPerMinute} tokens/min`,
    concurrency === undefined ? '' : `${concurrency} at a time`,
    weight === undefined ? '' : `weight ${weight}`,
  ].filter((limit) => limit !== '')
  const may = [key.mayOperate === true ? 'operate' : '', key.mayRoute === true ? 'route' : '']
  const { expiresAtEpochMs: expires } = key
  return [
    id,
    tenant,
    models?.join(', ') ?? 'all',
    limits.join(', ') || 'none',
    may.filter((right) => right !== '').join(', ') || 'call',
    expires === undefined ? 'it is revoked' : new Date(expires).toLocaleDateString(),
  ]
}
