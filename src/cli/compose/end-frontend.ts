/**
 * Shuts a frontend down in order and prints the progress.
 */
import type { FrontendStack } from './frontend-stack.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/** No new requests are accepted; running requests may end within `drainSeconds`. */
export async function endFrontend(
  stack: FrontendStack,
  config: ServeConfig,
  signal: string,
): Promise<void> {
  console.log(`\n${signal}: draining (repeat to stop at once)`)
  const cutOff = await stack.drain(config.drainSeconds * 1000)
  if (cutOff > 0) console.log(`${cutOff} request(s) cut off after ${config.drainSeconds} s`)
}
