/**
 * Workers as processes of their own, under a supervisor.
 */
import { WorkerSupervisor } from '../../host/index.ts'
import type { SupervisorEvent } from '../../host/index.ts'
import { workerArgs, workerEnvironment } from '../options/worker-args.ts'
import { fleetRoles, startDeadlineMs } from './fleet.ts'
import type { Fleet, ServePlan } from './fleet.ts'

export function processFleet({ config, options, script, meeting }: ServePlan): Fleet {
  const supervisor = new WorkerSupervisor({
    script,
    startDeadlineMs: startDeadlineMs(config),
    restartsPerMinuteMax: 5,
    onEvent: (event) => tellEvent(event),
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

function tellEvent(event: SupervisorEvent): void {
  if (event.kind === 'died') {
    console.error(
      `baton: worker ${event.name} (pid ${event.pid}) died: ${event.how}; starting another one`,
    )
  } else if (event.kind === 'restarted') {
    console.error(`baton: worker ${event.worker.name} was started again (pid ${event.worker.pid})`)
  } else if (event.kind === 'replaced') {
    const { name, pid } = event.worker
    console.error(`baton: worker ${name} is replaced: pid ${pid} serves, pid ${event.pid} drains`)
  } else if (event.kind === 'not-replaced') {
    console.error(
      `baton: worker ${event.name} is not replaced, the old one continues: ${event.reason}`,
    )
  } else {
    console.error(`baton: worker ${event.name} is not started again: ${event.reason}`)
  }
}
