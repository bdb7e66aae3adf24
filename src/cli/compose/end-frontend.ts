/**
 * Orderly shutdown of a frontend, and what is printed of it.
 */
import type { FrontendStack } from './frontend-stack.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/** Nothing new is taken; what runs may end within the budget. */
export async function endFrontend(
  stack: FrontendStack,
  config: ServeConfig,
  signal: string,
): Promise<void> {
  console.log(`\n${signal}: draining (again to end at once)`)
  const cutOff = await stack.drain(config.drainSeconds * 1000)
  if (cutOff > 0) console.log(`${cutOff} request(s) cut off after ${config.drainSeconds} s`)
}
