/**
 * `baton roll`: every worker of a running fleet is restarted, one after the other, and the next only when the one before
 * is replaced by a worker that serves.
 *
 * Under `baton serve` the replacement comes first and the old worker drains then. A worker that stands alone drains and
 * ends, and who watches over it (systemd, Kubernetes, a shell loop) starts it again; so one that is the last of its role
 * is left alone unless `--force` says that the gap is known.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError, isRecord } from '../../base/index.ts'
import { EXIT_FAILED } from '../../host/index.ts'
import { askServer, postServer } from './ask-server.ts'

export interface RollFlags {
  readonly url: string
  readonly model: string | null
  readonly role: string | null
  readonly timeoutSeconds: number
  readonly force: boolean
}

interface RolledWorker {
  readonly worker_id: string
  readonly model: string
  readonly role: string
  readonly state: string
}

const POLL_MS = 200
const ROLES = ['prefill', 'decode', 'aggregated']

/** Throws `config.invalid` for a role or a time that there is not. */
export function rollFlags(flags: Readonly<Record<string, unknown>>, url: string): RollFlags {
  const role = typeof flags['role'] === 'string' ? flags['role'] : null
  if (role !== null && !ROLES.includes(role)) {
    throw new BatonError(
      'config.invalid',
      `--role: ${role} is invalid: expected one of ${ROLES.join(', ')}`,
    )
  }
  const timeoutSeconds = Number(flags['timeoutSeconds'])
  if (!(timeoutSeconds > 0)) {
    throw new BatonError('config.invalid', '--timeout-seconds: must be a number above 0')
  }
  const model = typeof flags['model'] === 'string' ? flags['model'] : null
  return { url, model, role, timeoutSeconds, force: flags['force'] === true }
}

/** Returns the exit code; a worker that does not come back ends it at once, and the rest is left as it is. */
export async function runRoll(flags: RollFlags): Promise<number> {
  const { url } = flags
  const first = await workersAt(url)
  const wanted = first.filter(
    ({ model, role, state }) =>
      state === 'serving' &&
      (flags.model === null || model === flags.model) &&
      (flags.role === null || role === flags.role),
  )
  if (wanted.length === 0) {
    console.error('baton: no worker that serves is meant by this')
    return EXIT_FAILED
  }
  for (const [index, worker] of wanted.entries()) {
    const about = `worker ${worker.worker_id} (${worker.role}, ${index + 1} of ${wanted.length})`
    const fault = await rolled(worker, flags, first)
    if (fault !== null) {
      console.error(`baton: ${about}: ${fault}; the others are left as they are`)
      return EXIT_FAILED
    }
    console.log(`${about} is replaced`)
  }
  return 0
}

/** Null: another serves in its place. */
async function rolled(
  worker: RolledWorker,
  { url, force, timeoutSeconds }: RollFlags,
  first: readonly RolledWorker[],
): Promise<string | null> {
  const before = peersOf(worker, await workersAt(url))
  const { restart } = await oneAt(url, worker.worker_id)
  if (restart === 'impossible') return 'it lives in the process of its frontend'
  if (restart === 'exits' && before.length < 2 && !force) {
    return 'it is the only one of its role and would be missed until it is started again; add another, or say --force'
  }
  await postServer(url, '/admin/restart', { worker_id: worker.worker_id })
  const known = new Set([...first, ...before].map(({ worker_id }) => worker_id))
  const endMs = performance.now() + timeoutSeconds * 1000
  while (performance.now() < endMs) {
    await sleep(POLL_MS)
    const now = peersOf(worker, await workersAt(url))
    const isGone = now.every(({ worker_id }) => worker_id !== worker.worker_id)
    const isNew = now.some(({ worker_id }) => !known.has(worker_id))
    if (isGone && isNew && now.length >= before.length) return null
  }
  return `no other served in its place after ${timeoutSeconds} s`
}

/** All that serve the same, itself too. */
function peersOf(
  { model, role }: RolledWorker,
  workers: readonly RolledWorker[],
): readonly RolledWorker[] {
  return workers.filter(
    (each) => each.model === model && each.role === role && each.state === 'serving',
  )
}

async function workersAt(url: string): Promise<readonly RolledWorker[]> {
  const body = checked(await askServer(url, '/admin/workers'))
  return (body['workers'] ?? []) as readonly RolledWorker[]
}

async function oneAt(url: string, workerId: string): Promise<Record<string, unknown>> {
  return checked(await askServer(url, `/admin/workers/${workerId}`))
}

function checked({ status, body }: Awaited<ReturnType<typeof askServer>>): Record<string, unknown> {
  if (status === 200 && isRecord(body)) return body
  const error = isRecord(body) && isRecord(body['error']) ? body['error'] : {}
  const said = error['message']
  const message = typeof said === 'string' ? said : `the server answered ${status}`
  throw new BatonError('backend.unknown', message)
}
