/**
 * `baton roll`: restarts every worker of a running fleet, one after the other. The next one is restarted only
 * when the one before has been replaced by a worker that serves.
 *
 * Under `baton serve` the replacement starts first and the old worker drains then. A worker started with `baton
 * worker` drains and exits, and its supervisor (systemd, Kubernetes, a shell loop) starts it again. The last
 * worker of a role is therefore not restarted unless `--force` accepts the gap.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError, isRecord } from '../../base/index.ts'
import { EXIT_FAILED } from '../../host/index.ts'
import { askServer, postServer } from './ask-server.ts'

interface RollFlags {
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

/** Throws `config.invalid` for an unknown role or an invalid time. */
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
    throw new BatonError(
      'config.invalid',
      '--timeout-seconds is invalid: expected a number above 0',
    )
  }
  const model = typeof flags['model'] === 'string' ? flags['model'] : null
  return { url, model, role, timeoutSeconds, force: flags['force'] === true }
}

/**
 * Returns the exit code. The first worker that is not replaced in time ends the command; the remaining workers
 * are not touched.
 */
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
    console.error('baton: no serving worker matches --model and --role')
    return EXIT_FAILED
  }
  for (const [index, worker] of wanted.entries()) {
    const about = `worker ${worker.worker_id} (${worker.role}, ${index + 1} of ${wanted.length})`
    const fault = await rolled(worker, flags, first)
    if (fault !== null) {
      console.error(`baton: ${about}: ${fault}; the remaining workers are not restarted`)
      return EXIT_FAILED
    }
    console.log(`${about} is replaced`)
  }
  return 0
}

/** Returns why the worker was not replaced; null: another worker serves in its place. */
async function rolled(
  worker: RolledWorker,
  { url, force, timeoutSeconds }: RollFlags,
  first: readonly RolledWorker[],
): Promise<string | null> {
  const before = peersOf(worker, await workersAt(url))
  const { restart } = await oneAt(url, worker.worker_id)
  if (restart === 'impossible')
    return 'it runs in the process of its frontend and cannot be restarted alone'
  if (restart === 'exits' && before.length < 2 && !force) {
    return 'it is the only one of its role, so nothing would serve until it is started again; add another worker, or use --force'
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
  return `no replacement served after ${timeoutSeconds} s`
}

/** All workers with the same model and role, this one included. */
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
