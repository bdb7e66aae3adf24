/** Waits for a condition that other processes or sockets bring about; on timeout the error names the condition. */
const PATIENCE_MS = 50_000
const PAUSE_MS = 5

export async function until(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  patienceMs = PATIENCE_MS,
): Promise<void> {
  const endMs = Date.now() + patienceMs
  while (!(await isTrue())) {
    if (Date.now() > endMs) throw new Error(`never: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}
