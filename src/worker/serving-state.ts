/**
 * The parts of a worker that exist only after its engine runs and it has an address: card, membership in discovery,
 * admin drain, and canary (the health probe through the engine).
 */
import type { BatonError } from '../base/index.ts'
import { assert } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import type { EngineConfig, GenerateRequest } from '../request/index.ts'
import { AdminDrain } from './admin-drain.ts'
import type { Admission } from './admission.ts'
import { Canary } from './canary.ts'
import { engineFailure } from './engine-life.ts'
import { Membership } from './membership.ts'
import { workerCardOf } from './worker-card.ts'
import { WorkerControls } from './worker-controls.ts'
import { limitsOf, shutdownOf } from './worker-options.ts'
import type { WorkerObserver } from './worker-event.ts'
import type { WorkerOptions } from './worker-options.ts'
import type { WorkerAddress, WorkerPorts } from './worker-ports.ts'

export interface ServingState {
  readonly membership: Membership
  readonly admin: AdminDrain
  readonly controls: WorkerControls
  readonly canary: Canary | null
}

interface ServingStateOptions {
  readonly worker: WorkerOptions
  readonly ports: WorkerPorts
  readonly config: EngineConfig
  readonly address: WorkerAddress
  readonly admission: Admission
  readonly isRunning: () => boolean
  readonly observe: WorkerObserver
  readonly onCanary: (error: BatonError | null) => void
}

export function createStanding(options: ServingStateOptions): ServingState {
  const { worker, ports, config, address, admission, isRunning } = options
  assert(config.model !== '', 'the engine did not return the name of its model')
  const card = workerCardOf(worker, config, address)
  const membership = new Membership({
    clock: worker.clock,
    card,
    register: (own) => ports.register(own),
    onChange: () => address.uplink?.membershipChanged?.(),
    onFault: (fault, isWanted) =>
      options.observe({
        kind: isWanted ? 'register-failed' : 'unregister-failed',
        error: fault.toValue(),
      }),
    onTold: (registered) => options.observe({ kind: 'discovery-told', registered }),
  })
  const graceMs = shutdownOf(worker).routerGraceMs
  const admin = new AdminDrain({ clock: worker.clock, admission, membership, graceMs })
  const controls = new WorkerControls(worker.engine, membership, isRunning)
  return { membership, admin, controls, canary: createCanary(options) }
}

/** A configured canary prompt takes precedence over the engine's own; null disables the probe. */
function createCanary({ worker, admission, onCanary }: ServingStateOptions): Canary | null {
  const { clock, engine } = worker
  const limits = limitsOf(worker)
  const request = worker.canary === undefined ? probeOf(engine) : worker.canary
  if (request === undefined || request === null) return null
  return new Canary({
    clock,
    engine,
    request,
    idleMs: limits.canaryIdleMs,
    timeoutMs: limits.canaryTimeoutMs,
    isBusy: () => admission.inFlight > 0,
    onResult: onCanary,
  })
}

function probeOf(engine: Engine): GenerateRequest | null | undefined {
  try {
    return engine.healthCheckPayload?.()
  } catch (thrown) {
    throw engineFailure('healthCheckPayload', thrown)
  }
}
