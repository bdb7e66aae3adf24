/** Starts a real server and a real Chromium for the tests of one `describe`. */
import type { Browser, Page } from 'playwright-core'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { complaintsOf, startChromium } from './chromium.ts'

export interface OpenConsole {
  readonly server: RunningServer
  readonly browser: Browser
  /** An empty page; the tests navigate. */
  readonly page: Page
  /** All errors of the page so far. */
  readonly complaints: readonly string[]
  close(): Promise<void>
}

/** `args` are arguments of `baton serve` with simulated engines. */
export async function openConsole(
  chromiumPath: string,
  args: readonly string[] = [],
): Promise<OpenConsole> {
  const server = await startServer(['--engine', 'sim', ...args])
  let browser: Browser
  try {
    browser = await startChromium(chromiumPath)
  } catch (error) {
    await server.stop()
    throw error
  }
  const page = await browser.newPage()
  return {
    server,
    browser,
    page,
    complaints: complaintsOf(page),
    close: async () => {
      await browser.close()
      await server.stop()
    },
  }
}
