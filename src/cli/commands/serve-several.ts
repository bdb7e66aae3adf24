/**
 * `baton serve --frontends <n>`: workers and several frontends, each in a process of its own. This process only
 * supervises them.
 */
import { watchShutdownSignals } from '../../host/index.ts'
import { startDeadlineMs } from '../compose/fleet.ts'
import type { ServePlan } from '../compose/fleet.ts'
import { frontendProcesses } from '../compose/frontend-processes.ts'
import { processFleet } from '../compose/process-fleet.ts'
import { serveBanner } from '../compose/serve-banner.ts'

/** `onHaste` is called on the second signal: stop at once. */
export async function serveSeveral(plan: ServePlan, onHaste: () => void): Promise<number> {
  const { config } = plan
  const frontends = frontendProcesses(plan)
  const fleet = processFleet(plan, (name, note) => frontends.note(name, note))
  const kill = (): void => {
    frontends.kill()
    fleet.kill()
  }
  const signals = watchShutdownSignals({
    onSecond: async () => {
      await frontends.cutOff()
      fleet.kill()
      onHaste()
    },
  })
  const start = async (): Promise<void> => {
    // The port is taken first, so that a port in use is reported before anything else is started.
    const port = await frontends.start()
    await fleet.start()
    const cards = await frontends.untilConnected(fleet.workers, startDeadlineMs(config))
    console.log(serveBanner(config, port, cards, frontends.pids))
  }
  try {
    const started = start().then(() => signals.first)
    const ended = await Promise.race([signals.first, frontends.lost, started])
    console.log(`\n${ended}: draining (repeat to stop at once)`)
    const endMs = config.drainSeconds * 1000 + 5_000
    await frontends.stop(endMs)
    await fleet.stop(endMs)
    console.log('ended')
    return 0
  } catch (error) {
    kill()
    throw error
  } finally {
    signals.close()
  }
}
