/**
 * Runs several frontends as processes behind one port.
 */
import { FrontendGroup } from '../../host/index.ts'
import type { FrontendGroupEvent } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ServePlan } from './fleet.ts'
import { nextStart } from './next-start.ts'
import { frontendArgs, frontendEnvironment } from '../options/worker-args.ts'

const START_DEADLINE_MS = 60_000

export function frontendProcesses({
  config,
  options,
  script,
  meeting,
}: ServePlan): FrontendGroup<WorkerCard> {
  const group = new FrontendGroup<WorkerCard>({
    script,
    args: frontendArgs(options),
    environment: frontendEnvironment(options, process.env, { meeting, port: config.port }),
    host: config.host,
    port: config.port,
    count: config.frontends,
    clock: osClock,
    startDeadlineMs: START_DEADLINE_MS,
    onEvent: (event) => {
      console.error(`baton: ${sentenceOf(event)}`)
      noteAt(group, event)
    },
  })
  return group
}

function sentenceOf(event: FrontendGroupEvent): string {
  switch (event.kind) {
    case 'died':
      return `a frontend (pid ${event.pid}) died: ${event.how}; ${nextStart(event.againInMs)}`
    case 'not-started':
      return `a frontend could not be started: ${event.reason}; ${nextStart(event.againInMs)}`
    case 'restarted':
      return `a frontend was started again (pid ${event.pid})`
  }
}

/** The other frontends say in `/health` that one is missing. */
function noteAt(group: FrontendGroup<WorkerCard>, event: FrontendGroupEvent): void {
  const name = `frontend ${event.place}`
  if (event.kind === 'restarted') return group.note(name, null)
  const why = event.kind === 'died' ? `it died (${event.how})` : event.reason
  const text = `one of the frontends is not running and is started again: ${why}`
  group.note(name, { kind: 'frontend-away', text })
}
