/**
 * Workers as processes of their own, under a supervisor.
 */
import type { FleetNote } from '../../frontend/index.ts'
import { WorkerSupervisor } from '../../host/index.ts'
import type { SupervisorEvent } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import { workerArgs, workerEnvironment } from '../options/worker-args.ts'
import { fleetRoles, startDeadlineMs } from './fleet.ts'
import type { Fleet, ServePlan } from './fleet.ts'
import { nextStart } from './next-start.ts'

/** Sets a warning of `/health`; null removes it. */
type Note = (name: string, note: FleetNote | null) => void

export function processFleet({ config, options, script, meeting }: ServePlan, note: Note): Fleet {
  const supervisor = new WorkerSupervisor({
    script,
    clock: osClock,
    startDeadlineMs: startDeadlineMs(config),
    onEvent: (event) => {
      console.error(`baton: ${sentenceOf(event)}`)
      noteEvent(event, note)
    },
  })
  const specs = fleetRoles(config).map(({ name, mode, isAuto }) => ({
    name,
    args: workerArgs(options, isAuto ? 'auto' : mode),
    environment: workerEnvironment(process.env, {
      discovery: meeting,
      wireSecret: config.wireSecret,
    }),
  }))
  let started: Promise<unknown> | null = null
  return {
    workers: specs.length,
    start: async () => {
      started ??= supervisor.startAll(specs)
      await started
    },
    stop: async (deadlineMs) => {
      const killed = await supervisor.stop(deadlineMs)
      if (killed.length > 0) console.log(`forcibly killed: ${killed.join(', ')}`)
    },
    kill: () => supervisor.kill(),
  }
}

function sentenceOf(event: SupervisorEvent): string {
  switch (event.kind) {
    case 'died':
      return `worker ${event.name} (pid ${event.pid}) died: ${event.how}; ${nextStart(event.againInMs)}`
    case 'not-started':
      return `worker ${event.name} could not be started: ${event.reason}; ${nextStart(event.againInMs)}`
    case 'restarted':
      return `worker ${event.worker.name} was started again (pid ${event.worker.pid})`
    case 'replaced':
      return `worker ${event.worker.name} is replaced: pid ${event.worker.pid} serves, pid ${event.pid} drains`
    case 'not-replaced':
      return `worker ${event.name} is not replaced, the old one continues: ${event.reason}`
  }
}

/** `why` is public, therefore without the reason, which may contain paths. */
function noteEvent(event: SupervisorEvent, note: Note): void {
  switch (event.kind) {
    case 'died':
      return note(event.name, awayNote(event.name, event.how, `it died (${event.how})`))
    case 'not-started':
      return note(event.name, awayNote(event.name, event.code, event.reason))
    case 'restarted':
      return note(event.worker.name, null)
    case 'replaced':
    case 'not-replaced':
  }
}

function awayNote(name: string, cause: string, reason: string): FleetNote {
  return {
    kind: 'worker-away',
    text: `worker ${name} is not running and is started again: ${reason}`,
    why: `worker ${name} is not running (${cause})`,
  }
}
