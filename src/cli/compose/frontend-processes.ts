/**
 * Runs several frontends as processes behind one port.
 */
import { FrontendGroup } from '../../host/index.ts'
import type { FrontendGroupEvent } from '../../host/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ServePlan } from './fleet.ts'
import { frontendArgs, frontendEnvironment } from '../options/worker-args.ts'

const START_DEADLINE_MS = 60_000

export function frontendProcesses({
  config,
  options,
  script,
  meeting,
}: ServePlan): FrontendGroup<WorkerCard> {
  return new FrontendGroup({
    script,
    args: frontendArgs(options),
    environment: frontendEnvironment(options, process.env, { meeting, port: config.port }),
    host: config.host,
    port: config.port,
    count: config.frontends,
    startDeadlineMs: START_DEADLINE_MS,
    restartsPerMinuteMax: 5 * config.frontends,
    onEvent: tellEvent,
  })
}

function tellEvent(event: FrontendGroupEvent): void {
  if (event.kind === 'died') {
    console.error(`baton: a frontend (pid ${event.pid}) died: ${event.how}; starting another one`)
  } else if (event.kind === 'restarted') {
    console.error(`baton: a frontend was started again (pid ${event.pid})`)
  } else {
    console.error(`baton: a frontend is not started again: ${event.reason}`)
  }
}
